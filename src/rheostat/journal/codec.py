"""Records to the lines of a journal, and back.

What seldom changes (queries, their sources and partitions, the hosts of executors, the nodes and the pairs of them with
a known round trip) is written once, in a ``keyframe`` line before the first record that needs it, and referred to by
its place. The rest of an observation is::

    {"q": [{"s": query, "o": [at, topology, latest, planned, committed, …], "b": [batch …], "e": [[batch …], …],
            "r": [running …]}],
     "c": [at, requested, executors, active, failed, finished, busy, excluded, gc],
     "n": [at, map, used, free, round trips],
     "p": [processors, busy],
     "g": [gap …]}

``b``, each of ``e``, and ``r`` hold the fields of :class:`~rheostat.model.Batch` (``stages``, ``offsets`` and those
behind them last, where there are any) and :class:`~rheostat.model.RunningBatch` in their order. Columns are written as
differences; see the end of this file.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from functools import partial
from itertools import groupby
from typing import Any, TypeVar

from rheostat.errors import Fault, InputError
from rheostat.files import reason_of
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
    edges_from_json,
    outcome_from_json,
    outcome_to_json,
)
from rheostat.journal.types import find_wrong
from rheostat.model import (
    Assessment,
    Batch,
    Cluster,
    CpuUse,
    Decision,
    ExecutorCpu,
    ExecutorWork,
    Gap,
    NodeCpu,
    NodeReading,
    Nodes,
    Observation,
    Offsets,
    Outcome,
    QueryReading,
    Roster,
    RoundTrip,
    RunningBatch,
    SourceInfo,
    StageWork,
)

T = TypeVar("T")
Column = Any
"""A column of integers or seconds, in JSON."""

Bases = list[list[int]]
"""For each column of a table entry the values that the next differences are taken from."""

_REREAD = ("reread_s", "reread_least_s", "reread_records")
_LATER: Mapping[str, Any] = {"stages": (), "offsets": (), "listing_s": None, **dict.fromkeys(_REREAD), "edges": ()}
"""Fields of a batch that come last, with what stands for one that is left out."""
_BATCH = tuple(field.name for field in fields(Batch) if field.name not in _LATER)
_RUNNING = tuple(field.name for field in fields(RunningBatch))
_COUNTERS = 5
"""Columns of an executor, each with a base of its own."""


class Encoder:
    """Encodes records relative to earlier ones. A new encoder starts with a keyframe that resets decoders."""

    def __init__(self) -> None:
        self._tables: dict[str, dict[Any, tuple[int, Any]]] = {}
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
        added, self._added = self._added, {}
        return (_line({"type": "keyframe", **added}) if added else b"") + _line(line)

    def _entry(self, table: str, key: Any, describe: Callable[[], tuple[Any, Any]]) -> tuple[int, Any]:
        """The place of an entry in the reader's table and the bases of its columns; a new entry is announced."""
        known = self._tables.setdefault(table, {})
        if key not in known:
            entry, bases = describe()
            known[key] = len(known), bases
            self._added.setdefault(table, []).append(entry)
        return known[key]

    def _observation(self, observation: Observation, at: float) -> dict[str, Any]:
        out: dict[str, Any] = {} if observation.at == at else {"at": observation.at}
        if observation.queries:
            out["q"] = [self._query(query) for query in observation.queries]
        if observation.cluster is not None:
            out["c"] = self._cluster(observation.cluster)
        if observation.nodes is not None:
            out["n"] = self._nodes(observation.nodes)
        if observation.cpu is not None:
            out["p"] = self._cpu(observation.cpu)
        if observation.gaps:
            out["g"] = [[gap.section, gap.why, gap.query_id] for gap in observation.gaps]
        return out

    def _query(self, query: QueryReading) -> dict[str, Any]:
        sources = [asdict(source) for source in query.sources]
        entry = [query.query_id, query.run_id, query.name, query.trigger_s, sources]
        place, _ = self._entry("queries", json.dumps(entry), lambda: (entry, None))
        out: dict[str, Any] = {"s": place}
        if query.offsets is not None:
            out["o"] = self._offsets(place, query.offsets)
        if query.batch is not None:
            out["b"] = _batch_row(query.batch)
        if query.ended:
            out["e"] = [_batch_row(batch) for batch in query.ended]
        if query.running is not None:
            out["r"] = [getattr(query.running, name) for name in _RUNNING]
        if query.failed_because is not None:
            out["f"] = query.failed_because
        if query.uncountable is not None:
            out["u"] = query.uncountable
        if query.failed_before is not None:
            out["p"] = query.failed_before
        return out

    def _offsets(self, query: int, offsets: Offsets) -> list[Any]:
        key, columns = (query, offsets.topics, offsets.numbers), (offsets.latest, offsets.planned, offsets.committed)
        place, bases = self._entry(
            "topologies", key, lambda: _describe_topology(offsets.topics, offsets.numbers, columns)
        )
        coders = encode_columns, encode_columns, partial(encode_from_either, other=bases[1])
        out = [offsets.at, place, *_code_columns(coders, columns, bases)]
        exact = offsets.exact and offsets.inexact_because is None
        return out if exact else [*out, offsets.exact, offsets.inexact_because]

    def _cluster(self, cluster: Cluster) -> list[Any]:
        who = cluster.roster
        slots = who.slots or (None,) * len(who.ids)
        rows = zip(who.ids, who.hosts, who.cores, who.added_at, who.nodes, slots, strict=True)
        entries = [self._entry("executors", row, partial(_describe_executor, row)) for row in rows]
        columns = [cluster.active_tasks, cluster.failed_tasks, cluster.finished_tasks, cluster.busy_s]
        columns += [cluster.gc_s] if cluster.gc_s else []
        coders = encode_columns, encode_columns, encode_columns, encode_seconds, encode_seconds
        codes = _code_counters(coders[: len(columns)], columns, [counters for _, counters in entries])
        codes[4:] = [list(cluster.excluded), *codes[4:]] if cluster.excluded or cluster.gc_s else []
        return [cluster.at, cluster.requested, encode_list([place for place, _ in entries]), *codes]

    def _nodes(self, nodes: Nodes) -> list[Any]:
        names, pairs = [node.name for node in nodes.nodes], [(trip.a, trip.b) for trip in nodes.round_trips]
        trips = [trip.ms for trip in nodes.round_trips]
        place, bases = self._entry("maps", (tuple(names), tuple(pairs)), lambda: _describe_map(names, pairs, trips))
        columns = [node.used for node in nodes.nodes], [node.free for node in nodes.nodes], trips
        return [nodes.at, place, *_code_columns((encode_columns, encode_columns, encode_seconds), columns, bases)]

    def _cpu(self, cpu: CpuUse) -> list[Any]:
        nodes = tuple([(each.name, each.cores, each.speed) for each in cpu.nodes])
        rows = nodes, tuple([(each.executor_id, each.node) for each in cpu.executors])
        busy = [*(each.busy for each in cpu.nodes), *(each.busy for each in cpu.executors)]
        place, bases = self._entry("processors", rows, lambda: (rows, [[0] * len(busy)]))
        return [place, *_code_columns((encode_seconds,), (busy,), bases)]


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


