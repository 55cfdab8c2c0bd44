"""The only file that knows prometheus_client: our series as its metric families, and its HTTP server."""

from __future__ import annotations

import errno
import importlib.util
import logging
import math
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from rheostat.config.models import MetricsSettings
from rheostat.errors import Fault, InputError, to_install
from rheostat.journal.records import DecisionRecord, Header, OutcomeRecord
from rheostat.journal.store import Journal, States
from rheostat.model import Action, Assessment, Offsets, ReasonCode

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class KnownFigures:
    """What is known at the time of a scrape."""

    def __init__(self, hearing: Hearing) -> None:
        self._hearing = hearing

    def collect(self) -> Iterator[Metric]:
        """A family for each metric that has a sample."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        families = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}
        for each in series(self._hearing.heard):
            family = families[each.kind](each.name, each.meaning, labels=each.labels)
            for labels, value in each.samples.items():
                family.add_metric(labels, value)
            yield family


class HttpServer:
    """Serves what is heard, each scrape in a daemon thread of its own.

    Raises:
        OSError: it cannot listen there.
    """

    def __init__(self, host: str, port: int, hearing: Hearing) -> None:
        from prometheus_client import CollectorRegistry, start_http_server

        registry = CollectorRegistry()
        registry.register(KnownFigures(hearing))
        self._server, self._thread = start_http_server(port, host, registry)

    def close(self) -> None:
        """End it and give the port free. May be called more than once."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


# What is told of a job: names and units by Prometheus's conventions, and only what is known.


