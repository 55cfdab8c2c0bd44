"""Observation from outside the driver: executors by Spark's REST interface, queries by their checkpoints.

REST tells nothing of the progress of streaming queries, so there are no finished batches here. What waits is known
nevertheless: latest offsets from Kafka or the embedded log, committed and planned ones from the checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rheostat.errors import UnavailableError
from rheostat.jvm.reading import Position
from rheostat.model import Cluster, Gap, Observation, Offsets, QueryReading, RunningBatch, SourceInfo
from rheostat.observe import log_folder
from rheostat.observe.checkpoint import position, query_id
from rheostat.observe.executors import parse_executors
from rheostat.observe.kafka import KafkaOffsets
from rheostat.observe.offsets import merged, not_a_count, partition_map, partition_offsets

if TYPE_CHECKING:
    from rheostat.http_client import Http

__all__ = ["OutsideQuery", "RestSource"]

_NO_PROGRESS = "finished batches cannot be seen from outside the driver: Spark's REST interface does not tell them"
_NOT_SEEN = (UnavailableError, ValueError)


@dataclass(frozen=True, slots=True)
class OutsideQuery:
    """A streaming query that is looked at from outside.

    Attributes:
        checkpoint: its checkpoint folder.
        name: for people.
        trigger_s: its trigger interval, which cannot be seen from outside.
        kafka: where its topics are; None if it reads none.
        log: folder of the embedded log; None if it does not read it.
    """

    checkpoint: Path
    name: str | None = None
    trigger_s: float | None = None
    kafka: KafkaOffsets | None = None
    log: Path | None = None


class RestSource:
    """An application, through the address of its Spark UI.

    Args:
        url: of the UI (``"http://driver:4040"``) or of a history server.
        app: id of the application; None: the first that is listed.
        queries: those to be looked at.
        requested: tells the number of executors asked for last, if anybody asked.
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

    def observe(self, at: float) -> Observation:
        """Look once. What could not be seen is a gap, with the reason."""
        gaps: list[Gap] = []
        readings = (self._reading(query, at, gaps) for query in self._queries)
        found = tuple(reading for reading in readings if reading is not None)
        cluster = None
        try:
            cluster = Cluster.of(at, parse_executors(self._executors()), self._requested())
        except _NOT_SEEN as error:
            gaps.append(Gap("cluster", str(error)))
        return Observation(at, found, cluster, tuple(gaps))

    def close(self) -> None:
        """Close the connections."""
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
        try:
            listed = self._http.ask("GET", self._url + path).accepted().json()
        except UnavailableError as error:
            message = (
                f"{self._url}{path} gave no answer ({error}): is the UI off (spark.ui.enabled=false), or elsewhere?"
            )
            raise UnavailableError(message) from error
        if not (isinstance(listed, list) and all(isinstance(entry, dict) for entry in listed)):
            message = f"{self._url}{path} gave an answer that is not understood: {str(listed)[:100]}"
            raise UnavailableError(message)
        return listed

    def _reading(self, query: OutsideQuery, at: float, gaps: list[Gap]) -> QueryReading | None:
        try:
            known_as = query_id(query.checkpoint)
        except _NOT_SEEN as error:
            gaps.append(Gap("queries", str(error)))
            return None
        gaps.append(Gap("batch", _NO_PROGRESS, known_as))
        running: RunningBatch | None = None
        offsets: Offsets | None = None
        sources: tuple[SourceInfo, ...] = ()
        try:
            where = position(query.checkpoint)
            running = RunningBatch(at, where.running, where.batch_id if where.running else None, where.started_s)
            offsets, sources = _offsets(query, where, at)
        except _NOT_SEEN as error:
            gaps.append(Gap("offsets", str(error), known_as))
        return QueryReading(known_as, "", query.name, query.trigger_s, sources, offsets, running=running)


def _offsets(query: OutsideQuery, where: Position, at: float) -> tuple[Offsets | None, tuple[SourceInfo, ...]]:
    found = [
        _source(query, planned, committed, at)
        for planned, committed in zip(where.planned, where.committed, strict=True)
    ]
    return merged(offsets for offsets, _ in found), tuple(info for _, info in found)


def _source(query: OutsideQuery, planned: object, committed: object, at: float) -> tuple[Offsets, SourceInfo]:
    stands = partition_map(planned)
    if stands is None:
        message = f"a source whose offsets do not tell how many records wait: {str(planned)[:100]}"
        raise UnavailableError(message)
    topics = sorted({topic for topic, _ in stands})
    earliest: dict[tuple[str, int], int] = {}
    if query.log is not None and topics == [log_folder.TOPIC]:
        kind, name, latest = "log", str(query.log), log_folder.latest_offsets(query.log)
    elif query.kafka is not None:
        kind, name, latest = "kafka", ", ".join(topics), query.kafka.latest(topics)
        earliest = query.kafka.earliest(topics)
    else:
        message = f"nothing was given that tells the latest offsets of {', '.join(topics)}"
        raise UnavailableError(message)
    partitions = partition_offsets(latest, planned, committed)
    because = not_a_count(partitions, earliest, frozenset())
    if kind == "kafka" and query.kafka is not None and query.kafka.read_committed:
        because = "transactions"
    return Offsets.of(at, partitions, because is None, because), SourceInfo(kind, name, len(partitions))
