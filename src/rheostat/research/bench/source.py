"""``rheostat bench source`` and ``bench shed``: the source ``rheostat-kafka`` beside Spark's own, in one run.

Both read the same topics in the same session with one slot, by turns (ABBA). Alone, the rows go nowhere; with Python as
the next step they pass a ``mapInArrow`` that changes nothing. Shedding is measured on our source, without edges and
with one whose non-drop probability is 1, 0.5 and 0.1, and on Spark's own, with a schedule and without; what counts is
the time of the batches. This module is also the program of their driver.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from rheostat.config.shedding import WHOLE, Sink, declare_shedding
from rheostat.host.java import kafka_connector_jars
from rheostat.lab.lab import LabSpec
from rheostat.load.kafka_sink import ensure_topic
from rheostat.pipelines.running import UNIX_SOCKETS
from rheostat.research.bench.attach import quick_conf
from rheostat.research.bench.harness import (
    Bench,
    Driver,
    Metric,
    Watch,
    abba,
    batches_done,
    ignore_progress,
    lab_and_folder,
    load_note,
    metric,
    run_driver,
    session,
    until,
)
from rheostat.spark.kafka_options import FORMAT
from rheostat.spark.kafka_source import register
from rheostat.spark.orders import Orders, now_ms, write_orders
from rheostat.spark.shedding import Shedding
from rheostat.spark.shedding_schedule import SheddingSchedule

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

OURS, SPARKS = FORMAT, "kafka"
EDGE = "source>sink"
SHARES = (WHOLE, WHOLE // 2, WHOLE // 10)
SCHEDULED_SHARES = SHARES[:2]
_GRAPH = declare_shedding([Sink("sink")])
_LONGEST_S = 1500.0
_YEAR_MS = 366 * 86_400_000
_MOST_US = 1e6 / 300_000
_MOST_FIXED_MS, _MOST_SHED_PERCENT, _MOST_RATIO = 50.0, 3.0, 1.25
_MB = 2**20


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured.

    ``records``: of each topic, by size of a value in bytes. ``pairs``: of runs on either source. ``batches``: of one
    record, for the fixed part.
    """

    records: Mapping[int, int]
    pairs: int = 5
    batches: int = 60


PLAN = Plan({200: 600_000, 1000: 200_000, 10_000: 30_000})
SHED_PLAN = Plan({200: 600_000}, pairs=20)


def run_source(watch: Watch = ignore_progress, plan: Plan = PLAN) -> Bench:
    """Throughput, processor time, fixed part and memory of both sources.

    Raises:
        PartFailedError: a part died; with its name and the end of its log.
    """
    load = os.getloadavg()
    result = _run("source", plan, watch)
    notes = (_note(plan), "Processor time: of the driver, its JVM and all Python workers.", load_note(load))
    return Bench("source", tuple(_source_figures(result)), notes)


def run_shed(watch: Watch = ignore_progress, plan: Plan = SHED_PLAN) -> Bench:
    """What shedders cost, and what is gained by what they drop; raises as :func:`run_source`."""
    load = os.getloadavg()
    result = _run("shed", plan, watch)
    return Bench("shed", tuple(_shed_figures(result)), (_note(plan), load_note(load)))


def _run(name: str, plan: Plan, watch: Watch) -> dict[str, Any]:
    with lab_and_folder(LabSpec(workers=0), watch) as (lab, scratch):
        for size, records in plan.records.items():
            watch(0, 0, f"writing {records} records of {size} bytes")
            _write_topic(lab.broker.bootstrap, size, records)
        jars = ",".join(str(jar) for jar in kafka_connector_jars())
        quick = quick_conf(progress_kept=plan.batches + 20)
        conf = {"spark.master": "local[1]", "spark.jars": jars, UNIX_SOCKETS: "true", **quick}
        job = {"name": name, "plan": asdict(plan), "conf": conf, "bootstrap": lab.broker.bootstrap}
        return Driver.start(lab, __name__, job, scratch / "driver", watch).result(_LONGEST_S)


def _topic(size: int) -> str:
    return f"bytes-{size}"


def _write_topic(bootstrap: str, size: int, records: int) -> None:
    """Values that do not repeat: eight bytes of their number, then those of a fixed noise."""
    from confluent_kafka import Producer

    ensure_topic(bootstrap, _topic(size), 1, create=True)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.kbytes": 65_536})
    noise = np.random.default_rng(1).bytes(size - 8)
    for number in range(records):
        while True:
            try:
                producer.produce(_topic(size), number.to_bytes(8, "big") + noise, partition=0)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    producer.flush()


# --------------------------------------------------------------------------------------------------- the driver


@dataclass(frozen=True, slots=True)
class Run:
    """One read of a whole topic: seconds, processor seconds of all processes, most memory of a Python worker, MB."""

    seconds: float
    cpu_s: float
    python_mb: float


