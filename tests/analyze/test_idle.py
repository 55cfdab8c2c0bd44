"""No input is knowledge: a query that nothing arrives for is known to be idle."""

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
    RunningBatch,
)

SETTINGS = AnalysisSettings(objective_lag_s=30.0, rate_window_s=20.0, failure_window_s=20.0)


def query(at, latest=0, committed=0, *, batch=None, active=False, trigger_s=2.0, name="q"):
    return QueryReading(
        name,
        "run",
        None,
        trigger_s,
        offsets=Offsets.of(at, (PartitionOffsets(f"{name}-topic", 0, latest, committed, committed),)),
        batch=batch,
        running=RunningBatch(at, active, 9 if active else None, at - 1.0 if active else None),
    )


def assess(*looks: tuple[float, tuple[QueryReading, ...]], state: AnalysisState | None = None) -> Assessment:
    """The assessment of the last look."""
    state, seen = state or AnalysisState(), Assessment(0.0)
    for at, queries in looks:
        cluster = Cluster.of(at, (Executor("0", "host", 1, 0), Executor("1", "host", 1, 0)))
        seen, state = analyze(Observation(at, queries, cluster), state, SETTINGS)
    return seen


def test_an_empty_topic_and_no_batch_yet_are_known():
    seen = assess((0.0, (query(0.0),)), (15.0, (query(15.0),)))
    assert (seen.idle, seen.missing) == (True, ())
    assert (seen.lag_s, seen.backlog_excess, seen.batch_s, seen.processed_rate) == (0.0, 0.0, 0.0, 0.0)
    assert (seen.occupancy, seen.capped, seen.batches) == (0.0, False, 0)


def test_the_last_batch_does_not_occupy_the_job_for_ever():
    def batch(at):
        return Batch(at, 7, 1.5, records=100)

    looks = [(at, (query(at, 100, 100, batch=batch(2.0)),)) for at in (0.0, 15.0, 30.0)]
    assert (assess(*looks[:2]).idle, assess(*looks[:2]).batch_s) == (False, 1.5)
    assert (assess(*looks).idle, assess(*looks).batch_s, assess(*looks).last_batch_s) == (True, 0.0, 1.5)


@pytest.mark.parametrize(
    "last",
    [
        pytest.param(query(30.0, 101, 100), id="a record has come"),
        pytest.param(query(30.0, 101, 101), id="a record has come and is committed"),
        pytest.param(query(30.0, 100, 100, active=True), id="a batch without input runs"),
        pytest.param(query(30.0, 100, 100, batch=Batch(29.0, 8, 1.0, records=0)), id="such a batch has ended"),
        pytest.param(query(30.0, 100, 100, batch=Batch(5.0, 8, 1.0), trigger_s=15.0), id="none was due yet"),
    ],
)
def test_a_query_with_input_or_batches_is_not_idle(last):
    before = [(at, (query(at, 100, 100),)) for at in (0.0, 15.0)]
    assert assess(*before, (29.0, (query(29.0, 100, 100),))).idle
    assert not assess(*before, (30.0, (last,))).idle


def test_batches_without_input_count_as_finished():
    """A state with timeouts makes Spark run a batch at each trigger, with input or without."""
    looks = [(at, (query(at, batch=Batch(at - 1.0, int(at), 0.5, records=0)),)) for at in (10.0, 12.0, 14.0, 16.0)]
    seen = assess(*looks)
    assert (seen.idle, seen.batches, seen.batch_s) == (False, 6, 0.5)


def test_the_rate_of_the_first_batches_after_a_night_does_not_span_it():
    night = 30_000.0
    state = AnalysisState()
    looks = [(at, (query(at, 0, 0, batch=Batch(1.0, 1, 1.0)),)) for at in (0.0, 15.0, 30.0, night)]
    looks += [(night + 10.0, (query(night + 10, 2000, 1000, batch=Batch(night + 5.0, 2, 1.0)),))]
    assert assess(*looks, state=state).processed_rate is None
    looks += [(night + 20.0, (query(night + 20, 2500, 2000, batch=Batch(night + 15.0, 3, 1.0)),))]
    assert assess(*looks, state=state).processed_rate == 100.0


def test_an_idle_query_beside_a_busy_one_does_not_hide_its_figures():
    """The idle one has a trigger of a minute and no batch yet; it is not waited for, and is no bottleneck."""

    def look(at):
        busy = query(at, int(100 * at), int(100 * at) - 150, batch=Batch(at, int(at), 1.8, records=200))
        return at, (busy, query(at, trigger_s=60.0, name="idle"))

    seen = assess(look(10.0), look(12.0), look(14.0), look(16.0))
    assert (seen.idle, seen.missing, seen.queries) == (False, (), 2)
    assert (seen.arrival_rate, seen.backlog, seen.batches) == (100.0, 150, 6)
    assert (seen.batch_s, seen.trigger_s, seen.period_s, seen.last_batch_s) == (1.8, 2.0, 15.0, 1.8)
    assert [(each.query_id, each.idle) for each in seen.by_query] == [("q", False), ("idle", True)]
