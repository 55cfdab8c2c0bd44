"""``rheostat bench attach`` and ``bench controller``: what the autoscaler costs a query, and the machine it runs on.

Attach measures the time of its batches and memory; controller the processor time of an autoscaler that has been
attached for a while. Both run a query of short batches on a real cluster, with the autoscaler attached by turns. This
module is also the program of their driver.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from rheostat.config.models import Settings
from rheostat.errors import RheostatError
from rheostat.host.java import kafka_connector_jars
from rheostat.host.spark_daemons import WorkerSize
from rheostat.lab.lab import Lab, LabSpec
from rheostat.load.kafka_sink import KafkaSink, ensure_topic
from rheostat.load.payload import Payloads, PayloadSpec
from rheostat.research.bench.harness import (
    TOPIC,
    Bench,
    Block,
    Driver,
    Metric,
    Watch,
    abba,
    batches_done,
    compare_means,
    compare_medians,
    ignore_progress,
    lab_and_folder,
    load_note,
    metric,
    run_driver,
    session,
    until,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from rheostat.attachment import Attachment

_LONGEST_S = 1800.0
_EXECUTOR_MB, _PARTITIONS, _SLOTS = 512, 2, 2
_TARGET_PERCENT, _TARGET_MB, _LEAST_A_SIDE = 1.0, 60.0, 1000
_SAMPLE_S: float = Settings.model_fields["sample_s"].default


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run: pairs of blocks of batches, with and without the autoscaler.

    Attributes:
        block, cap: batches of a block, records of a batch.
        lookup_ms: wait of each record.
        sample_s, cycles: between two cycles of the autoscaler, and how many while memory is measured.
        warm_up: batches before anything is measured.
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


_CONTROLLER_PLAN = Plan(pairs=20, block=20, sample_s=0.5, cycles=240, policy="proactive")


def run_attach(watch: Watch = ignore_progress, plan: Plan = Plan()) -> Bench:
    """A thousand batches with the autoscaler, and a thousand without; everything that is started for it ends with it.

    Raises:
        PartFailedError: a part died; with its name and the end of its log.
        RheostatError: the load could not be delivered.
    """
    load = os.getloadavg()
    result = _measure(plan, watch)
    return Bench("attach", figures(result), (*_notes(plan, result), load_note(load)))


def run_controller(watch: Watch = ignore_progress) -> Bench:
    """The policy ``proactive`` beside a real query."""
    plan, load = _CONTROLLER_PLAN, os.getloadavg()
    result = _measure(plan, watch)
    notes = (
        f"The policy {plan.policy} beside the query of `bench attach`, journal on disk, a cycle each {plan.sample_s:g} "
        f"s; the share is that of one core with a cycle each {_SAMPLE_S:g} s, the default.",
        f"Python: processor time of the driver's process over {plan.cycles} cycles, while nothing else runs there. "
        f"JVM: the difference between {len(result['blocks'])} neighbouring blocks of batches with and without it.",
        "The share is judged by the upper end of the JVM's interval, where there is one.",
    )
    return Bench("controller", controller_figures(result["memory"], result["blocks"]), (*notes, load_note(load)))


def _measure(plan: Plan, watch: Watch) -> Mapping[str, Any]:
    size = WorkerSize(cores=_SLOTS, memory_mb=_EXECUTOR_MB)
    with lab_and_folder(LabSpec(workers=1, size=size), watch) as (lab, scratch):
        _fill_topic(lab.broker.bootstrap, plan.records, watch)
        return Driver.start(lab, __name__, _job(plan, lab, scratch), scratch / "driver", watch).result(_LONGEST_S)


def _fill_topic(bootstrap: str, records: int, watch: Watch, chunk: int = 5_000) -> None:
    """Send all records before the query starts, so that the broker is quiet while it runs."""
    ensure_topic(bootstrap, TOPIC, _PARTITIONS, create=True)
    payloads, sink, sent = Payloads(PayloadSpec(key="none")), KafkaSink(bootstrap, TOPIC), 0
    while sent < records:
        sent += sink.send(payloads.make(sent, min(chunk, records - sent), 0.0))
        sink.collect()
        watch(sent, records, "filling the topic")
    receipt = sink.finish(60.0)
    if receipt.error is not None or receipt.failed:
        message = f"the records could not be delivered: {receipt.error}"
        raise RheostatError(message)


# -------------------------------------------------------------------------------------------------------- figures


def figures(result: Mapping[str, Any]) -> list[Metric]:
    """The figures of ``bench attach`` from the driver's result."""
    blocks, memory = _blocks(result), result["memory"]
    difference, at_median = compare_means(blocks), compare_medians(blocks)
    times = [time for block in blocks if not block.attached for time in block.batch_ms]
    return [
        Metric(
            "added batch time, judged by the upper end",
            difference.percent,
            "%",
            len(times),
            difference.ci95,
            _TARGET_PERCENT,
            judged=float("inf") if difference.ci95 is None else difference.ci95[1],
        ),
        Metric("added to the median batch", at_median.percent, "%", len(times), at_median.ci95),
        Metric("batch without, median", float(np.median(times)), "ms", len(times)),
        Metric("added memory of the driver's Python", _added_mb(memory), "MB", 1, target=_TARGET_MB),
        Metric("of it by attaching and the first cycle", memory["first_mb"] - memory["before_mb"], "MB", 1),
        Metric("added heap of the driver's JVM", _added_heap_mb(memory), "MB", 1),
        Metric("processor time of a cycle, Python", 1000 * memory["cycle_s"], "ms", int(memory["cycles"])),
        metric("processor time of a cycle, JVM, by difference", _jvm_cycle_ms(result["blocks"]), "ms"),
        Metric("failed cycles", float(result["failures"]), "cycles", len(blocks)),
    ]


