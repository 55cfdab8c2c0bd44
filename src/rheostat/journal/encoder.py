"""From values to the lines of a journal.

What seldom changes (queries, their sources and partitions, executors' hosts, which nodes there are and between which
of them the round trip is known) is written once, in a ``keyframe`` line before the first record that needs it, and
referred to by its place. The rest of an observation is::

    {"q": [{"s": query, "o": [at, topology, latest, planned, committed, …], "b": [batch …], "r": [running …]}],
     "c": [at, requested, executors, active, failed, finished, busy], "n": [at, map, used, free, round trips],
     "g": [gap …]}

``b`` and ``r`` hold the fields of :class:`~rheostat.model.Batch` (``stages`` only where there are some) and
:class:`~rheostat.model.RunningBatch` in their order; columns are coded by :mod:`rheostat.journal.columns`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from itertools import groupby
from typing import Any

from rheostat.journal import columns
from rheostat.journal.records import SCHEMA, DecisionRecord, OutcomeRecord, SessionRecord
from rheostat.journal.values import assessment_to_json, decision_to_json, outcome_to_json
from rheostat.model import (
    Batch,
    Cluster,
    Nodes,
    Observation,
    Offsets,
    QueryReading,
    RunningBatch,
)

__all__ = ["Encoder", "session_line"]

_BATCH = tuple(field.name for field in fields(Batch) if field.name != "stages")
_RUNNING = tuple(field.name for field in fields(RunningBatch))


class Encoder:
    """Writes records relative to those before. A new one starts over, with a keyframe that tells readers so."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, Any], int] = {}
        self._positions: dict[int, list[list[int]]] = {}
        self._counters: dict[int, list[int]] = {}
        self._maps: dict[int, list[list[int]]] = {}
        self._added: dict[str, list[Any]] = {"reset": []}

    def record(self, record: DecisionRecord | OutcomeRecord) -> bytes:
        """The lines of a record."""
        if isinstance(record, OutcomeRecord):
            return _line({"type": "outcome", "at": record.at, "outcome": outcome_to_json(record.outcome)})
        line: dict[str, Any] = {"type": "decision", "at": record.at, "decision": decision_to_json(record.decision)}
        if record.assessment is not None:
            line["assessment"] = assessment_to_json(record.assessment, record.at)
        if record.observation is not None:
            line["observation"] = self._observation(record.observation, record.at)
        return self._keyframe() + _line(line)

    def _keyframe(self) -> bytes:
        added, self._added = self._added, {}
        return _line({"type": "keyframe", **added}) if added else b""

    def _place(self, kind: str, key: Any, entry: Any) -> int:
        """Where ``key`` stands in the reader's table of that kind; announces it if it is new."""
        place = self._places.get((kind, key))
        if place is None:
            place = sum(1 for known, _ in self._places if known == kind)
            self._places[(kind, key)] = place
            self._added.setdefault(kind, []).append(entry)
        return place

    def _observation(self, seen: Observation, at: float) -> dict[str, Any]:
        out: dict[str, Any] = {} if seen.at == at else {"at": seen.at}
        if seen.queries:
            out["q"] = [self._query(query) for query in seen.queries]
        if seen.cluster is not None:
            out["c"] = self._cluster(seen.cluster)
        if seen.nodes is not None:
            out["n"] = self._nodes(seen.nodes)
        if seen.gaps:
            out["g"] = [[gap.section, gap.why, gap.query_id] for gap in seen.gaps]
        return out

    def _query(self, query: QueryReading) -> dict[str, Any]:
        sources = [asdict(source) for source in query.sources]
        entry = [query.query_id, query.run_id, query.name, query.trigger_s, sources]
        place = self._place("queries", json.dumps(entry), entry)
        out: dict[str, Any] = {"s": place}
        if query.offsets is not None:
            out["o"] = self._offsets(place, query.offsets)
        if query.batch is not None:
            stages = [query.batch.stages] if query.batch.stages else []
            out["b"] = [getattr(query.batch, name) for name in _BATCH] + stages
        if query.running is not None:
            out["r"] = [getattr(query.running, name) for name in _RUNNING]
        if query.failed_because is not None:
            out["f"] = query.failed_because
        return out

    def _offsets(self, query: int, offsets: Offsets) -> list[Any]:
        values = offsets.latest, offsets.planned, offsets.committed
        topology = self._topology(query, (offsets.topics, offsets.numbers), values)
        bases = self._positions[topology]
        out: list[Any] = [offsets.at, topology]
        before = bases[1]
        for place, (column, base) in enumerate(zip(values, (None, None, before), strict=True)):
            code, bases[place] = columns.encode_either(column, bases[place], base)
            out.append(code)
        return (
            out if offsets.exact and offsets.inexact_because is None else [*out, offsets.exact, offsets.inexact_because]
        )

    def _topology(
        self, query: int, named: tuple[tuple[str, ...], tuple[int, ...]], values: Iterable[Sequence[Any]]
    ) -> int:
        if ("topologies", (query, named)) in self._places:
            return self._places["topologies", (query, named)]
        bases = [[value if isinstance(value, int) else 0 for value in column] for column in values]
        zero = [0] * len(named[0])
        rows = groupby(zip(*named, strict=True), lambda row: row[0])
        topics = [[topic, _numbers([number for _, number in group])] for topic, group in rows]
        entry = [topics, *(columns.encode(base, zero)[0] for base in bases)]
        place = self._place("topologies", (query, named), entry)
        self._positions[place] = bases
        return place

    def _cluster(self, cluster: Cluster) -> list[Any]:
        who = cluster.roster
        rows = zip(who.ids, who.hosts, who.cores, who.added_at, who.nodes, strict=True)
        places = [self._executor(*row) for row in rows]
        out: list[Any] = [cluster.at, cluster.requested, columns.encode_list(places)]
        counts = cluster.active_tasks, cluster.failed_tasks, cluster.finished_tasks
        for number, column in enumerate(counts):
            base = [self._counters[place][number] for place in places]
            code, known = columns.encode(column, base)
            self._keep(places, number, known)
            out.append(code)
        base = [self._counters[place][3] for place in places]
        code, known = columns.encode_seconds(cluster.busy_s, base)
        self._keep(places, 3, known)
        return [*out, code]

    def _nodes(self, nodes: Nodes) -> list[Any]:
        place = self._map(nodes)
        bases = self._maps[place]
        used, bases[0] = columns.encode([node.used for node in nodes.nodes], bases[0])
        free, bases[1] = columns.encode([node.free for node in nodes.nodes], bases[1])
        trips, bases[2] = columns.encode_seconds([trip.ms for trip in nodes.round_trips], bases[2])
        return [nodes.at, place, used, free, trips]

    def _map(self, nodes: Nodes) -> int:
        named, pairs = [node.name for node in nodes.nodes], [(trip.a, trip.b) for trip in nodes.round_trips]
        key = tuple(named), tuple(pairs)
        if ("maps", key) in self._places:
            return self._places["maps", key]
        trips, base = columns.encode_seconds([trip.ms for trip in nodes.round_trips], [0] * len(pairs))
        place = self._place("maps", key, [named, pairs, trips])
        self._maps[place] = [[0] * len(named), [0] * len(named), base]
        return place

    def _executor(self, *entry: Any) -> int:
        """Where one stands whose id, host, cores, time of registration and node these are."""
        told = list(entry if entry[-1] is not None else entry[:-1])
        place = self._place("executors", entry, told)
        self._counters.setdefault(place, [0, 0, 0, 0])
        return place

    def _keep(self, places: list[int], number: int, known: list[int]) -> None:
        for place, value in zip(places, known, strict=True):
            self._counters[place][number] = value


def session_line(session: SessionRecord) -> bytes:
    """The line that starts a file, a run, or other settings."""
    header = session.header
    return _line(
        {
            "type": "session",
            "schema": SCHEMA,
            "at": session.at,
            "version": header.version,
            "job": header.job,
            "seed": header.seed,
            "settings": header.settings,
            "states": session.states,
            "note": session.note,
        }
    )


def _numbers(numbers: list[int]) -> int | list[int]:
    return len(numbers) if numbers == list(range(len(numbers))) else numbers


def _line(record: Mapping[str, Any]) -> bytes:
    """One line of JSON. NaN and infinities become null; where they stood is kept in ``nonfinite``."""
    try:
        text = json.dumps(record, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except ValueError:
        marks: list[list[Any]] = []
        clean = _without_nonfinite(record, [], marks)
        text = json.dumps({**clean, "nonfinite": marks}, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return text.encode() + b"\n"


def _without_nonfinite(value: Any, path: list[Any], marks: list[list[Any]]) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        marks.append([*path, repr(value)])
        return None
    if isinstance(value, Mapping):
        return {key: _without_nonfinite(item, [*path, key], marks) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_without_nonfinite(item, [*path, place], marks) for place, item in enumerate(value)]
    return value
