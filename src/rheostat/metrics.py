"""Prometheus metrics of a job. Names and units follow Prometheus's conventions; unknown values have no series."""

from __future__ import annotations

import errno
import importlib.util
import logging
import math
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rheostat.config.models import MetricsSettings
from rheostat.errors import Fault, InputError, to_install
from rheostat.journal.records import DecisionRecord, Header, OutcomeRecord
from rheostat.journal.store import Journal, States
from rheostat.model import Action, Assessment, Decision, EdgeCount, Offsets, ReasonCode, add_counts

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_log = logging.getLogger("rheostat")


def _healthy_backlog(assessment: Assessment) -> float | None:
    if assessment.backlog is None or assessment.backlog_excess is None:
        return None
    return assessment.backlog - assessment.backlog_excess


_HEALTHY = "The part of the backlog that a job that keeps up has too: what arrives in a trigger and a batch."
_ARRIVAL = "Records that reach the sources, over the rate window."
_PROCESSED = "Records that are committed, over the rate window."
_OCCUPANCY = "Time of the last batch, or of the running one if that is longer, by the time that it may take."
_AGE = "Age of the oldest figure that the last decision needed, when it was made."
_GAUGES: tuple[tuple[str, str, Callable[[Assessment], float | None]], ...] = (
    ("rheostat_backlog_records", "Records in the sources that are not committed.", lambda a: a.backlog),
    ("rheostat_healthy_backlog_records", _HEALTHY, _healthy_backlog),
    ("rheostat_lag_seconds", "Age of the oldest record that is not committed.", lambda a: a.lag_s),
    ("rheostat_arrival_records_per_second", _ARRIVAL, lambda a: a.arrival_rate),
    ("rheostat_processed_records_per_second", _PROCESSED, lambda a: a.processed_rate),
    ("rheostat_busy_ratio", "Share of the time of the slots in tasks.", lambda a: a.busy_ratio),
    ("rheostat_occupancy_ratio", _OCCUPANCY, lambda a: a.occupancy),
    ("rheostat_registered_executors", "Executors that are registered.", lambda a: a.executors),
    ("rheostat_requested_executors", "Executors that were asked for last.", lambda a: a.requested),
    ("rheostat_metrics_age_seconds", _AGE, lambda a: a.metrics_age_s),
)
_TARGET = ("rheostat_target_executors", "Executors that the last decision wants.")
_CYCLE = ("rheostat_last_cycle_timestamp_seconds", "When the last decision was made, seconds since the epoch.")
_LATEST = ("rheostat_latest_offset_records", "Records that the partition has got.")
_COMMITTED = ("rheostat_committed_offset_records", "Records of the partition that the query has committed.")
_DECISIONS = ("rheostat_decisions_total", "Decisions, holds included, by what they do and why.")
_OFFERED = ("rheostat_offered_records_total", "Records that came to an edge where they may be dropped.")
_KEPT = ("rheostat_kept_records_total", "Records that the edge kept.")
_PROMISED = ("rheostat_sink_minimum_accuracy_ratio", "Share of the offered records that the sink was promised.")
_WANTED = ("rheostat_sink_wanted_accuracy_ratio", "Share that it is to get from the next batch on.")
_MEASURED = ("rheostat_sink_measured_accuracy_ratio", "Share that it got in the batches since the decision before.")
_SHEDDING = (_OFFERED, _KEPT, _PROMISED, _WANTED, _MEASURED)
_FAILED = ("rheostat_failed_cycles_total", "Cycles that failed: they hold.")

NAMES = (
    *(name for name, _, _ in _GAUGES),
    *(name for name, _ in (_TARGET, _CYCLE, _LATEST, _COMMITTED, _DECISIONS, *_SHEDDING, _FAILED)),
)
"""Every metric that there can be."""


@dataclass(frozen=True, slots=True)
class MetricsState:
    """What the records so far say.

    Attributes:
        last: the last cycle; None before the first, and after a record that could not be written.
        decisions: their number by action and reason code.
        failed: cycles without a decision, also those that could not be recorded.
        edges: counts of the shedding graph, added up.
    """

    last: DecisionRecord | None = None
    decisions: Mapping[tuple[Action, ReasonCode], int] = field(default_factory=dict)
    failed: int = 0
    edges: tuple[EdgeCount, ...] = ()


class JobMetrics:
    """Collector for prometheus_client. The loop's thread sets its state, as a whole; scrapes read it."""

    def __init__(self) -> None:
        self.state = MetricsState()

    def count(self, record: DecisionRecord | OutcomeRecord, *, written: bool) -> None:
        """Count a record; one that could not be written is no decision, and leaves the last cycle unknown."""
        state = self.state
        if isinstance(record, DecisionRecord) and record.decision.reason.code is ReasonCode.CYCLE_FAILED:
            state = replace(state, failed=state.failed + 1)
        if not written:
            state = replace(state, last=None)
        elif isinstance(record, DecisionRecord):
            key = (record.decision.action, record.decision.reason.code)
            decisions = {**state.decisions, key: state.decisions.get(key, 0) + 1}
            ended = () if record.assessment is None else record.assessment.edges
            edges = add_counts([*state.edges, *ended])
            state = replace(state, last=record, decisions=decisions, edges=edges)
        self.state = state

    def collect(self) -> Iterator[Metric]:
        """A family for each metric that has a sample."""
        from prometheus_client.core import CounterMetricFamily

        state = self.state
        if state.last is not None:
            yield from _cycle_metrics(state.last)
            yield from _accuracy_metrics(state.last.decision)
        yield from _edge_metrics(state.edges)
        if state.decisions:
            decisions = CounterMetricFamily(*_DECISIONS, labels=("action", "code"))
            for (action, code), count in state.decisions.items():
                decisions.add_metric((action.value, code.value), count)
            yield decisions
        yield CounterMetricFamily(*_FAILED, value=state.failed)


