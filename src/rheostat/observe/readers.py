"""Who tells the latest offsets of a source: Kafka through the driver's JVM, or the files of the embedded log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from rheostat.errors import UnavailableError
from rheostat.jvm.kafka import KafkaView
from rheostat.jvm.reading import SourceLeaf
from rheostat.model import PartitionOffsets
from rheostat.observe import log_folder
from rheostat.observe.offsets import Latest, not_a_count
from rheostat.observe.sources import LOG_PROVIDER, option

__all__ = ["Look", "Reader", "Readers"]

_CHECK_EVERY_S = 60.0
_WHERE = ("subscribe", "subscribepattern", "assign", "path")
_Key = tuple[str, int]
_Identity = tuple[str, frozenset[tuple[str, str]]]


class Look:
    """One cycle: when it began, on the loop's clock, how long it has lasted, and how long it may.

    Attributes:
        at: the time that the loop gave.
    """

    def __init__(self, at: float, limit_s: float) -> None:
        self.at = at
        self._limit_s = limit_s
        self._began = time.monotonic()

    @property
    def now(self) -> float:
        """The present time on the loop's clock."""
        return self.at + (time.monotonic() - self._began)

    def require_time(self, doing: str) -> None:
        """Raise UnavailableError if this look has lasted too long to begin something that waits for others."""
        if self.now - self.at >= self._limit_s:
            message = f"{doing}: not tried, because this look has taken {self.now - self.at:.1f} s already"
            raise UnavailableError(message)


class Reader(Protocol):
    """Tells the latest offsets of one source. Both methods raise UnavailableError."""

    def latest(self, look: Look) -> Latest:
        """The latest offsets; asked for once in a look, however many queries share the source."""
        ...

    def inexact_because(self, partitions: tuple[PartitionOffsets, ...], look: Look) -> str | None:
        """Why the differences of these offsets are not a count of records; None: they are, for all that is known."""
        ...

    def close(self) -> None:
        """Give back connections."""
        ...


class _Once:
    """Remembers what was found, or how it failed, until the next look."""

    def __init__(self, ask: Callable[[Look], Mapping[_Key, int]]) -> None:
        self._ask = ask
        self._look: Look | None = None
        self._found: Latest | UnavailableError | None = None

    def __call__(self, look: Look) -> Latest:
        if self._found is None or self._look is not look:
            self._look, self._found = look, self._answer(look)
        if isinstance(self._found, UnavailableError):
            raise self._found
        return self._found

    def _answer(self, look: Look) -> Latest | UnavailableError:
        try:
            offsets = self._ask(look)
        except UnavailableError as error:
            return error
        return Latest(look.now, offsets)


class _KafkaReader:
    """Kafka, through Spark's own client. Earliest offsets and compaction are looked at once a minute."""

    def __init__(self, view: KafkaView) -> None:
        self._view = view
        self._once = _Once(self._ask)
        self._checked_at = float("-inf")
        self._earliest: Mapping[_Key, int] = {}
        self._compacted: frozenset[str] = frozenset()

    def latest(self, look: Look) -> Latest:
        return self._once(look)

    def inexact_because(self, partitions: tuple[PartitionOffsets, ...], look: Look) -> str | None:
        if look.at - self._checked_at >= _CHECK_EVERY_S:
            look.require_time("asking Kafka for the earliest offsets")
            self._checked_at = look.at
            check = self._view.check()
            self._earliest, self._compacted = check.earliest, check.compacted
        if self._view.subscription.read_committed:
            return "transactions"
        return not_a_count(partitions, self._earliest, self._compacted)

    def close(self) -> None:
        self._view.close()

    def _ask(self, look: Look) -> Mapping[_Key, int]:
        look.require_time("asking Kafka for the latest offsets")
        return self._view.latest()


class _LogReader:
    """The embedded log: the names of its files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._once = _Once(lambda _: log_folder.latest_offsets(self._folder))

    def latest(self, look: Look) -> Latest:
        return self._once(look)

    def inexact_because(self, partitions: tuple[PartitionOffsets, ...], look: Look) -> str | None:  # noqa: ARG002
        return not_a_count(partitions, {}, frozenset())

    def close(self) -> None:
        """Nothing is held."""


class Readers:
    """The readers in use, one for each source however many queries read it."""

    def __init__(self, gateway: Any, timeout_s: float) -> None:
        self._gateway = gateway
        self._timeout_s = timeout_s
        self._readers: dict[_Identity, Reader] = {}

    def of(self, leaf: SourceLeaf) -> Reader | None:
        """The reader of a source; None for one whose latest offsets only its progress events tell.

        Raises:
            ValueError: the options of the source are not understood.
        """
        identity = _identity(leaf)
        if identity not in self._readers:
            reader = self._made(leaf)
            if reader is None:
                return None
            self._readers[identity] = reader
        return self._readers[identity]

    def keep(self, leaves: Iterable[SourceLeaf]) -> None:
        """Close the readers of all other sources."""
        for identity in set(self._readers) - set(map(_identity, leaves)):
            self._readers.pop(identity).close()

    def _made(self, leaf: SourceLeaf) -> Reader | None:
        if leaf.provider == "kafka":
            return _KafkaReader(KafkaView(self._gateway, leaf.options, self._timeout_s))
        if leaf.provider == LOG_PROVIDER:
            return _LogReader(_local_path(option(leaf.options, "path")))
        return None


def _identity(leaf: SourceLeaf) -> _Identity:
    options = ((key.lower(), value) for key, value in leaf.options.items())
    where = frozenset((key, value) for key, value in options if key in _WHERE or key.startswith("kafka."))
    return leaf.provider, where


def _local_path(path: str | None) -> Path:
    if not path:
        message = "a log source without a path"
        raise ValueError(message)
    return Path(urlsplit(path).path if path.startswith("file:") else path)