def _describe_topology(
    topics: Sequence[str], numbers: Sequence[int], columns: Iterable[Sequence[Any]]
) -> tuple[list[Any], Bases]:
    bases = [[value if isinstance(value, int) else 0 for value in column] for column in columns]
    grouped = groupby(zip(topics, numbers, strict=True), lambda row: row[0])
    partitions = [(topic, [number for _, number in rows]) for topic, rows in grouped]
    named = [[topic, len(some) if some == list(range(len(some))) else some] for topic, some in partitions]
    return [named, *(encode_columns(base, [0] * len(topics))[0] for base in bases)], bases


def _describe_executor(row: tuple[Any, ...]) -> tuple[list[Any], list[int]]:
    """The row without the node and the slots, where they are None from there on."""
    known = 6 if row[5] is not None else 5 if row[4] is not None else 4
    return list(row[:known]), [0] * _COUNTERS


def _describe_map(names: list[str], pairs: list[tuple[str, str]], trips: list[float]) -> tuple[list[Any], Bases]:
    code, base = encode_seconds(trips, [0] * len(pairs))
    return [names, pairs, code], [[0] * len(names), [0] * len(names), base]


class Decoder:
    """Decodes the lines of one file, in order."""

    def __init__(self) -> None:
        self._started = False
        self._reset()

    def _reset(self) -> None:
        self._queries: list[list[Any]] = []
        self._topologies: list[tuple[tuple[str, ...], tuple[int, ...], Bases]] = []
        self._executors: list[tuple[list[Any], list[int]]] = []
        self._maps: list[tuple[list[str], list[list[str]], Bases]] = []
        self._processors: list[tuple[list[Any], list[Any], Bases]] = []

    def line(self, text: bytes, where: str) -> Record | None:
        """The record of the line at ``where`` (file and number); None if it only helps to read the next ones.

        Raises:
            InputError: the line is damaged.
        """
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise _damaged(where, f"this is no JSON: {_reason(error)}") from error
        if not isinstance(data, dict) or "type" not in data:
            raise _damaged(where, "the record has no type")
        return _blame(where, lambda: self._record(data, where))

    def _record(self, data: dict[str, Any], where: str) -> Record | None:
        _restore_nonfinite(data, data.get("nonfinite", ()))
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
            at = _time(data)
            outcome = outcome_from_json(data["outcome"], at)
            return OutcomeRecord(at=at, outcome=_check(where, "outcome", Outcome, outcome))
        raise _damaged(where, f"a record of an unknown type: {kind!r}")

    def _session(self, data: Mapping[str, Any], where: str) -> SessionRecord:
        if data["schema"] != SCHEMA:
            raise _damaged(where, f"the journal has the schema {data['schema']!r}; this version reads {SCHEMA!r}")
        self._started = True
        settings = _mapping(data, "settings")
        header = Header(version=data["version"], settings=settings, seed=data["seed"], job=data["job"])
        session = SessionRecord(at=_time(data), header=header, states=_mapping(data, "states"), note=data["note"])
        return _check(where, "session", SessionRecord, session)

    def _keyframe(self, data: Mapping[str, Any]) -> None:
        if "reset" in data:
            self._reset()
        self._queries += data.get("queries", ())
        for named, *codes in data.get("topologies", ()):
            topics: list[str] = []
            numbers: list[int] = []
            for topic, some in named:
                own = list(range(counted(some))) if isinstance(some, int) else some
                topics += [topic] * len(own)
                numbers += own
            bases = [decode_columns(code, [0] * len(topics))[0] for code in codes]
            self._topologies.append((tuple(topics), tuple(numbers), bases))
        for row in data.get("executors", ()):
            self._executors.append(([*row, *[None] * (6 - len(row))], [0] * _COUNTERS))
        for names, pairs, trips in data.get("maps", ()):
            base = decode_seconds(trips, [0] * len(pairs))[1]
            self._maps.append((names, pairs, [[0] * len(names), [0] * len(names), base]))
        for some, executors in data.get("processors", ()):
            self._processors.append((some, executors, [[0] * (len(some) + len(executors))]))

    def _decision(self, data: Mapping[str, Any], where: str) -> DecisionRecord:
        """A record whose columns are followed now, and whose values are made when they are first asked for."""
        at, decision, assessment = _time(data), data["decision"], data.get("assessment")
        nodes, observation = self._observation(data["observation"], at) if "observation" in data else (None, None)

        def decode_assessment() -> Assessment | None:
            return None if assessment is None else assessment_from_json(assessment, at, nodes)

        def decode_observation() -> Observation | None:
            return None if observation is None else observation()

        return DecisionRecord(
            at,
            decision["id"],
            lambda: _blame(where, lambda: _check(where, "decision", Decision, decision_from_json(decision, at))),
            lambda: _blame(where, lambda: _check(where, "assessment", Assessment | None, decode_assessment())),
            lambda: _blame(where, lambda: _check(where, "observation", Observation | None, decode_observation())),
        )

    def _observation(self, data: Mapping[str, Any], at: float) -> tuple[Nodes | None, Callable[[], Observation]]:
        queries = [
            (self._queries[query["s"]], self._offsets(*query["o"]) if "o" in query else None, query)
            for query in data.get("q", ())
        ]
        cluster = self._cluster(*data["c"]) if "c" in data else None
        nodes = self._nodes(*data["n"]) if "n" in data else None
        cpu = self._cpu(*data["p"]) if "p" in data else None
        return nodes, lambda: Observation(
            at=data.get("at", at),
            queries=tuple([_query(*query) for query in queries]),
            cluster=None if cluster is None else cluster(),
            gaps=tuple([Gap(section=section, why=why, query_id=query) for section, why, query in data.get("g", ())]),
            nodes=nodes,
            cpu=cpu,
        )

    def _offsets(self, at: float, topology: int, *codes: Any) -> Callable[[], Offsets]:
        topics, numbers, bases = self._topologies[topology]
        coders = decode_columns, decode_columns, partial(decode_from_either, other=bases[1])
        latest, planned, committed = _code_columns(coders, codes[:3], bases)
        _check_lengths("partitions", len(topics), latest, planned, committed)
        exact, inexact_because = codes[3:] or (True, None)
        return lambda: Offsets(
            at=at,
            topics=topics,
            numbers=numbers,
            latest=tuple(latest),
            planned=tuple(planned),
            committed=tuple(committed),
            exact=exact,
            inexact_because=inexact_because,
        )

    def _cluster(self, at: float, requested: int | None, executors: Any, *codes: Any) -> Callable[[], Cluster]:
        entries = [self._executors[place] for place in decode_list(executors)]
        coders = decode_columns, decode_columns, decode_columns, decode_seconds, decode_seconds
        columns = [*codes[:4], *codes[5:]]
        columns = _code_counters(coders[: len(columns)], columns, [counters for _, counters in entries])
        _check_lengths("executors", len(entries), *columns)
        active, failed, finished, busy, *gc = columns

        def build() -> Cluster:
            columns = tuple(zip(*(row for row, _ in entries), strict=True)) or ((),) * 6
            ids, hosts, cores, added_at, nodes, slots = columns
            slots = () if all(each is None for each in slots) else slots
            return Cluster(
                at=at,
                roster=Roster(ids=ids, hosts=hosts, cores=cores, added_at=added_at, nodes=nodes, slots=slots),
                active_tasks=tuple(active),
                failed_tasks=tuple(failed),
                finished_tasks=tuple(finished),
                busy_s=tuple(busy),
                requested=requested,
                excluded=tuple(codes[4]) if len(codes) > 4 else (),
                gc_s=tuple(gc[0]) if gc else (),
            )

        return build

    def _nodes(self, at: float, place: int, *codes: Any) -> Nodes:
        names, pairs, bases = self._maps[place]
        used, free, trips = _code_columns((decode_columns, decode_columns, decode_seconds), codes, bases)
        rows = zip(pairs, trips, strict=True)
        return Nodes(
            at=at,
            nodes=tuple(map(NodeReading, names, used, free)),
            round_trips=tuple([RoundTrip(a=a, b=b, ms=ms) for (a, b), ms in rows if ms is not None]),
        )

    def _cpu(self, place: int, *codes: Any) -> CpuUse:
        nodes, executors, bases = self._processors[place]
        (busy,) = _code_columns((decode_seconds,), codes, bases)
        of_nodes, of_executors = busy[: len(nodes)], busy[len(nodes) :]
        rows = zip(nodes, of_nodes, strict=True)  # without a speed: of a version before
        others = zip(executors, of_executors, strict=True)
        return CpuUse(
            nodes=tuple([NodeCpu(name, cores, used, *speed) for (name, cores, *speed), used in rows]),
            executors=tuple([ExecutorCpu(name, node, used) for (name, node), used in others]),
        )


