"""What got through the sink, from files written by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from rheostat.errors import InputError
from rheostat.load.payload import IdChecksum
from rheostat.pipelines.click_fraud import split_halves
from rheostat.pipelines.sink import verify

FIRST, SECOND = datetime(2026, 1, 1, 0, 0, tzinfo=UTC), datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
Row = tuple[str, str, datetime, list[int]]


def write(out: Path, batch: int, *rows: Row, success: bool = True) -> None:
    """A batch with one file for each row; a row is kind, key, window and the ids that it counts."""
    folder = out / f"batch={batch}"
    folder.mkdir(parents=True)
    for number, (kind, key, window, ids) in enumerate(rows):
        sums = {name: int(column.sum()) for name, column in split_halves(np.array(ids, dtype=np.int64)).items()}
        row = {"kind": kind, "key": key, "window_start": window, "others": 1, "records": len(ids), **sums}
        parquet.write_table(pa.Table.from_pylist([row]), folder / f"part-{number}.parquet")
    if success:
        (folder / "_SUCCESS").touch()


def test_the_newest_batch_has_the_last_word(tmp_path: Path) -> None:
    write(tmp_path, 9, ("ip", "a", FIRST, [1]), ("user", "u", FIRST, [1]))
    write(tmp_path, 10, ("ip", "a", FIRST, [1, 2]), ("user", "u", FIRST, [1, 2]))
    totals = verify(tmp_path)
    assert totals.checksum == IdChecksum().add_many([1, 2])
    assert (totals.batches, totals.rows, totals.incomplete) == (2, 2, ())


def test_windows_and_keys_are_added_up(tmp_path: Path) -> None:
    write(tmp_path, 0, ("ip", "a", FIRST, [1, -5]), ("ip", "a", SECOND, [2**63 - 1]), ("ip", "b", FIRST, [3]))
    write(tmp_path, 1, ("user", "u", FIRST, [1, -5, 3]), ("user", "u", SECOND, [2**63 - 1]))
    totals = verify(tmp_path)
    assert totals.checksum == IdChecksum().add_many([1, -5, 3, 2**63 - 1])
    assert totals.rows == 5


@pytest.mark.parametrize(
    "users",
    [
        pytest.param([1, 2], id="a record lost"),
        pytest.param([1, 2, 3, 3], id="a record doubled"),
        pytest.param([1, 2, 2], id="one lost and one doubled"),
        pytest.param([0, 2, 4], id="other records with the same count and sum"),
    ],
)
def test_kinds_that_do_not_agree_give_no_checksum(tmp_path: Path, users: list[int]) -> None:
    write(tmp_path, 0, ("ip", "a", FIRST, [1, 2, 3]), ("user", "u", FIRST, users))
    totals = verify(tmp_path)
    assert totals.checksum is None
    assert totals.by_kind == {"ip": IdChecksum().add_many([1, 2, 3]), "user": IdChecksum().add_many(users)}


def test_a_batch_that_was_not_finished_does_not_count(tmp_path: Path) -> None:
    write(tmp_path, 0, ("ip", "a", FIRST, [1]))
    write(tmp_path, 1, ("ip", "a", FIRST, [1, 2]), success=False)
    totals = verify(tmp_path)
    assert totals.checksum == IdChecksum().add_many([1])
    assert totals.incomplete == ("batch=1",)


def test_an_empty_sink(tmp_path: Path) -> None:
    write(tmp_path, 0)
    totals = verify(tmp_path)
    assert (totals.checksum, totals.by_kind, totals.batches, totals.rows) == (None, {}, 1, 0)


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such folder"):
        verify(tmp_path / "nowhere")