def controller_figures(memory: Mapping[str, float], blocks: Sequence[Mapping[str, Any]]) -> list[Metric]:
    """The figures of ``bench controller``: processor time of a cycle, its share of a core, and memory."""
    python_ms, cycles = 1000 * memory["cycle_s"], int(memory["cycles"])
    jvm = metric("processor time of a cycle, JVM, by difference", _jvm_cycle_ms(blocks), "ms")

    def share(jvm_ms: float | None) -> float | None:
        return None if jvm_ms is None else 100 * (python_ms + jvm_ms) / (1000 * _SAMPLE_S)

    worst = share(jvm.value if jvm.ci95 is None else jvm.ci95[1])
    return [
        Metric("steady share of a core", share(jvm.value), "%", cycles, target=_TARGET_PERCENT, judged=worst),
        Metric("processor time of a cycle, Python", python_ms, "ms", cycles),
        jvm,
        Metric("memory of the driver's Python, added", _added_mb(memory), "MB", 1, target=_TARGET_MB),
        Metric("heap of the driver's JVM, added", _added_heap_mb(memory), "MB", 1),
    ]


def _blocks(result: Mapping[str, Any]) -> list[Block]:
    return [Block(one["attached"], one["batch_ms"]) for one in result["blocks"]]


def _added_mb(memory: Mapping[str, float]) -> float:
    return max(memory["first_mb"], memory["later_mb"]) - memory["before_mb"]


def _added_heap_mb(memory: Mapping[str, float]) -> float:
    return memory["heap_later_mb"] - memory["heap_before_mb"]