def _query(entry: list[Any], offsets: Callable[[], Offsets] | None, data: Mapping[str, Any]) -> QueryReading:
    query_id, run_id, name, trigger_s, sources = entry
    return QueryReading(
        query_id=query_id,
        run_id=run_id,
        name=name,
        trigger_s=trigger_s,
        sources=tuple([SourceInfo(**source | {"topics": tuple(source.get("topics", ()))}) for source in sources]),
        offsets=None if offsets is None else offsets(),
        batch=_batch(data["b"]) if "b" in data else None,
        ended=tuple([_batch(row) for row in data.get("e", ())]),
        running=RunningBatch(**dict(zip(_RUNNING, data["r"], strict=True))) if "r" in data else None,
        failed_because=data.get("f"),
        uncountable=data.get("u"),
        failed_before=data.get("p"),
    )


def _check_lengths(what: str, number: int, *columns: list[Any]) -> None:
    if any(len(column) != number for column in columns):
        message = f"figures of another number of {what} than {number}"
        raise ValueError(message)


def _batch_row(batch: Batch) -> list[Any]:
    plain = [stage if stage.by_executor else stage[:2] for stage in batch.stages]
    later = [plain, *(getattr(batch, name) for name in _LATER if name != "stages")]
    while later and later[-1] in ((), [], None):
        later.pop()
    return [getattr(batch, name) for name in _BATCH] + later


