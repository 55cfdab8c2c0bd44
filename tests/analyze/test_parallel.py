"""Stages that follow one another: what each needs, and what is of use."""

from __future__ import annotations

import pytest

from rheostat.analyze.assess import analyze
from rheostat.analyze.state import AnalysisSettings, AnalysisState
from rheostat.model import (
    Assessment,
    Batch,
    Cluster,
    Executor,
    Observation,
    Offsets,
    PartitionOffsets,
    QueryReading,
    SourceInfo,
    StageLoad,
    StageWork,
)

SETTINGS = AnalysisSettings(objective_lag_s=30.0)


def seen(*queries: tuple[StageWork, ...], slots: int | None = 2, cores: int | None = None):
    """Eight partitions each; 1 000 records in the last batch, 500/s arriving, executors of two slots."""
    state, said = AnalysisState(), Assessment(0.0)
    for at in (0.0, 10.0):
        readings = []
        for number, stages in enumerate(queries):
            count = int(625 * at / 10)
            parts = tuple(PartitionOffsets("t", n, count, count, count) for n in range(8))
            last = Batch(at, 1, 4.0, records=1000, stages=stages)
            readings.append(QueryReading(f"q{number}", "r", None, 5.0, offsets=Offsets.of(at, parts), batch=last))
        executor = Executor("0", "a", cores or slots, 0, slots=slots)  # type: ignore[arg-type]
        said, state = analyze(Observation(at, tuple(readings), Cluster.of(at, (executor,))), state, SETTINGS)
    return said


def test_sources_that_are_joined_are_read_side_by_side():
    """Each is read by a stage of its own: the two run at the same time."""
    joined = (StageWork(8, 6.0), StageWork(4, 3.0), StageWork(6, 1.0))
    assert seen_of_two_sources(joined).tasks == 12
    assert seen_of_two_sources((StageWork(12, 6.0), StageWork(6, 1.0))).tasks == 12, "a union is one stage"
    assert seen_of_two_sources((StageWork(3, 6.0),)).tasks == 3, "a union that is coalesced"


def seen_of_two_sources(stages: tuple[StageWork, ...]) -> Assessment:
    """Eight partitions and four; a large batch, so that no task was missing for lack of records."""
    state, said = AnalysisState(), Assessment(0.0)
    for at in (0.0, 10.0):
        parts = tuple(
            PartitionOffsets(*each, 100, 100, 100)
            for each in [*(("a", n) for n in range(8)), *(("b", n) for n in range(4))]
        )
        sources = (SourceInfo("kafka", "a", 8, topics=("a",)), SourceInfo("kafka", "b", 4, topics=("b",)))
        last = Batch(at, 1, 4.0, records=5000, stages=stages)
        query = QueryReading("q", "r", None, 5.0, sources=sources, offsets=Offsets.of(at, parts), batch=last)
        cluster = Cluster.of(at, (Executor("0", "a", 1, 0),))
        said, state = analyze(Observation(at, (query,), cluster), state, SETTINGS)
    return said


READS, COUNTS = StageWork(8, 6.0), StageWork(20, 2.0)


def test_each_stage_has_its_share_and_its_demand():
    """6 and 2 task seconds for 1 000 records: at 500/s 3 and 1 slots."""
    assert seen((READS, COUNTS)).stages == (StageLoad(8, 0.75, 3.0), StageLoad(20, 0.25, 1.0))


@pytest.mark.parametrize(
    ("stages", "useful"),
    [
        pytest.param([(READS, COUNTS)], 10, id="the largest stage"),
        pytest.param([(READS, StageWork(3, 2.0))], 4, id="the stage that reads, where it is larger"),
        pytest.param([(READS, StageWork(900, 0.3))], 4, id="a stage that takes no time does not count"),
        pytest.param([(READS, COUNTS), (READS, COUNTS)], 20, id="two queries run beside each other"),
        pytest.param([(READS, COUNTS), (READS,)], 14, id="one of which has one stage"),
        pytest.param([(READS, COUNTS), ()], None, id="one of which has shown no stage"),
        pytest.param([(READS,)], 4, id="one stage"),
        pytest.param([(StageWork(64, 8.0),)], 32, id="more tasks than partitions"),
        pytest.param([(StageWork(3, 8.0),)], 2, id="fewer tasks than partitions"),
        pytest.param([()], None, id="stages unknown"),
        pytest.param([(StageWork(8, 0.0), StageWork(20, 0.0))], 4, id="tasks that took no time"),
    ],
)
def test_useful_executors(stages, useful):
    assert seen(*stages).useful_executors == useful


def test_unknown_slots():
    assert seen((READS, COUNTS), slots=None).useful_executors is None


def test_a_task_takes_several_cores():
    """Of eight tasks, executors of two slots work on two, whatever their cores are."""
    said = seen((READS,), cores=8, slots=2)
    assert (said.slots_per_executor, said.cores_per_executor, said.useful_executors) == (2, 8, 4)


@pytest.mark.parametrize(
    ("records", "options", "tasks"),
    [
        pytest.param(80, {}, 2, id="ten records a partition: the tasks that were seen"),
        pytest.param(79, {}, 8, id="partitions without records: as many as there are"),
        pytest.param(79, {"minPartitions": "64"}, 64, id="a small batch, and partitions that are split"),
        pytest.param(640, {"minpartitions": "64"}, 2, id="a batch that shows all of them"),
        pytest.param(1000, {"maxRecordsPerPartition": "100"}, 50, id="tasks grow with what waits"),
        pytest.param(1000, {"maxRecordsPerPartition": "100", "cap": "2500"}, 25, id="up to the batch cap"),
        pytest.param(1000, {"minPartitions": "many"}, 2, id="an option that Spark refuses"),
    ],
)
def test_a_batch_of_few_records_does_not_show_all_tasks(records, options, tasks):
    """Two tasks of a batch; eight partitions, and 5 000 records wait."""
    cap = int(options.pop("cap", 0)) or None
    parts = tuple(PartitionOffsets("t", n, 1000, 375, 375) for n in range(8))
    last = Batch(0.0, 1, 4.0, records=records, stages=(StageWork(2, 3.0),))
    source = SourceInfo("kafka", "t", 8, cap, options)
    query = QueryReading("q", "r", None, 5.0, (source,), Offsets.of(0.0, parts), last)
    said, _ = analyze(Observation(0.0, (query,)), AnalysisState(), SETTINGS)
    assert said.tasks == tasks