def _jvm_cycle_ms(blocks: Sequence[Mapping[str, Any]]) -> list[float]:
    """Processor time of the JVM for each cycle: of a block with the autoscaler, above its neighbour's without."""
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
    interval = compare_means(blocks).ci95
    notes = [
        f"Spark standalone, one executor of {_SLOTS} slots, Kafka with {_PARTITIONS} partitions filled beforehand, "
        f"batches of {plan.cap} records back to back, each record waits {plan.lookup_ms:g} ms; sink: noop.",
        f"Attached with the journal on disk and the policy static; a cycle each {plan.sample_s:g} s, "
        f"{15 / plan.sample_s:.0f} times as often as the default.",
        f"Blocks of {plan.block} batches in the order ABBA, {counted} batches a side; a block begins after the first "
        "cycle. The mean batches of neighbouring blocks are compared; the interval is that of the median over the "
        "pairs.",
        f"Memory: resident set of a fresh driver before attach and after {plan.cycles} cycles; the heap after a "
        "collection, with a query that runs in it.",
    ]
    if interval is None or counted < _LEAST_A_SIDE or interval[0] <= _TARGET_PERCENT < interval[1]:
        notes.append("The added batch time is not resolved: too few batches a side, or the interval spans the target.")
    return tuple(notes)


# ----------------------------------------------------------------------------------------------------- the driver

_TIMEOUT_S = 120.0
_MB = 2**20


def _job(plan: Plan, lab: Lab, scratch: Path) -> dict[str, Any]:
    """The driver's task: the plan, configuration of the session, options of the source, settings of the autoscaler."""
    cluster = lab.cluster.driver_conf(
        executor_cores=_SLOTS, executor_memory_mb=_EXECUTOR_MB, jars=kafka_connector_jars()
    )
    return {
        "plan": asdict(plan),
        "conf": cluster | quick_conf(progress_kept=plan.block + 20),
        "kafka": {
            "kafka.bootstrap.servers": lab.broker.bootstrap,
            "subscribe": TOPIC,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(plan.cap),
        },
        "attach": {
            "objective": "lag < 1h",
            "executors": [1, 1],
            "policy": plan.policy,
            "sample_s": plan.sample_s,
            "journal": str(scratch / "journal"),
        },
    }


def quick_conf(progress_kept: int) -> dict[str, str]:
    """Session settings for short batches with little noise: no web UI, short histories."""
    kept = ("spark.ui.retainedJobs", "spark.ui.retainedStages", "spark.sql.ui.retainedExecutions")
    return {
        "spark.ui.enabled": "false",
        "spark.ui.retainedTasks": "1000",
        "spark.sql.streaming.numRecentProgressUpdates": str(progress_kept),
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        **dict.fromkeys(kept, "20"),
    }


def _rss_mb() -> float:
    """Resident memory of this process, after a garbage collection."""
    gc.collect()
    return psutil.Process().memory_info().rss / _MB


def _jvm_s() -> float:
    """Processor seconds of the JVM so far."""
    jvms = [child for child in psutil.Process().children(recursive=True) if child.name() == "java"]
    times = [jvm.cpu_times() for jvm in jvms]
    return float(sum(one.user + one.system for one in times))


def _heap_mb(spark: SparkSession) -> float:
    """Used heap of the driver's JVM, after a garbage collection."""
    from rheostat.spark.jvm import DriverJvm

    java = DriverJvm(spark).gateway.java.lang
    java.System.gc()
    runtime = java.Runtime.getRuntime()
    return float(runtime.totalMemory() - runtime.freeMemory()) / _MB


