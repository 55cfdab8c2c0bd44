"""Offsets of sources, as Spark writes them in JSON, → :class:`~rheostat.model.PartitionOffsets`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rheostat.model import Offsets, PartitionOffsets

__all__ = ["Latest", "merged", "not_a_count", "partition_map", "partition_offsets"]

_Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Latest:
    """The latest offsets of one source, and when they were so."""

    at: float
    offsets: Mapping[_Key, int]


def partition_map(offset: object) -> dict[_Key, int] | None:
    """An offset in the shape of Kafka's, by (topic, partition); None for an offset of another shape.

    >>> partition_map({"orders": {"0": 15, "1": 5}})
    {('orders', 0): 15, ('orders', 1): 5}
    >>> partition_map(7) is None
    True
    """
    if not isinstance(offset, Mapping) or not offset:
        return None
    found: dict[_Key, int] = {}
    for topic, positions in offset.items():
        if not isinstance(positions, Mapping):
            return None
        for partition, position in positions.items():
            if not (isinstance(partition, str) and partition.isdecimal() and type(position) is int):
                return None
            found[str(topic), int(partition)] = position
    return found


def partition_offsets(latest: Mapping[_Key, int], planned: object, committed: object) -> tuple[PartitionOffsets, ...]:
    """One source's partitions, sorted; ``planned`` and ``committed`` are offsets as Spark writes them.

    A partition that Spark does not name yet, in an offset that is known, is new to it: it will be read from 0.
    A partition that Spark names and that is not among the latest has no latest offset.
    """
    planned_at, committed_at = partition_map(planned), partition_map(committed)
    keys = sorted({*latest, *(planned_at or ()), *(committed_at or ())})
    return tuple(_partition(key, latest, planned_at, committed_at) for key in keys)


def _partition(
    key: _Key, latest: Mapping[_Key, int], planned: Mapping[_Key, int] | None, committed: Mapping[_Key, int] | None
) -> PartitionOffsets:
    committed_at = None if committed is None else committed.get(key, 0)
    planned_at = committed_at if planned is None else planned.get(key, committed_at or 0)
    if planned_at is not None and committed_at is not None:
        planned_at = max(planned_at, committed_at)
    return PartitionOffsets(*key, latest.get(key), planned_at, committed_at)


def not_a_count(
    partitions: Iterable[PartitionOffsets], earliest: Mapping[_Key, int], compacted: frozenset[str]
) -> str | None:
    """Why differences of these offsets are not a count of records, as far as the offsets tell.

    ``earliest`` and ``compacted`` may be empty where they are not known.
    """
    for found in partitions:
        if found.committed is None or found.latest is None:
            continue
        if found.latest < found.committed:
            return "topic recreated"
        if earliest.get((found.topic, found.partition), 0) > found.committed:
            return "retention"
        if found.topic in compacted:
            return "compaction"
    return None


def merged(sources: Iterable[Offsets]) -> Offsets | None:
    """The offsets of all sources of a query as one; a topic that is read twice gets a number (``"orders#2"``)."""
    sources = tuple(sources)
    if len(sources) < 2:
        return sources[0] if sources else None
    seen: dict[str, int] = {}
    partitions: list[PartitionOffsets] = []
    for offsets in sources:
        seen.update({topic: seen.get(topic, 0) + 1 for topic in set(offsets.topics)})
        partitions += [_numbered(found, seen[found.topic]) for found in offsets.partitions]
    because = next((offsets.inexact_because for offsets in sources if offsets.inexact_because), None)
    ordered = sorted(partitions, key=lambda found: (found.topic, found.partition))
    return Offsets.of(min(offsets.at for offsets in sources), ordered, because is None, because)


def _numbered(found: PartitionOffsets, number: int) -> PartitionOffsets:
    topic = found.topic if number == 1 else f"{found.topic}#{number}"
    return PartitionOffsets(topic, found.partition, found.latest, found.planned, found.committed)
