"""The taxi pipeline without Spark: distances, settings, and the count of what got through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from rheostat.errors import InputError
from rheostat.load.payload import IdChecksum
from rheostat.pipelines.click_fraud import make_wait
from rheostat.pipelines.running import TaxiSettings
from rheostat.pipelines.sink import verify_records
from rheostat.pipelines.taxi_attractions import ATTRACTIONS, PIPELINE, Attraction, squared_distance


@pytest.mark.parametrize(
    ("longitude", "latitude", "distance"),
    [(-74.0, 40.0, 0.0), (-73.997, 40.004, 0.005), (-74.06, 39.92, 0.1), (-74.0, 41.0, 1.0)],
)
def test_the_distance_is_euclidean_in_degrees(longitude: float, latitude: float, distance: float) -> None:
    """3-4-5 triangles around a place at -74, 40."""
    squared = squared_distance(longitude, latitude, Attraction("somewhere", -74.0, 40.0))
    assert squared**0.5 == pytest.approx(distance, abs=1e-9)


def test_three_attractions_in_the_order_of_their_names() -> None:
    assert [place.name for place in ATTRACTIONS] == ["Central Park", "Statue of Liberty", "Times Square"]


def test_a_stage_that_waits_hands_on_what_it_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    batch = pa.RecordBatch.from_pydict({"id": [1, 2, 3], "attraction": ["a", "b", "c"]})
    assert list(make_wait(20.0)([batch])) == [batch]
    assert waits == [0.06]


LOG: dict[str, Any] = {"source": "log", "log": "l", "checkpoint": "c", "out": "o"}


def test_the_settings_say_all_faults_at_once() -> None:
    with pytest.raises(InputError) as caught:
        TaxiSettings(**(LOG | {"log": None, "out": "", "cap": 0, "lookup_ms": -1, "trigger_s": float("nan")}))
    assert [fault.field for fault in caught.value.faults] == ["log", "out", "cap", "trigger_s", "lookup_ms"]


def test_the_program_has_an_option_for_every_setting() -> None:
    given = ["--master=local[1]", "--source=log", "--log=in", "--checkpoint=kept", "--out=out", "--lookup-ms=18"]
    found = PIPELINE.read_settings(PIPELINE.parser().parse_args(given))
    assert (found.log, found.lookup_ms, found.query_name, found.trigger_s) == ("in", 18.0, "taxi_attractions", 2.0)


def write(out: Path, batch: int, *files: list[int], success: bool = True) -> None:
    folder = out / f"batch={batch}"
    folder.mkdir(parents=True)
    for number, ids in enumerate(files):
        table = pa.table({"id": pa.array(ids, pa.int64()), "attraction": ["Times Square"] * len(ids)})
        parquet.write_table(table, folder / f"part-{number}.parquet")
    if success:
        (folder / "_SUCCESS").touch()


def test_every_record_counts_once_for_each_time_that_it_is_there(tmp_path: Path) -> None:
    write(tmp_path, 0, [0, 1], [2])
    write(tmp_path, 1, [3, 3], [])
    write(tmp_path, 2, [4], success=False)
    totals = verify_records(tmp_path)
    assert totals.checksum == IdChecksum().add_many([0, 1, 2, 3, 3])
    assert (totals.batches, totals.incomplete) == (2, ("batch=2",))


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such folder"):
        verify_records(tmp_path / "nowhere")
