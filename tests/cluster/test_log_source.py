"""The embedded log read by a real Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from rheostat.load.log_writer import LogWriter
from rheostat.pipelines.click_fraud import session
from rheostat.pipelines.running import ClickFraudSettings
from rheostat.spark.log_source import register

pytestmark = pytest.mark.cluster

Batches = dict[int, list[tuple[int, int, str]]]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    settings = ClickFraudSettings(source="log", log="-", checkpoint="c", out="o")
    conf = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    with session(settings, "local[2]", [], conf) as made:
        register(made)
        yield made


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three partitions with 900, 300 and no records, in segments of 300."""
    with LogWriter(tmp_path / "log", 3) as writer:
        for partition, base in ((0, 0), (0, 300), (1, 0), (0, 600)):
            writer.append(partition, [f"{partition}/{base + index}" for index in range(300)], 1.0)
    return tmp_path / "log"


def read(spark: SparkSession, log: Path, checkpoint: Path, cap: int) -> tuple[Batches, list[Any]]:
    """Run until the end of the log; the rows of each batch in their order, and the progress events."""
    batches: Batches = {}

    def keep(rows: DataFrame, batch_id: int) -> None:
        taken = rows.select("partition", "offset", "value").orderBy("partition", "offset").collect()
        batches[batch_id] = [(row.partition, row.offset, row.value) for row in taken]

    stream = spark.readStream.format("rheostat_log").options(
        path=str(log), startingOffsets="earliest", maxOffsetsPerTrigger=cap
    )
    query = (
        stream.load()
        .writeStream.option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .foreachBatch(keep)
        .start()
    )
    assert query.awaitTermination(120)
    return batches, query.recentProgress


def test_every_record_once_in_order_in_capped_batches(spark: SparkSession, log: Path, tmp_path: Path) -> None:
    batches, progress = read(spark, log, tmp_path / "checkpoint", cap=500)

    assert [len(rows) for rows in batches.values()] == [500, 500, 200]
    rows = sorted(row for batch in batches.values() for row in batch)
    expected = [(p, o, f"{p}/{o}") for p, end in ((0, 900), (1, 300)) for o in range(end)]
    assert rows == expected
    source = progress[0]["sources"][0]
    assert json.loads(source["endOffset"]) == {"log": {"0": 375, "1": 125, "2": 0}}
    assert json.loads(source["latestOffset"]) == {"log": {"0": 900, "1": 300, "2": 0}}


def test_a_batch_that_was_not_committed_is_replayed_identically_though_the_log_has_grown(
    spark: SparkSession, log: Path, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    before, _ = read(spark, log, checkpoint, cap=500)
    for file in (checkpoint / "commits").glob("*2*"):
        file.unlink()
    with LogWriter(log) as writer:
        writer.append(2, ["new"], 2.0)

    after, _ = read(spark, log, checkpoint, cap=7)

    assert after == {2: before[2], 3: [(2, 0, "new")]}


def test_a_missing_folder_is_told_at_load(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match="there is no such folder"):
        spark.readStream.format("rheostat_log").option("path", str(tmp_path / "nowhere")).load()
