"""What the controller of Stream Economics is fed with: the processor time of executors, divided among queries."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rheostat.analyze.assess import analyze
from rheostat.analyze.processors import estimate_error
from rheostat.analyze.state import AnalysisSettings, AnalysisState
from rheostat.config.shedding import Edge, Sink, declare_shedding
from rheostat.decide.qod import QodController, Readings
from rheostat.decide.qod_model import Instance, NodeLoad, Place
from rheostat.model import (
    Assessment,
    Batch,
    Cluster,
    CpuUse,
    EdgeCount,
    Executor,
    ExecutorCpu,
    ExecutorWork,
    NodeCpu,
    Observation,
    Offsets,
    PartitionOffsets,
    Processors,
    QueryReading,
    QueryTask,
    RunningBatch,
    SourceLoad,
    StageWork,
    TaskInstance,
)

CPU = CpuUse(
    (NodeCpu("near", 1, 0.9), NodeCpu("far", 1, 0.5)),
    (ExecutorCpu("0", "near", 0.8), ExecutorCpu("1", "far", 0.3)),
)


def query(name: str, number: int, busy_s: dict[str, float], *edges: EdgeCount) -> QueryReading:
    """A query of 100 records/s, in its batch of this number: one every ten seconds, without a break."""
    at = 10.0 * (number + 1)
    work = tuple([ExecutorWork(executor, seconds, 100) for executor, seconds in busy_s.items()])
    stage = StageWork(len(work), sum(busy_s.values()), work)
    done = 1000 * (number + 1)
    return QueryReading(
        name, f"run of {name}", name, 10.0,
        offsets=Offsets.of(at, [PartitionOffsets(name, 0, done, done, done)]),
        batch=Batch(at, number, 10.0, records=1000, stages=(stage,), edges=edges),
        running=RunningBatch(at, active=True, batch_id=number + 1, since=at),
    )  # fmt: skip


def assess(*queries: list[QueryReading], cpu: CpuUse | None = CPU) -> Assessment:
    """The last assessment of looks at these queries, after each of their batches."""
    state, assessment = AnalysisState(), Assessment(0.0)
    for number, readings in enumerate(zip(*queries, strict=True)):
        at = 10.0 * (number + 1)
        cluster = Cluster.of(at, [Executor(each, "h", 2, 0, busy_s=0.0) for each in ("0", "1")])
        observation = Observation(at, readings, cluster, cpu=cpu)
        assessment, state = analyze(observation, state, AnalysisSettings(objective_lag_s=60.0))
    return assessment


HALF = EdgeCount("clicks>alerts", 500_000, 1000, 500)
ALERTS = [query("alerts", number, {"0": 6.0, "1": 3.0}, HALF) for number in range(4)]
PLAIN = [query("plain", number, {"0": 2.0}) for number in range(4)]


def test_an_executor_is_divided_among_queries_by_the_time_of_their_tasks() -> None:
    found = assess(ALERTS, PLAIN).processors

    assert found is not None
    assert found.nodes == CPU.nodes
    assert found.tasks == (QueryTask("alerts", (SourceLoad("clicks", 100.0, 0.0),), ("alerts",)),)
    first, second = found.instances
    assert first._replace(cpu=round(first.cpu, 6)) == TaskInstance("alerts", "near", 25.0, 0.6, "0", 2)
    assert second._replace(cpu=round(second.cpu, 6)) == TaskInstance("alerts", "far", 25.0, 0.3, "1", 2)


def test_it_is_what_the_controller_takes() -> None:
    found = assess(ALERTS, PLAIN).processors
    assert found is not None
    readings = Readings(
        [NodeLoad(*node[:3]) for node in found.nodes],
        [Instance(Place("", each.task), *each[1:5]) for each in found.instances],
        {("", Edge(each.source, task.name)): each.arrival_rate for task in found.tasks for each in task.sources},
    )
    graph = declare_shedding([Sink("alerts")], {"clicks": ["alerts"]})

    plan = QodController({"": graph}).run(readings)

    wanted = plan.desired[Place("", "alerts")]
    assert wanted == pytest.approx(0.5 * 0.7 / 0.6), "0.1 of the near node and 0.2 of it are the use of others"


def test_a_query_that_reads_two_topics_and_fans_out_is_one_task() -> None:
    edges = [
        EdgeCount("clicks>join", 1_000_000, 600, 600),
        EdgeCount("clicks>top", 0, 600, 0),
        EdgeCount("join>pairs", 1_000_000, 900, 900),
        EdgeCount("views>join", 1_000_000, 400, 400),
    ]
    found = assess([query("both", number, {"0": 5.0}, *edges) for number in range(4)]).processors

    assert found is not None
    assert found.tasks == (
        QueryTask("both", (SourceLoad("clicks", 60.0, 0.0), SourceLoad("views", 40.0, 0.0)), ("pairs", "top")),
    )
    assert [each.in_rate for each in found.instances] == [100.0 * 1000 / 1600]


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(assess(ALERTS, cpu=None), id="no processor time"),
        pytest.param(assess(PLAIN), id="no edges"),
        pytest.param(assess(ALERTS[:1]), id="no rates yet"),
        pytest.param(assess([replace(each, batch=None) for each in ALERTS]), id="no batch"),
        pytest.param(assess(ALERTS, cpu=replace(CPU, executors=())), id="only new executors"),
    ],
)
def test_what_is_unknown_is_left_out(given: Assessment) -> None:
    assert given.processors is None or given.processors == Processors(CPU.nodes, given.processors.tasks, ())


def offsets(at: float, *rows: tuple[int | None, int]) -> Offsets:
    partitions = [PartitionOffsets("t", number, latest, done, done) for number, (latest, done) in enumerate(rows)]
    return Offsets.of(at, partitions)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        pytest.param(offsets(0.0, (0, 0), (0, 0)), offsets(5.0, (50, 30), (50, 30)), 0.0, id="even partitions: exact"),
        pytest.param(offsets(0.0, (0, 0), (0, 0)), offsets(5.0, (50, 50), (10, 10)), 0.0, id="no lag: exact"),
        pytest.param(offsets(0.0, (0, 0), (0, 0)), offsets(5.0, (60, 0), (20, 0)), 0.5, id="uneven and late: too high"),
        pytest.param(offsets(0.0, (0, 0)), offsets(5.0, (0, 0)), None, id="nothing arrives"),
        pytest.param(offsets(0.0, (0, 0)), offsets(5.0, (None, 0)), None, id="unknown"),
        pytest.param(offsets(0.0, (0, 0)), offsets(5.0, (9, 0), (9, 0)), None, id="a new partition"),
        pytest.param(offsets(5.0, (0, 0)), offsets(5.0, (9, 0)), None, id="no time"),
    ],
)
def test_the_error_of_an_estimate_by_the_largest_lag(before: Offsets, now: Offsets, expected: float | None) -> None:
    found = estimate_error(before, now)
    assert (None if found is None else round(found, 6)) == expected
