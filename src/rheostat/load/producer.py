"""The producer: open loop, so that the load never depends on how well the pipeline keeps up.

Records are due at the times of a :class:`Schedule`. Every tick sends the records that are due. A producer that is held
up (a full queue, a busy machine) sends the records that it owes late, and reports how late they were.

The timestamp in a record is the wall time of its production, not the time at which it was due, so that event-time
windows downstream see what a real source would have sent. In a producer that keeps up the two differ by at most a tick.
"""

from __future__ import annotations

import math
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rheostat.load.curves import RateCurve, constant
from rheostat.load.payload import IdChecksum, RecordMaker, Records
from rheostat.ports import Clock

_WARM_UP_S = 1e9


# When each record is due


class Schedule:
    """Record k (from 0) is due at the first moment t with ``cumulative(t) ≥ k + 1``.

    A millionth of a record is tolerated, so that 0.1 records/s for 30 s is three records whatever the rounding.

    >>> from rheostat.load.curves import constant
    >>> schedule = Schedule(constant(100, 10))
    >>> schedule.total, schedule.due(0.995), round(schedule.due_at(99), 6)
    (1000, 99, 1.0)
    """

    def __init__(self, curve: RateCurve) -> None:
        self.curve = curve
        self.duration = curve.duration
        self.total = self._count(curve.duration)

    def due(self, t: float) -> int:
        """The number of records that are due by ``t`` seconds."""
        return min(self._count(t), self.total)

    def due_at(self, record: int) -> float:
        """Seconds at which a record is due. Raises IndexError if the curve has no such record."""
        if not 0 <= record < self.total:
            message = f"record {record} of {self.total}"
            raise IndexError(message)
        low, high = 0.0, self.duration
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if self._count(middle) > record else (middle, high)
            if high - low < 1e-6:
                break
        return high

    def oldest_owed_s(self, done: int, t: float) -> float:
        """Age at ``t`` of the oldest record owed, after ``done`` records; 0 if none is."""
        return max(0.0, t - self.due_at(done)) if done < self.due(t) else 0.0

    def _count(self, t: float) -> int:
        return math.floor(self.curve.cumulative(t) + 1e-6)


class RunClock:
    """Epoch seconds that run evenly: the wall clock read once, then monotonic, so that a load is never set back.

    Set ``stop``, from any thread or a signal handler, to end the run.
    """

    def __init__(self, stop: threading.Event | None = None) -> None:
        self.stop = stop or threading.Event()
        self._shift = time.time() - time.monotonic()

    def now(self) -> float:
        return self._shift + time.monotonic()

    def wait(self, seconds: float) -> bool:
        return self.stop.wait(seconds)


