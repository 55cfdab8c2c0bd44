"""Batch time, processed rate, batch cap, finished batches, excess: values worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest

from rheostat.analyze.assess import analyze
from rheostat.analyze.batches import healthy_backlog
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
    SourceInfo,
)

SETTINGS = AnalysisSettings(objective_lag_s=30.0, rate_window_s=20.0)


def look(
    at,
    *,
    batch=None,
    running=None,
    offsets=(0, 0, 0),
    trigger_s=2.0,
    run_id="run",
    executors=1,
    sources=(),
    requested=None,
):
    read = None if offsets is None else Offsets.of(at, (PartitionOffsets("clicks", 0, *offsets),))
    query = QueryReading("q", run_id, None, trigger_s, sources, read, batch, running)
    there = None if executors is None else [Executor(str(i), "h", 1, 0) for i in range(executors)]
    cluster = None if there is None else Cluster.of(at, there, requested)
    return Observation(at, (query,), cluster)


def run(*observations: Observation) -> Assessment:
    state, seen = AnalysisState(), Assessment(0.0)
    for observation in observations:
        seen, state = analyze(observation, state, SETTINGS)
    return seen


def idle(at):
    return RunningBatch(at, active=False)


@pytest.mark.parametrize(
    ("batch", "running", "batch_s"),
    [
        pytest.param(None, None, None, id="nothing known"),
        pytest.param(None, RunningBatch(100.0, active=False), None, id="no batch yet"),
        pytest.param(Batch(90.0, 4, 1.5), RunningBatch(100.0, active=False), 1.5, id="the last one"),
        pytest.param(Batch(90.0, 4, 1.5), RunningBatch(100.0, active=True, since=99.0), 1.5, id="running, shorter"),
        pytest.param(Batch(40.0, 4, 1.5), RunningBatch(100.0, active=True, since=90.0), 10.0, id="running, longer"),
        pytest.param(None, RunningBatch(100.0, active=True, since=91.0), 9.0, id="the first one runs"),
        pytest.param(Batch(90.0, 4, 1.5), RunningBatch(100.0, active=True), 1.5, id="running since nobody knows"),
        pytest.param(Batch(90.0, 4, nan), RunningBatch(100.0, active=True, since=91.0), 9.0, id="last one impossible"),
    ],
)
def test_batch_time_is_that_of_the_last_or_of_the_running_one_if_longer(batch, running, batch_s):
    seen = run(look(100.0, batch=batch, running=running))
    assert seen.batch_s == batch_s
    assert ("batch_s" in seen.missing) == (batch_s is None)
    assert seen.occupancy == (None if batch_s is None else batch_s / 15.0)


@pytest.mark.parametrize(
    ("trigger_s", "period_s", "occupancy"),
    [
        pytest.param(0.0, 15.0, 0.4, id="as soon as possible: half the objective"),
        pytest.param(2.0, 15.0, 0.4, id="a short trigger: half the objective"),
        pytest.param(60.0, 60.0, 0.1, id="a long trigger: the trigger"),
        pytest.param(None, None, None, id="unknown"),
    ],
)
def test_the_period_is_the_trigger_or_half_the_objective(trigger_s, period_s, occupancy):
    seen = run(look(100.0, batch=Batch(99.0, 1, 6.0), trigger_s=trigger_s))
    assert (seen.trigger_s, seen.period_s, seen.occupancy) == (trigger_s, period_s, occupancy)


def committed(at, batch_id, ended, count, **more):
    """A look that sees ``batch_id``, ended at ``ended``, and ``count`` records committed."""
    return look(at, batch=Batch(ended, batch_id, 2.0, records=999_999), offsets=(10_000, count, count), **more)


@pytest.mark.parametrize(
    ("looks", "rate"),
    [
        pytest.param([committed(10, 1, 9, 500)], None, id="one batch end"),
        pytest.param([committed(10, 1, 9, 500), committed(12, 1, 9, 500)], None, id="the same batch twice"),
        pytest.param([committed(10, 1, 9, 500), committed(15, 2, 14, 1500)], 200.0, id="from end to end"),
        pytest.param([committed(10, 1, 9, 500), committed(25, 7, 19, 1500)], 100.0, id="batches that were not seen"),
        pytest.param(
            [committed(10, 1, 9, 0), committed(20, 2, 19, 100), committed(30, 3, 29, 200), committed(42, 4, 41, 1460)],
            (1460 - 100) / 22,
            id="over the window of 20 s, from the batch end before it",
        ),
        pytest.param(
            [committed(10, 1, 9, 500), committed(15, 2, 14, 1500, run_id="other")], None, id="another run starts anew"
        ),
        pytest.param(
            [committed(10, 1, 9, 500), committed(15, 2, 14, None), committed(16, 2, 14, 1500)],
            200.0,
            id="committed unknown when the batch was first seen",
        ),
        pytest.param(
            [
                committed(10, 1, 9, 500),
                committed(15, 2, 14, 20),
                committed(20, 3, 19, 520),
                committed(25, 4, 24, 1020),
            ],
            100.0,
            id="a position that fell back: from the first batch end after it",
        ),
    ],
)
def test_processed_rate_is_committed_progress_between_batch_ends(looks, rate):
    assert run(*looks).processed_rate == pytest.approx(rate)


def busy(at, *partitions, rows=1000, size=1000, because=None):
    """A look at a query whose batches of 5 s end with each look; its partitions by (latest, committed)."""
    read = [PartitionOffsets("clicks", n, end, done, done) for n, (end, done) in enumerate(partitions)]
    offsets = Offsets.of(at, read, because is None, because)
    batch = Batch(at - 1, int(at), 5.0, records=rows, offsets=(size,))
    query = QueryReading("q", "run", None, 2.0, offsets=offsets, batch=batch)
    return Observation(at, (query,), Cluster.of(at, [Executor("0", "h", 1, 0)]))


@pytest.mark.parametrize(
    ("looks", "rate", "records"),
    [
        pytest.param(
            [
                busy(10, (9000, 1000)),
                busy(11, (9000, 2000), (5_000_700, 5_000_000)),
                busy(12, (9000, 3000), (5_000_700,) * 2),
            ],
            None,
            1000,
            id="a new partition that does not begin at 0",
        ),
        pytest.param(
            [busy(10, (9000, 1000)), busy(11, (9000, 2000), (700, 0)), busy(12, (9000, 3000), (700, 700))],
            1350.0,
            1000,
            id="a new partition that begins at 0",
        ),
        pytest.param(
            [busy(10, (9000, 1000)), busy(11, (9000, 5000), because="retention"), busy(12, (9000, 6000))],
            None,
            1000,
            id="records were deleted before they were read",
        ),
        pytest.param(
            [busy(10, (9000, 1000)), busy(11, (90_000, 62_000), size=61_000), busy(12, (90_000, 63_000))],
            None,
            1000,
            id="deleted, and only the batch shows it",
        ),
        pytest.param(
            [busy(10, (9000, 1000)), busy(11, (9000, 2000)), busy(12, (9000, 3000), rows=500)],
            1000.0,
            1000,
            id="transactions of one record",
        ),
        pytest.param(
            [busy(10, (9000, 1000)), busy(11, (9000, 2000)), busy(12, (9000, 3000), rows=2000)],
            1000.0,
            1000,
            id="two actions read each row twice",
        ),
        pytest.param(
            [busy(10, (9000, 1000)), busy(11, (9000, 2000), rows=500, because="compaction")],
            None,
            None,
            id="the part of a topic that was compacted",
        ),
        pytest.param(
            [busy(10, (9000, 1000)), busy(11, (9000, 2000), rows=1000, because="compaction")],
            1000.0,
            1000,
            id="the part of a compacted topic that is whole yet",
        ),
        pytest.param(
            [busy(10, (9000, 1000)), busy(11, (9000, 2000), rows=10, because="transactions")],
            None,
            None,
            id="aborted transactions",
        ),
    ],
)
def test_only_records_that_were_processed_teach_a_rate(looks, rate, records):
    seen = run(*looks)
    assert (seen.processed_rate, seen.last_batch_records) == (rate, records)


@pytest.mark.parametrize(
    ("caps", "records", "offsets", "capped"),
    [
        pytest.param([1000], 1000, (5000, 3000, 2000), True, id="as large as allowed, and more waits"),
        pytest.param([1000], 991, (5000, 3000, 2000), True, id="the cap rounded over partitions"),
        pytest.param([1000], 980, (5000, 3000, 2000), False, id="less than the cap"),
        pytest.param([1000], 1000, (3000, 3000, 2000), False, id="as large as allowed, but nothing waits"),
        pytest.param([None], 1000, (5000, 3000, 2000), False, id="no cap"),
        pytest.param([], 1000, (5000, 3000, 2000), False, id="no source known"),
        pytest.param([600, 400], 1000, (5000, 3000, 2000), None, id="two sources, and only rows are told"),
        pytest.param([1000], None, (5000, 3000, 2000), None, id="records unknown"),
        pytest.param([1000], 1000, (5000, None, 2000), True, id="split unknown, but there is a backlog"),
        pytest.param([1000], 1000, (None, 3000, 2000), None, id="backlog unknown"),
        pytest.param([nan], 1000, (5000, 3000, 2000), None, id="impossible cap"),
    ],
)
def test_capped(caps, records, offsets, capped):
    sources = tuple(SourceInfo("kafka", "clicks", batch_cap=cap) for cap in caps)
    seen = run(look(10.0, batch=Batch(9.0, 1, 1.0, records=records), offsets=offsets, sources=sources))
    assert seen.capped is capped


def part(topic, waiting, number=0):
    return PartitionOffsets(topic, number, 5000 + waiting, 5000, 2000)


@pytest.mark.parametrize(
    ("sources", "batch", "waiting", "capped"),
    [
        pytest.param([("a", 1000, 1)], (500, (1000,)), {"a": 9}, True, id="half of the offsets are no records"),
        pytest.param([("a", 1000, 1)], (1000, (500,)), {"a": 9}, False, id="two actions read each row"),
        pytest.param([("a", 1000, 64)], (940, (940,)), {"a": 9}, True, id="a cap rounded down in each partition"),
        pytest.param([("a", 20, 64)], (10, (10,)), {"a": 9}, False, id="fewer records than partitions"),
        pytest.param([("a", 1000, 1)], (1000, (None,)), {"a": 9}, None, id="the start of the batch is not known"),
        pytest.param(
            [("a", 1000, 1), ("b", 500, 1)], (1100, (1000, 100)), {"a": 9, "b": 0}, True, id="one of two is full"
        ),
        pytest.param(
            [("a", 1000, 1), ("b", 500, 1)], (1100, (1000, 100)), {"a": 0, "b": 9}, False, id="only the other waits"
        ),
        pytest.param(
            [("a", 1000, 1), ("b", None, 1)], (9000, (1000, 8000)), {"a": 9, "b": 0}, True, id="the other has no cap"
        ),
        pytest.param(
            [("a", 1000, 1), ("b", 500, 1)],
            (1500, (700, 800)),
            {"a": 9, "b": 0},
            False,
            id="more than both caps by one",
        ),
        pytest.param(
            [("a", 1000, 1), ("b", 500, 1)], (1000, (1000, None)), {"a": 9, "b": 9}, True, id="one full, one unknown"
        ),
        pytest.param(
            [("a", 1000, 1), ("b", 500, 1)], (1000, (10, None)), {"a": 9, "b": 9}, None, id="one not full, one unknown"
        ),
        pytest.param(
            [("a", 1000, 1), ("a#2", 500, 1)], (1500, (10, 500)), {"a": 0, "a#2": 9}, True, id="a topic read twice"
        ),
    ],
)
def test_a_cap_counts_offsets_of_its_own_source(sources, batch, waiting, capped):
    rows, offsets = batch
    query = QueryReading(
        "q",
        "run",
        None,
        2.0,
        sources=tuple([SourceInfo("kafka", topic, count, cap, topics=(topic,)) for topic, cap, count in sources]),
        offsets=Offsets.of(10.0, [part(topic, count) for topic, count in waiting.items()]),
        batch=Batch(9.0, 1, 1.0, records=rows, offsets=offsets),
    )
    assert run(Observation(10.0, (query,), Cluster.of(10.0, [Executor("0", "h", 1, 0)]))).capped is capped


def finished(at, batch_id, executors=1, running=False, **more):
    return look(
        at,
        batch=Batch(at - 0.5, batch_id, 1.0),
        running=RunningBatch(at, active=running, batch_id=batch_id + 1 if running else None),
        executors=executors,
        **more,
    )


@pytest.mark.parametrize(
    ("looks", "batches"),
    [
        pytest.param([finished(0, 7)], 0, id="batches before the first look do not count"),
        pytest.param([finished(0, 7), finished(2, 8), finished(4, 10)], 3, id="also those between two looks"),
        pytest.param([finished(0, 7, running=True), finished(2, 8), finished(4, 9)], 1, id="not the one in flight"),
        pytest.param([finished(0, 7), finished(2, 9), finished(4, 9, executors=2)], 0, id="from 0 at a change"),
        pytest.param(
            [finished(0, 7), finished(4, 9, executors=2, running=True), finished(6, 10, executors=2)],
            0,
            id="the batch in flight at a change is a mixed one",
        ),
        pytest.param(
            [
                finished(0, 7),
                finished(4, 9, executors=2, running=True),
                finished(6, 10, executors=2),
                finished(8, 11, executors=2),
            ],
            1,
            id="the next one counts",
        ),
        pytest.param(
            [finished(0, 7), finished(2, 9), finished(4, 9, executors=None), finished(6, 10)],
            3,
            id="executors not seen for once is no change",
        ),
        pytest.param(
            [finished(2 * n, 7 + n, executors=there, requested=8) for n, there in enumerate([8, 7, 6, 8])],
            3,
            id="some are lost and come back",
        ),
        pytest.param(
            [finished(2 * n, 7 + n, executors=there, requested=8) for n, there in enumerate([8, 5, 8])],
            0,
            id="many are lost and come back",
        ),
        pytest.param(
            [finished(2 * n, 7 + n, executors=there, requested=7) for n, there in enumerate([8, 8, 7, 7])],
            1,
            id="one less was asked for",
        ),
        pytest.param([finished(0, 7), finished(2, 9), finished(4, 10, run_id="other")], 0, id="from 0 at a restart"),
        pytest.param(
            [look(0.0), look(2.0), finished(4, 0), finished(6, 1)], 1, id="the first batch of all is a cold one"
        ),
        pytest.param(
            [look(0.0, batch=Batch(0.0, 7, 1.0)), look(2.0, batch=Batch(2.0, 8, 1.0)), finished(4, 9)],
            1,
            id="whether one is in flight is unknown: one is assumed",
        ),
    ],
)
def test_finished_batches_since_the_number_changed(looks, batches):
    assert run(*looks).batches == batches


@pytest.mark.parametrize(
    ("trigger_s", "batch_s", "healthy"),
    [
        pytest.param(2.0, 1.8, 3800.0, id="within the trigger: rate × (trigger + batch)"),
        pytest.param(2.0, 5.0, 10_000.0, id="longer than the trigger: plannings are a batch apart"),
        pytest.param(0.0, 5.0, 10_000.0, id="as soon as possible: likewise"),
        pytest.param(2.0, 60.0, 30_000.0, id="longer than the period: no more than two periods"),
        pytest.param(60.0, 20.0, 80_000.0, id="a trigger longer than half the objective"),
    ],
)
def test_backlog_of_a_job_that_keeps_up(trigger_s, batch_s, healthy):
    assert healthy_backlog(1000.0, trigger_s, batch_s, max(trigger_s, 15.0)) == healthy


@pytest.mark.parametrize(
    ("offsets", "excess"),
    [
        pytest.param((10_000, 9000, 7000), 0.0, id="3000 of at most 3800 in the backlog"),
        pytest.param((10_000, 9000, 6200), 0.0, id="just the 3800"),
        pytest.param(
            (10_000, 9000, 5000), 1200 - 1 - 3 * 3800**0.5, id="5000: 1200 too many, but for what counts vary by"
        ),
        pytest.param((10_000, 9000, None), None, id="unknown is not none"),
    ],
)
def test_excess_is_backlog_beyond_that(offsets, excess):
    batch = Batch(10.0, 1, 1.8)
    seen = run(look(0.0, batch=batch, offsets=(0, 0, 0)), look(10.0, batch=batch, offsets=offsets))
    assert seen.arrival_rate == 1000.0
    assert seen.backlog_excess == pytest.approx(excess)


def test_a_batch_that_never_ends_does_not_excuse_its_own_backlog():
    first = look(0.0, running=RunningBatch(0.0, active=True, batch_id=0, since=0.0))
    later = look(
        60.0, running=RunningBatch(60.0, active=True, batch_id=0, since=0.0), offsets=(60_000, 0, 0), trigger_s=2.0
    )
    seen = run(first, later)
    assert (seen.batch_s, seen.backlog, seen.arrival_rate) == (60.0, 60_000, 1000.0)
    assert seen.backlog_excess == pytest.approx(30_000 - 1 - 3 * 30_000**0.5)
    assert seen.missing == ()


@pytest.mark.parametrize("bad", [nan, inf, -1.0])
@pytest.mark.parametrize(
    ("change", "name", "figure"),
    [
        pytest.param(lambda bad: {"batch": Batch(9.0, 1, bad)}, "batch.duration_s", "batch_s", id="duration"),
        pytest.param(lambda bad: {"batch": Batch(bad, 1, 1.0)}, "batch.at", "processed_rate", id="end of batch"),
        pytest.param(
            lambda bad: {"batch": Batch(9.0, 1, 1.0, planning_s=bad)}, "batch.planning_s", None, id="planning"
        ),
        pytest.param(lambda bad: {"batch": Batch(9.0, bad, 1.0)}, "batch.batch_id", "processed_rate", id="batch id"),
        pytest.param(
            lambda bad: {"running": RunningBatch(bad, active=True, since=1.0)}, "running.at", "batch_s", id="running at"
        ),
        pytest.param(
            lambda bad: {"running": RunningBatch(9.0, active=True, since=bad)}, "running.since", "batch_s", id="since"
        ),
        pytest.param(lambda bad: {"trigger_s": bad}, "trigger_s", "trigger_s", id="trigger"),
        pytest.param(
            lambda bad: {"sources": (SourceInfo("kafka", "c", partitions=bad),)}, "source.partitions", None, id="plan"
        ),
    ],
)
def test_an_impossible_figure_is_unknown_and_named(change, name, figure, bad):
    seen = run(look(10.0, **change(bad)))
    assert seen.invalid == (name,)
    assert figure is None or getattr(seen, figure) is None


@pytest.mark.parametrize(
    ("queries", "expected"),
    [
        pytest.param([None], None, id="unknown"),
        pytest.param([RunningBatch(100.0, active=False)], False, id="between two batches"),
        pytest.param([RunningBatch(100.0, active=False), RunningBatch(100.0, active=True)], True, id="one of two"),
        pytest.param([RunningBatch(100.0, active=False), None], None, id="of the other nobody knows"),
    ],
)
def test_whether_a_batch_runs(queries, expected):
    looks = [look(100.0, running=running).queries[0] for running in queries]
    told = tuple(replace(query, query_id=str(place)) for place, query in enumerate(looks))
    assert run(Observation(100.0, told)).running is expected


LONG, SHORT = 40.0, 2.0


@pytest.mark.parametrize(
    ("durations", "busy", "occupancy"),
    [
        pytest.param((SHORT, LONG), 0.1, SHORT / 15, id="one long batch on idle slots"),
        pytest.param((LONG, LONG), 0.1, LONG / 15, id="two of them"),
        pytest.param((SHORT, LONG), 0.9, LONG / 15, id="one on busy slots"),
        pytest.param((SHORT, LONG), None, SHORT / 15, id="one, and nobody knows how busy"),
        pytest.param((LONG, LONG), None, LONG / 15, id="two, and nobody knows how busy"),
        pytest.param((SHORT, 9.0), None, 9.0 / 15, id="one that is not too long"),
    ],
)
def test_one_long_batch_counts_only_on_busy_slots(durations, busy, occupancy):
    """The period is 15 s; one executor with one slot, looked at when each batch has ended."""
    looks, at, worked = list[Observation](), 0.0, 0.0
    for number, duration_s in enumerate((1.0, *durations)):
        at, worked = at + duration_s, worked + duration_s * (busy or 0.0)
        done = (0, 100 * number, 100 * number)
        reading = look(at, batch=Batch(at, number, duration_s), running=idle(at), offsets=done)
        executor = Executor("0", "h", 1, 0, finished_tasks=100 * number, busy_s=None if busy is None else worked)
        looks.append(replace(reading, cluster=Cluster.of(at, [executor])))
    assert run(*looks).occupancy == pytest.approx(occupancy)


@pytest.mark.parametrize(
    ("batch", "occupancy"),
    [
        pytest.param(Batch(90.0, 4, 36.0, planning_s=35.0, commit_s=0.2, work_s=0.5), 0.5 / 15, id="planning"),
        pytest.param(Batch(90.0, 4, 36.0, planning_s=0.3, commit_s=35.0, work_s=0.5), 0.5 / 15, id="commit"),
        pytest.param(Batch(90.0, 4, 36.0, planning_s=35.0, commit_s=0.2), 0.8 / 15, id="tasks unknown: what is left"),
        pytest.param(Batch(90.0, 4, 36.0, planning_s=18.0, commit_s=0.2, work_s=17.0), 36 / 15, id="half of it"),
    ],
)
def test_occupancy_leaves_out_what_the_driver_takes(batch, occupancy):
    before = replace(batch, at=50.0, batch_id=3)
    looks = (look(at, batch=each, running=idle(at)) for at, each in ((50.0, before), (90.0, batch)))
    assert run(*looks).occupancy == pytest.approx(occupancy)
