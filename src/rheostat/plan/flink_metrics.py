"""The figures that the Flink Kubernetes operator's autoscaler decides on, as pure functions.

Source: apache/flink-kubernetes-operator, flink-autoscaler/src/main/java/org/apache/flink/autoscaler:
ScalingMetricEvaluator, utils/AutoScalerUtils, JobVertexScaler, DelayedScaleDown. Its NaN is our None.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = [
    "Down",
    "Load",
    "Sample",
    "Scaling",
    "averages",
    "delayed",
    "ineffective",
    "target_capacity",
    "thresholds",
    "true_rate",
    "with_sample",
]

_SAMPLES = 60
_DOWNS = 64


@dataclass(frozen=True, slots=True)
class Sample:
    """What one sample adds to the metric window.

    Attributes:
        arrival: arrival rate, records/s.
        processed: processed rate, records/s; None: unknown.
        busy: share of the time in which the job is busy; None: unknown.
        observed: the processed rate while the job catches up, as a true processing rate; None: it does not.
    """

    at: float
    arrival: float
    processed: float | None
    busy: float | None
    observed: float | None


@dataclass(frozen=True, slots=True)
class Load:
    """The load over the metric window.

    Attributes:
        arrival: mean arrival rate, records/s.
        processed: mean processed rate, records/s; None: unknown.
        excess: backlog beyond that of a job that keeps up, now, records.
        rate: true processing rate, records/s; infinite where nothing is processed.
        catching_up: whether the excess is beyond the threshold for decreases.
    """

    arrival: float
    processed: float | None
    excess: float
    rate: float
    catching_up: bool


@dataclass(frozen=True, slots=True)
class Scaling:
    """A scaling and what was expected of it. Rates are true processing rates, records/s."""

    at: float
    before: int
    after: int
    rate: float
    expected: float


@dataclass(frozen=True, slots=True)
class Down:
    """A decrease that is held back: when, to how many, and whether the utilization was out of its boundaries."""

    at: float
    target: int
    outside: bool


def with_sample(samples: tuple[Sample, ...], new: Sample, window_s: float) -> tuple[Sample, ...]:
    """The window with one sample more, without those that are too old; no more than about 60 are kept."""
    kept = tuple(each for each in samples if each.at >= new.at - window_s)
    if kept and new.at - kept[-1].at < window_s / _SAMPLES:
        return kept
    return (*kept, new)


def averages(samples: Sequence[Sample]) -> tuple[float, float | None, float | None]:
    """Means of arrival, processed and busy; of what is unknown in some samples, over the others."""
    arrival = math.fsum(each.arrival for each in samples) / len(samples)
    both = [each for each in samples if each.processed is not None and each.busy is not None]
    return arrival, _mean(each.processed for each in both), _mean(each.busy for each in both)


def _mean(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return math.fsum(found) / len(found) if found else None


def true_rate(
    processed: float | None, busy: float | None, observed: Sequence[float], switch: float, least: int
) -> float | None:
    """Records/s while busy: processed ÷ busy, or the mean of the observed rates if that one is beyond it by ``switch``.

    Args:
        processed: processed rate, records/s.
        busy: share of the time that is busy.
        observed: processed rates while the job caught up.
        switch: by what share the first may exceed the second.
        least: observed rates that are needed to look at them.

    Returns:
        Infinite where nothing is processed or busy; None where it is unknown.

    >>> true_rate(35.0, 0.1, (200.0, 400.0), switch=0.2, least=2)
    350.0
    >>> true_rate(35.0, 0.1, (200.0, 400.0), switch=0.1, least=2)
    300.0
    """
    seen = _mean(observed) if len(observed) >= least else None
    if processed == 0 or busy == 0:
        by_busy: float | None = math.inf
    else:
        by_busy = None if processed is None or busy is None else processed / busy
    if seen is None or by_busy is None:
        return by_busy if seen is None else seen
    return seen if by_busy > seen * (1 + switch) else by_busy


def target_capacity(
    arrival: float, excess: float, utilization: float, catch_up_s: float, restart_s: float = 0.0
) -> float:
    """Records/s needed: arrival ÷ utilization + excess ÷ catch-up + arrival × restart ÷ catch-up.

    A catch-up duration of 0 leaves out the last two; a utilization of 0 needs without bound.

    >>> target_capacity(700.0, 21_000.0, utilization=0.7, catch_up_s=60.0, restart_s=30.0)
    1700.0
    """
    if utilization <= 0:
        return math.inf
    catching_up = 0.0 if catch_up_s <= 0 else (excess + arrival * restart_s) / catch_up_s
    return arrival / min(1.0, utilization) + catching_up


def thresholds(
    load: Load, utilization: tuple[float, float], catch_up_s: float, restart_s: float
) -> tuple[float, float]:
    """True processing rates between which nothing is done: more is needed below the first, less above the second.

    ``utilization`` are its boundaries, lower and upper. While a large backlog is processed it may go up to 1, and
    nothing is too much.
    """
    lower, upper = (0.0, 1.0) if load.catching_up else utilization
    return (
        target_capacity(load.arrival, load.excess, upper, catch_up_s),
        target_capacity(load.arrival, load.excess, lower, catch_up_s, restart_s),
    )


def ineffective(last: Scaling | None, current: int, rate: float, threshold: float) -> bool:
    """Whether the last scaling up, to ``current``, brought less than this share of the rate that it should bring."""
    if last is None or last.after <= last.before or last.after != current:
        return False
    return rate - last.rate < threshold * (last.expected - last.rate)


def delayed(downs: tuple[Down, ...], new: Down, interval_s: float) -> tuple[Down, ...]:
    """The decreases of the interval that can still be its maximum: targets fall from one to the next.

    The first one is the maximum.
    """
    kept = [each for each in downs if each.at >= new.at - interval_s and each.target > new.target]
    if len(kept) >= _DOWNS:
        kept[-2:] = [Down(kept[-1].at, kept[-2].target, kept[-2].outside)]
    return (*kept, new)