# Where records go


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a sink has stored, or given up, since its last receipt.

    Attributes:
        acknowledged, size: ids of the stored records, and bytes of their values.
        failed: number of records that the sink gave up. They may or may not be stored.
        error: why the sink cannot continue; None if it can.
    """

    acknowledged: Sequence[int] = ()
    size: int = 0
    failed: int = 0
    error: str | None = None


class Sink(Protocol):
    """Takes records and acknowledges them later. Used by one thread."""

    def send(self, records: Records) -> int:
        """Take the first records that there is room for; returns how many. Does not wait for long."""
        ...

    def collect(self) -> Receipt:
        """Does not wait."""
        ...

    def finish(self, timeout_s: float) -> Receipt:
        """Store the remaining records within this time; then nothing is stored any more. May be called again."""
        ...


def partition_of(key: str, partitions: int) -> int:
    """The partition of a key: CRC-32 modulo their number, like librdkafka's ``consistent`` partitioner.

    >>> partition_of("a", 8), partition_of("b", 8)
    (3, 1)
    """
    return zlib.crc32(key.encode()) % partitions


# What a run reports


@dataclass(frozen=True, slots=True)
class Lateness:
    """Delay between the time at which records were due and their hand-over, in seconds; None without records.

    The percentile is rounded up to the millisecond. ``behind_at_end_s``: age of the oldest record still owed at the end
    of the curve, or when stopped; 0: none.
    """

    max_s: float | None
    p95_s: float | None
    behind_at_end_s: float


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """Progress of a run. ``t`` is None during the warm-up; ``late_s`` is the delay of the newest records."""

    t: float | None
    rate: float
    sent: int
    late_s: float


@dataclass(frozen=True, slots=True)
class LoadResult:
    """Result of a run.

    Attributes:
        records, checksum, size: number, ids and bytes of the acknowledged records, warm-up included.
        scheduled: records of the curve.
        warmup_records: handed over before the start.
        in_doubt: handed over, but neither acknowledged nor known to be lost when the run ended.
        next_id: the id after the last one handed over, for the next run.
        failed: records that the sink gave up; they are among those in doubt.
        error: why the sink could not continue; None if it could.
        lateness: of the curve's records.
        began_at, go_at: epoch seconds of the first tick, and of the curve's time 0; None if the warm-up never ended.
        seconds: from the curve's time 0 to the last record handed over or the end of the curve, without flushing.
        stopped: whether the run ended before the curve did.
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
        """Whether every record handed over is acknowledged."""
        return self.error is None and self.in_doubt == 0


@dataclass(slots=True)
class _Tally:
    """Running totals of a run."""

    sent: int = 0
    warmup: int = 0
    checksum: IdChecksum = field(default_factory=IdChecksum)
    size: int = 0
    failed: int = 0
    error: str | None = None
    max_late_s: float | None = None
    late_by_ms: Counter[int] = field(default_factory=Counter)
    newest_late_s: float = 0.0
    behind_s: float = 0.0

    def add_receipt(self, receipt: Receipt) -> None:
        self.checksum = self.checksum.add_many(receipt.acknowledged)
        self.size += receipt.size
        self.failed += receipt.failed
        self.error = self.error or receipt.error

    def add_lateness(self, first_s: float, last_s: float, count: int) -> None:
        """Add a batch by the delays of its first and last record; the others are interpolated, in eight groups."""
        self.max_late_s = max(self.max_late_s or 0.0, first_s)
        self.newest_late_s = max(0.0, last_s)
        for group in range(8):
            late_s = first_s + (last_s - first_s) * group / 8
            self.late_by_ms[max(0, math.ceil(late_s * 1000))] += count * (group + 1) // 8 - count * group // 8

    def lateness(self) -> Lateness:
        left, p95_s = 0.95 * self.late_by_ms.total(), None
        for late_ms in sorted(self.late_by_ms):
            left -= self.late_by_ms[late_ms]
            if left <= 0:
                p95_s = late_ms / 1000
                break
        return Lateness(self.max_late_s, p95_s, self.behind_s)


# The producer


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """Settings of a producer.

    Attributes:
        tick_s: seconds between two looks at the schedule, and therefore the usual delay of records.
        largest_batch: most records handed over at once, so that a late producer still notices a stop.
        flush_s: seconds to wait at the end for acknowledgements; longer than a sink retries.
        stop_flush_s: the same, after a stop.
    """

    tick_s: float = 0.02
    largest_batch: int = 5_000
    flush_s: float = 310.0
    stop_flush_s: float = 15.0


