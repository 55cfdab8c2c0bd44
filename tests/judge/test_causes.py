"""What takes time in vain, on simulated jobs through the production loop: named, and no executors are added for it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.judge.test_useless import POLICIES, changes, play

from rheostat.model import ReasonCode

pytestmark = pytest.mark.slow

FAILS = {
    "start_executors": 2,
    "events": [{"kind": "query-fails", "at_s": 600, "for_s": 1200, "after_s": 20, "pause_s": 20}],
}


@pytest.mark.parametrize("policy", POLICIES)
def test_no_executors_are_added_for_a_query_that_fails_and_starts_again(policy):
    """The backlog grows for twenty minutes; when the query is well again, it is caught up."""
    recorder = play(policy, FAILS, "constant:2500@3600", 3600.0)
    made = changes(recorder)
    assert [each for each in made if 660 < each[0] < 1800] == [], made
    if policy != "ds2":  # it looks at batches that have ended, and the first one takes half an hour
        assert any(after > before for at, before, after in made if 1800 < at < 2130), made
    held = recorder.holds[ReasonCode.QUERY_FAILS]
    assert "the query base has failed 30 times in a row" in held.text, held.text
    assert "injected: the query fails" in held.text


GARBAGE = {"events": [{"kind": "garbage", "at_s": 600, "share": 0.5}], "start_executors": 2, "batch_cap": 60_000}
"""Tasks take twice as long. Where executors share something, more of them carry as much as two."""


@pytest.mark.parametrize("policy", POLICIES)
def test_executors_that_do_not_help_against_garbage_collection_are_taken_back(policy):
    recorder = play(policy, GARBAGE | {"exponent": 0.1}, "constant:1500@600+constant:6000@3000", 3600.0)
    made = changes(recorder)
    late = [(before, after) for at, before, after in made if at > 1800]  # a way back too far is tried once more
    assert all(after <= 5 for _, after in late), made
    assert sum(after > before for before, after in late) <= 3, made


def test_garbage_collection_is_named_with_its_share_and_as_the_cause():
    recorder = play("reactive", GARBAGE | {"exponent": 0.1}, "constant:1500@600+constant:6000@3000", 3600.0)
    named = [act for act in recorder.acts if "garbage collection takes 50 % of the task time on all" in act.text]
    assert named
    assert "give each more memory, or fewer slots" in named[0].text
    (undone,) = [act for act in recorder.acts if act.code == ReasonCode.INEFFECTIVE][:1]
    assert "(garbage collection)" in undone.text


def test_executors_that_share_what_fills_the_memory_are_added_as_they_help():
    job = {"events": [{"kind": "garbage", "at_s": 600, "share": 0.6, "executors": 2}], "start_executors": 2}
    recorder = play("reactive", job, "constant:2500@3600", 3600.0)
    assert recorder.acts[-1].after > 2
    assert ReasonCode.INEFFECTIVE not in {*recorder.holds, *(act.code for act in recorder.acts)}


def with_table(tasks: int, seconds: float) -> dict[str, Any]:
    """A job whose batches join a table, which they read anew in so many tasks."""
    table = {"name": "table", "tasks": tasks, "cost_ms": 0.0, "task_ms": 1000 * seconds, "reads": 50_000_000}
    return {"stages": [table, {"name": "read", "cost_ms": 0.5, "task_ms": 20.0}], "start_executors": 2}


@pytest.mark.parametrize("policy", POLICIES)
def test_no_executors_are_added_for_a_table_that_two_tasks_read_anew(policy):
    """A batch takes 40 s on any number of executors, where it may take 30."""
    made = changes(play(policy, with_table(2, 40.0), "constant:300@1800", 1800.0))
    assert all(after <= 2 for at, _, after in made if at > 300), made


def test_the_table_is_named():
    held = play("reactive", with_table(2, 40.0), "constant:300@1800", 1800.0).holds[ReasonCode.DATA_REREAD]
    assert "each batch of the query base reads 50 000 000 records of other data than its input anew, " in held.text
    assert "cache it, or read less of it" in held.text


def test_executors_are_added_where_a_table_is_read_in_many_tasks():
    """On two executors a batch takes 60 s, where it may take 30."""
    recorder = play("reactive", with_table(24, 5.0), "constant:300@1800", 1800.0)
    assert max(act.after for act in recorder.acts) > 2
    assert "reads 50 000 000 records of other data than its input anew" in recorder.acts[-1].text
    assert ReasonCode.INEFFECTIVE not in {*recorder.holds, *(act.code for act in recorder.acts)}