def _batch(row: list[Any]) -> Batch:
    values = {**_LATER, **dict(zip((*_BATCH, *_LATER), row, strict=False))}
    values["stages"] = tuple([_stage(*stage) for stage in values["stages"]])
    values["edges"] = edges_from_json(values["edges"])
    return Batch(**{**values, "offsets": tuple(values["offsets"])})


def _stage(tasks: int, busy_s: float, by_executor: Iterable[Any] = ()) -> StageWork:
    return StageWork(tasks, busy_s, tuple([ExecutorWork(*row) for row in by_executor]))


def _blame(where: str, decode: Callable[[], T]) -> T:
    """Decode; an error becomes a fault of the line."""
    try:
        return decode()
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, struct.error) as error:
        lacks = isinstance(error, KeyError)
        raise _damaged(where, f"the record {'lacks' if lacks else 'cannot be read:'} {_reason(error)}") from error


def _check(where: str, name: str, hint: Any, value: T) -> T:
    """The value, if everything in it has the type that is declared; else the fault names the field."""
    wrong = find_wrong(value, hint)
    if wrong is None:
        return value
    message = f"{where}, {name}{wrong.path}: the value is of another type"
    raise InputError([Fault("journal", repr(wrong.given), wrong.allowed, message)])


def _damaged(where: str, what: str) -> InputError:
    return InputError([Fault("journal", where, f"a line of a journal ({SCHEMA})", what)])


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos + 1}"
    if isinstance(error, UnicodeDecodeError):
        return reason_of(error)
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
    value: Mapping[str, Any] = data[key]
    if not isinstance(value, dict):
        message = f"{key!r} has no keys: {value!r}"
        raise TypeError(message)
    return value


