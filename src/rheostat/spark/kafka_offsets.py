"""Offsets of the source ``rheostat-kafka``, what a batch takes, and how tasks share it. No Spark and no Kafka here.

An offset is that of Spark's own source, ``{"clicks": {"0": 23, "1": 7}}``: of each partition, the next record. Beside
the topics, ``rheostat:batch`` says what holds for the batch that ends there: its orders, and where it begins in
partitions that the offset before does not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from rheostat.model import Threshold
from rheostat.spark.kafka_admin import Place
from rheostat.spark.log_files import shares

BATCH_KEY = "rheostat:batch"
"""No topic can have this name."""

Positions = Mapping[Place, int]


class Piece(NamedTuple):
    """The records [start, end) of a partition."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def records(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """What holds for one batch.

    Attributes:
        begin: where it begins in partitions that are new, or were made anew.
        read_tasks: in how many tasks it is read; 0: as the options say.
        keep: non-drop probability × 10⁶ of each edge.
        number: of the orders; None: there were none.
        edge: at which the reader drops; None: at none.
        above: where edges drop by value.
    """

    begin: Positions = field(default_factory=dict)
    read_tasks: int = 0
    keep: Mapping[str, int] = field(default_factory=dict)
    number: int | None = None
    edge: str | None = None
    above: Mapping[str, Threshold] = field(default_factory=dict)


def offset_to_json(positions: Positions, plan: BatchPlan | None = None) -> dict[str, Any]:
    """An offset, sorted, because Spark compares offsets as text.

    >>> offset_to_json({("b", 1): 5, ("a", 0): 7})
    {'a': {'0': 7}, 'b': {'1': 5}}
    """
    found: dict[str, Any] = {}
    for topic, partition in sorted(positions):
        found.setdefault(topic, {})[str(partition)] = positions[topic, partition]
    if plan is not None and plan != BatchPlan():
        batch: dict[str, Any] = {"begin": offset_to_json(plan.begin)} if plan.begin else {}
        if plan.number is not None:
            keep = {edge: plan.keep[edge] for edge in sorted(plan.keep)}
            batch |= {"keep": keep, "number": plan.number, "read_tasks": plan.read_tasks}
        if plan.edge is not None:
            batch["edge"] = plan.edge
        if plan.above:  # Spark takes no floats in an offset
            batch["above"] = {edge: f"{at.value!r} {at.tied}" for edge, at in sorted(plan.above.items())}
        found[BATCH_KEY] = batch
    return found


def positions_of(offset: Mapping[str, Any]) -> dict[Place, int]:
    """The positions in an offset."""
    return {
        (topic, int(number)): int(position)
        for topic, numbers in offset.items()
        if topic != BATCH_KEY
        for number, position in numbers.items()
    }


def plan_of(offset: Mapping[str, Any]) -> BatchPlan:
    """What holds for the batch that ends at an offset."""
    batch = offset.get(BATCH_KEY, {})
    return BatchPlan(
        begin=positions_of(batch.get("begin", {})),
        read_tasks=batch.get("read_tasks", 0),
        keep=batch.get("keep", {}),
        number=batch.get("number"),
        edge=batch.get("edge"),
        above={edge: _threshold(text) for edge, text in batch.get("above", {}).items()},
    )


def _threshold(text: str) -> Threshold:
    value, tied = text.split()
    return Threshold(float(value), int(tied))


def pieces_between(start: Mapping[str, Any], end: Mapping[str, Any]) -> list[Piece]:
    """What the batch between two offsets reads, in the order of partitions."""
    first = positions_of(start) | dict(plan_of(end).begin)
    pieces = [Piece(*at, first.get(at, position), position) for at, position in sorted(positions_of(end).items())]
    return [piece for piece in pieces if piece.records > 0]


def admit_records(begin: Positions, latest: Positions, cap: int | None) -> dict[Place, int]:
    """Where a batch ends: at the latest offsets, or sooner if more than ``cap`` records wait."""
    waiting = {at: max(0, end - begin[at]) for at, end in latest.items()}
    if cap is None or sum(waiting.values()) <= cap:
        return {at: begin[at] + records for at, records in waiting.items()}
    return {at: begin[at] + records for at, records in shares(waiting, cap).items()}


def share_tasks(pieces: Iterable[Piece], tasks: int | None, most_records: int | None = None) -> list[tuple[Piece, ...]]:
    """The pieces that each task reads.

    Args:
        pieces: one for each partition.
        tasks: how many there are to be; None: one for each partition. Fewer than partitions: a task reads several, as
            equally many records as whole partitions allow. More: partitions are split in proportion to their records.
        most_records: of one piece.

    >>> one, other = Piece("a", 0, 0, 60), Piece("a", 1, 0, 20)
    >>> [[piece.records for piece in task] for task in share_tasks([one, other], 4)]
    [[20], [20], [20], [20]]
    >>> [[piece.partition for piece in task] for task in share_tasks([one, other], 1)]
    [[0, 1]]
    """
    found = list(pieces)
    if tasks is not None and tasks < len(found):
        return _group(found, tasks)
    parts = dict.fromkeys(range(len(found)), 1)
    if tasks is not None and found:
        parts = shares({index: piece.records for index, piece in enumerate(found)}, tasks)
    if most_records is not None:
        parts = {index: max(many, -(-found[index].records // most_records)) for index, many in parts.items()}
    return [(part,) for index, piece in enumerate(found) for part in _split(piece, parts[index])]


def _split(piece: Piece, parts: int) -> list[Piece]:
    marks = [piece.start + piece.records * number // parts for number in range(parts + 1)]
    split = [piece._replace(start=low, end=high) for low, high in pairwise(marks)]
    return [part for part in split if part.records]


def _group(pieces: Iterable[Piece], tasks: int) -> list[tuple[Piece, ...]]:
    """The largest piece first, each to the task with the fewest records."""
    groups: list[list[Piece]] = [[] for _ in range(tasks)]
    sizes = [0] * tasks
    for piece in sorted(pieces, key=lambda each: -each.records):
        least = sizes.index(min(sizes))
        groups[least].append(piece)
        sizes[least] += piece.records
    return [tuple(sorted(group)) for group in groups if group]