_Samples = dict[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class Series:
    """One metric with its samples.

    Attributes:
        labels: names of the labels.
        samples: values of the labels → value; never empty, each finite.
    """

    name: str
    meaning: str
    samples: _Samples
    kind: Literal["gauge", "counter"] = "gauge"
    labels: tuple[str, ...] = ()


class _Gauge(NamedTuple):
    """A figure of the last cycle as a whole."""

    name: str
    meaning: str
    read: Callable[[Assessment], float | None]


def _healthy(assessment: Assessment) -> float | None:
    if assessment.backlog is None or assessment.backlog_excess is None:
        return None
    return assessment.backlog - assessment.backlog_excess


_SEEN = (
    _Gauge("rheostat_backlog_records", "Records in the sources that are not committed.", lambda seen: seen.backlog),
    _Gauge(
        "rheostat_healthy_backlog_records",
        "The part of the backlog that a job that keeps up has too: what arrives in a trigger and a batch.",
        _healthy,
    ),
    _Gauge("rheostat_lag_seconds", "Age of the oldest record that is not committed.", lambda seen: seen.lag_s),
    _Gauge(
        "rheostat_arrival_records_per_second",
        "Records that reach the sources, over the rate window.",
        lambda seen: seen.arrival_rate,
    ),
    _Gauge(
        "rheostat_processed_records_per_second",
        "Records that are committed, over the rate window.",
        lambda seen: seen.processed_rate,
    ),
    _Gauge("rheostat_busy_ratio", "Share of the time of the slots in tasks.", lambda seen: seen.busy_ratio),
    _Gauge(
        "rheostat_occupancy_ratio",
        "Time of the last batch, or of the running one if that is longer, by the time that it may take.",
        lambda seen: seen.occupancy,
    ),
    _Gauge("rheostat_registered_executors", "Executors that are registered.", lambda seen: seen.executors),
    _Gauge("rheostat_requested_executors", "Executors that were asked for last.", lambda seen: seen.requested),
    _Gauge(
        "rheostat_metrics_age_seconds",
        "Age of the oldest figure that the last decision needed, when it was made.",
        lambda seen: seen.metrics_age_s,
    ),
)

_TARGET = ("rheostat_target_executors", "Executors that the last decision wants.")
_CYCLE = ("rheostat_last_cycle_timestamp_seconds", "When the last decision was made, seconds since the epoch.")
_LATEST = ("rheostat_latest_offset_records", "Records that the partition has got.")
_COMMITTED = ("rheostat_committed_offset_records", "Records of the partition that the query has committed.")
_DECISIONS = ("rheostat_decisions_total", "Decisions, holds included, by what they do and why.")
_FAILED = ("rheostat_failed_cycles_total", "Cycles that failed: they hold.")

NAMES = (
    *(gauge.name for gauge in _SEEN),
    *(name for name, _ in (_TARGET, _CYCLE, _LATEST, _COMMITTED, _DECISIONS, _FAILED)),
)
"""Every metric that there can be."""


def series(heard: Heard) -> Iterator[Series]:
    """What is known now."""
    if heard.last is not None:
        yield from _of_cycle(heard.last)
    if heard.decisions:
        counts: _Samples = {(str(action), str(code)): float(many) for (action, code), many in heard.decisions.items()}
        yield Series(*_DECISIONS, counts, "counter", ("action", "code"))
    yield Series(*_FAILED, {(): float(heard.failed)}, "counter")


def _of_cycle(last: DecisionRecord) -> Iterator[Series]:
    seen = last.assessment
    if seen is not None:
        for name, meaning, read in _SEEN:
            yield from _single(name, meaning, read(seen))
    yield from _single(*_TARGET, last.decision.target)
    yield from _single(*_CYCLE, last.at)
    yield from _positions(*_LATEST, last, lambda found: found.latest)
    yield from _positions(*_COMMITTED, last, lambda found: found.committed)


def _single(name: str, meaning: str, value: float | None) -> Iterator[Series]:
    if value is not None and math.isfinite(value):
        yield Series(name, meaning, {(): float(value)})


def _positions(
    name: str, meaning: str, last: DecisionRecord, read: Callable[[Offsets], Sequence[int | None]]
) -> Iterator[Series]:
    """A position in each partition of each query where it is known."""
    samples: _Samples = {}
    for query in last.observation.queries if last.observation is not None else ():
        if query.offsets is None:
            continue
        rows = zip(query.offsets.topics, query.offsets.numbers, read(query.offsets), strict=True)
        for topic, number, value in rows:
            if value is not None:
                samples[query.name or query.query_id, topic, str(number)] = float(value)
    if samples:
        yield Series(name, meaning, samples, labels=("query", "topic", "partition"))


# A journal that is listened to: what was recorded last, and how often what was decided.


@dataclass(frozen=True, slots=True)
class Heard:
    """What is known from the records so far.

    Attributes:
        last: the last cycle; None before the first, and where the last record could not be written.
        decisions: how many by action and reason code.
        failed: cycles that came to no decision, also those that could not be recorded.
    """

    last: DecisionRecord | None = None
    decisions: Mapping[tuple[Action, ReasonCode], int] = field(default_factory=dict)
    failed: int = 0

    def then(self, record: DecisionRecord) -> Heard:
        """After a record that was written."""
        key = (record.decision.action, record.decision.reason.code)
        counts = {**self.decisions, key: self.decisions.get(key, 0) + 1}
        return Heard(record, counts, self.failed + _failed(record))

    def without(self, record: DecisionRecord | OutcomeRecord) -> Heard:
        """After a record that could not be written."""
        return replace(self, last=None, failed=self.failed + _failed(record))


class Hearing:
    """Where the loop's thread leaves what was heard and other threads find it: one value, replaced as a whole.

    Neither waits for the other.
    """

    def __init__(self) -> None:
        self.heard = Heard()


class OverheardJournal:
    """The journal given, with each record heard."""

    def __init__(self, journal: Journal, hearing: Hearing) -> None:
        self._journal = journal
        self._hearing = hearing
        self.folder = getattr(journal, "folder", None)

    @property
    def last_id(self) -> int:
        """That of the journal."""
        return self._journal.last_id

    def start(self, header: Header, note: str | None = None) -> None:
        """Begin a session in the journal."""
        self._journal.start(header, note)

    def record(self, record: DecisionRecord | OutcomeRecord, states: States) -> None:
        """Keep a record in the journal, and only then hear it."""
        try:
            self._journal.record(record, states)
        except BaseException:
            self._hearing.heard = self._hearing.heard.without(record)
            raise
        if isinstance(record, DecisionRecord):
            self._hearing.heard = self._hearing.heard.then(record)

    def close(self) -> None:
        """Give the journal free."""
        self._journal.close()


def _failed(record: DecisionRecord | OutcomeRecord) -> bool:
    return isinstance(record, DecisionRecord) and record.decision.reason.code is ReasonCode.CYCLE_FAILED


# Opening the port, with what can be wrong about that as faults.


_log = logging.getLogger("rheostat")


class Served(Protocol):
    """A port that is being served."""

    def close(self) -> None:
        """Give it free. May be called more than once."""
        ...


def serve(settings: MetricsSettings, hearing: Hearing) -> Served | None:
    """Serve what is heard, in threads of its own; None: nobody wants it.

    Raises:
        InputError: the port or the address cannot be had, or prometheus_client is not installed.
    """
    if settings.port is None:
        return None
    if importlib.util.find_spec("prometheus_client") is None:
        message = f"metrics need prometheus-client; {to_install('metrics')}"
        raise InputError([Fault("metrics.port", str(settings.port), "null without the extra metrics", message)])

    try:
        served = HttpServer(settings.host, settings.port, hearing)
    except OSError as error:
        raise InputError([_fault(settings.host, settings.port, error)]) from error
    _log.info("metrics are at http://%s:%d/metrics", settings.host, settings.port)
    return served


def _fault(host: str, port: int, error: OSError) -> Fault:
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return Fault("metrics.host", host, "an address of this machine", "this machine cannot listen there")
    if error.errno == errno.EADDRINUSE:
        return Fault("metrics.port", str(port), "a port that is free", f"something else listens on {host} there")
    message = f"it cannot be opened: {error.strerror or error}"
    return Fault("metrics.port", str(port), "a port that this user may open", message)
