"""Rows in files: what a crash, a damaged disk and many writes leave of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rheostat.errors import JournalError
from rheostat.learn.slow_records import Sample
from rheostat.ports import SampleStore
from rheostat.sample_store import MemorySampleStore, ParquetSampleStore


def row(number: int, slow: float = 0.25) -> Sample:
    return Sample(15.0 * number, (100.0 + number, 7.0), 1 + number % 3, slow)


def rows(first: int, end: int) -> list[Sample]:
    return [row(number) for number in range(first, end)]


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(params=["parquet", "memory", "memory over parquet"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SampleStore:
    made: dict[str, Callable[[], SampleStore]] = {
        "parquet": lambda: ParquetSampleStore(tmp_path / "samples"),
        "memory": MemorySampleStore,
        "memory over parquet": lambda: MemorySampleStore(ParquetSampleStore(tmp_path / "samples")),
    }
    return made[request.param]()


def test_nothing_was_put_and_nothing_is_read(store):
    store.put(0, [])
    assert list(store.read(5)) == []


def test_what_was_put_is_read_in_its_order_as_far_as_asked_for(store):
    store.put(0, rows(0, 3))
    store.put(3, rows(3, 5))
    assert list(store.read(5)) == rows(0, 5)
    assert list(store.read(4)) == rows(0, 4)
    assert list(store.read(0)) == []
    assert list(store.read(9)) == rows(0, 5)
    assert list(store.read(5, 2)) == rows(3, 5)
    assert list(store.read(4, 3)) == rows(1, 4)
    assert list(store.read(4, 99)) == rows(0, 4)
    assert list(store.read(4, 0)) == []


def test_what_is_put_once_more_counts_and_what_lies_around_it_stays(store):
    store.put(0, rows(0, 6))
    store.put(2, [row(2, 0.5), row(3, 0.5)])
    assert list(store.read(6)) == [row(0), row(1), row(2, 0.5), row(3, 0.5), row(4), row(5)]


def test_a_gap_stays_a_gap(store):
    store.put(4, rows(4, 6))
    assert list(store.read(6)) == rows(4, 6)
    store.put(0, rows(0, 2))
    assert list(store.read(6)) == [*rows(0, 2), *rows(4, 6)]


def test_the_same_rows_once_more_write_nothing(tmp_path):
    store = ParquetSampleStore(tmp_path)
    store.put(0, rows(0, 100))
    store.put(100, rows(100, 110))
    before = files(tmp_path)
    store.put(95, rows(95, 110))
    store.put(0, rows(0, 100))
    assert (
        files(tmp_path)
        == before
        == [
            "rows-000000000-000000100-000001.parquet",
            "rows-000000100-000000110-000002.parquet",
        ]
    )


def test_many_puts_end_in_few_files_each_more_than_twice_as_large_as_the_next(tmp_path):
    store = ParquetSampleStore(tmp_path)
    for first in range(0, 120, 10):
        store.put(first, rows(first, first + 10))
    assert list(store.read(120)) == rows(0, 120)
    assert [name[5:24] for name in files(tmp_path)] == [
        "000000000-000000080",
        "000000080-000000110",
        "000000110-000000120",
    ]


@pytest.mark.parametrize("cut", [0, 100, -1])
def test_a_file_cut_short_before_its_name_was_given_is_not_read_and_goes_with_the_next_rows(tmp_path, cut):
    store = ParquetSampleStore(tmp_path)
    store.put(0, rows(0, 50))
    whole = (tmp_path / files(tmp_path)[0]).read_bytes()
    torn = tmp_path / ".rows-000000050-000000060-000002.parquet-4711"
    torn.write_bytes(whole[:cut])
    again = ParquetSampleStore(tmp_path)
    assert list(again.read(60)) == rows(0, 50)
    assert torn.exists()
    again.put(50, rows(50, 60))
    assert not torn.exists()
    assert list(again.read(60)) == rows(0, 60)


_WRITES = """
import sys
from rheostat.sample_store import ParquetSampleStore
from rheostat.learn.slow_records import Sample
store = ParquetSampleStore(sys.argv[1])
for number in range(100_000):
    store.put(7 * number, [Sample(float(row), (1.0,), 1, 0.0) for row in range(7 * number, 7 * number + 7)])
    print(7 * number + 7, flush=True)
