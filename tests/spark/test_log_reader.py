"""The log source as Spark calls it, without a JVM."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import StructType

from rheostat.errors import InputError
from rheostat.load.log_writer import LogWriter
from rheostat.spark.log_source import LogSource, LogStreamReader

Offset = dict[str, dict[str, int]]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Partition 0: a0 … a9 in segments of 6 and 4. Partition 1: b0, b1. Partition 2: nothing."""
    with LogWriter(tmp_path / "log", 3) as writer:
        writer.append(0, [f"a{index}" for index in range(6)], 1.0)
        writer.append(0, [f"a{index}" for index in range(6, 10)], 2.0)
        writer.append(1, ["b0", "b1"], 3.0)
    return tmp_path / "log"


def reader(log: Path, **options: str) -> LogStreamReader:
    return LogSource({"path": str(log), **options}).streamReader(StructType())


def offset(*positions: int) -> Offset:
    return {"log": {str(index): position for index, position in enumerate(positions)}}


def values(source: LogStreamReader, start: Offset, end: Offset) -> list[list[str]]:
    """What each task reads; partitions and reader go through pickle, as they do on the way to executors."""
    carried, planned = pickle.loads(pickle.dumps((source, source.partitions(start, end))))  # noqa: S301
    return [[v for batch in carried.read(one) for v in batch.column("value").to_pylist()] for one in planned]


def test_one_task_for_each_partition_with_records_and_only_the_slice_that_is_asked_for(log: Path) -> None:
    assert values(reader(log), offset(4, 1, 0), offset(8, 2, 0)) == [["a4", "a5", "a6", "a7"], ["b1"]]


def test_no_task_when_nothing_has_come(log: Path) -> None:
    assert values(reader(log), offset(10, 2, 0), offset(10, 2, 0)) == []


def test_rows_carry_their_place_in_the_log(log: Path) -> None:
    source = reader(log)
    (task,) = source.partitions(offset(5, 2, 0), offset(7, 2, 0))
    rows = [row for batch in source.read(task) for row in batch.to_pylist()]
    assert [(row["value"], row["partition"], row["offset"], row["topic"]) for row in rows] == [
        ("a5", 0, 5, "log"),
        ("a6", 0, 6, "log"),
    ]
    assert [row["timestamp"].timestamp() for row in rows] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("starting", "expected"),
    [pytest.param("earliest", offset(0, 0, 0), id="earliest"), pytest.param("latest", offset(10, 2, 0), id="latest")],
)
def test_where_a_query_without_a_checkpoint_begins(log: Path, starting: str, expected: Offset) -> None:
    assert reader(log, startingOffsets=starting).initialOffset() == expected


def test_admission_control_by_the_cap(log: Path) -> None:
    source = reader(log, maxOffsetsPerTrigger="6")
    limit = source.getDefaultReadLimit()
    assert limit == ReadMaxRows(6)
    assert source.latestOffset(offset(0, 0, 0), limit) == offset(5, 1, 0)
    assert source.reportLatestOffset() == offset(10, 2, 0)


def test_without_a_cap_a_batch_takes_all(log: Path) -> None:
    source = reader(log)
    assert source.getDefaultReadLimit() == ReadAllAvailable()
    assert source.latestOffset(offset(0, 0, 0), ReadAllAvailable()) == offset(10, 2, 0)


def test_available_now_ends_where_the_log_ended_when_it_began(log: Path) -> None:
    source = reader(log)
    source.prepareForTriggerAvailableNow()
    with LogWriter(log) as writer:
        writer.append(1, ["b2"], 4.0)
    assert source.latestOffset(offset(0, 0, 0), ReadAllAvailable()) == offset(10, 2, 0)
    assert source.reportLatestOffset() == offset(10, 3, 0)


def test_a_large_segment_is_handed_over_in_bounded_batches(tmp_path: Path) -> None:
    with LogWriter(tmp_path / "log", 1) as writer:
        writer.append(0, [str(index) for index in range(40_000)], 1.0)
    source = reader(tmp_path / "log")
    (task,) = source.partitions(offset(1_000), offset(39_000))
    batches = list(source.read(task))
    assert [batch.num_rows for batch in batches] == [16_384, 16_384, 5_232]
    assert [batch.column("value")[0].as_py() for batch in batches] == ["1000", "17384", "33768"]


def test_a_bad_option_and_a_missing_folder_are_told_when_the_stream_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such option"):
        LogSource({"path": str(tmp_path), "subscribe": "t"}).schema()
    with pytest.raises(InputError, match="no such folder"):
        LogSource({"path": str(tmp_path / "nowhere")}).schema()
