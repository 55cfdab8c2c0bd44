"""``rheostat bench attach``: what attaching costs a query, in the time of its batches and in memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rheostat.bench.attach_driver import Job
from rheostat.bench.measure import Bench, Metric, Watch, metric, unwatched
from rheostat.bench.stage import TOPIC, Driver, load_note, quick_conf
from rheostat.bench.toggled import Block, abba, added, added_at_median
from rheostat.errors import RheostatError
from rheostat.lab.daemons import WorkerSize
from rheostat.lab.jars import kafka_connector_jars
from rheostat.lab.lab import Lab, LabSpec
from rheostat.load.kafka_sink import KafkaSink, ensure_topic
from rheostat.load.payload import Payloads, PayloadSpec

__all__ = ["Plan", "added_mb", "figures", "jvm_cycle_ms", "measured", "run", "run_plan"]

_MODULE = "rheostat.bench.attach_driver"
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


def run(watch: Watch = unwatched) -> Bench:
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
