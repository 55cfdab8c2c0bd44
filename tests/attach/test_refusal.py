import pytest

from rheostat.attachment import partition_remarks, query_refusals, session_refusals, wait_refusals
from rheostat.model import (
    Batch,
    Bounds,
    Cluster,
    Executor,
    Observation,
    Offsets,
    PartitionOffsets,
    QueryReading,
    RunningBatch,
    SourceInfo,
)
from rheostat.spark.jvm import QueryPlan, Run, SessionFacts, SourceLeaf, Trigger

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
    assert [fault.field for fault in query_refusals([plan], None, 20.0)] == fields


@pytest.mark.parametrize(
    ("partitions", "cores", "slots", "said"),
    [
        pytest.param(40, 4, None, False, id="a slot for each partition"),
        pytest.param(39, 4, None, True, id="fewer partitions than slots"),
        pytest.param(10, 4, 1, False, id="a task takes four cores"),
        pytest.param(4, 1, None, True, id="4 partitions and bounds (1, 10)"),
        pytest.param(0, 1, None, False, id="partitions unknown"),
    ],
)
def test_bounds_beyond_the_partitions_are_a_remark_and_no_refusal(partitions, cores, slots, said):
    """Tasks may be more than partitions: nothing is refused before a batch was seen."""
    offsets = Offsets.of(0.0, tuple(PartitionOffsets("t", number, 0, 0, 0) for number in range(partitions)))
    cluster = Cluster.of(0.0, [Executor("0", "a", cores, 0, slots=slots)])
    seen = Observation(0.0, (QueryReading("id", "run", "q", 1.0, offsets=offsets),), cluster)
    remarks = partition_remarks(seen, Bounds(1, 10))
    assert bool(remarks) == said
    assert all(f"{partitions} partitions are read" in remark for remark in remarks)


def plan(name: str, *kinds: str) -> QueryPlan:
    return QueryPlan(Run(name, "run"), name, Trigger("processing", 1.0), tuple(SourceLeaf(kind, {}) for kind in kinds))


ENDS = QueryPlan(Run("ends", "run"), "ends", Trigger("available-now", None), (SourceLeaf("kafka", {}),))


@pytest.mark.parametrize(
    ("plans", "fields"),
    [
        pytest.param([plan("a", "kafka")], [], id="Kafka"),
        pytest.param([plan("a", "rheostat_log")], [], id="a log"),
        *[
            pytest.param([plan("a", kind)], ["queries.a.source"], id=kind)
            for kind in ("rate", "csv", "parquet", "delta", "socket", "binaryFile")
        ],
        pytest.param([plan("a", "kafka", "csv")], ["queries.a.source"], id="Kafka and files in one query"),
        pytest.param([plan("a", "kafka"), plan("b", "rate")], [], id="one that can be measured is enough"),
        pytest.param([plan("a", "kafka"), ENDS], [], id="one that ends by itself beside it"),
        pytest.param([plan("a", "csv"), ENDS], ["queries.a.source", "queries.ends.trigger"], id="and beside files"),
        pytest.param([plan("a", "csv"), plan("b", "rate")], ["queries.a.source", "queries.b.source"], id="none can"),
        pytest.param([plan("a", "somebody's")], [], id="nobody knows, before a batch was planned"),
    ],
)
def test_queries_that_can_never_be_measured_are_refused(plans, fields):
    faults = query_refusals(plans, None, 20.0)
    assert [fault.field for fault in faults] == fields


def test_a_source_whose_offsets_count_no_records_is_refused():
    seen = Observation(0.0, (QueryReading("a", "run", "a", 1.0, uncountable="somebody's"),))
    (fault,) = query_refusals([plan("a", "somebody's")], seen, 20.0)
    assert (fault.field, fault.given) == ("queries.a.source", "somebody's")
    assert "Kafka" in fault.allowed
    assert "mode='watch'" in fault.allowed


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
