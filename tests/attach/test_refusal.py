import pytest

from rheostat.attachment import query_refusals, session_refusals, wait_refusals
from rheostat.model import (
    Batch,
    Bounds,
    Observation,
    Offsets,
    PartitionOffsets,
    QueryReading,
    RunningBatch,
    SourceInfo,
)
from rheostat.spark.jvm import QueryPlan, Run, SessionFacts, Trigger

GOOD = {"connect": False, "master": "spark://host:7077", "deploy": "standalone", "executor_cores": 2}


@pytest.mark.parametrize(
    ("facts", "fields"),
    [
        pytest.param(GOOD, [], id="a standalone cluster without limits"),
        pytest.param(GOOD | {"cores_max": 20}, [], id="a cap that the bounds just fit under"),
        pytest.param(GOOD | {"cores_max": 19}, ["spark.cores.max"], id="a cap under the bounds"),
        pytest.param(GOOD | {"dynamic_allocation": True}, ["spark.dynamicAllocation.enabled"], id="dynamic allocation"),
        pytest.param(GOOD | {"master": "local[2]", "deploy": "local"}, ["spark.master"], id="no lever on this master"),
        pytest.param({"connect": True}, ["spark"], id="Spark Connect"),
        pytest.param(
            GOOD | {"dynamic_allocation": True, "cores_max": 2},
            ["spark.dynamicAllocation.enabled", "spark.cores.max"],
            id="two causes are told together",
        ),
    ],
)
def test_a_session_that_cannot_be_scaled_is_refused_with_all_causes(facts, fields):
    assert [fault.field for fault in session_refusals(SessionFacts(**facts), Bounds(1, 10))] == fields


@pytest.mark.parametrize(
    ("trigger", "fields"),
    [
        pytest.param(Trigger("processing", 10.0), [], id="two triggers fit into the objective"),
        pytest.param(Trigger("processing", 10.5), ["objective"], id="the objective is under two triggers"),
        pytest.param(Trigger("processing", 0.0), [], id="as soon as possible"),
        pytest.param(Trigger("continuous", None), ["queries.q.trigger"], id="continuous"),
        pytest.param(Trigger("real-time", None), ["queries.q.trigger"], id="real time"),
        pytest.param(Trigger("available-now", None), ["queries.q.trigger"], id="available now"),
        pytest.param(Trigger("once", None), ["queries.q.trigger"], id="once"),
    ],
)
def test_a_query_that_cannot_be_scaled_is_refused(trigger, fields):
    plan = QueryPlan(Run("id", "run"), "q", trigger, ())
    assert [fault.field for fault in query_refusals([plan], None, None, 20.0)] == fields


@pytest.mark.parametrize(("partitions", "fields"), [(4, []), (3, ["executors"])])
def test_fewer_partitions_than_executors_are_refused(partitions, fields):
    offsets = Offsets.of(0.0, tuple(PartitionOffsets("t", number, 0, 0, 0) for number in range(partitions)))
    seen = Observation(0.0, (QueryReading("id", "run", "q", 1.0, offsets=offsets),))
    assert [fault.field for fault in query_refusals([], seen, Bounds(1, 4), 20.0)] == fields


@pytest.mark.parametrize(
    ("batch", "lag_s", "refused", "warned"),
    [
        (Batch(900.0, 3, 20.0), 60.0, 1, 0),
        (Batch(100.0, 3, 20.0), 60.0, 1, 0),
        (Batch(990.0, 3, 1.0), 60.0, 0, 1),
        (None, 60.0, 0, 1),
        (Batch(900.0, 3, 20.0), 901.0, 0, 0),
    ],
    ids=["150/s", "20/s", "1 636/s", "no batch yet", "an objective longer than the delay"],
)
def test_an_objective_that_the_wait_of_a_source_breaks(batch, lag_s, refused, warned):
    source = SourceInfo("kafka", "orders", topics=("orders",), min_offsets=90_000, max_delay_s=900.0)
    offsets = Offsets.of(
        1000.0, [PartitionOffsets("orders", 0, 18_000, 0, 0), PartitionOffsets("more", 0, 9_000_000, 0, 0)]
    )
    query = QueryReading("q", "r", "fraud", 10.0, (source,), offsets, batch, RunningBatch(1000.0, active=False))
    faults, warnings = wait_refusals(Observation(1000.0, (query,)), lag_s)
    assert (len(faults), len(warnings)) == (refused, warned)
    assert all("less than 1 500/s arrive" in text for text in [*warnings, *(str(fault) for fault in faults)])
