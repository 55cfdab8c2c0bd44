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
    StageLoad,
    StageWork,
)

SETTINGS = AnalysisSettings(objective_lag_s=30.0)


def seen(*queries: tuple[StageWork, ...], slots: int | None = 2):
    """Eight partitions each; 1 000 records in the last batch, 500/s arriving, executors of two slots."""
    state, said = AnalysisState(), Assessment(0.0)
    for at in (0.0, 10.0):
        readings = []
        for number, stages in enumerate(queries):
            count = int(625 * at / 10)
            parts = tuple(PartitionOffsets("t", n, count, count, count) for n in range(8))
            last = Batch(at, 1, 4.0, records=1000, stages=stages)
            readings.append(QueryReading(f"q{number}", "r", None, 5.0, offsets=Offsets.of(at, parts), batch=last))
        executor = Executor("0", "a", slots, 0)  # type: ignore[arg-type]
        said, state = analyze(Observation(at, tuple(readings), Cluster.of(at, (executor,))), state, SETTINGS)
    return said


READS, COUNTS = StageWork(8, 6.0), StageWork(20, 2.0)


def test_each_stage_has_its_share_and_its_demand():
    """6 and 2 task seconds for 1 000 records: at 500/s 3 and 1 slots."""
    assert seen((READS, COUNTS)).stages == (StageLoad(8, 0.75, 3.0), StageLoad(20, 0.25, 1.0))


@pytest.mark.parametrize(
    ("stages", "useful"),
    [
        pytest.param([(READS, COUNTS)], 10, id="the largest stage"),
        pytest.param([(READS, StageWork(3, 2.0))], 4, id="the partitions, where they are more"),
        pytest.param([(READS, StageWork(900, 0.3))], 4, id="a stage that takes no time does not count"),
        pytest.param([(READS, COUNTS), (READS, COUNTS)], 20, id="two queries run beside each other"),
        pytest.param([(READS, COUNTS), ()], 14, id="one of which has one stage"),
        pytest.param([()], None, id="stages unknown"),
        pytest.param([(StageWork(8, 0.0), StageWork(20, 0.0))], 4, id="tasks that took no time"),
    ],
)
def test_useful_executors(stages, useful):
    assert seen(*stages).useful_executors == useful


def test_unknown_slots():
    assert seen((READS, COUNTS), slots=None).useful_executors is None
