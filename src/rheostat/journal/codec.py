"""From values to the lines of a journal.

What seldom changes (queries, their sources and partitions, executors' hosts, which nodes there are and between which
of them the round trip is known) is written once, in a ``keyframe`` line before the first record that needs it, and
referred to by its place. The rest of an observation is::

    {"q": [{"s": query, "o": [at, topology, latest, planned, committed, …], "b": [batch …], "r": [running …]}],
     "c": [at, requested, executors, active, failed, finished, busy], "n": [at, map, used, free, round trips],
     "g": [gap …]}

``b`` and ``r`` hold the fields of :class:`~rheostat.model.Batch` (``stages`` only where there are some) and
:class:`~rheostat.model.RunningBatch` in their order; columns are coded by :mod:`rheostat.journal.codec`.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import groupby
from typing import Any, TypeVar

from rheostat.errors import Fault, InputError
from rheostat.journal.records import (
    SCHEMA,
    DecisionRecord,
    Header,
    OutcomeRecord,
    Record,
    SessionRecord,
    assessment_from_json,
    assessment_to_json,
    counted,
    decision_from_json,
    decision_to_json,
    outcome_from_json,
    outcome_to_json,
)
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
            code, bases[place] = encode_either(column, bases[place], base)
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
        topics = [[topic, _number_list([number for _, number in group])] for topic, group in rows]
        entry = [topics, *(encode_columns(base, zero)[0] for base in bases)]
        place = self._place("topologies", (query, named), entry)
        self._positions[place] = bases
        return place

    def _cluster(self, cluster: Cluster) -> list[Any]:
        who = cluster.roster
        rows = zip(who.ids, who.hosts, who.cores, who.added_at, who.nodes, strict=True)
        places = [self._executor(*row) for row in rows]
        out: list[Any] = [cluster.at, cluster.requested, encode_list(places)]
        counts = cluster.active_tasks, cluster.failed_tasks, cluster.finished_tasks
        for number, column in enumerate(counts):
            base = [self._counters[place][number] for place in places]
            code, known = encode_columns(column, base)
            self._keep(places, number, known)
            out.append(code)
        base = [self._counters[place][3] for place in places]
        code, known = encode_seconds(cluster.busy_s, base)
        self._keep(places, 3, known)
        return [*out, code]

    def _nodes(self, nodes: Nodes) -> list[Any]:
        place = self._map(nodes)
        bases = self._maps[place]
        used, bases[0] = encode_columns([node.used for node in nodes.nodes], bases[0])
        free, bases[1] = encode_columns([node.free for node in nodes.nodes], bases[1])
        trips, bases[2] = encode_seconds([trip.ms for trip in nodes.round_trips], bases[2])
        return [nodes.at, place, used, free, trips]

    def _map(self, nodes: Nodes) -> int:
        named, pairs = [node.name for node in nodes.nodes], [(trip.a, trip.b) for trip in nodes.round_trips]
        key = tuple(named), tuple(pairs)
        if ("maps", key) in self._places:
            return self._places["maps", key]
        trips, base = encode_seconds([trip.ms for trip in nodes.round_trips], [0] * len(pairs))
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


def _number_list(numbers: list[int]) -> int | list[int]:
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


# From the lines of a journal to values: the inverse of :mod:`rheostat.journal.codec`.


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
            self._positions.append([decode_columns(code, [0] * len(rows))[0] for code in codes])
        for entry in data.get("executors", ()):
            self._executors.append(_Executor(*entry))
            self._counters.append([0, 0, 0, 0])
        for named, pairs, trips in data.get("maps", ()):
            self._maps.append((named, pairs))
            base = decode_seconds(trips, [0] * len(pairs))[1]
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
            column, bases[place] = decode_either(data[2 + place], bases[place], before)
            values.append(column)
        return self._topologies[topology], values

    def _cluster(self, data: list[Any]) -> tuple[list[_Executor], list[list[Any]]]:
        places = decode_list(data[2])
        counters = [self._counters[place] for place in places]
        values = []
        for number in range(4):
            base = [counter[number] for counter in counters]
            decode = decode_columns if number < 3 else decode_seconds
            column, known = decode(data[3 + number], base)
            for counter, value in zip(counters, known, strict=True):
                counter[number] = value
            values.append(column)
        return [self._executors[place] for place in places], values

    def _nodes(self, data: list[Any]) -> Nodes:
        at, place, *codes = data
        (named, pairs), bases = self._maps[place], self._map_bases[place]
        used, bases[0] = decode_columns(codes[0], bases[0])
        free, bases[1] = decode_columns(codes[1], bases[1])
        trips, bases[2] = decode_seconds(codes[2], bases[2])
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


# Columns of integers as differences: exact, short, and fast to read.


Column = Any
"""What stands in the JSON for a column."""

_PLAIN = 32
_WIDTHS = {"B": 1, "H": 2, "I": 4, "Q": 8}


def encode_columns(values: Sequence[Any], base: Sequence[int]) -> tuple[Column, list[int]]:
    """The column's code, and the base for the next one: the last known values.

    >>> encode([10, None], [7, 3])
    ({'d': [3, 0], 'none': [1]}, [10, 3])
    """
    if values and all(value is None for value in values):
        return None, list(base)
    if any(value is not None and not isinstance(value, int) for value in values):
        return {"=": list(values)}, list(base)
    known = [last if value is None else value for value, last in zip(values, base, strict=True)]
    deltas = [value - last for value, last in zip(known, base, strict=True)]
    missing = [place for place, value in enumerate(values) if value is None]
    return ({"d": _pack(deltas), "none": missing} if missing else _pack(deltas)), known


def decode_columns(code: Column, base: Sequence[int]) -> tuple[list[Any], list[int]]:
    """The values, and the base for the next column.

    >>> decode({'d': [3, 0], 'none': [1]}, [7, 3])
    ([10, None], [10, 3])

    Raises:
        ValueError, TypeError, KeyError: the code is not one.
    """
    if type(code) is int:
        known = [last + code for last in base] if code else list(base)
        return known, known
    if type(code) is list:
        known = [last + delta for last, delta in zip(base, code, strict=True)]
        return known, known
    if code is None:
        return [None] * len(base), list(base)
    if isinstance(code, str):
        return decode_columns(_unpack(code), base)
    if "=" in code:
        return code["="], list(base)
    known, base = decode_columns(code["d"], base)
    missing = set(code["none"])
    return [None if place in missing else value for place, value in enumerate(known)], base


def encode_seconds(values: Sequence[float | None], base: Sequence[int]) -> tuple[Column, list[int]]:
    """Like :func:`encode`, for seconds: as whole milliseconds where all of them are, else as they stand.

    >>> encode_seconds([1.5], [1000])
    (500, [1500])
    """
    in_ms = [_milliseconds(value) for value in values]
    if any(value is not None and ms is None for value, ms in zip(values, in_ms, strict=True)):
        return {"=": list(values)}, list(base)
    return encode_columns(in_ms, base)


def decode_seconds(code: Column, base: Sequence[int]) -> tuple[list[float | None], list[int]]:
    """The inverse of :func:`encode_seconds`."""
    values, known = decode_columns(code, base)
    if isinstance(code, dict) and "=" in code:
        return values, known
    return [None if value is None else value / 1000 for value in values], known


def encode_either(values: Sequence[Any], base: Sequence[int], other: Sequence[int] | None) -> tuple[Column, list[int]]:
    """Like :func:`encode`, but from another column where every value differs from that by the same number.

    >>> encode_either([4, 8, 7], [1, 1, 1], [3, 7, 6])
    ({'other': 1}, [4, 8, 7])
    """
    code, known = encode_columns(values, base)
    if other is None or type(code) is int:
        return code, known
    from_other, known_then = encode_columns(values, other)
    return ({"other": from_other}, known_then) if type(from_other) is int else (code, known)


def decode_either(code: Column, base: Sequence[int], other: Sequence[int]) -> tuple[list[Any], list[int]]:
    """The inverse of :func:`encode_either`."""
    if type(code) is dict and "other" in code:
        return decode_columns(code["other"], other)
    return decode_columns(code, base)


def encode_list(values: list[int]) -> list[int] | str:
    """A list whose length the reader does not know."""
    return values if len(values) <= _PLAIN else _packed(values)


def decode_list(code: list[int] | str) -> list[int]:
    """The inverse of :func:`encode_list`."""
    return _unpack(code) if isinstance(code, str) else code


def _milliseconds(value: float | None) -> int | None:
    """Whole milliseconds that stand for exactly this value; None if there are none."""
    if value is None or not abs(value) < 1e12:
        return None
    ms = round(value * 1000)
    return ms if ms / 1000 == value else None


def _pack(deltas: list[int]) -> int | list[int] | str:
    if deltas and deltas.count(deltas[0]) == len(deltas):
        return deltas[0]
    return encode_list(deltas)


def _packed(values: list[int]) -> list[int] | str:
    lowest = min(values)
    room = max(values) - lowest
    width = next((code for code, size in _WIDTHS.items() if room < 1 << 8 * size), None)
    if width is None:
        return values
    packed = struct.pack(f"<{len(values)}{width}", *(value - lowest for value in values))
    return f"{lowest}:{width}:{base64.b64encode(packed).decode('ascii')}"


def _unpack(text: str) -> list[int]:
    lowest, width, packed = text.split(":")
    data = base64.b64decode(packed, validate=True)
    least = int(lowest)
    return [least + value for value in struct.unpack(f"<{len(data) // _WIDTHS[width]}{width}", data)]