class _Turns:
    """Attaches and detaches the autoscaler, and measures."""

    def __init__(
        self, plan: Plan, settings: Mapping[str, Any], spark: SparkSession, query: StreamingQuery, watch: Watch
    ) -> None:
        self._plan, self._settings, self._watch = plan, settings, watch
        self._spark, self._query = spark, query
        self._attachment: Attachment | None = None
        self._failures = 0

    def measure(self) -> dict[str, Any]:
        memory = self._measure_memory()
        blocks, turns = [], abba(self._plan.pairs)
        for number, attached in enumerate(turns):
            self._watch(number, len(turns), "blocks of batches, by turns with and without the autoscaler")
            if not attached:
                self._detach()
            elif self._attachment is None:
                self._attach()
            blocks.append(self._measure_block(attached=attached))
        self._detach()
        return {"memory": memory, "blocks": blocks, "failures": self._failures}

    def _measure_memory(self) -> dict[str, float]:
        """Memory with and without the autoscaler, and a cycle's processor time in Python, while nothing else runs."""
        before, heap = _rss_mb(), _heap_mb(self._spark)
        self._watch(0, 0, "memory and processor time of the autoscaler")
        self._attach()
        first, cpu = _rss_mb(), time.process_time()
        begin = self._cycles()
        until(lambda: self._cycles() >= self._plan.cycles, "cycles of the autoscaler", 30 * _TIMEOUT_S, 0.2)
        cpu = (time.process_time() - cpu) / (self._cycles() - begin)
        memory = {"before_mb": before, "first_mb": first, "later_mb": _rss_mb(), "cycle_s": cpu}
        memory |= {"heap_before_mb": heap, "heap_later_mb": _heap_mb(self._spark), "cycles": float(self._cycles())}
        self._detach()
        return memory

    def _measure_block(self, *, attached: bool) -> dict[str, Any]:
        """The batches that begin after now; the one that runs now is left out."""
        first = batches_done(self._query) + 1
        jvm, cycles, begin = _jvm_s(), self._cycles(), time.monotonic()
        last = first + self._plan.block - 1
        until(lambda: batches_done(self._query) > last, "a block of batches", _TIMEOUT_S, 0.25)
        jvm_s, cycles, seconds = _jvm_s() - jvm, self._cycles() - cycles, time.monotonic() - begin
        batch_ms = self._batch_ms(range(first, last + 1))
        return {"attached": attached, "batch_ms": batch_ms, "jvm_s": jvm_s, "cycles": cycles, "seconds": seconds}

    def _batch_ms(self, numbers: Sequence[int]) -> list[int]:
        progress: dict[int, Any] = {each["batchId"]: each for each in self._query.recentProgress}
        missing = [number for number in numbers if not progress.get(number, {}).get("numInputRows")]
        if missing:
            message = f"batches {missing} are unknown, or had no records"
            raise RheostatError(message)
        return [progress[number]["durationMs"]["triggerExecution"] for number in numbers]

    def _attach(self) -> None:
        """Attach, and wait for the end of the first cycle."""
        from rheostat.attachment import attach

        self._attachment = attach(self._spark, config=self._settings)
        until(lambda: self._cycles() >= 1, "the first cycle", _TIMEOUT_S)

    def _detach(self) -> None:
        if self._attachment is not None:
            self._attachment.stop()
            status = self._attachment.status()
            self._failures += 0 if status is None else status.failures
            self._attachment = None

    def _cycles(self) -> int:
        status = None if self._attachment is None else self._attachment.status()
        return 0 if status is None else status.cycles


def _start_query(plan: Plan, kafka: Mapping[str, str], spark: SparkSession, checkpoint: Path) -> StreamingQuery:
    """The query: Kafka, a wait for each record, nowhere; back to back."""
    lookup_s = plan.lookup_ms / 1000

    def wait(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(batch.num_rows * lookup_s)
            yield batch

    records = spark.readStream.format("kafka").options(**kafka).load().select("value")
    writer = records.mapInArrow(wait, records.schema).writeStream.format("noop")
    return writer.option("checkpointLocation", str(checkpoint)).trigger(processingTime="0 seconds").start()


def _drive(job: Mapping[str, Any], folder: Path, watch: Watch) -> dict[str, Any]:
    plan = Plan(**job["plan"])
    watch(0, 0, "warming up")
    with session(job["conf"], "rheostat-bench-attach") as spark:
        query = _start_query(plan, job["kafka"], spark, folder / "checkpoint")
        until(lambda: batches_done(query) >= plan.warm_up, "warming up", _TIMEOUT_S, 0.2)
        result = _Turns(plan, job["attach"], spark, query, watch).measure()
        query.stop()
    return result


if __name__ == "__main__":
    sys.exit(run_driver(Path(sys.argv[1]), _drive))
