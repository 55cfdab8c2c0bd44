"""What a sick sink is: values worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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
    RunningBatch,
)

SETTINGS = AnalysisSettings(objective_lag_s=30.0)
"""τ = 15 s; late is a batch from 7.5 s on."""


def batch(duration_s: float = 20.0, **parts: Any) -> Batch:
    given = {"planning_s": 0.5, "add_batch_s": duration_s - 1.0, "commit_s": 0.5, "work_s": 4.5}
    return Batch(100.0, 7, duration_s, records=1000, **{**given, **parts})


def seen(last: Batch | None, running: RunningBatch | None = None, *, active: int = 0, trigger_s: float = 5.0):
    """Two looks, at 100 and at 130: 1 000 records a window, 4 000 waiting; the executors are as at the first look."""
    state, said = AnalysisState(), Assessment(0.0)
    for at in (100.0, 130.0):
        offsets = Offsets.of(at, (PartitionOffsets("t", 0, int(10 * at), int(10 * at) - 90, int(10 * at) - 100),))
        now = RunningBatch(at, active=False) if running is None else running
        query = QueryReading("q", "r", "q", trigger_s, offsets=offsets, batch=last, running=now)
        executors = (Executor("0", "a", 1, active, 0, 5, 9.0), Executor("1", "a", 1, 0, 0, 5, 9.0))
        said, state = analyze(Observation(at, (query,), Cluster.of(at, executors)), state, SETTINGS)
    return said.sink


@pytest.mark.parametrize(
    ("last", "why"),
    [
        pytest.param(
            batch(),
            "the last batch took 20.0 s, 15.0 s of them after its tasks, 0.5 s of them to commit",
            id="the driver writes",
        ),
        pytest.param(
            batch(commit_s=14.0, work_s=5.0),
            "the last batch took 20.0 s, 14.5 s of them after its tasks, 14.0 s of them to commit",
            id="the commit is slow",
        ),
        pytest.param(
            batch(commit_s=None), "the last batch took 20.0 s, 15.0 s of them after its tasks", id="no commit told"
        ),
        pytest.param(batch(work_s=9.5), None, id="half of the batch is not most of it"),
        pytest.param(batch(work_s=18.5), None, id="the tasks take long: executors help"),
        pytest.param(batch(planning_s=15.0), None, id="the planning takes long: the driver"),
        pytest.param(batch(work_s=None), None, id="when the tasks ran is not known"),
        pytest.param(batch(planning_s=None), None, id="the planning is not known"),
        pytest.param(batch(5.9, work_s=1.0), None, id="in time"),
        pytest.param(batch(6.0, work_s=1.0), "the last batch took 6.0 s, 4.5 s of them after", id="just late"),
        pytest.param(None, None, id="no batch yet"),
    ],
)
def test_by_the_last_batch(last, why):
    assert (seen(last) or "")[: len(why or "")] == (why or "")
    assert (seen(last) is None) == (why is None)


def test_batches_that_end_before_their_trigger_are_in_time():
    assert seen(batch(), trigger_s=21.0) is None
    assert seen(batch(), trigger_s=20.0) is not None


HEALTHY = batch(4.0, work_s=3.0)


@pytest.mark.parametrize(
    ("since", "active", "why"),
    [
        # idle was seen first at 100, and is at 130
        pytest.param(90.0, 0, "the batch has been running for 40.0 s, for 30.0 s without a task", id="held up"),
        pytest.param(90.0, 1, None, id="a task runs"),
        pytest.param(60.0, 0, None, id="held up for less than half of it, as far as was seen"),
        pytest.param(99.7, 0, None, id="nobody has seen a task of it: it may still be planned"),
        pytest.param(105.0, 0, None, id="it began later"),
    ],
)
def test_by_the_running_batch(since, active, why):
    assert seen(HEALTHY, RunningBatch(130.0, active=True, batch_id=8, since=since), active=active) == why


def test_no_executor_is_no_sink():
    state, said = AnalysisState(), Assessment(0.0)
    for at in (100.0, 130.0):
        running = RunningBatch(at, active=True, batch_id=8, since=90.0)
        query = QueryReading("q", "r", "q", 5.0, batch=HEALTHY, running=running)
        said, state = analyze(Observation(at, (query,), Cluster.of(at, ())), state, SETTINGS)
    assert said.sink is None


@pytest.mark.parametrize(
    ("busy_s", "sick"),
    [
        pytest.param(39.9, True, id="two thirds of 30 s on two slots"),
        pytest.param(40.1, False, id="slots that are busy contradict a sick sink"),
    ],
)
def test_a_sink_is_not_sick_while_slots_are_busy(busy_s, sick):
    """By its stages the tasks of the last batch took 4.5 s of 20 s: a part of its jobs, perhaps."""
    state, said = AnalysisState(), Assessment(0.0)
    for at, work_s in ((100.0, 0.0), (130.0, busy_s)):
        offsets = Offsets.of(at, (PartitionOffsets("t", 0, int(10 * at), int(10 * at) - 90, int(10 * at) - 100),))
        last = replace(batch(), at=at)
        query = QueryReading("q", "r", "q", 5.0, offsets=offsets, batch=last, running=RunningBatch(at, active=False))
        executors = [Executor(each, "a", 1, 0, 0, int(work_s), work_s / 2) for each in ("0", "1")]
        said, state = analyze(Observation(at, (query,), Cluster.of(at, executors)), state, SETTINGS)
    assert (said.sink is not None) == sick
