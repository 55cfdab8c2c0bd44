"""The embedded log on disk: offsets, admission, listing, options."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheostat.errors import InputError
from rheostat.spark.log_files import (
    LogFolder,
    LogOptions,
    admit,
    offsets_from_json,
    offsets_to_json,
    parse_options,
    shares,
)

WAITING = st.dictionaries(st.integers(0, 30), st.integers(0, 10**12), min_size=1)


def segment(folder: Path, partition: int, base: int, count: int) -> None:
    """An empty file with a segment's name: listing looks at names only."""
    place = folder / f"partition={partition}"
    place.mkdir(exist_ok=True)
    (place / f"{base:020d}-{count:09d}.arrow").touch()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "log.json").write_text(json.dumps({"schema": "rheostat.log/1", "partitions": 2}))
    return tmp_path


@pytest.mark.parametrize(
    ("waiting", "cap", "expected"),
    [
        pytest.param({0: 100, 1: 300}, 40, {0: 10, 1: 30}, id="in proportion"),
        pytest.param({0: 5, 1: 7}, 100, {0: 5, 1: 7}, id="everything fits"),
        pytest.param({0: 0, 1: 0}, 10, {0: 0, 1: 0}, id="nothing waits"),
        pytest.param({0: 1, 1: 1_000_000}, 10, {0: 1, 1: 9}, id="a small partition is not starved"),
        pytest.param({0: 9, 1: 9, 2: 9}, 1, {0: 1, 1: 1, 2: 1}, id="cap under the number of partitions"),
        pytest.param({0: 10, 1: 10, 2: 10}, 10, {0: 4, 1: 3, 2: 3}, id="the remainder goes to the first"),
    ],
)
def test_a_batch_is_divided(waiting: dict[int, int], cap: int, expected: dict[int, int]) -> None:
    assert shares(waiting, cap) == expected


@given(WAITING, st.integers(1, 10**9))
def test_shares_sum_to_the_cap_starve_none_and_never_exceed_what_waits(waiting: dict[int, int], cap: int) -> None:
    given_out = shares(waiting, cap)
    busy = sum(1 for records in waiting.values() if records)
    assert sum(given_out.values()) == min(sum(waiting.values()), max(cap, busy))
    assert all(given_out[key] <= records for key, records in waiting.items())
    assert all(given_out[key] >= 1 for key, records in waiting.items() if records)


@given(WAITING, st.integers(1, 10**9))
def test_more_waiting_never_gives_a_smaller_share(waiting: dict[int, int], cap: int) -> None:
    given_out = shares(waiting, cap)
    by_waiting = sorted(waiting, key=lambda key: (waiting[key], -key))
    assert [given_out[key] for key in by_waiting] == sorted(given_out.values())


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=20), st.integers(1, 50))
def test_shares_are_proportional_up_to_the_records_that_are_set_aside(waiting: list[int], each: int) -> None:
    cap = each * len(waiting)
    total = sum(waiting)
    for key, share in shares(dict(enumerate(waiting)), cap).items():
        exact = min(1.0, cap / total) * waiting[key]
        assert exact - len(waiting) <= share <= exact + 2


def test_a_batch_ends_at_the_latest_offset_without_a_cap() -> None:
    assert admit({0: 10, 1: 20}, {0: 15, 1: 20}, None) == {0: 15, 1: 20}


def test_a_capped_batch_continues_from_its_start() -> None:
    assert admit({0: 10, 1: 20}, {0: 110, 1: 320}, 40) == {0: 20, 1: 50}


def test_a_log_that_is_shorter_than_the_checkpoint_is_refused_for_every_partition() -> None:
    with pytest.raises(InputError, match="shorter than the checkpoint") as caught:
        admit({0: 10, 1: 20, 2: 5}, {0: 9, 1: 3, 2: 5}, 100)
    assert [fault.given for fault in caught.value.faults] == ["partition 0 ends at 9", "partition 1 ends at 3"]


@given(st.dictionaries(st.integers(0, 30), st.integers(0, 2**62)))
def test_offsets_survive_json(offsets: dict[int, int]) -> None:
    whole = dict.fromkeys(range(31), 0) | offsets
    assert offsets_from_json(json.loads(json.dumps(offsets_to_json(whole))), 31) == whole


