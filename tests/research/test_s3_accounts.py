"""What became of each record, from checkpoints, sinks and draws as a run leaves them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from rheostat.config.shedding import WHOLE
from rheostat.pipelines.click_fraud import HALVES
from rheostat.research.papers.s3_accounts import LATER_EDGES, Account, Draw, account_for, read_draws
from rheostat.spark.kafka_offsets import BatchPlan, offset_to_json
from rheostat.spark.keep import is_kept, seed_of, signed_limit

HALF = WHOLE // 2


def write_batch(folder: Path, number: int, ends: list[dict[str, Any]], *, committed: bool = True) -> None:
    for name in ("offsets", "commits") if committed else ("offsets",):
        (folder / name).mkdir(parents=True, exist_ok=True)
        lines = ["v1", "{}", *map(json.dumps, ends)] if name == "offsets" else ["v1", "{}"]
        (folder / name / str(number)).write_text("\n".join(lines))


def write_rows(out: Path, number: int, columns: dict[str, list[Any]]) -> None:
    folder = out / f"batch={number}"
    folder.mkdir(parents=True)
    parquet.write_table(pa.table(columns), folder / "part-0.parquet")
    (folder / "_SUCCESS").touch()


def points_until(position: int, keep: int, *, is_first: bool) -> dict[str, Any]:
    edge, begin = "points>knn", {("points", 0): 0} if is_first else {}
    return offset_to_json({("points", 0): position}, BatchPlan(begin, 0, {edge: keep}, 1, edge))


POINTS = {("points", 0, offset): Draw(1000 + offset, [0] * len(LATER_EDGES)) for offset in range(300)}


def kept_points(start: int, end: int, keep: int) -> list[int]:
    seed = seed_of("points>knn", "points", 0)
    return [1000 + offset for offset in range(start, end) if is_kept(seed, offset, keep)]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two committed batches, one that was written but not committed, and one that was only planned."""
    shares = [(100, WHOLE), (200, HALF), (250, HALF), (300, HALF)]
    start = 0
    for number, (end, keep) in enumerate(shares):
        write_batch(tmp_path / "c", number, [points_until(end, keep, is_first=number == 0)], committed=number < 2)
        if number < 3:
            write_rows(tmp_path / "o", number, {"id": kept_points(start, end, keep)})
        start = end
    return tmp_path


def test_all_is_there(run: Path) -> None:
    kept = 100 + len(kept_points(100, 250, HALF))
    assert account_for("knn", run / "c", run / "o", POINTS) == Account(250, kept, kept, exact=True)
    assert 150 < kept < 200


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("change", ["one is lost", "one is there twice", "another one is there", "a batch is lost"])
def test_what_is_wrong_is_seen(run: Path, number: int, change: str) -> None:
    file = run / "o" / f"batch={number}" / "part-0.parquet"
    ids = parquet.read_table(file).column("id").to_pylist()
    if change == "a batch is lost":
        (file.parent / "_SUCCESS").unlink()
    else:
        given = {"one is lost": ids[1:], "one is there twice": [*ids, ids[0]], "another one is there": [7, *ids[1:]]}
        parquet.write_table(pa.table({"id": given[change]}), file)
    assert not account_for("knn", run / "c", run / "o", POINTS).exact


def test_later_edges_drop_by_their_own_draws(tmp_path: Path) -> None:
    """The reader keeps all of four trips, and each later edge drops one of them; of the other topic there is none."""
    edges = LATER_EDGES
    draws = {}
    for offset, dropping in enumerate([None, "parse-1>union", "union>sink-1", "union>sink-2"]):
        later = [signed_limit(HALF) - 1 + (edge == dropping) for edge in edges]
        draws["drives-1", 0, offset] = Draw(offset + 1, later)
    keep = dict.fromkeys(edges, HALF)
    ends = [
        offset_to_json({("drives-1", 0): 4}, BatchPlan({("drives-1", 0): 0}, 0, keep, 1, "drives-1>parse-1")),
        offset_to_json({("drives-2", 0): 0}, BatchPlan({("drives-2", 0): 0}, 0, keep, 1, "drives-2>parse-2")),
    ]
    write_batch(tmp_path / "c", 0, ends)
    halves = sums_of([1, 4])
    rows: dict[str, list[Any]] = {"kind": ["sink-1"], "key": ["a"], "window_start": [0], "records": [2], **halves}
    write_rows(tmp_path / "o", 0, rows)
    assert account_for("sink-1", tmp_path / "c", tmp_path / "o", draws) == Account(4, 2, 2, exact=True)


def sums_of(ids: list[int]) -> dict[str, list[int]]:
    from rheostat.load.payload import IdChecksum

    checksum = IdChecksum().add_many(ids)
    mask = 0xFFFFFFFF
    values = [checksum.total & mask, checksum.total >> 32, checksum.mixed & mask, checksum.mixed >> 32]
    return {name: [value] for name, value in zip(HALVES, values, strict=True)}


def test_draws_are_read_as_they_were_written(tmp_path: Path) -> None:
    (tmp_path / "draws").mkdir()
    table = pa.table({"topic": ["points"], "partition": [1], "offset": [7], "id": [42], "later": [[1, -2, 3, 4]]})
    parquet.write_table(table, tmp_path / "draws" / "part-0.parquet")
    assert read_draws(tmp_path / "draws") == {("points", 1, 7): Draw(42, [1, -2, 3, 4])}