# JSON without NaN and infinities.


def _line(record: Mapping[str, Any]) -> bytes:
    """One line of JSON. NaN and infinities become null; ``nonfinite`` lists where they stood."""
    dump = partial(json.dumps, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    try:
        text = dump(record)
    except ValueError:
        marks: list[list[Any]] = []
        text = dump({**_without_nonfinite(record, [], marks), "nonfinite": marks})
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


def _restore_nonfinite(data: Any, marks: Iterable[list[Any]]) -> None:
    for *path, last, value in marks:
        place = data
        for step in path:
            place = place[step]
        place[last] = float(value)


# Columns as differences to the column before: exact, short, and fast to read. Each function takes a column and the base
# of its differences, and returns the coded (or decoded) column and the base of the next one.


_PLAIN = 32
_WIDTHS = {"B": 1, "H": 2, "I": 4, "Q": 8}
_Coder = Callable[[Any, Any], tuple[Any, list[int]]]


def _code_columns(coders: Sequence[_Coder], columns: Sequence[Any], bases: Bases) -> list[Any]:
    """Code columns (or decode them), each with its base, and keep the new bases."""
    out = []
    for number, (code, column) in enumerate(zip(coders, columns, strict=True)):
        coded, bases[number] = code(column, bases[number])
        out.append(coded)
    return out


def _code_counters(coders: Sequence[_Coder], columns: Sequence[Any], counters: Bases) -> list[Any]:
    """Likewise with bases by row: executors come and go, and each keeps its own counters."""
    bases = [[row[number] for row in counters] for number in range(len(coders))]
    out = _code_columns(coders, columns, bases)
    for row, values in zip(counters, zip(*bases, strict=True), strict=True):
        row[: len(values)] = values
    return out


def encode_columns(values: Sequence[Any], base: Sequence[int]) -> tuple[Column, list[int]]:
    """Integers as differences; the next base has the last known values.

    >>> encode_columns([10, None], [7, 3])
    ({'d': [3, 0], 'none': [1]}, [10, 3])
    """
    if values and all(value is None for value in values):
        return None, list(base)
    if any(value is not None and not isinstance(value, int) for value in values):
        return {"=": list(values)}, list(base)
    known = [last if value is None else value for value, last in zip(values, base, strict=True)]
    deltas = [value - last for value, last in zip(known, base, strict=True)]
    missing = [place for place, value in enumerate(values) if value is None]
    alike = bool(deltas) and deltas.count(deltas[0]) == len(deltas)
    code = deltas[0] if alike else encode_list(deltas)
    return ({"d": code, "none": missing} if missing else code), known


def decode_columns(code: Column, base: Sequence[int]) -> tuple[list[Any], list[int]]:
    """The inverse of :func:`encode_columns`.

    >>> decode_columns({'d': [3, 0], 'none': [1]}, [7, 3])
    ([10, None], [10, 3])

    Raises:
        ValueError, TypeError, KeyError: the code is invalid.
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
        return decode_columns(decode_list(code), base)
    if "=" in code:
        return code["="], list(base)
    known, base = decode_columns(code["d"], base)
    missing = set(code["none"])
    return [None if place in missing else value for place, value in enumerate(known)], base


def encode_seconds(values: Sequence[float | None], base: Sequence[int]) -> tuple[Column, list[int]]:
    """Seconds as differences of whole milliseconds, or as they are if one is not a whole number of them.

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


def encode_from_either(values: Sequence[Any], base: Sequence[int], other: Sequence[int]) -> tuple[Column, list[int]]:
    """Like :func:`encode_columns`, but from ``other`` if every value differs from that by the same number.

    >>> encode_from_either([4, 8, 7], [1, 1, 1], [3, 7, 6])
    ({'other': 1}, [4, 8, 7])
    """
    code, known = encode_columns(values, base)
    if type(code) is int:
        return code, known
    from_other, known_then = encode_columns(values, other)
    return ({"other": from_other}, known_then) if type(from_other) is int else (code, known)


def decode_from_either(code: Column, base: Sequence[int], other: Sequence[int]) -> tuple[list[Any], list[int]]:
    """The inverse of :func:`encode_from_either`."""
    if type(code) is dict and "other" in code:
        return decode_columns(code["other"], other)
    return decode_columns(code, base)


def encode_list(values: list[int]) -> list[int] | str:
    """A list of integers; a long one as ``lowest:width:base64`` if its values fit into 8 bytes above the lowest."""
    if len(values) <= _PLAIN:
        return values
    lowest = min(values)
    room = max(values) - lowest
    width = next((code for code, size in _WIDTHS.items() if room < 1 << 8 * size), None)
    if width is None:
        return values
    packed = struct.pack(f"<{len(values)}{width}", *(value - lowest for value in values))
    return f"{lowest}:{width}:{base64.b64encode(packed).decode('ascii')}"


def decode_list(code: list[int] | str) -> list[int]:
    """The inverse of :func:`encode_list`."""
    if not isinstance(code, str):
        return code
    lowest, width, packed = code.split(":")
    data = base64.b64decode(packed, validate=True)
    least = int(lowest)
    return [least + value for value in struct.unpack(f"<{len(data) // _WIDTHS[width]}{width}", data)]


def _milliseconds(value: float | None) -> int | None:
    """Whole milliseconds that are exactly this value; None if there are none."""
    if value is None or not abs(value) < 1e12:
        return None
    ms = round(value * 1000)
    return ms if ms / 1000 == value else None