def test_offsets_are_written_in_the_order_of_partitions() -> None:
    assert json.dumps(offsets_to_json({10: 1, 9: 2})) == '{"log": {"9": 2, "10": 1}}'


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        pytest.param({}, ["path"], id="no path"),
        pytest.param({"path": "x", "maxOffsetsPerTrigger": "0"}, ["maxOffsetsPerTrigger"], id="a cap of nothing"),
        pytest.param({"path": "x", "maxOffsetsPerTrigger": "many"}, ["maxOffsetsPerTrigger"], id="a cap in words"),
        pytest.param({"path": "x", "startingOffsets": "first"}, ["startingOffsets"], id="an unknown start"),
        pytest.param(
            {"topic": "t", "maxOffsetsPerTrigger": "-1", "startingOffsets": ""},
            ["topic", "path", "maxOffsetsPerTrigger", "startingOffsets"],
            id="all at once",
        ),
    ],
)
def test_bad_options_are_all_told(options: dict[str, str], fields: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        parse_options(options)
    assert [fault.field for fault in caught.value.faults] == fields


def test_option_names_are_not_case_sensitive() -> None:
    options = {"PATH": "x", "maxoffsetspertrigger": "7", "StartingOffsets": "earliest"}
    assert parse_options(options) == LogOptions("x", 7, "earliest")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "holds no log", id="no log.json"),
        pytest.param("{", "cannot be read", id="not JSON"),
        pytest.param("[]", "another version", id="not an object"),
        pytest.param('{"schema": "rheostat.log/2", "partitions": 1}', "another version", id="another version"),
        pytest.param('{"schema": "rheostat.log/1", "partitions": 0}', "how many partitions", id="no partitions"),
        pytest.param('{"schema": "rheostat.log/1", "partitions": true}', "how many partitions", id="not a number"),
    ],
)
def test_a_folder_that_is_no_log_is_refused(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "log.json").write_text(content)
    with pytest.raises(InputError, match=message):
        LogFolder(str(tmp_path))


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such folder"):
        LogFolder(str(tmp_path / "nowhere"))


def test_the_latest_offset_follows_what_is_added(log: Path) -> None:
    folder = LogFolder(str(log))
    assert folder.latest() == {0: 0, 1: 0}
    segment(log, 0, 0, 10)
    assert folder.latest() == {0: 10, 1: 0}
    segment(log, 0, 10, 5)
    segment(log, 1, 0, 7)
    assert folder.latest() == {0: 15, 1: 7}


def test_files_that_are_being_written_do_not_count(log: Path) -> None:
    segment(log, 0, 0, 10)
    (log / "partition=0" / f".{10:020d}-{5:09d}.arrow").touch()
    (log / "partition=0" / "notes.txt").touch()
    assert LogFolder(str(log)).latest() == {0: 10, 1: 0}


def test_a_settled_folder_is_not_listed_again(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment(log, 0, 0, 10)
    os.utime(log / "partition=0", (1_000_000_000, 1_000_000_000))
    folder = LogFolder(str(log))
    folder.latest()
    monkeypatch.setattr(os, "listdir", lambda _: pytest.fail("listed although nothing has changed"))
    assert folder.latest() == {0: 10, 1: 0}


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        pytest.param(0, 10, [(0, 0, 10)], id="a whole segment"),
        pytest.param(3, 7, [(0, 3, 7)], id="within a segment"),
        pytest.param(8, 22, [(0, 8, 10), (10, 10, 15), (15, 15, 22)], id="over three segments"),
        pytest.param(10, 15, [(10, 10, 15)], id="from boundary to boundary"),
        pytest.param(4, 4, [], id="nothing"),
    ],
)
def test_a_range_of_offsets_is_found_in_segments(
    log: Path, start: int, end: int, expected: list[tuple[int, int, int]]
) -> None:
    for base, count in ((0, 10), (10, 5), (15, 20)):
        segment(log, 0, base, count)
    pieces = LogFolder(str(log)).pieces(0, start, end)
    assert [(piece.base, piece.start, piece.end) for piece in pieces] == expected


@pytest.mark.parametrize(
    "present",
    [
        pytest.param([(0, 10), (15, 5)], id="a hole in the middle"),
        pytest.param([(5, 15)], id="the beginning removed"),
        pytest.param([(0, 12)], id="the end removed"),
    ],
)
def test_records_that_have_been_removed_are_told(log: Path, present: list[tuple[int, int]]) -> None:
    for base, count in present:
        segment(log, 0, base, count)
    with pytest.raises(InputError, match="records of the log have been removed"):
        LogFolder(str(log)).pieces(0, 0, 20)