def _drive(job: Mapping[str, Any], folder: Path, watch: Watch) -> dict[str, Any]:
    plan = Plan({int(size): records for size, records in job["plan"].pop("records").items()}, **job["plan"])
    with session(job["conf"], f"rheostat-bench-{job['name']}") as spark:
        register(spark)
        bed = _Bed(spark, job["bootstrap"], plan, folder, watch)
        return bed.measure_sources() if job["name"] == "source" else bed.measure_shedding()


@dataclass(frozen=True)
class _Bed:
    spark: SparkSession
    bootstrap: str
    plan: Plan
    folder: Path
    watch: Watch

    def measure_sources(self) -> dict[str, Any]:
        found: dict[str, Any] = {"throughput": []}
        for size, records in self.plan.records.items():
            for python in (False, True):
                self.watch(0, 0, f"reading records of {size} bytes{', then Python' if python else ''}")
                runs = self._by_turns(lambda name: self._read(name, size, python=python))  # noqa: B023 (called at once)
                found["throughput"].append({"size": size, "records": records, "python": python, **runs})
        self.watch(0, 0, "batches of one record")
        size = min(self.plan.records)
        found["fixed_ms"] = {
            name: self._time_batches(self._load(name, size, maxOffsetsPerTrigger=1), name) for name in (SPARKS, OURS)
        }
        return found

    def measure_shedding(self) -> dict[str, Any]:
        """Runs with an edge at each share, and beside each of them one without; then those on Spark's own source."""
        ((size, records),) = self.plan.records.items()
        found: dict[str, Any] = {"records": records, "shares": {}, "scheduled": {}}
        for share in SHARES:
            self.watch(0, 0, f"shedding at {share / WHOLE:g}")
            path = self.folder / f"orders-{share}.json"
            write_orders(path, Orders(number=1, until_ms=now_ms() + _YEAR_MS, keep={EDGE: share}))
            sheds = self._load(OURS, size, edge=EDGE, orders=str(path))
            found["shares"][str(share)] = self._time_pairs(self._load(OURS, size), sheds, f"{share}")
        for share in SCHEDULED_SHARES:
            self.watch(0, 0, f"shedding on Spark's own source at {share / WHOLE:g}")
            plain = self._load(SPARKS, size)
            found["scheduled"][str(share)] = self._time_pairs(plain, self._shed(plain, share), f"scheduled-{share}")
        self.watch(0, 0, "batches of one record")
        small = self._load(SPARKS, size, maxOffsetsPerTrigger=1)
        kinds = {"without": small, "with": self._shed(small, WHOLE // 2)}
        found["fixed_ms"] = {name: self._time_batches(rows, name) for name, rows in kinds.items()}
        return found

    def _shed(self, rows: DataFrame, share: int) -> DataFrame:
        """The rows of Spark's own source that the edge keeps."""
        schedule = SheddingSchedule(_GRAPH, self.folder / "schedule", {EDGE: share})
        return Shedding(_GRAPH).shed(schedule.add_limits(rows, "source"), "source", "sink")

    def _time_pairs(self, without: DataFrame, sheds: DataFrame, name: str) -> dict[str, list[float]]:
        """Seconds of the batches of queries that read a whole topic, with shedding and without."""
        runs: dict[str, list[float]] = {"with": [], "without": []}
        for turn, drops in enumerate([False, True, *abba(self.plan.pairs)]):
            seconds = self._stream(sheds if drops else without, f"{name}-{turn}")
            if turn > 1:  # the first of either is cold
                runs["with" if drops else "without"].append(seconds)
        return runs

    def _by_turns(self, read: Callable[[str], Run]) -> dict[str, list[dict[str, float]]]:
        runs: dict[str, list[dict[str, float]]] = {SPARKS: [], OURS: []}
        for name in (SPARKS, OURS):
            read(name)  # cold
        for ours in abba(self.plan.pairs):
            name = OURS if ours else SPARKS
            runs[name].append(asdict(read(name)))
        return runs

    def _options(self, size: int, **more: Any) -> dict[str, Any]:
        given = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": _topic(size), "startingOffsets": "earliest"}
        return given | more

    def _read(self, name: str, size: int, *, python: bool) -> Run:
        rows = self.spark.read.format(name).options(**self._options(size)).load()
        return self._timed(lambda: _then(rows, python=python).write.format("noop").mode("overwrite").save())

    def _load(self, name: str, size: int, **more: Any) -> DataFrame:
        return self.spark.readStream.format(name).options(**self._options(size, **more)).load()

    def _stream(self, rows: DataFrame, name: str) -> float:
        writer = rows.select("value").writeStream.format("noop").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(self.folder / f"checkpoint-{name}"))
        query = writer.start()
        query.awaitTermination()
        return float(sum(progress["durationMs"].get("addBatch", 0) for progress in query.recentProgress) / 1000)

    def _timed(self, run: Callable[[], object]) -> Run:
        cpu_s, began = _cpu_s(), time.perf_counter()
        run()
        seconds = time.perf_counter() - began
        return Run(seconds, _cpu_s() - cpu_s, _python_mb())

    def _time_batches(self, rows: DataFrame, name: str) -> list[float]:
        writer = rows.writeStream.format("noop").trigger(processingTime="0 seconds")
        query = writer.option("checkpointLocation", str(self.folder / f"fixed-{name}")).start()
        until(lambda: batches_done(query) >= self.plan.batches + 10, "batches of one record", _LONGEST_S, 0.2)
        query.stop()
        times = [progress["durationMs"]["triggerExecution"] for progress in query.recentProgress]
        return [float(each) for each in times[-self.plan.batches :]]


def _then(rows: DataFrame, *, python: bool) -> DataFrame:
    def same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    values = rows.select("value")
    return values.mapInArrow(same, values.schema) if python else rows


def _processes() -> list[psutil.Process]:
    return [psutil.Process(), *psutil.Process().children(recursive=True)]


def _cpu_s() -> float:
    """Of this driver, its JVM and its Python workers, those that have ended included."""
    total = 0.0
    for process in _processes():
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def _python_mb() -> float:
    """Resident memory of the largest Python worker."""
    sizes = [0.0]
    for process in _processes()[1:]:
        try:
            if "python" in process.name():
                sizes.append(process.memory_info().rss / _MB)
        except psutil.Error:
            continue
    return max(sizes)


# ---------------------------------------------------------------------------------------------------- figures


def _source_figures(result: Mapping[str, Any]) -> Iterator[Metric]:
    for part in result["throughput"]:
        where = f"{part['size']} bytes{', then Python' if part['python'] else ''}"
        ours, theirs = (part[name] for name in (OURS, SPARKS))
        each = 1e6 / part["records"]
        is_smallest = part["size"] == min(p["size"] for p in result["throughput"])
        target = _MOST_US if is_smallest and not part["python"] else None
        yield metric(f"{where}: time a record", [run["seconds"] * each for run in ours], "µs", target=target)
        yield metric(f"{where}: processor time a record", [run["cpu_s"] * each for run in ours], "µs")
        yield metric(f"{where}: processor time a record, Spark's own", [run["cpu_s"] * each for run in theirs], "µs")
        ratios = [a["seconds"] / b["seconds"] for a, b in zip(ours, theirs, strict=True)]
        target = _MOST_RATIO if part["python"] else None
        yield metric(f"{where}: time ÷ that of Spark's own", ratios, "", target=target)
    medians = {name: statistics.median(times) for name, times in result["fixed_ms"].items()}
    more = [ours - theirs for ours, theirs in zip(result["fixed_ms"][OURS], result["fixed_ms"][SPARKS], strict=True)]
    yield metric("a batch of one record, more than Spark's own", more, "ms", target=_MOST_FIXED_MS)
    yield Metric("a batch of one record", medians[OURS], "ms", len(more))
    largest = max(run["python_mb"] for part in result["throughput"] for run in part[OURS])
    yield Metric("largest Python worker", largest, "MB", sum(len(part[OURS]) for part in result["throughput"]))


def _shed_figures(result: Mapping[str, Any]) -> Iterator[Metric]:
    for share, runs in result["shares"].items():
        target = _MOST_SHED_PERCENT if int(share) == WHOLE else None
        yield from _pair_figures(f"d = {int(share) / WHOLE:g}", runs, result["records"], target)
    for share, runs in result["scheduled"].items():
        yield from _pair_figures(f"Spark's own source, d = {int(share) / WHOLE:g}", runs, result["records"])
    fixed = result["fixed_ms"]
    more = [with_ms - without_ms for with_ms, without_ms in zip(fixed["with"], fixed["without"], strict=True)]
    yield metric("Spark's own source, a batch of one record, more than without", more, "ms")
    yield Metric(
        "Spark's own source, a batch of one record, without", statistics.median(fixed["without"]), "ms", len(more)
    )


def _pair_figures(
    name: str, runs: Mapping[str, list[float]], records: int, target: float | None = None
) -> Iterator[Metric]:
    more = [100 * (with_s / without_s - 1) for with_s, without_s in zip(runs["with"], runs["without"], strict=True)]
    yield metric(f"{name}: time, more than without", more, "%", target=target)
    offered = [records / seconds / 1000 for seconds in runs["with"]]
    yield metric(f"{name}: thousand records offered a second", offered, "1000/s")


def _note(plan: Plan) -> str:
    sizes = ", ".join(f"{records} of {size} bytes" for size, records in plan.records.items())
    return (
        f"One slot (local[1]), one partition, a broker on the same machine, {UNIX_SOCKETS}; topics of {sizes}. Each "
        "read is of a whole topic; the first one on either side is not counted."
    )


if __name__ == "__main__":
    sys.exit(run_driver(Path(sys.argv[1]), _drive))
