"""Observation from outside the driver: executors by Spark's REST interface, queries by their checkpoints.

REST shows no progress of streaming queries, so there are no finished batches here. The backlog is known nevertheless:
latest offsets from Kafka or the embedded log, committed and planned ones from the checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rheostat.errors import UnavailableError
from rheostat.model import Cluster, Gap, Observation, Offsets, QueryReading, RunningBatch, SourceInfo
from rheostat.observe.parse import (
    merged,
    not_a_count,
    parse_executors,
    partition_map,
    partition_offsets,
    running_batch,
    skip_deleted,
)
from rheostat.observe.wall import WallTimes
from rheostat.spark.jvm import Position
from rheostat.spark.kafka_admin import Subscription
from rheostat.spark.kafka_offsets import offset_to_json, plan_of
from rheostat.spark.kafka_topics import KafkaTopics
from rheostat.spark.log_files import LOG_TOPIC, latest_offsets

if TYPE_CHECKING:
    from rheostat.http_client import Http

_NO_PROGRESS = "finished batches cannot be seen from outside the driver: Spark's REST interface does not tell them"
_UNREADABLE = (UnavailableError, ValueError)


@dataclass(frozen=True, slots=True)
class OutsideQuery:
    """A streaming query that is observed from outside.

    Attributes:
        checkpoint: its checkpoint folder.
        trigger_s: its trigger interval, which cannot be seen from outside.
        kafka: where its topics are; None if it reads none.
        log: folder of the embedded log; None if it does not read it.
    """

    checkpoint: Path
    name: str | None = None
    trigger_s: float | None = None
    kafka: KafkaTopics | None = None
    log: Path | None = None


class RestSource:
    """An application, through the address of its Spark UI.

    Args:
        url: of the UI (``"http://driver:4040"``) or of a history server.
        app: id of the application; None: the first that is listed.
        queries: those to be observed.
        requested: returns the number of executors requested last, if any.
        timeout_s: how long the UI may take for an answer; the first one of a busy driver took more than 2 s.
    """

    def __init__(
        self,
        url: str,
        *,
        app: str | None = None,
        queries: Iterable[OutsideQuery] = (),
        requested: Callable[[], int | None] = lambda: None,
        timeout_s: float = 5.0,
    ) -> None:
        self._url = url.rstrip("/") + "/api/v1/applications"
        self._app = app
        self._queries = tuple(queries)
        self._requested = requested
        self._timeout_s = timeout_s
        self._http: Http | None = None
        self._times = WallTimes()

    def observe(self, at: float) -> Observation:
        gaps: list[Gap] = []
        self._times.begin(at)
        readings = [_read_query(query, at, gaps, self._times) for query in self._queries]
        cluster = None
        try:
            listed = parse_executors(self._executors(), partial(self._times.place, of="executor"))
            cluster = Cluster.of(at, listed, self._requested())
        except _UNREADABLE as error:
            gaps.append(Gap("cluster", str(error)))
        return Observation(at, tuple(reading for reading in readings if reading is not None), cluster, tuple(gaps))

    def close(self) -> None:
        http, self._http = self._http, None
        if http is not None:
            http.close()
        for query in self._queries:
            if query.kafka is not None:
                query.kafka.close()

    def _executors(self) -> list[dict[str, Any]]:
        if self._app is None:
            listed = self._get("")
            if not listed:
                message = f"no application is listed at {self._url}"
                raise UnavailableError(message)
            self._app = str(listed[0].get("id"))
        return self._get(f"/{self._app}/executors")

    def _get(self, path: str) -> list[dict[str, Any]]:
        from rheostat.http_client import Http

        if self._http is None:
            self._http = Http(self._timeout_s, redirects=True)
        url = self._url + path
        try:
            listed = self._http.ask("GET", url).accepted().json()
        except UnavailableError as error:
            message = f"{url} gave no answer ({error}): is the UI off (spark.ui.enabled=false), or elsewhere?"
            raise UnavailableError(message) from error
        if not (isinstance(listed, list) and all(isinstance(entry, dict) for entry in listed)):
            message = f"{url} gave an answer that is not understood: {str(listed)[:100]}"
            raise UnavailableError(message)
        return listed


def _read_query(query: OutsideQuery, at: float, gaps: list[Gap], times: WallTimes) -> QueryReading | None:
    try:
        known_as = query_id(query.checkpoint)
    except _UNREADABLE as error:
        gaps.append(Gap("queries", str(error)))
        return None
    gaps.append(Gap("batch", _NO_PROGRESS, known_as))
    running: RunningBatch | None = None
    offsets: Offsets | None = None
    sources: tuple[SourceInfo, ...] = ()
    try:
        where = position(query.checkpoint)
        running = running_batch(where, at, times.place)
        pairs = zip(where.planned, where.committed, strict=True)
        found = [_read_source(query, planned, committed, at) for planned, committed in pairs]
        offsets, sources = merged(each for each, _ in found), tuple(info for _, info in found)
    except _UNREADABLE as error:
        gaps.append(Gap("offsets", str(error), known_as))
    return QueryReading(known_as, "", query.name, query.trigger_s, sources, offsets, running=running)


def _read_source(query: OutsideQuery, planned: object, committed: object, at: float) -> tuple[Offsets, SourceInfo]:
    known = partition_map(planned)
    if known is None:
        message = f"a source whose offsets do not tell how many records wait: {str(planned)[:100]}"
        raise UnavailableError(message)
    topics = sorted({topic for topic, _ in known})
    if query.log is not None and topics == [LOG_TOPIC]:
        latest = latest_offsets(query.log)
        partitions = partition_offsets(latest, planned, committed, dict.fromkeys(latest, 0))
        because = not_a_count(partitions)
        info = SourceInfo("log", str(query.log), len(partitions))
    elif query.kafka is not None:
        at_kafka = query.kafka.partitions(Subscription(topics=tuple(topics)))
        if missing := set(topics).difference(at.topic for at in at_kafka):
            message = f"Kafka has no topic {', '.join(sorted(missing))}"
            raise UnavailableError(message)
        latest, earliest = query.kafka.latest(at_kafka), query.kafka.earliest(at_kafka)
        partitions = partition_offsets(latest, planned, committed, earliest)
        because = not_a_count(partitions, earliest) or ("transactions" if query.kafka.read_committed else None)
        partitions = skip_deleted(partitions, earliest)
        info = SourceInfo("kafka", ", ".join(topics), len(partitions))
    else:
        message = f"nothing was given that tells the latest offsets of {', '.join(topics)}"
        raise UnavailableError(message)
    return Offsets.of(at, partitions, because is None, because), info


# Checkpoint folders, on a local or mounted disk


def query_id(checkpoint: Path) -> str:
    """The id that the query keeps over restarts; raises UnavailableError if this is no readable checkpoint."""
    try:
        return str(json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))["id"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"no checkpoint of a query can be read in {checkpoint}: {error!r}"
        raise UnavailableError(message) from error


def position(checkpoint: Path) -> Position:
    """Committed and planned offsets.

    Commits are read before offsets, so that a batch that is committed meanwhile counts as in flight a moment longer.

    Raises:
        UnavailableError: nothing has been planned yet, or the checkpoint cannot be read.
        ValueError: its offset log is of a form that is not understood.
    """
    log = checkpoint / "offsets"
    try:
        committed, planned = (max(list_batches(each), default=None) for each in (checkpoint / "commits", log))
        if planned is None:
            message = f"no batch has been planned in {checkpoint}"
            raise UnavailableError(message)
        ends = read_offsets(log / str(planned))
        if committed == planned:
            return Position(planned, running=False, started_s=None, committed=ends, planned=ends)
        if committed is None:
            folders = [checkpoint / "sources" / str(number) for number in range(len(ends))]
            starts = tuple(_first_offset(folder / "0", end) for folder, end in zip(folders, ends, strict=True))
        else:
            starts = read_offsets(log / str(committed))
        planned_at = (log / str(planned)).stat().st_mtime
        return Position(planned, running=True, started_s=planned_at, committed=starts, planned=ends)
    except OSError as error:
        message = f"the checkpoint {checkpoint} cannot be read: {error}"
        raise UnavailableError(message) from error


def offset_log_entry(text: str) -> tuple[object, ...]:
    """The offsets in a file of the offset log, one for each source; None for one that has none yet.

    Raises:
        ValueError: it is of another version than v1, or damaged.
    """
    version, *lines = text.splitlines()
    if version != "v1" or not lines:
        message = f"an offset log of version {version!r} is not understood, 'v1' is"
        raise ValueError(message)
    return tuple(None if line == "-" else json.loads(line) for line in lines[1:])


def read_offsets(file: Path) -> tuple[Any, ...]:
    """The offsets at which a batch ends, one for each source; raises as :func:`offset_log_entry`."""
    return offset_log_entry(file.read_text(encoding="utf-8"))


def _first_offset(file: Path, end: object) -> object:
    """Kafka writes a zero byte, ``v1`` and the offsets; rheostat-kafka has them in the first ``end``; others none."""
    if not file.is_file():
        begin = plan_of(end).begin if isinstance(end, Mapping) else {}
        return offset_to_json(begin) if begin else None
    version, _, offset = file.read_text(encoding="utf-8").lstrip("\0").partition("\n")
    return json.loads(offset) if version == "v1" and offset.startswith("{") else None


def list_batches(folder: Path) -> list[int]:
    """The batches in a log of a checkpoint (``commits``, ``offsets``), ascending."""
    return sorted(int(file.name) for file in folder.iterdir() if file.name.isdecimal()) if folder.is_dir() else []
