"""Attaching to real sessions: what is refused, what is seen, what stays."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.cluster.support import EXECUTOR_MB, TIMEOUT_S, Journal, until, worker

import rheostat
from rheostat.config.models import MetricsSettings
from rheostat.errors import InputError, RefusedError
from rheostat.host.spark_daemons import free_ports
from rheostat.lab.lab import Lab
from rheostat.load.log_writer import LogWriter
from rheostat.metrics import JobMetrics, serve
from rheostat.spark.levers import SparkLevers
from rheostat.spark.log_source import register

pytestmark = pytest.mark.cluster

QUIET = {"spark.ui.port": "0", "spark.ui.showConsoleProgress": "false"}


@contextmanager
def session(conf: Mapping[str, str], environment: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as here:
        for name, value in (environment or {}).items():
            here.setenv(name, value)
        builder = SparkSession.builder.appName("test-attach")
        for key, value in {**conf, **QUIET}.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        try:
            spark.sparkContext.setLogLevel("OFF")
            register(spark)
            yield spark
        finally:
            spark.stop()


@pytest.fixture(scope="module")
def narrow(field: Lab) -> Iterator[SparkSession]:
    """A session that can never have more than two executors. While it lives, no other can be made."""
    conf = field.cluster.driver_conf(executor_memory_mb=EXECUTOR_MB) | {"spark.cores.max": "2"}
    with worker(field, cores=2), session(conf, field.cluster.driver_environment()) as spark:
        yield spark


@contextmanager
def streaming(spark: SparkSession, folder: Path, name: str) -> Iterator[StreamingQuery]:
    """A query upon a log of two partitions."""
    log = folder / f"log-{name}"
    with LogWriter(log, 2) as writer:
        writer.append(0, ["x"] * 10, time.time())
    stream = spark.readStream.format("rheostat_log").options(path=str(log), startingOffsets="earliest").load()
    checkpoint = str(folder / f"checkpoint-{name}")
    sink = stream.writeStream.format("noop").queryName(name).option("checkpointLocation", checkpoint)
    query = sink.trigger(processingTime="5 seconds").start()
    try:
        until(lambda: query.lastProgress is not None, "the first batch")
        yield query
    finally:
        query.stop()


def names(journal: Journal) -> set[str | None]:
    """Names of the queries in the last observation."""
    cycles = journal.cycles()
    seen = cycles[-1].observation if cycles else None
    return {query.name for query in seen.queries} if seen is not None else set()


def test_a_local_master_is_refused() -> None:
    with session({"spark.master": "local[2]"}) as spark, pytest.raises(RefusedError) as caught:
        rheostat.attach(spark, objective="lag < 30s", executors=(1, 3))

    assert [(fault.field, fault.given) for fault in caught.value.faults] == [("spark.master", "local[2]")]


def test_dynamic_allocation_is_refused_together_with_what_else_is_wrong(field: Lab) -> None:
    conf = field.cluster.driver_conf(executor_memory_mb=EXECUTOR_MB) | {"spark.cores.max": "2"}
    conf |= {"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.shuffleTracking.enabled": "true"}
    with session(conf, field.cluster.driver_environment()) as spark, pytest.raises(RefusedError) as caught:
        rheostat.attach(spark, objective="lag < 30s", executors=(1, 3))

    assert [fault.field for fault in caught.value.faults] == ["spark.dynamicAllocation.enabled", "spark.cores.max"]


def test_everything_that_cannot_work_is_told_at_once(narrow: SparkSession, tmp_path: Path) -> None:
    with streaming(narrow, tmp_path, "one"), pytest.raises(RefusedError) as caught:
        rheostat.attach(narrow, objective="lag < 8s", executors=(1, 3))

    assert [fault.field for fault in caught.value.faults] == ["spark.cores.max", "objective"]


def test_what_cannot_be_scaled_can_be_watched(narrow: SparkSession, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    settings = {"profile": "demo", "sample_s": 0.5}
    with (
        streaming(narrow, tmp_path, "one"),
        rheostat.attach(
            narrow, objective="lag < 8s", executors=(1, 3), mode="watch", journal=journal.folder, config=settings
        ) as attachment,
    ):
        until(lambda: names(journal) == {"one"}, "the query to be seen")
        status = attachment.status()

    assert status is not None
    assert (status.mode, status.failures) == ("watch", 0)


def test_a_second_autoscaler_is_refused_until_the_first_is_stopped(narrow: SparkSession) -> None:
    first = rheostat.attach(narrow, objective="lag < 30s", executors=(1, 2))
    with first, pytest.raises(RefusedError, match="a second autoscaler"):
        rheostat.attach(narrow, objective="lag < 30s", executors=(1, 2))

    rheostat.attach(narrow, objective="lag < 30s", executors=(1, 2)).stop()


def test_queries_started_before_and_after_are_seen_and_stopping_leaves_the_executors(
    narrow: SparkSession, tmp_path: Path
) -> None:
    levers = SparkLevers(narrow)
    levers.request_total(2)
    until(lambda: len(levers.registered()) == 2, "two executors")
    journal = Journal(tmp_path / "journal")
    settings = {"profile": "demo", "sample_s": 0.5}
    with streaming(narrow, tmp_path, "before"):
        attachment = rheostat.attach(
            narrow, objective="lag < 30s", executors=(1, 2), mode="dry-run", journal=journal.folder, config=settings
        )
        with attachment, streaming(narrow, tmp_path, "after"):
            until(lambda: names(journal) == {"before", "after"}, "both queries to be seen")

    attachment.stop()
    assert len(levers.registered()) == 2


def told(port: int) -> dict[str, float]:
    """The samples of a scrape by name and partition."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT_S) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        samples = [sample for family in families for sample in family.samples]
    return {sample.name + sample.labels.get("partition", ""): sample.value for sample in samples}


def test_a_scrape_of_a_live_attachment_shows_backlog_and_executors(narrow: SparkSession, tmp_path: Path) -> None:
    until(lambda: len(SparkLevers(narrow).registered()) == 2, "two executors")
    port = free_ports(1)[0]
    settings = {"profile": "demo", "sample_s": 0.5, "metrics": {"port": port}}
    scrapes: list[dict[str, float]] = []

    def behind() -> bool:
        writer.append(1, ["x"], time.time())
        scrapes.append(told(port))
        return scrapes[-1].get("rheostat_backlog_records", 0) > 0

    with (
        streaming(narrow, tmp_path, "one"),
        LogWriter(tmp_path / "log-one", 2) as writer,
        rheostat.attach(narrow, objective="lag < 30s", executors=(1, 2), mode="dry-run", config=settings),
    ):
        until(behind, "a backlog")
        with pytest.raises(InputError) as caught:
            serve(MetricsSettings(port=port), JobMetrics())

    found = scrapes[-1]
    latest = [found[f"rheostat_latest_offset_records{partition}"] for partition in (0, 1)]
    committed = [found[f"rheostat_committed_offset_records{partition}"] for partition in (0, 1)]
    assert (latest[0], committed[0]) == (10, 10)
    assert found["rheostat_backlog_records"] == latest[1] - committed[1]
    assert found["rheostat_registered_executors"] == 2
    assert found["rheostat_failed_cycles_total"] == 0
    assert [fault.field for fault in caught.value.faults] == ["metrics.port"]
    with pytest.raises(urllib.error.URLError):
        told(port)


def test_switched_off_it_leaves_a_real_session_alone(narrow: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RHEOSTAT_DISABLED", "1")
    with rheostat.attach(narrow, objective="lag < 30s", executors=(1, 3)) as attachment:
        assert attachment.status() is None
