"""What takes time in vain: queries that fail and start again, garbage collection, data read anew."""

from __future__ import annotations

import re
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
    SourceInfo,
    StageWork,
)

SETTINGS = AnalysisSettings(objective_lag_s=60.0)


def assess(observations: list[Observation]) -> list[Assessment]:
    state, seen = AnalysisState(), list[Assessment]()
    for each in observations:
        assessment, state = analyze(each, state, SETTINGS)
        seen.append(assessment)
    return seen


# Queries that fail and start again


def look(at: float, *queries: QueryReading) -> Observation:
    return Observation(at, queries, Cluster.of(at, [Executor("0", "h", 4, 0, busy_s=0.0)]))


def run(at: float, number: int, batch_id: int, *, finished: bool = False, name: str = "orders", **more: Any) -> Any:
    """A run of a query in this batch, or with it as the last one that has finished."""
    done = 1000 * (batch_id + 1 if finished else batch_id)
    reading = QueryReading(
        query_id=name,
        run_id=f"run-{number}",
        name=name,
        trigger_s=10.0,
        sources=(SourceInfo("kafka", name, 1, topics=(name,)),),
        offsets=Offsets.of(at, [PartitionOffsets(name, 0, 100 + 100 * int(at), done, done)]),
        batch=Batch(at, batch_id, 5.0, records=1000) if finished else None,
        running=RunningBatch(at, not finished, None if finished else batch_id, None if finished else at),
    )
    return replace(reading, **more)


BOOM: dict[str, Any] = {"failed_before": "boom"}


@pytest.mark.parametrize(
    ("runs", "failing"),
    [
        pytest.param([(1, 7, {}), (2, 7, {}), (3, 7, {})], "2 times in a row, .*batch 7 is run again", id="one batch"),
        pytest.param([(1, 7, {}), (2, 7, BOOM), (3, 7, BOOM)], r"2 times in a row, .*\(boom\)", id="exception"),
        pytest.param([(1, 7, {}), (2, 9, BOOM), (3, 12, BOOM)], r"2 times .*\(boom\)", id="a few batches are done"),
        pytest.param([(1, 7, {}), (2, 7, BOOM)], None, id="once"),
        pytest.param([(1, 7, {}), (2, 7, BOOM), (2, 12, {}), (3, 12, BOOM)], None, id="long runs"),
        pytest.param([(1, 7, {}), (2, 7, BOOM), (3, 7, BOOM), (3, 11, {})], "2 times", id="not over it"),
        pytest.param([(1, 7, {}), (2, 7, BOOM), (3, 7, BOOM), (3, 12, {})], None, id="over it"),
        pytest.param([(1, 7, {}), (2, 8, {}), (3, 9, {}), (4, 10, {})], None, id="deployed between batches"),
    ],
)
def test_a_query_that_fails_and_starts_again_is_known(runs, failing):
    seen = assess([look(20.0 * at, run(20.0 * at, *where, **more)) for at, (*where, more) in enumerate(runs)])
    if failing is None:
        assert seen[-1].failing == ()
    else:
        (text,) = seen[-1].failing
        assert text.startswith("the query orders has failed")
        assert re.search(failing, text), text


def test_the_first_look_at_a_new_run_may_not_know_its_batch():
    starting = replace(run(0.0, 2, 7), running=None, offsets=None)
    readings = [run(0.0, 1, 7), starting, run(0.0, 2, 7), replace(starting, run_id="run-3"), run(0.0, 3, 7)]
    counts = [len(each.failing) for each in assess([look(5.0 * at, each) for at, each in enumerate(readings)])]
    assert counts == [0, 0, 0, 0, 1]


def test_failures_are_known_over_the_wait_of_a_supervisor():
    ended = replace(run(0.0, 1, 7), running=None, offsets=None, failed_because="boom")
    looks = [look(0.0, run(0.0, 1, 7)), look(250.0, ended), look(300.0, run(300.0, 2, 7)), look(550.0, ended)]
    seen = assess([*looks, look(600.0, run(600.0, 3, 7, **BOOM)), look(650.0, replace(ended, run_id="run-3"))])
    assert [len(each.failing) for each in seen] == [0, 1, 0, 1, 1, 1]
    assert seen[1].failing == ("the query orders has failed (boom)",)
    assert "2 times" in seen[-1].failing[0]


def test_what_a_failing_query_repeats_teaches_no_capacity():
    runs = [(1, 7, False), (2, 7, False), (3, 7, False), (3, 7, True), (3, 8, True), (3, 9, True)]
    looks = [look(20.0 * n, run(20.0 * n, r, batch, finished=done)) for n, (r, batch, done) in enumerate(runs)]
    *_, last = assess(looks)
    assert last.failing
    assert (last.processed_rate, last.throughput, last.last_batch_records) == (None, None, None)


def test_beside_others_a_failing_query_is_left_out():
    looks = list[Observation]()
    for n in range(6):
        at = 20.0 * n
        looks.append(look(at, run(at, n, 7, **BOOM), run(at, 1, 7 + n, finished=True, name="clicks")))
    *_, last = assess(looks)
    assert last.failing[0].startswith("the query orders has failed")
    assert [each.query for each in last.unmeasured] == ["orders"]
    assert "what the query orders needs, as it has failed" in last.unmeasured[0].why
    assert (last.missing, last.queries, last.processed_rate) == ((), 2, 50.0)