class OpenLoopProducer:
    """Plays one load into a sink, in the thread that calls :meth:`run`.

    The sink is finished when the run ends. ``wait`` of the clock says when to stop; default: a :class:`RunClock`.
    ``watch`` receives the progress at each tick, and must be quick.
    """

    def __init__(
        self,
        sink: Sink,
        payloads: RecordMaker,
        clock: Clock | None = None,
        settings: ProducerSettings | None = None,
        watch: Callable[[LoadProgress], None] = lambda _: None,
    ) -> None:
        self._sink, self._payloads = sink, payloads
        self._clock: Clock = clock or RunClock()
        self._settings = settings or ProducerSettings()
        self._watch = watch
        self._tally = _Tally()

    def run(
        self,
        curve: RateCurve | Callable[[], RateCurve],
        start: threading.Event | Callable[[], bool] | None = None,
        warmup_rate: float = 0.0,
    ) -> LoadResult:
        """Play a curve until it ends, the clock says stop, or the sink cannot continue. Once per producer.

        A warm-up of ``warmup_rate`` records/s lasts until ``start`` is set or returns True, which is looked at in each
        tick; then the curve's time 0 begins. None: at once. A curve that depends on the warm-up is a function, called
        when it has ended.

        Raises:
            RheostatError: the sink is broken; it has been finished.
        """
        tally = self._tally
        began_at = self._clock.now()
        go_at, ended_at = None, began_at
        try:
            started = self._warm_up(start, warmup_rate)
            schedule = Schedule(curve() if callable(curve) else curve)
            if started:
                go_at = self._clock.now()
                self._play(schedule, go_at, None)
            ended_at = self._clock.now()
        except BaseException:
            self._sink.finish(0.0)
            raise
        stopped = go_at is None or tally.sent - tally.warmup < schedule.total or ended_at - go_at < schedule.duration
        tally.add_receipt(self._sink.finish(self._settings.stop_flush_s if stopped else self._settings.flush_s))
        return LoadResult(
            records=tally.checksum.count,
            scheduled=schedule.total,
            warmup_records=tally.warmup,
            in_doubt=tally.sent - tally.checksum.count,
            checksum=tally.checksum,
            first_id=self._payloads.first_id,
            next_id=self._payloads.first_id + tally.sent,
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
        """Play a constant rate until the start; False if the run is to end before it."""
        if start is None:
            return True
        is_started = start.is_set if isinstance(start, threading.Event) else start
        started = self._play(Schedule(constant(rate, _WARM_UP_S)), self._clock.now(), is_started)
        self._tally.warmup = self._tally.sent
        return started

    def _play(self, schedule: Schedule, from_s: float, until: Callable[[], bool] | None) -> bool:
        """Send what is due, tick by tick, until the schedule is done or ``until`` is true; False if stopped."""
        tally, before, over = self._tally, self._tally.sent, False
        while True:
            t = self._clock.now() - from_s
            taken = self._send(schedule.due(t) - (tally.sent - before))
            done = tally.sent - before
            if taken and until is None:
                tally.add_lateness(t - schedule.due_at(done - taken), t - schedule.due_at(done - 1), taken)
            tally.add_receipt(self._sink.collect())
            progress_t = t if until is None else None
            self._watch(LoadProgress(progress_t, schedule.curve.rate(t), tally.sent, tally.newest_late_s))
            if t >= schedule.duration and not over:
                over = True
                tally.behind_s = schedule.oldest_owed_s(done, schedule.duration)
            if until is not None and until():
                return True
            if t >= schedule.duration and done == schedule.total:
                return True
            if self._clock.wait(self._pause_s(t, taken)) or tally.error is not None:
                tally.behind_s = tally.behind_s if over else schedule.oldest_owed_s(done, t)
                return False

    def _send(self, owed: int) -> int:
        """Hand over at most one batch; returns how many records the sink took."""
        if owed <= 0:
            return 0
        count = min(owed, self._settings.largest_batch)
        taken = self._sink.send(self._payloads.make(self._tally.sent, count, self._clock.now()))
        self._tally.sent += taken
        return taken

    def _pause_s(self, t: float, taken: int) -> float:
        """Seconds to the next tick, on a grid that does not drift; 0 after a whole batch: there may be more."""
        if taken == self._settings.largest_batch:
            return 0.0
        tick = self._settings.tick_s
        left = tick - t % tick
        return left if left > tick / 10 else left + tick