class CountingJournal:
    """Journal wrapper that counts decisions for the metrics endpoint."""

    def __init__(self, journal: Journal, metrics: JobMetrics) -> None:
        self._journal = journal
        self._metrics = metrics
        self.folder = getattr(journal, "folder", None)

    @property
    def last_id(self) -> int:
        return self._journal.last_id

    def start(self, header: Header, note: str | None = None) -> None:
        self._journal.start(header, note)

    def record(self, record: DecisionRecord | OutcomeRecord, states: States) -> None:
        """Write a record to the journal, and only then count it."""
        try:
            self._journal.record(record, states)
        except BaseException:
            self._metrics.count(record, written=False)
            raise
        self._metrics.count(record, written=True)

    def close(self) -> None:
        self._journal.close()


def _cycle_metrics(last: DecisionRecord) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    assessment = last.assessment
    values = [] if assessment is None else [(name, meaning, read(assessment)) for name, meaning, read in _GAUGES]
    for name, meaning, value in [*values, (*_TARGET, last.decision.target), (*_CYCLE, last.at)]:
        if value is not None and math.isfinite(value):
            yield GaugeMetricFamily(name, meaning, value=value)
    known = assessment is not None and assessment.backlog is not None
    yield from _position_metrics(*_LATEST, last, _latest if known else lambda offsets: offsets.latest)
    if known:
        yield from _position_metrics(*_COMMITTED, last, lambda offsets: offsets.committed)


def _edge_metrics(edges: Sequence[EdgeCount]) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily

    for (name, meaning), field_name in ((_OFFERED, "offered"), (_KEPT, "kept")) if edges else ():
        family = CounterMetricFamily(name, meaning, labels=("edge",))
        for each in edges:
            family.add_metric((each.edge,), getattr(each, field_name))
        yield family


def _accuracy_metrics(decision: Decision) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    sinks = () if decision.shedding is None else decision.shedding.sinks
    for (name, meaning), column in ((_PROMISED, "minimum"), (_WANTED, "wanted"), (_MEASURED, "measured")):
        family = GaugeMetricFamily(name, meaning, labels=("sink",))
        for sink in sinks:
            value = getattr(sink, column)
            if value is not None:
                family.add_metric((sink.sink,), value)
        if family.samples:
            yield family


def _latest(offsets: Offsets) -> Sequence[int | None]:
    """Latest offsets; a batch that was planned or committed after they were read has reached beyond them."""
    rows = zip(offsets.latest, offsets.planned, offsets.committed, strict=True)
    return [None if latest is None else max(latest, planned or 0, done or 0) for latest, planned, done in rows]


def _position_metrics(
    name: str, meaning: str, last: DecisionRecord, read: Callable[[Offsets], Sequence[int | None]]
) -> Iterator[Metric]:
    """The known positions in all partitions. A query that is listed twice counts once, as read last.

    Committed ones are told only where the analysis knows the backlog: without it they do not fit the latest ones (a
    topic was created anew) or are not all there, and a sum of the differences would be wrong.
    """
    from prometheus_client.core import GaugeMetricFamily

    samples: dict[tuple[str, str, str], int] = {}
    for query in last.observation.queries if last.observation is not None else ():
        if query.offsets is not None:
            rows = zip(query.offsets.topics, query.offsets.numbers, read(query.offsets), strict=True)
            for topic, number, value in rows:
                if value is not None and 0 <= value < math.inf:
                    samples[query.name or query.query_id, topic, str(number)] = value
    if samples:
        family = GaugeMetricFamily(name, meaning, labels=("query", "topic", "partition"))
        for labels, position in samples.items():
            family.add_metric(labels, position)
        yield family


class MetricsServer:
    """The metrics endpoint; every scrape has a daemon thread.

    Raises:
        OSError: the address or port is not available.
    """

    def __init__(self, host: str, port: int, metrics: JobMetrics) -> None:
        from prometheus_client import CollectorRegistry, start_http_server

        registry = CollectorRegistry()
        registry.register(metrics)
        self._server, self._thread = start_http_server(port, host, registry)

    def close(self) -> None:
        """Stop the endpoint and release its port. May be called more than once."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


def serve(settings: MetricsSettings, metrics: JobMetrics) -> MetricsServer | None:
    """Start the metrics endpoint. Returns None when ``metrics.port`` is unset.

    Raises:
        InputError: the port or the address is not available, or prometheus_client is not installed.
    """
    if settings.port is None:
        return None
    if importlib.util.find_spec("prometheus_client") is None:
        message = f"metrics need prometheus-client; {to_install('metrics')}"
        raise InputError([Fault("metrics.port", str(settings.port), "null without the extra metrics", message)])
    try:
        server = MetricsServer(settings.host, settings.port, metrics)
    except OSError as error:
        raise InputError([_fault(settings.host, settings.port, error)]) from error
    _log.info("metrics are at http://%s:%d/metrics", settings.host, settings.port)
    return server


def _fault(host: str, port: int, error: OSError) -> Fault:
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return Fault("metrics.host", host, "an address of this machine", "this machine cannot listen there")
    if error.errno == errno.EADDRINUSE:
        return Fault("metrics.port", str(port), "a port that is free", f"something else listens on {host} there")
    message = f"it cannot be opened: {error.strerror or error}"
    return Fault("metrics.port", str(port), "a port that this user may open", message)