# Garbage collection


def collected(*rows: tuple[float, dict[str, tuple[float, float | None]], int]) -> list[Assessment]:
    """The assessments of (time, (task seconds, seconds of garbage collection) by executor, running tasks)."""
    return assess(
        [
            Observation(
                at, (), Cluster.of(at, [Executor(name, "h", 4, n, 0, 9, *own) for name, own in figures.items()])
            )
            for at, by_name, n in rows
            for figures in [{name: (busy_s, None, None, None, False, gc_s) for name, (busy_s, gc_s) in by_name.items()}]
        ]
    )


BEGIN: dict[str, tuple[float, float | None]] = {"1": (100.0, 50.0), "2": (100.0, 5.0)}


@pytest.mark.parametrize(
    ("begin", "end", "text"),
    [
        pytest.param(BEGIN, {"1": (200.0, 82.0), "2": (200.0, 9.0)}, "32 % on the executor 1", id="one"),
        pytest.param(BEGIN, {"1": (200.0, 82.0), "2": (200.0, 45.0)}, "32 to 40 % on all 2 executors", id="all"),
        pytest.param(BEGIN, {"1": (200.0, 60.0), "2": (200.0, 9.0)}, None, id="ten percent are not more"),
        pytest.param(BEGIN, {"1": (105.0, 54.0), "2": (200.0, 9.0)}, None, id="it hardly works"),
        pytest.param(BEGIN, {"1": (100.0, 50.0), "3": (60.0, 30.0)}, None, id="a new one"),
        pytest.param(BEGIN | {"1": (0.0, 0.0)}, {"1": (60.0, 30.0), "2": (200.0, 9.0)}, None, id="a cold one"),
        pytest.param(BEGIN, {"1": (200.0, None), "2": (200.0, None)}, None, id="unknown"),
        pytest.param({"1": (100.0, None)}, {"1": (200.0, 80.0)}, None, id="unknown before"),
        pytest.param(
            BEGIN, {"1": (200.0, float("nan")), "2": (200.0, 45.0)}, "40 % on the executor 2", id="impossible"
        ),
    ],
)
def test_garbage_collection_is_named_with_its_share_and_the_executors(begin, end, text):
    first, early, last = collected((0.0, begin, 1), (30.0, begin, 1), (60.0, end, 1))
    assert (first.gc, early.gc) == (None, None)
    if text is None:
        assert (last.gc, last.gc_share) == (None, None)
    else:
        assert last.gc == f"garbage collection takes {text}".replace(" on", " of the task time on")


def test_the_figure_is_the_share_of_all_task_time():
    *_, last = collected((0.0, BEGIN, 1), (60.0, {"1": (200.0, 82.0), "2": (400.0, 13.0)}, 1))
    assert last.gc_share == pytest.approx(0.1)


def test_a_window_in_which_no_task_ended_goes_on_while_tasks_run():
    heavy: dict[str, tuple[float, float | None]] = {"1": (200.0, 82.0), "2": (200.0, 9.0)}
    *_, running, idle = collected((0.0, BEGIN, 1), (60.0, heavy, 1), (120.0, heavy, 1), (180.0, heavy, 0))
    assert running.gc is not None
    assert idle.gc is None


# Data that each batch reads anew


@pytest.mark.parametrize(
    ("read", "share", "bound"),
    [
        pytest.param(2_000_000, 0.8, True, id="most of the batch, in two tasks"),
        pytest.param(1000, None, False, id="a small table"),
        pytest.param(1911, None, False, id="copies of its tasks"),
        pytest.param(None, None, False, id="unknown"),
    ],
)
def test_data_that_each_batch_reads_anew_is_named(read, share, bound):
    batch = Batch(100.0, 7, 9.0, records=1000, stages=(StageWork(2, 16.0), StageWork(8, 4.0)))
    (seen,) = assess([look(100.0, replace(run(100.0, 1, 7, finished=True), batch=batch.with_reads((read, 1000))))])
    assert (seen.reread_share, seen.reread_bound) == (share, bound)
    if share is not None:
        assert seen.reread == (
            "each batch of the query orders reads 2 000 000 records of other data than its input anew, "
            "which takes 80 % of the task time"
        )


def test_more_slots_shorten_what_is_read_in_many_tasks():
    batch = Batch(100.0, 7, 9.0, records=1000, stages=(StageWork(16, 16.0), StageWork(8, 4.0)))
    reading = replace(run(100.0, 1, 7, finished=True), batch=batch.with_reads((2_000_000, 1000)))
    (seen,) = assess([look(100.0, reading)])
    assert (seen.reread_share, seen.reread_bound) == (0.8, False)


@pytest.mark.parametrize(
    ("table_s", "rest_s"), [pytest.param(2.0, 6.0, id="a quarter of the task time"), pytest.param(1.0, 0.0, id="idle")]
)
def test_a_small_part_is_no_cause(table_s, rest_s):
    batch = Batch(100.0, 7, 9.0, records=1000, stages=(StageWork(2, table_s), StageWork(8, rest_s)))
    reading = replace(run(100.0, 1, 7, finished=True), batch=batch.with_reads((2_000_000, 1000)))
    (seen,) = assess([look(100.0, reading)])
    assert seen.reread is None
