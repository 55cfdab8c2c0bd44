"""A sink that keeps its records in memory."""

from dataclasses import dataclass, field

from rheostat.load.payload import Records
from rheostat.load.producer import Receipt


@dataclass(slots=True)
class MemorySink:
    """Takes what it has room for.

    Attributes:
        room: records it takes at once; None: any number.
        holds: whether it never acknowledges; at the end the records stay in doubt.
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
        taken = len(records) if self.room is None else min(self.room, len(records))
        self._open += [(records.first_id + index, value) for index, value in enumerate(records.values[:taken])]
        return taken

    def collect(self) -> Receipt:
        if self.holds:
            return Receipt()
        done = [(record_id, value) for record_id, value in self._open if record_id not in self.fails]
        failed = len(self._open) - len(done)
        self._open = []
        self.stored += [value for _, value in done]
        size = sum(len(value) for _, value in done)
        return Receipt([record_id for record_id, _ in done], size, failed, "told to fail" if failed else None)

    def finish(self, timeout_s: float) -> Receipt:  # noqa: ARG002 (it never waits)
        self.finished = True
        return self.collect()