"""


@pytest.mark.parametrize("puts", [1, 6])
def test_a_writer_that_is_killed_leaves_all_that_it_had_put(tmp_path, puts):
    with subprocess.Popen([sys.executable, "-c", _WRITES, str(tmp_path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        told = [int(writer.stdout.readline()) for _ in range(puts)][-1]
        writer.kill()
    store = ParquetSampleStore(tmp_path)
    times = [each.at for each in store.read(10_000)]
    assert times == list(range(len(times)))
    assert len(times) >= told == 7 * puts
    store.put(len(times), [row(0)])
    assert [*store.read(10_000)][-1] == row(0)
    assert not list(tmp_path.glob(".*"))


def test_a_crash_between_the_new_file_and_the_end_of_the_old_ones_leaves_rows_once_and_old_files_go(tmp_path):
    store = ParquetSampleStore(tmp_path)
    store.put(0, rows(0, 50))
    old = {name: (tmp_path / name).read_bytes() for name in files(tmp_path)}
    store.put(50, rows(50, 90))
    merged = files(tmp_path)
    for name, data in old.items():
        (tmp_path / name).write_bytes(data)
    again = ParquetSampleStore(tmp_path)
    assert list(again.read(90)) == rows(0, 90)
    again.put(90, rows(90, 92))
    assert files(tmp_path) == [*merged, "rows-000000090-000000092-000003.parquet"]


def spoil(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[40] ^= 0xFF
    path.write_bytes(data)


def test_a_damaged_file_costs_its_own_rows_and_is_named_once(tmp_path):
    told: list[str] = []
    writer = ParquetSampleStore(tmp_path)
    for first, end in ((0, 900), (900, 1200), (1200, 1300)):
        writer.put(first, rows(first, end))
    damaged = tmp_path / "rows-000000900-000001200-000002.parquet"
    spoil(damaged)
    store = ParquetSampleStore(tmp_path, told.append)
    assert list(store.read(1300)) == [*rows(0, 900), *rows(1200, 1300)]
    assert list(store.read(1300)) == [*rows(0, 900), *rows(1200, 1300)]
    assert len(told) == 1
    assert told[0].startswith("samples 900 to 1199 are left out: file: it cannot be read: ")
    assert told[0].endswith(f"(given: {damaged}; allowed: a whole Parquet file)")
    store.put(1300, rows(1300, 1400))
    assert list(store.read(1400)) == [*rows(0, 900), *rows(1200, 1400)]
    assert damaged.exists()


def test_a_damaged_file_is_healed_by_its_rows_put_once_more(tmp_path):
    told: list[str] = []
    writer = ParquetSampleStore(tmp_path)
    writer.put(0, rows(0, 30))
    spoil(tmp_path / files(tmp_path)[0])
    store = ParquetSampleStore(tmp_path, told.append)
    assert list(store.read(30)) == []
    assert len(told) == 1
    store.put(0, rows(0, 30))
    assert list(store.read(30)) == rows(0, 30)
    assert len(files(tmp_path)) == 1


def test_a_file_with_other_rows_than_its_name_says_is_left_out(tmp_path):
    told: list[str] = []
    ParquetSampleStore(tmp_path).put(0, rows(0, 30))
    (tmp_path / files(tmp_path)[0]).rename(tmp_path / "rows-000000000-000000040-000001.parquet")
    assert list(ParquetSampleStore(tmp_path, told.append).read(40)) == []
    assert told == [
        f"samples 0 to 39 are left out: {tmp_path}/rows-000000000-000000040-000001.parquet: it holds fewer "
        "rows than its name says"
    ]


def test_the_newest_rows_of_a_large_file_are_read_from_the_groups_that_hold_them(tmp_path):
    store = ParquetSampleStore(tmp_path)
    store.put(0, rows(0, 25_000))
    assert list(store.read(25_000, 3)) == rows(24_997, 25_000)
    assert list(store.read(20_001, 2)) == rows(19_999, 20_001)
    assert list(store.read(10_000, 1)) == rows(9_999, 10_000)


def test_a_file_of_something_else_is_none_of_ours(tmp_path):
    (tmp_path / "notes.txt").write_text("rows")
    store = ParquetSampleStore(tmp_path)
    store.put(0, rows(0, 2))
    assert list(store.read(2)) == rows(0, 2)
    assert (tmp_path / "notes.txt").exists()


def test_rows_that_cannot_be_written_are_no_silent_loss(tmp_path):
    (tmp_path / "samples").write_text("a file stands where the folder should be")
    with pytest.raises(JournalError, match=r"the sample store in .*samples cannot be written"):
        ParquetSampleStore(tmp_path / "samples").put(0, rows(0, 2))


def test_a_sample_store_below_another_is_only_read(tmp_path):
    below = ParquetSampleStore(tmp_path)
    below.put(0, rows(0, 10))
    before = files(tmp_path)
    over = MemorySampleStore(below)
    over.put(8, [row(8, 0.5), row(9, 0.5), row(10, 0.5)])
    assert list(over.read(11)) == [*rows(0, 8), row(8, 0.5), row(9, 0.5), row(10, 0.5)]
    assert list(below.read(11)) == rows(0, 10)
    assert files(tmp_path) == before
