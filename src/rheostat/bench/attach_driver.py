"""The driver of ``rheostat bench attach``: a query of short batches, with the autoscaler attached by turns.

``python -m rheostat.bench.attach_driver FOLDER``; what is in FOLDER/job.json: see :class:`Job`. Nothing of the
autoscaler is imported before the memory of this process has been read for the first time.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from rheostat.bench.inside import RESULT, batches_done, progress_in, session, tell, until
from rheostat.errors import RheostatError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from rheostat.attachment import Attachment

__all__ = ["Job", "main"]

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
    from rheostat.jvm.reading import DriverJvm

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
