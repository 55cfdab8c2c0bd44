"""Settings of the pipelines."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from rheostat.errors import Fault, InputError

__all__ = ["ClickFraudSettings", "PipelineSettings", "TaxiSettings", "parse_seconds"]

_DURATION = re.compile(r"\s*(?P<value>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|min|m)?\s*")
_LARGEST_ERROR = 0.39
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, None: 1.0}


def parse_seconds(text: str) -> float:
    """A duration in seconds; the unit is ms, s, m or min, and s if there is none.

    Raises:
        ValueError: the text is not a duration.

    >>> parse_seconds("500ms"), parse_seconds("2s"), parse_seconds("3")
    (0.5, 2.0, 3.0)
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        message = f"not a duration: {text!r}"
        raise ValueError(message)
    return float(match["value"]) * _UNITS[match["unit"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """What every pipeline is told: where records come from, where results go, when a batch begins.

    Attributes:
        source: ``"kafka"`` (Spark's own Kafka source) or ``"log"`` (the embedded log).
        checkpoint: folder of the query's checkpoint. It belongs to one source: begin a new one to change it.
        out: folder of the sink, see :mod:`rheostat.pipelines.sink`.
        bootstrap, topic: broker addresses and topic, for Kafka.
        log: folder of the log, for the embedded log.
        starting: where a query without a checkpoint begins. ``earliest``: nothing that was produced before is missed.
        cap: most records in one batch (``maxOffsetsPerTrigger``). Without a cap an overloaded query swallows all that
            waits in one ever longer batch, and nothing is committed or measured until it ends.
        trigger_s: seconds between the starts of two batches. 2: about 4 × the fixed cost of a batch.
        lookup_ms: wait of each record for its look-up, in ms. 0: none. 2: one slot carries 500 records/s at most.
        fetch_wait_ms: how long the Kafka consumer's fetch waits for further records (``fetch.max.wait.ms``); None:
            Kafka's default, 500. Spark asks for the ends of the log on the same connection after each read, so where
            records come slowly every reading task waits until that fetch has ended.
        query_name: name of the query, as listeners and the web UI show it.
    """

    source: str
    checkpoint: str
    out: str
    bootstrap: str | None = None
    topic: str | None = None
    log: str | None = None
    starting: str = "earliest"
    cap: int | None = 4000
    trigger_s: float = 2.0
    lookup_ms: float = 2.0
    fetch_wait_ms: int | None = None
    query_name: str = "pipeline"

    def __post_init__(self) -> None:
        faults = [*self._source_faults(), *self._number_faults(), *self._time_faults()]
        if faults:
            raise InputError(faults)

    def _source_faults(self) -> list[Fault]:
        needs = {"kafka": ("bootstrap", "topic"), "log": ("log",)}
        faults = [
            _missing(name) for name in (*needs.get(self.source, ()), "checkpoint", "out") if not getattr(self, name)
        ]
        if self.source not in needs:
            faults.append(Fault("source", repr(self.source), "kafka, log", "where records come from"))
        if self.starting not in ("earliest", "latest"):
            message = "where a query without a checkpoint begins"
            faults.append(Fault("starting", repr(self.starting), "earliest, latest", message))
        if self.checkpoint and self.checkpoint == self.out:
            message = "the checkpoint and the output need a folder each"
            faults.append(Fault("out", repr(self.out), "another folder than checkpoint", message))
        return faults

    def _number_faults(self) -> list[Fault]:
        faults = []
        if self.cap is not None and not _is_count(self.cap):
            faults.append(Fault("cap", repr(self.cap), "an integer ≥ 1, or none", "the most records in one batch"))
        if self.fetch_wait_ms is not None and not _is_count(self.fetch_wait_ms):
            message = "how long a fetch waits for further records"
            faults.append(Fault("fetch_wait_ms", repr(self.fetch_wait_ms), "an integer ≥ 1, or none", message))
        return faults

    def _time_faults(self) -> list[Fault]:
        return [
            Fault(name, repr(getattr(self, name)), f"a number ≥ {bound}", "a length of time")
            for name, bound in self._shortest().items()
            if not _at_least(getattr(self, name), bound)
        ]

    def _shortest(self) -> dict[str, float]:
        """Lengths of time, and the least of each."""
        return {"trigger_s": 0, "lookup_ms": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClickFraudSettings(PipelineSettings):
    """What the click-fraud pipeline is told. All faults are reported at once.

    Attributes:
        shuffle_partitions: tasks of the aggregation, and partitions of its state: fixed for the life of a checkpoint.
            2: it is the look-up that needs the executors, and each partition adds about 50 ms to every batch.
        distinct_error: relative standard deviation of the approximate distinct counts. 0.1: the state of a key is then
            some 100 bytes; 0.05, Spark's own default, takes four times that and a tenth more time for a batch.
        lateness_s: how long after the newest event time a record may still come (watermark). 600: longer than any pause
            or backlog that is survived, so that none is dropped; longer keeps more windows in the state.
        window_s: length of the event-time windows, seconds. 60 in the published experiment.
    """

    shuffle_partitions: int = 2
    distinct_error: float = 0.1
    lateness_s: float = 600.0
    window_s: float = 60.0
    query_name: str = "click_fraud"

    def _number_faults(self) -> list[Fault]:
        faults = super(ClickFraudSettings, self)._number_faults()
        if not _is_count(self.shuffle_partitions):
            message = "the number of tasks of the aggregation"
            faults.append(Fault("shuffle_partitions", repr(self.shuffle_partitions), "an integer ≥ 1", message))
        if not (_at_least(self.distinct_error, 0.01) and self.distinct_error <= _LARGEST_ERROR):
            allowed = f"a number from 0.01 to {_LARGEST_ERROR}"
            message = "the relative standard deviation of distinct counts"
            faults.append(Fault("distinct_error", repr(self.distinct_error), allowed, message))
        return faults

    def _shortest(self) -> dict[str, float]:
        return {**super(ClickFraudSettings, self)._shortest(), "lateness_s": 0, "window_s": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaxiSettings(PipelineSettings):
    """What the taxi pipeline is told. All faults are reported at once.

    Its work is a few multiplications for each record: without a wait one slot carries tens of thousands of records/s.
    In S2 a replica, a small computer, carried some 55: ``lookup_ms`` 18.
    """

    lookup_ms: float = 0.0
    query_name: str = "taxi_attractions"


def _missing(name: str) -> Fault:
    return Fault(name, "nothing", "a text that is not empty", f"{name} is needed")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _at_least(value: Any, least: float) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value >= least
