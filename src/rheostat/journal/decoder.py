"""From the lines of a journal to values: the inverse of :mod:`rheostat.journal.encoder`.

Columns are followed line by line, since each builds on the last; the values around them are made when asked for.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from rheostat.errors import Fault, InputError
from rheostat.journal import columns
from rheostat.journal.records import SCHEMA, DecisionRecord, Header, OutcomeRecord, Record, SessionRecord
from rheostat.journal.values import assessment_from_json, counted, decision_from_json, outcome_from_json
from rheostat.model import (
    Assessment,
    Batch,
    Cluster,
    Decision,
    Executor,
    Gap,
    NodeReading,
    Nodes,
    Observation,
    Offsets,
    QueryReading,
    RoundTrip,
    RunningBatch,
    SourceInfo,
    StageWork,
)

__all__ = ["Decoder"]

T = TypeVar("T")
_Named = tuple[tuple[str, ...], tuple[int, ...]]
"""Topic and number of each partition, a column each."""

_BROKEN = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, struct.error)


@dataclass(frozen=True, slots=True)
class _Executor:
    executor_id: str
    host: str
    cores: int
    added_at: float | None
    node: str | None = None


class Decoder:
    """Reads the lines of one file, in order."""

    def __init__(self) -> None:
        self._started = False
        self._reset()

    def _reset(self) -> None:
        self._queries: list[list[Any]] = []
        self._topologies: list[_Named] = []
        self._positions: list[list[list[int]]] = []
        self._executors: list[_Executor] = []
        self._counters: list[list[int]] = []
        self._maps: list[tuple[list[str], list[list[str]]]] = []
        self._map_bases: list[list[list[int]]] = []

    def line(self, text: bytes, where: str) -> Record | None:
        """The record of a line; None for a line that only helps to read the next ones.

        Raises:
            InputError: the line is damaged. ``where`` names its file and number.
        """
        try:
            data = json.loads(text)
        except _BROKEN as error:
            raise _damaged(where, f"this is no JSON: {_reason(error)}") from error
        if not isinstance(data, dict) or "type" not in data:
            raise _damaged(where, "the record has no type")
        return _guarded(where, self._restored, data, where)

    def _restored(self, data: dict[str, Any], where: str) -> Record | None:
        if "nonfinite" in data:
            _restore(data, data["nonfinite"])
        return self._record(data, where)

    def _record(self, data: Mapping[str, Any], where: str) -> Record | None:
        kind = data["type"]
        if kind == "session":
            return self._session(data, where)
        if not self._started:
            raise _damaged(where, "a journal file starts with a session record")
        if kind == "keyframe":
            self._keyframe(data)
            return None
        if kind == "decision":
            return self._decision(data, where)
        if kind == "outcome":
            return OutcomeRecord(_time(data), outcome_from_json(data["outcome"], data["at"]))
        raise _damaged(where, f"a record of an unknown type: {kind!r}")

    def _session(self, data: Mapping[str, Any], where: str) -> SessionRecord:
        if data["schema"] != SCHEMA:
            raise _damaged(where, f"the journal has the schema {data['schema']!r}; this version reads {SCHEMA!r}")
        self._started = True
        header = Header(data["version"], _mapping(data, "settings"), data["seed"], data["job"])
        return SessionRecord(_time(data), header, _mapping(data, "states"), data["note"])

    def _keyframe(self, data: Mapping[str, Any]) -> None:
        if "reset" in data:
            self._reset()
        self._queries.extend(data.get("queries", ()))
        for topics, *codes in data.get("topologies", ()):
            rows = [(topic, number) for topic, numbers in topics for number in _numbers(numbers)]
            self._topologies.append((tuple([topic for topic, _ in rows]), tuple([number for _, number in rows])))
            self._positions.append([columns.decode(code, [0] * len(rows))[0] for code in codes])
        for entry in data.get("executors", ()):
            self._executors.append(_Executor(*entry))
            self._counters.append([0, 0, 0, 0])
        for named, pairs, trips in data.get("maps", ()):
            self._maps.append((named, pairs))
            base = columns.decode_seconds(trips, [0] * len(pairs))[1]
            self._map_bases.append([[0] * len(named), [0] * len(named), base])

    def _decision(self, data: Mapping[str, Any], where: str) -> DecisionRecord:
        at, seen, meant, decided = _time(data), data.get("observation"), data.get("assessment"), data["decision"]
        moving = None if seen is None else self._follow(seen)

        def decision() -> Decision:
            return _guarded(where, lambda: decision_from_json(decided, at))

        def assessment() -> Assessment | None:
            nodes = None if moving is None else moving.nodes
            return None if meant is None else _guarded(where, lambda: assessment_from_json(meant, at, nodes))

        def observation() -> Observation | None:
            return None if moving is None else _guarded(where, moving.observation, at)

        return DecisionRecord(at, decided["id"], decision, assessment, observation)

    def _follow(self, seen: Mapping[str, Any]) -> _Moving:
        """Decode the columns, and keep what they refer to."""
        readings = []
        for query in seen.get("q", ()):
            offsets = query.get("o")
            readings.append((self._queries[query["s"]], None if offsets is None else self._offsets(offsets), query))
        cluster, nodes = seen.get("c"), seen.get("n")
        return _Moving(
            seen,
            readings,
            None if cluster is None else self._cluster(cluster),
            None if nodes is None else self._nodes(nodes),
        )

    def _offsets(self, data: list[Any]) -> tuple[_Named, list[list[Any]]]:
        topology = data[1]
        bases = self._positions[topology]
        values = []
        before = bases[1]
        for place in range(3):
            column, bases[place] = columns.decode_either(data[2 + place], bases[place], before)
            values.append(column)
        return self._topologies[topology], values

    def _cluster(self, data: list[Any]) -> tuple[list[_Executor], list[list[Any]]]:
        places = columns.decode_list(data[2])
        counters = [self._counters[place] for place in places]
        values = []
        for number in range(4):
            base = [counter[number] for counter in counters]
            decode = columns.decode if number < 3 else columns.decode_seconds
            column, known = decode(data[3 + number], base)
            for counter, value in zip(counters, known, strict=True):
                counter[number] = value
            values.append(column)
        return [self._executors[place] for place in places], values

    def _nodes(self, data: list[Any]) -> Nodes:
        at, place, *codes = data
        (named, pairs), bases = self._maps[place], self._map_bases[place]
        used, bases[0] = columns.decode(codes[0], bases[0])
        free, bases[1] = columns.decode(codes[1], bases[1])
        trips, bases[2] = columns.decode_seconds(codes[2], bases[2])
        return Nodes(
            at=at,
            nodes=tuple(map(NodeReading, named, used, free)),
            round_trips=tuple([RoundTrip(a, b, ms) for (a, b), ms in zip(pairs, trips, strict=True) if ms is not None]),
        )


@dataclass(frozen=True, slots=True)
class _Moving:
    """An observation whose columns are decoded."""

    data: Mapping[str, Any]
    readings: list[tuple[list[Any], tuple[_Named, list[list[Any]]] | None, Mapping[str, Any]]]
    cluster: tuple[list[_Executor], list[list[Any]]] | None
    nodes: Nodes | None

    def observation(self, at: float) -> Observation:
        return Observation(
            at=self.data.get("at", at),
            queries=tuple(_reading(*reading) for reading in self.readings),
            cluster=None if self.cluster is None else _cluster(self.data["c"], *self.cluster),
            gaps=tuple(Gap(*gap) for gap in self.data.get("g", ())),
            nodes=self.nodes,
        )


def _reading(static: list[Any], offsets: Any, data: Mapping[str, Any]) -> QueryReading:
    query_id, run_id, name, trigger_s, sources = static
    return QueryReading(
        query_id=query_id,
        run_id=run_id,
        name=name,
        trigger_s=trigger_s,
        sources=tuple(SourceInfo(**source) for source in sources),
        offsets=None if offsets is None else _offsets(data["o"], *offsets),
        batch=_batch(*data["b"]) if "b" in data else None,
        running=RunningBatch(*data["r"]) if "r" in data else None,
        failed_because=data.get("f"),
    )


def _batch(*values: Any) -> Batch:
    if not isinstance(values[-1], list):
        return Batch(*values)
    *others, stages = values
    return replace(Batch(*others), stages=tuple(StageWork(*stage) for stage in stages))


def _offsets(data: list[Any], named: _Named, values: list[list[Any]]) -> Offsets:
    if any(len(column) != len(named[0]) for column in values):
        message = f"positions of another number of partitions than {len(named[0])}"
        raise ValueError(message)
    topics, numbers = named
    latest, planned, committed = values
    exact, inexact_because = data[5:] or (True, None)
    return Offsets(
        at=data[0],
        topics=topics,
        numbers=numbers,
        latest=tuple(latest),
        planned=tuple(planned),
        committed=tuple(committed),
        exact=exact,
        inexact_because=inexact_because,
    )


def _cluster(data: list[Any], executors: list[_Executor], values: list[list[Any]]) -> Cluster:
    rows = [
        Executor(
            executor_id=who.executor_id,
            host=who.host,
            cores=who.cores,
            active_tasks=active,
            failed_tasks=failed,
            finished_tasks=finished,
            busy_s=busy_s,
            added_at=who.added_at,
            node=who.node,
        )
        for who, active, failed, finished, busy_s in zip(executors, *values, strict=True)
    ]
    return Cluster.of(data[0], rows, data[1])


def _numbers(numbers: int | list[int]) -> list[int]:
    return list(range(counted(numbers))) if isinstance(numbers, int) else numbers


def _guarded(where: str, make: Callable[..., T], *args: Any) -> T:
    try:
        return make(*args)
    except _BROKEN as error:
        lacks = isinstance(error, KeyError)
        raise _damaged(where, f"the record {'lacks' if lacks else 'cannot be read:'} {_reason(error)}") from error


def _damaged(where: str, what: str) -> InputError:
    return InputError([Fault("journal", where, f"a line of a journal ({SCHEMA})", what)])


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos + 1}"
    if isinstance(error, IndexError):
        return "it builds on what neither it nor a line before it holds; is a line missing?"
    return str(error) if isinstance(error, KeyError) else f"{type(error).__name__}: {error}"


def _time(data: Mapping[str, Any]) -> float:
    at: float = data["at"]
    if type(at) not in (int, float):
        message = f"'at' is no number: {at!r}"
        raise TypeError(message)
    return at


def _mapping(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = data[key]
    if not isinstance(found, dict):
        message = f"{key!r} has no keys: {found!r}"
        raise TypeError(message)
    return found


def _restore(data: Any, marks: list[list[Any]]) -> None:
    """Put NaN and infinities back where they stood."""
    for *path, last, value in marks:
        place = data
        for step in path:
            place = place[step]
        place[last] = float(value)
