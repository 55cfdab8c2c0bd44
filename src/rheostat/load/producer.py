"""The producer: open loop, so what the load does never depends on how the pipeline fares.

Records are due at the times of a :class:`Schedule`. Every tick sends what is due. A producer
that is held up (a full queue, a busy machine) sends late what it owes, and reports how late it was.

The timestamp in a record is the wall time of its production, not the time it was due: event-time windows downstream
then see what a real source would have sent. In a producer that keeps up the two differ by a tick at most.
"""

from __future__ import annotations

import math
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from rheostat.load.checksum import IdChecksum
from rheostat.load.curves import RateCurve, constant
from rheostat.load.payload import RecordMaker, Records
from rheostat.ports import Clock

_LONG_S = 1e9


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """How a producer works.

    Attributes:
        tick_s: seconds between two looks at the schedule; records are up to so late even when all is well.
        largest_batch: records handed over at once, so that a late producer still hears that it is to stop.
        flush_s: seconds to wait at the end for acknowledgements, longer than a sink keeps trying.
        stop_flush_s: the same, when it was stopped.
    """

    tick_s: float = 0.02
    largest_batch: int = 5_000
    flush_s: float = 310.0
    stop_flush_s: float = 15.0


@dataclass(frozen=True, slots=True)
class Lateness:
    """How much later than due records were handed over, in seconds; None if there were none.

    Attributes:
        max_s: of the latest record.
        p95_s: 95 % of the records were not later (to the millisecond above).
        behind_at_end_s: at the end of the curve, or when stopped, the age of the oldest record still owed; 0: none was.
    """

    max_s: float | None
    p95_s: float | None
    behind_at_end_s: float


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """Where a run is. ``t`` is None during the warm-up; ``late_s`` is that of the newest records."""

    t: float | None
    rate: float
    sent: int
    late_s: float


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What a run delivered.

    Attributes:
        records: acknowledged records, warm-up included.
        scheduled: records of the curve.
        warmup_records: those handed over before the go.
        in_doubt: handed over, but neither acknowledged nor known to be lost when the run ended.
        checksum: of the acknowledged ids.
        first_id: of this run; the next run may begin at ``next_id``.
        next_id: the id after the last one handed over.
        size: bytes of the acknowledged values.
        failed: records that the sink gave up; they are among those in doubt.
        error: why the sink could go on no longer; None: it could.
        lateness: of the curve's records.
        began_at: epoch seconds of the first tick.
        go_at: epoch seconds of the curve's time 0; None if it never came.
        seconds: from the go to the last record handed over or the end of the curve; flushing not included.
        stopped: whether it ended before the curve did.
    """

    records: int
    scheduled: int
    warmup_records: int
    in_doubt: int
    checksum: IdChecksum
    first_id: int
    next_id: int
    size: int
    failed: int
    error: str | None
    lateness: Lateness
    began_at: float
    go_at: float | None
    seconds: float
    stopped: bool

    @property
    def whole(self) -> bool:
        """Whether all that was handed over is acknowledged."""
        return self.error is None and self.in_doubt == 0


@dataclass(slots=True)
class _Tally:
    """What a run has done so far."""

    sent: int = 0
    warmup: int = 0
    checksum: IdChecksum = field(default_factory=IdChecksum)
    size: int = 0
    failed: int = 0
    error: str | None = None
    max_s: float | None = None
    by_ms: Counter[int] = field(default_factory=Counter)
    newest_s: float = 0.0
    behind_s: float = 0.0

    def receive(self, receipt: Receipt) -> None:
        self.checksum = self.checksum.add_many(receipt.acknowledged)
        self.size += receipt.size
        self.failed += receipt.failed
        self.error = self.error or receipt.error

    def late(self, first_s: float, last_s: float, count: int) -> None:
        """A batch whose first record was late by ``first_s`` and whose last by ``last_s``; between, in proportion."""
        self.max_s = max(self.max_s or 0.0, first_s)
        self.newest_s = max(0.0, last_s)
        for part, records in enumerate(_split(count, 8)):
            late_s = first_s + (last_s - first_s) * part / 8
            self.by_ms[max(0, math.ceil(late_s * 1000))] += records

    def lateness(self) -> Lateness:
        return Lateness(self.max_s, _percentile(self.by_ms, 0.95), self.behind_s)


class OpenLoopProducer:
    """Plays one load into a sink, in the thread that calls :meth:`run`.

    Args:
        sink: finished when the run ends.
        payloads: what the records say.
        clock: its ``wait`` says when to stop; a :class:`RunClock` if none is given.
        settings: how it works.
        watch: called with the progress at each tick; must be quick.
    """

    def __init__(
        self,
        sink: Sink,
        payloads: RecordMaker,
        clock: Clock | None = None,
        settings: ProducerSettings | None = None,
        watch: Callable[[LoadProgress], None] | None = None,
    ) -> None:
        self._sink, self._payloads = sink, payloads
        self._clock: Clock = clock or RunClock()
        self._settings = settings or ProducerSettings()
        self._watch = watch
        self._tally = _Tally()

    def run(
        self,
        curve: RateCurve,
        start: threading.Event | Callable[[], bool] | None = None,
        warmup_rate: float = 0.0,
    ) -> LoadResult:
        """Play a curve to its end, or until the clock says stop, or until the sink gives up. Once per producer.

        Args:
            curve: the load.
            start: what says go: an event, or a question that is asked at each tick. Until then the warm-up goes on;
                its time 0 is the go. None: at once.
            warmup_rate: records/s before the go.

        Raises:
            RheostatError: the sink is broken. It has been finished then.
        """
        tally, schedule = self._tally, Schedule(curve)
        began_at = self._clock.now()
        go_at, ended_at = None, began_at
        try:
            if self._warm_up(start, warmup_rate):
                go_at = self._clock.now()
                self._play(schedule, go_at, None)
            ended_at = self._clock.now()
        except BaseException:
            self._sink.finish(0.0)
            raise
        stopped = go_at is None or tally.sent - tally.warmup < schedule.total or ended_at - go_at < schedule.duration
        tally.receive(self._sink.finish(self._settings.stop_flush_s if stopped else self._settings.flush_s))
        first_id = self._payloads.first_id
        return LoadResult(
            records=tally.checksum.count,
            scheduled=schedule.total,
            warmup_records=tally.warmup,
            in_doubt=tally.sent - tally.checksum.count,
            checksum=tally.checksum,
            first_id=first_id,
            next_id=first_id + tally.sent,
            size=tally.size,
            failed=tally.failed,
            error=tally.error,
            lateness=tally.lateness(),
            began_at=began_at,
            go_at=go_at,
            seconds=0.0 if go_at is None else ended_at - go_at,
            stopped=stopped,
        )

    def _warm_up(self, start: threading.Event | Callable[[], bool] | None, rate: float) -> bool:
        """Play a constant rate until the go; False if the run is to end before it."""
        if start is None:
            return True
        told = start.is_set if isinstance(start, threading.Event) else start
        going = self._play(Schedule(constant(rate, _LONG_S)), self._clock.now(), told)
        self._tally.warmup = self._tally.sent
        return going

    def _play(self, schedule: Schedule, from_s: float, until: Callable[[], bool] | None) -> bool:
        """Send what is due, tick by tick, until the schedule is done or ``until`` says so; False: to be stopped."""
        tally, before = self._tally, self._tally.sent
        over = False
        while True:
            t = self._clock.now() - from_s
            owed = schedule.due(t) - (tally.sent - before)
            taken = self._send(owed)
            if taken and until is None:
                self._note_lateness(schedule, tally.sent - before - taken, taken, t)
            tally.receive(self._sink.collect())
            self._tell(schedule, t, warming=until is not None)
            done = tally.sent - before
            if t >= schedule.duration and not over:
                over = True
                tally.behind_s = _behind(schedule, done, schedule.duration)
            if until is not None and until():
                return True
            if t >= schedule.duration and done == schedule.total:
                return True
            if self._clock.wait(self._pause(t, taken)) or tally.error is not None:
                tally.behind_s = tally.behind_s if over else _behind(schedule, done, t)
                return False

    def _send(self, owed: int) -> int:
        """Hand over what is owed, but no more than one batch; returns how many the sink took."""
        if owed <= 0:
            return 0
        count = min(owed, self._settings.largest_batch)
        taken = self._sink.send(self._payloads.make(self._tally.sent, count, self._clock.now()))
        self._tally.sent += taken
        return taken

    def _note_lateness(self, schedule: Schedule, first: int, count: int, t: float) -> None:
        self._tally.late(t - schedule.due_at(first), t - schedule.due_at(first + count - 1), count)

    def _pause(self, t: float, taken: int) -> float:
        """Seconds to the next tick, on a grid that does not drift; none after a whole batch: there may be more."""
        if taken == self._settings.largest_batch:
            return 0.0
        tick = self._settings.tick_s
        left = tick - t % tick
        return left if left > tick / 10 else left + tick

    def _tell(self, schedule: Schedule, t: float, *, warming: bool) -> None:
        if self._watch is not None:
            progress = LoadProgress(
                None if warming else t, schedule.curve.rate(t), self._tally.sent, self._tally.newest_s
            )
            self._watch(progress)


def _behind(schedule: Schedule, done: int, t: float) -> float:
    """Age at ``t`` of the oldest record owed."""
    return max(0.0, t - schedule.due_at(done)) if done < schedule.due(t) else 0.0


def _split(count: int, parts: int) -> Sequence[int]:
    """A number as a sum of nearly equal ones."""
    return [count * (part + 1) // parts - count * part // parts for part in range(parts)]


def _percentile(by_ms: Counter[int], share: float) -> float | None:
    left = share * by_ms.total()
    for late_ms in sorted(by_ms):
        left -= by_ms[late_ms]
        if left <= 0:
            return late_ms / 1000
    return None


# When each record is due: the inverse of a rate curve's integral. Open loop: nobody's pace but the curve's counts.


_ROUNDING = 1e-6
_HALVINGS = 60


class Schedule:
    """Record k (from 0) is due at the first moment t with ``cumulative(t) ≥ k + 1``.

    A millionth of a record is forgiven, so that 0.1 records/s for 30 s is three records whatever the rounding.

    >>> from rheostat.load.curves import constant
    >>> schedule = Schedule(constant(100, 10))
    >>> schedule.total, schedule.due(0.995), round(schedule.due_at(99), 6)
    (1000, 99, 1.0)
    """

    def __init__(self, curve: RateCurve) -> None:
        self.curve = curve
        self.duration = curve.duration
        self.total = self._records(curve.duration)

    def due(self, t: float) -> int:
        """How many records are due by ``t`` seconds: those with numbers below this."""
        return min(self._records(t), self.total)

    def due_at(self, record: int) -> float:
        """Seconds at which a record is due.

        Raises:
            IndexError: the curve has no such record.
        """
        if not 0 <= record < self.total:
            message = f"record {record} of {self.total}"
            raise IndexError(message)
        low, high = 0.0, self.duration
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if self._records(middle) > record:
                high = middle
            else:
                low = middle
            if high - low < 1e-6:
                break
        return high

    def _records(self, t: float) -> int:
        return math.floor(self.curve.cumulative(t) + _ROUNDING)


# The time by which a load runs.


class RunClock:
    """Epoch seconds that run evenly: set by the wall clock once, then monotonic, so that a load is not set back.

    Attributes:
        stop: set it, from any thread or a signal handler, to end the run.
    """

    def __init__(self, stop: threading.Event | None = None) -> None:
        self.stop = stop or threading.Event()
        self._shift = time.time() - time.monotonic()

    def now(self) -> float:
        """Seconds of the epoch."""
        return self._shift + time.monotonic()

    def wait(self, seconds: float) -> bool:
        """Wait; True if the run is to end."""
        return self.stop.wait(seconds)


# Where records go: the door between the producer and Kafka, the log on disk, or memory.


@dataclass(frozen=True, slots=True)
class Receipt:
    """What has become certain since the receipt before.

    Attributes:
        acknowledged: ids of records that are stored for good.
        size: their values' size, in bytes.
        failed: records given up by the sink. They may or may not be stored.
        error: why the sink can go on no longer, in words; None: all is well.
    """

    acknowledged: Sequence[int] = ()
    size: int = 0
    failed: int = 0
    error: str | None = None


class Sink(Protocol):
    """Takes records, and says later which are stored. Used by one thread."""

    def send(self, records: Records) -> int:
        """Take as many as there is room for, from the first on; returns how many. Does not wait for long."""
        ...

    def collect(self) -> Receipt:
        """What has become certain. Does not wait."""
        ...

    def finish(self, timeout_s: float) -> Receipt:
        """Store what is left, in this time at most; then nothing is stored any more. May be called more than once."""
        ...


@lru_cache(maxsize=65_536)
def partition_of(key: str, partitions: int) -> int:
    """The partition of a key: CRC-32 modulo their number, as librdkafka's ``consistent`` partitioner has it.

    >>> partition_of("a", 8), partition_of("b", 8)
    (3, 1)
    """
    return zlib.crc32(key.encode()) % partitions


@dataclass(slots=True)
class MemorySink:
    """A sink for tests.

    Attributes:
        room: records it takes at once; None: any number.
        holds: whether it keeps records unacknowledged; at the end they stay in doubt.
        fails: ids that it gives up.
        stored: the values, in order.
    """

    room: int | None = None
    holds: bool = False
    fails: frozenset[int] = frozenset()
    stored: list[str] = field(default_factory=list)
    finished: bool = False
    _open: list[tuple[int, str]] = field(default_factory=list)

    def send(self, records: Records) -> int:
        """Take up to ``room`` records."""
        taken = len(records) if self.room is None else min(self.room, len(records))
        self._open += [(records.first_id + index, value) for index, value in enumerate(records.values[:taken])]
        return taken

    def collect(self) -> Receipt:
        """Acknowledge all that it took, unless it holds them."""
        if self.holds:
            return Receipt()
        done = [(record_id, value) for record_id, value in self._open if record_id not in self.fails]
        failed = len(self._open) - len(done)
        self._open = []
        self.stored += [value for _, value in done]
        size = sum(len(value) for _, value in done)
        return Receipt([record_id for record_id, _ in done], size, failed, "told to fail" if failed else None)

    def finish(self, timeout_s: float) -> Receipt:  # noqa: ARG002 (it never waits)
        """The last receipt."""
        self.finished = True
        return self.collect()
