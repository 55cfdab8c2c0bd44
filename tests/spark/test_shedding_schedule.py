"""Shares by a schedule of batch ids: what a batch has used is never changed, and faults are named."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheostat.config.shedding import WHOLE, Sink, declare_shedding
from rheostat.errors import InputError, UnavailableError
from rheostat.spark import shedding_schedule
from rheostat.spark.keep import KEEP_ALL, signed_limit
from rheostat.spark.shedding_schedule import (
    AHEAD,
    RETAINED,
    SCHEDULE_SCHEMA,
    Entry,
    SheddingSchedule,
    find_limits,
    keep_at,
    parse_schedule,
)

GRAPH = declare_shedding([Sink("a"), Sink("b")], {"in": ["parse"]}, {"parse": ["a", "b"]})
EDGES = ("in>parse", "parse>a", "parse>b")


@dataclass
class Query:
    """A query whose last batch is known; each look moves it on by ``moves``."""

    ended: int | None
    moves: int = 0
    id: str = "q"

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802 (Spark's)
        if self.ended is None:
            return None
        self.ended += self.moves
        return {"batchId": self.ended - self.moves}


def append(schedule: SheddingSchedule, ended: int | None, keep: Mapping[str, int], *, moves: int = 0) -> int:
    return schedule.append(cast("Any", Query(ended, moves)), keep)


def limits(folder: Path, batch: int, initial: Mapping[str, int] | None = None) -> dict[str, int]:
    return find_limits(str(folder), EDGES, initial or {}, "q", batch)


def shares(*values: int) -> dict[str, int]:
    return {edge: signed_limit(value) for edge, value in zip(EDGES, values, strict=True)}


@pytest.fixture(autouse=True)
def _nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shedding_schedule, "_NAMED", set())


def test_an_entry_holds_from_the_third_batch_after_the_last_one_that_ended(tmp_path: Path) -> None:
    schedule = SheddingSchedule(GRAPH, tmp_path)
    assert append(schedule, 4, {"in>parse": 500_000}) == 7
    assert append(schedule, 20, {"parse>b": 0}) == 23
    assert limits(tmp_path, 6) == shares(WHOLE, WHOLE, WHOLE)
    assert [limits(tmp_path, batch) for batch in (7, 22)] == [shares(500_000, WHOLE, WHOLE)] * 2
    assert [limits(tmp_path, batch) for batch in (23, 900)] == [shares(WHOLE, WHOLE, 0)] * 2


def test_until_the_first_entry_the_initial_shares_hold(tmp_path: Path) -> None:
    initial = {"parse>a": 250_000}
    schedule = SheddingSchedule(GRAPH, tmp_path, initial)
    assert limits(tmp_path, 0, initial) == shares(WHOLE, 250_000, WHOLE)
    append(schedule, 0, {})
    assert limits(tmp_path, 2, initial) == shares(WHOLE, 250_000, WHOLE)
    assert limits(tmp_path, 3, initial) == dict.fromkeys(EDGES, KEEP_ALL)


def test_the_shares_that_hold_already_need_no_entry(tmp_path: Path) -> None:
    schedule = SheddingSchedule(GRAPH, tmp_path)
    assert append(schedule, 4, {"in>parse": 1}) == 7
    written = (tmp_path / "q.json").stat().st_ino
    assert append(schedule, 90, {"in>parse": 1}) == 7
    assert (tmp_path / "q.json").stat().st_ino == written


def test_an_entry_whose_batch_is_not_planned_yet_gives_way_to_the_next(tmp_path: Path) -> None:
    schedule = SheddingSchedule(GRAPH, tmp_path)
    assert [append(schedule, 4, {"in>parse": share}) for share in (1, 2, 3)] == [7, 7, 7]
    assert parse_schedule((tmp_path / "q.json").read_text()) == (Entry(7, {"in>parse": 3}),)


def test_each_query_has_a_schedule_of_its_own(tmp_path: Path) -> None:
    schedule = SheddingSchedule(GRAPH, tmp_path)
    append(schedule, 4, {"in>parse": 0})
    assert find_limits(str(tmp_path), EDGES, {}, "another", 7) == shares(WHOLE, WHOLE, WHOLE)


@given(
    steps=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 4)), max_size=40),
    retained=st.sampled_from([4, RETAINED]),
)
def test_what_a_batch_has_used_is_never_changed(
    tmp_path_factory: pytest.TempPathFactory, steps: Sequence[tuple[int, int]], retained: int
) -> None:
    """Each step: so many batches end, a share is appended. By then the next batch runs, and another is planned."""
    folder = tmp_path_factory.mktemp("schedule")
    schedule, ended = SheddingSchedule(GRAPH, folder), 0
    used = {batch: limits(folder, batch) for batch in range(AHEAD)}
    with pytest.MonkeyPatch.context() as here:
        here.setattr(shedding_schedule, "RETAINED", retained)
        for batches, share in steps:
            for _ in range(batches):
                ended += 1
                used[ended + 2] = limits(folder, ended + 2)
            first = append(schedule, ended, {"in>parse": share})
            assert limits(folder, max(first, ended + AHEAD)) == shares(share, WHOLE, WHOLE)
            can_run = [batch for batch in used if batch >= ended - retained]
            assert {batch: limits(folder, batch) for batch in can_run} == {batch: used[batch] for batch in can_run}


def test_entries_of_batches_that_cannot_run_again_are_left_out(tmp_path: Path) -> None:
    schedule = SheddingSchedule(GRAPH, tmp_path)
    for ended in range(0, 3 * RETAINED, 10):
        append(schedule, ended, {"in>parse": ended})
    entries = parse_schedule((tmp_path / "q.json").read_text())
    assert len(entries) <= RETAINED / 10 + 2
    assert keep_at(entries, ended - RETAINED) == {"in>parse": ended - RETAINED - 10}


def test_an_entry_that_came_too_late_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    schedule = SheddingSchedule(GRAPH, tmp_path)
    assert append(schedule, 4, {"in>parse": 1}, moves=1) == 7
    assert caplog.text == ""
    assert append(schedule, 14, {"in>parse": 2}, moves=2) == 17
    assert "batch 17 may keep other records if it is run again" in caplog.text


def test_before_a_batch_has_ended_nothing_is_appended(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="no batch has ended since"):
        append(SheddingSchedule(GRAPH, tmp_path), None, {"in>parse": 1})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        json.dumps({"schema": SCHEDULE_SCHEMA, "entries": [[1]]}),
        json.dumps({"schema": SCHEDULE_SCHEMA, "entries": [[1, []]]}),
    ],
)
def test_a_damaged_schedule_keeps_everything_is_named_once_and_is_not_written_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    path = tmp_path / "q.json"
    path.write_text(text)
    found = [limits(tmp_path, batch, {"in>parse": 0}) for batch in (0, 1, 2)]
    assert found == [shares(WHOLE, WHOLE, WHOLE)] * 3
    assert caplog.text.count("every record is kept") == 1
    with pytest.raises(InputError):
        append(SheddingSchedule(GRAPH, tmp_path), 4, {"in>parse": 1})
    assert path.read_text() == text


def test_a_missing_schedule_keeps_everything_and_is_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert [limits(tmp_path, batch) for batch in (0, 1)] == [shares(WHOLE, WHOLE, WHOLE)] * 2
    assert caplog.text.count("there is no schedule yet") == 1


def test_all_faults_of_a_schedule_are_found_at_once() -> None:
    entries = [[5, {"a": -1, "b": WHOLE + 1}], [5, {}], [True, {}], ["6", {"c": 0.5}]]
    with pytest.raises(InputError) as caught:
        parse_schedule(json.dumps({"schema": "rheostat.shedding-schedule/0", "entries": entries}))
    found = [fault.field for fault in caught.value.faults]
    assert found == ["schedule.schema", "keep.a", "keep.b", *["schedule.entries"] * 3, "keep.c"]


def test_all_faults_of_an_entry_are_found_at_once(tmp_path: Path) -> None:
    wrong: Any = {"in>pars": 1, "parse>a": 0.5, "parse>b": WHOLE + 1}
    with pytest.raises(InputError, match="did you mean 'in>parse'") as caught:
        append(SheddingSchedule(GRAPH, tmp_path), 4, wrong)
    assert [fault.field for fault in caught.value.faults] == ["keep", "keep.parse>a", "keep.parse>b"]
    with pytest.raises(InputError, match="this edge is not declared"):
        SheddingSchedule(GRAPH, tmp_path, {"parse>c": 1})


def test_all_faults_of_the_rows_are_found_at_once(tmp_path: Path) -> None:
    rows: Any = SimpleNamespace(columns=["value", "offset", "rheostat"], isStreaming=False)
    with pytest.raises(InputError) as caught:
        SheddingSchedule(GRAPH, tmp_path).add_limits(rows, "inn")
    messages = [fault.message for fault in caught.value.faults]
    words = ("did you mean 'in'", "no column topic", "no column partition", "limits already", "a stream have ids")
    assert len(messages) == len(words)
    assert all(word in message for word, message in zip(words, messages, strict=True))
