"""``rheostat bench attach``: what attaching costs a query, in the time of its batches and in memory."""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from rheostat.errors import RheostatError
from rheostat.host.java import kafka_connector_jars
from rheostat.host.spark_daemons import WorkerSize
from rheostat.lab.lab import Lab, LabSpec
from rheostat.load.kafka_sink import KafkaSink, ensure_topic
from rheostat.load.payload import Payloads, PayloadSpec
from rheostat.research.bench.harness import (
    RESULT,
    TOPIC,
    Bench,
    Block,
    Driver,
    Metric,
    Watch,
    abba,
    added,
    added_at_median,
    batches_done,
    load_note,
    metric,
    progress_in,
    quick_conf,
    session,
    tell,
    until,
    unwatched,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from rheostat.attachment import Attachment


_MODULE = "rheostat.research.bench.attach"
_LONGEST_S = 1800.0
_EXECUTOR_MB, _PARTITIONS, _SLOTS = 512, 2, 2
_CHUNK, _FLUSH_S = 5_000, 60.0
_TARGET_PERCENT, _TARGET_MB, _LEAST_A_SIDE = 1.0, 60.0, 1000


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run.

    Attributes:
        pairs: pairs of blocks, one with and one without the autoscaler.
        block: batches in each.
        cap: records of a batch.
        lookup_ms: wait of each record.
        sample_s: between two cycles of the autoscaler.
        cycles: of the autoscaler while memory is measured.
        warm_up: batches before anything is measured.
        policy: that decides, within one executor.
    """

    pairs: int = 50
    block: int = 20
    cap: int = 40
    lookup_ms: float = 5.0
    sample_s: float = 1.0
    cycles: int = 30
    warm_up: int = 80
    policy: str = "static"

    @property
    def records(self) -> int:
        """Enough for all batches, with those that are not counted."""
        counted = 2 * self.pairs * (self.block + 12)
        seconds = 60 + self.sample_s * (self.cycles + 2 * self.pairs)
        return self.cap * (counted + self.warm_up + round(seconds / 0.1))


def run_attach(watch: Watch = unwatched) -> Bench:
    """A thousand batches with the autoscaler, and a thousand without."""
    return run_plan(Plan(), watch)


def run_plan(plan: Plan, watch: Watch = unwatched) -> Bench:
    """Run a plan; see :func:`measured`."""
    load = os.getloadavg()
    result = measured(plan, watch)
    return Bench("attach", figures(result), (*_notes(plan, result), load_note(load)))


def measured(plan: Plan, watch: Watch = unwatched) -> Mapping[str, Any]:
    """What the driver of a plan writes; everything that is started for it ends with it.

    Raises:
        PartFailedError: a part died; with its name and the end of its log.
        RheostatError: the load could not be delivered.
    """
    spec = LabSpec(workers=1, size=WorkerSize(cores=_SLOTS, memory_mb=_EXECUTOR_MB))
    with (
        tempfile.TemporaryDirectory(prefix="rheostat-bench-") as scratch,
        Lab(spec, say=lambda sentence: watch(0, 0, sentence)) as lab,
    ):
        _fill(lab.broker.bootstrap, plan.records, watch)
        folder = Path(scratch) / "driver"
        driver = Driver.start(lab, _MODULE, _job(plan, lab, Path(scratch)).to_json(), folder, watch)
        return driver.result(_LONGEST_S)


def _job(plan: Plan, lab: Lab, scratch: Path) -> Job:
    cluster = lab.cluster.driver_conf(
        executor_cores=_SLOTS, executor_memory_mb=_EXECUTOR_MB, jars=kafka_connector_jars()
    )
    return Job(
        conf=cluster | quick_conf(progress_kept=plan.block + 20),
        kafka={
            "kafka.bootstrap.servers": lab.broker.bootstrap,
            "subscribe": TOPIC,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(plan.cap),
        },
        lookup_ms=plan.lookup_ms,
        attach={
            "objective": "lag < 1h",
            "executors": [1, 1],
            "policy": plan.policy,
            "sample_s": plan.sample_s,
            "journal": str(scratch / "journal"),
        },
        turns=abba(plan.pairs),
        block=plan.block,
        warm_up=plan.warm_up,
        cycles=plan.cycles,
    )


def _fill(bootstrap: str, records: int, watch: Watch) -> None:
    """All records before the query starts: the broker is quiet while it runs."""
    ensure_topic(bootstrap, TOPIC, _PARTITIONS, create=True)
    payloads, sink, sent = Payloads(PayloadSpec(key="none")), KafkaSink(bootstrap, TOPIC), 0
    while sent < records:
        sent += sink.send(payloads.make(sent, min(_CHUNK, records - sent), 0.0))
        sink.collect()
        watch(sent, records, "filling the topic")
    receipt = sink.finish(_FLUSH_S)
    if receipt.error is not None or receipt.failed:
        message = f"the records could not be delivered: {receipt.error}"
        raise RheostatError(message)


def _blocks(result: Mapping[str, Any]) -> list[Block]:
    return [Block(one["attached"], one["batch_ms"]) for one in result["blocks"]]


def figures(result: Mapping[str, Any]) -> list[Metric]:
    """The figures from what the driver wrote."""
    blocks, memory = _blocks(result), result["memory"]
    difference, at_median = added(blocks), added_at_median(blocks)
    upper = float("inf") if difference.ci95 is None else difference.ci95[1]
    times = [time for block in blocks if not block.attached for time in block.batch_ms]
    return [
        Metric(
            "added batch time, judged by the upper end",
            difference.percent,
            "%",
            len(times),
            difference.ci95,
            _TARGET_PERCENT,
            judged=upper,
        ),
        Metric("added to the median batch", at_median.percent, "%", len(times), at_median.ci95),
        Metric("batch without, median", float(np.median(times)), "ms", len(times)),
        Metric("added memory of the driver's Python", added_mb(memory), "MB", 1, target=_TARGET_MB),
        Metric("of it by attaching and the first cycle", memory["first_mb"] - memory["before_mb"], "MB", 1),
        Metric("added heap of the driver's JVM", memory["heap_later_mb"] - memory["heap_before_mb"], "MB", 1),
        Metric("processor time of a cycle, Python", 1000 * memory["cycle_s"], "ms", int(memory["cycles"])),
        metric("processor time of a cycle, JVM, by difference", jvm_cycle_ms(result["blocks"]), "ms"),
        Metric("failed cycles", float(result["failures"]), "cycles", len(blocks)),
    ]


def added_mb(memory: Mapping[str, float]) -> float:
    """What attaching and the cycles since add to the resident set of the driver's Python."""
    return max(memory["first_mb"], memory["later_mb"]) - memory["before_mb"]


def jvm_cycle_ms(blocks: Sequence[Mapping[str, Any]]) -> list[float]:
    """What the JVM computes in a block with the autoscaler more than in its neighbour without, for each cycle."""
    more = []
    for one, other in zip(blocks[::2], blocks[1::2], strict=True):
        attached, without = (one, other) if one["attached"] else (other, one)
        usual = without["jvm_s"] / without["seconds"] * attached["seconds"]
        if attached["cycles"]:
            more.append(1000 * (attached["jvm_s"] - usual) / attached["cycles"])
    return more


def _notes(plan: Plan, result: Mapping[str, Any]) -> tuple[str, ...]:
    blocks = _blocks(result)
    counted = sum(len(block.batch_ms) for block in blocks if block.attached)
    difference = added(blocks)
    notes = [
        f"Spark standalone, one executor of {_SLOTS} slots, Kafka with {_PARTITIONS} partitions filled beforehand, "
        f"batches of {plan.cap} records back to back, each record waits {plan.lookup_ms:g} ms; sink: noop.",
        f"Attached: all of it, journal on disk, the policy static at the present number; a cycle each "
        f"{plan.sample_s:g} s, {15 / plan.sample_s:.0f} times as often as the default.",
        f"Blocks of {plan.block} batches in the order ABBA, {counted} batches a side. A block begins when the first "
        "cycle has ended; the batch that runs then is not counted. Compared are the mean batches of neighbouring "
        "blocks; the interval is that of the median over the pairs. Batch times are Spark's, in whole ms.",
        f"Memory: resident set of a fresh driver before attach and after {plan.cycles} cycles; the heap after a "
        "collection, with a query that runs in it.",
    ]
    resolved = difference.ci95 is not None and counted >= _LEAST_A_SIDE
    if not resolved or (difference.ci95 and difference.ci95[0] <= _TARGET_PERCENT < difference.ci95[1]):
        notes.append("The added batch time is not resolved: too few batches a side, or the interval spans the target.")
    return tuple(notes)


# The driver of ``rheostat bench attach``: a query of short batches, with the autoscaler attached by turns.


_TIMEOUT_S = 120.0
_MB = 2**20


@dataclass(frozen=True, slots=True)
class Job:
    """What the driver is told.

    Attributes:
        conf: the session's configuration.
        kafka: options of the source.
        lookup_ms: wait of each record.
        attach: the autoscaler's settings.
        turns: for each block, whether the autoscaler is attached.
        block: batches that are counted in each.
        warm_up: batches before anything is measured.
        cycles: of the autoscaler while memory is measured.
    """

    conf: Mapping[str, str]
    kafka: Mapping[str, str]
    lookup_ms: float
    attach: Mapping[str, Any]
    turns: Sequence[bool]
    block: int = 20
    warm_up: int = 80
    cycles: int = 30

    def to_json(self) -> dict[str, Any]:
        """As a JSON value."""
        return asdict(self)


class _Cost:
    """Memory and processor time of this Python process, and processor time of its JVM."""

    def __init__(self) -> None:
        self._python = psutil.Process()
        self._jvms = [child for child in self._python.children(recursive=True) if child.name() == "java"]

    def rss_mb(self) -> float:
        """Resident memory of the Python process, after a collection."""
        gc.collect()
        return self._python.memory_info().rss / _MB

    def jvm_s(self) -> float:
        """Processor seconds of the JVM so far."""
        times = [jvm.cpu_times() for jvm in self._jvms]
        return float(sum(one.user + one.system for one in times))


def heap_mb(spark: SparkSession) -> float:
    """Heap of the driver's JVM that is in use after a collection."""
    from rheostat.spark.jvm import DriverJvm

    java = DriverJvm(spark).gateway.java.lang
    java.System.gc()
    runtime = java.Runtime.getRuntime()
    return float(runtime.totalMemory() - runtime.freeMemory()) / _MB


class _Turns:
    """Attaches and detaches."""

    def __init__(
        self, job: Job, spark: SparkSession, query: StreamingQuery, watch: Callable[[int, int, str], None]
    ) -> None:
        self._job, self._spark, self._query, self._watch = job, spark, query, watch
        self._cost = _Cost()
        self._attachment: Attachment | None = None
        self._failures = 0

    def memory(self) -> dict[str, float]:
        """What attaching adds to memory, and a cycle's processor time in Python, while nothing else runs there."""
        before = self._cost.rss_mb()
        heap = heap_mb(self._spark)
        self._watch(0, 0, "memory and processor time of the autoscaler")
        attachment = self._attach()
        first, cpu = self._cost.rss_mb(), time.process_time()
        begun = self._cycles()
        until(lambda: self._cycles() >= self._job.cycles, "cycles of the autoscaler", 30 * _TIMEOUT_S, 0.2)
        cpu = (time.process_time() - cpu) / (self._cycles() - begun)
        found = {"before_mb": before, "first_mb": first, "later_mb": self._cost.rss_mb(), "cycle_s": cpu}
        found |= {"heap_before_mb": heap, "heap_later_mb": heap_mb(self._spark), "cycles": float(self._cycles())}
        self._detach(attachment)
        return found

    def blocks(self) -> Iterator[dict[str, Any]]:
        """The blocks in turn."""
        for number, attached in enumerate(self._job.turns):
            self._watch(number, len(self._job.turns), "blocks of batches, by turns with and without the autoscaler")
            self._turn(attached)
            yield self._block(attached)
        self._turn(False)  # noqa: FBT003

    def failures(self) -> int:
        """Cycles that failed, over all attachments."""
        return self._failures

    def _turn(self, attached: bool) -> None:
        if attached and self._attachment is None:
            self._attachment = self._attach()
        elif not attached and self._attachment is not None:
            self._detach(self._attachment)
            self._attachment = None

    def _block(self, attached: bool) -> dict[str, Any]:
        """The batches that begin after now; the one that runs now is left out."""
        first = batches_done(self._query) + 1
        jvm, cycles, begun = self._cost.jvm_s(), self._cycles(), time.monotonic()
        last = first + self._job.block - 1
        until(lambda: batches_done(self._query) > last, "a block of batches", _TIMEOUT_S, 0.25)
        spent = {
            "jvm_s": self._cost.jvm_s() - jvm,
            "cycles": self._cycles() - cycles,
            "seconds": time.monotonic() - begun,
        }
        return {"attached": attached, "batch_ms": self._batch_ms(first, last), **spent}

    def _batch_ms(self, first: int, last: int) -> list[int]:
        found: dict[int, Any] = {each["batchId"]: each for each in self._query.recentProgress}
        missing = [number for number in range(first, last + 1) if not found.get(number, {}).get("numInputRows")]
        if missing:
            message = f"batches {missing} are not known, or had no records"
            raise RheostatError(message)
        return [found[number]["durationMs"]["triggerExecution"] for number in range(first, last + 1)]

    def _attach(self) -> Attachment:
        """Attach, and wait for the end of the first cycle."""
        from rheostat.attachment import attach

        made = attach(self._spark, config=self._job.attach)
        self._attachment = made
        until(lambda: self._cycles() >= 1, "the first cycle", _TIMEOUT_S)
        return made

    def _detach(self, attachment: Attachment) -> None:
        attachment.stop()
        status = attachment.status()
        self._failures += 0 if status is None else status.failures
        self._attachment = None

    def _cycles(self) -> int:
        status = None if self._attachment is None else self._attachment.status()
        return 0 if status is None else status.cycles


def waiting(lookup_ms: float) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for ``mapInArrow``: waits for each record."""

    def stage(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(batch.num_rows * lookup_ms / 1000)
            yield batch

    return stage


def start(job: Job, spark: SparkSession, checkpoint: Path) -> StreamingQuery:
    """The query: Kafka, a wait for each record, nowhere; back to back."""
    records = spark.readStream.format("kafka").options(**job.kafka).load().select("value")
    waited = records.mapInArrow(waiting(job.lookup_ms), records.schema)
    writer = waited.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    return writer.trigger(processingTime="0 seconds").start()


def main(argv: Sequence[str]) -> int:
    """Run the job in a folder; the exit code is that of the error, 0 without one."""
    folder = Path(argv[0])
    job = Job(**json.loads((folder / "job.json").read_text(encoding="utf-8")))
    watch = progress_in(folder)
    try:
        watch(0, 0, "warming up")
        with session(job.conf, "rheostat-bench-attach") as spark:
            query = start(job, spark, folder / "checkpoint")
            until(lambda: batches_done(query) >= job.warm_up, "warming up", _TIMEOUT_S, 0.2)
            turns = _Turns(job, spark, query, watch)
            memory = turns.memory()
            result = {"memory": memory, "blocks": list(turns.blocks()), "failures": turns.failures()}
            query.stop()
    except RheostatError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    tell(folder / RESULT, result)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
