"""Processor time of a real node with fewer CPUs than slots: of its executor, of two queries on it, and of others."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, udf
from pyspark.sql.streaming.query import StreamingQuery
from tests.cluster.sites import Site
from tests.cluster.support import lives

from rheostat.analyze.processors import task_times
from rheostat.lab.lab import Lab
from rheostat.model import ExecutorCpu, NodeCpu, Observation
from rheostat.node.cpu import kept_on
from rheostat.observe.cpu import CpuMeter
from rheostat.observe.driver import DriverSource
from rheostat.observe.nodes import NodesWatch, SourceWithNodes
from rheostat.pipelines.click_fraud import session
from rheostat.pipelines.running import ClickFraudSettings

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def site(field: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("processors") / "node"
    made = Site(field, folder, n_max=1, options=("--name", "small", "--cpus", "0", "--cores", "2"))
    made.create(1)
    made.until_ready(1)
    yield made
    made.end()


@pytest.fixture(scope="module")
def spark(site: Site) -> Iterator[SparkSession]:
    settings = ClickFraudSettings(source="log", log="-", checkpoint="c", out="o")
    conf = {"spark.ui.port": "0", "spark.ui.showConsoleProgress": "false", "spark.cores.max": "2"}
    conf |= {"spark.executor.memory": "512m", "spark.executor.cores": "2"}
    with session(settings, site.lab.cluster.url, [], conf) as made:
        made.sparkContext.setLogLevel("OFF")
        yield made


class Watcher:
    """Looks until an observation is as it shall be."""

    def __init__(self, site: Site, spark: SparkSession) -> None:
        watch = NodesWatch([site.node.client()], None, time.time)
        driver = DriverSource(spark, by_executor=True)
        self.source = SourceWithNodes(driver, watch, CpuMeter(spark.sparkContext.applicationId), placed=False)
        self.site, self.seen = site, Observation(0.0)

    def until(self, holds: Callable[[NodeCpu, ExecutorCpu, Observation], bool], what: str) -> None:
        def check() -> bool:
            time.sleep(1.0)
            self.seen = self.source.observe(time.time())
            use = self.seen.cpu
            return use is not None and bool(use.executors) and holds(use.nodes[0], use.executors[0], self.seen)

        try:
            lives(self.site.lab, check, what)
        except AssertionError as error:
            error.add_note(f"{self.seen.cpu}, {self.seen.gaps}")
            raise


@pytest.fixture
def watcher(site: Site, spark: SparkSession) -> Iterator[Watcher]:
    made = Watcher(site, spark)
    with closing(made.source):
        yield made


@contextmanager
def burning(cpu: int) -> Iterator[None]:
    """Another process keeps a CPU busy."""
    with kept_on({cpu}), subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield
        finally:
            process.kill()


def burn(spark: SparkSession, folder: Path, name: str, records: int) -> StreamingQuery:
    """A query of so many records a batch, each of which takes 10 ms of a CPU in a Python worker."""

    def slow(value: int) -> int:
        end = time.thread_time() + 0.01
        while time.thread_time() < end:
            pass
        return value

    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", records).option("numPartitions", 1)
    rows = source.load().select(udf(slow, "long", useArrow=False)(col("value")).alias("value"))
    stream = rows.writeStream.format("noop").queryName(name).trigger(processingTime="1 second")
    return stream.option("checkpointLocation", str(folder / name)).start()


def test_the_load_of_others_is_the_nodes_and_not_the_executors(watcher: Watcher) -> None:
    with burning(0):
        watcher.until(lambda node, executor, _: node.busy > 0.5 > 2 * executor.busy, "others to be busy")

    use = watcher.seen.cpu
    assert use is not None
    assert use.nodes[0][:2] == ("small", 1), "one CPU, though its Worker has two cores"
    assert (use.executors[0].executor_id, use.executors[0].node) == ("0", "small")
    assert watcher.seen.nodes is None


def test_two_queries_share_an_executor_on_one_cpu(watcher: Watcher, spark: SparkSession, tmp_path: Path) -> None:
    heavy, light = burn(spark, tmp_path, "heavy", 150), burn(spark, tmp_path, "light", 5)

    def shares(seen: Observation) -> dict[str, float]:
        return {each.name or "": task_times(each, seen.at).get("0", 0.0) for each in seen.queries}

    def holds(node: NodeCpu, executor: ExecutorCpu, seen: Observation) -> bool:
        assert executor.busy <= 1.2, "it has one CPU, whatever its slots"
        found = shares(seen)
        return executor.busy > 0.4 and node.busy > 0.5 and found["heavy"] > 3 * found["light"] > 0

    try:
        watcher.until(holds, "both to run, and the CPU to be busy with Python workers")
        stages = {each.name: each.batch.stages for each in watcher.seen.queries if each.batch is not None}
        assert [(work.executor_id, work.records) for work in stages["heavy"][0].by_executor] == [("0", 150)]
        assert [(work.executor_id, work.records) for work in stages["light"][0].by_executor] == [("0", 5)]
    finally:
        heavy.stop()
        light.stop()
