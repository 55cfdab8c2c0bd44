"""Where records go: the door between the producer and Kafka, the log on disk, or memory."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from rheostat.load.payload import Records

__all__ = ["MemorySink", "Receipt", "Sink", "partition_of"]


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
