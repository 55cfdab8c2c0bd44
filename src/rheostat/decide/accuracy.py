"""What an accuracy is measured by: records, their weights, the error of an aggregate, the recall of a join.

Sinks are promised an accuracy; shedding needs the share of the records that gives it. Stream Economics counts records,
and names other functions as future work [S3].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from statistics import NormalDist
from typing import Any, NamedTuple, Protocol

from rheostat.config.shedding import SheddingGraph
from rheostat.errors import Fault, InputError, attempt
from rheostat.plugins import Plugins

MEASURES = Plugins("measure", "rheostat.accuracies", "docs/shedding.md")


class Seen(NamedTuple):
    """What is known of the records that are offered to a sink.

    Attributes:
        offered: since the look before.
        values: quantiles of their values at equal distances; empty: no edge on their way drops by value.
    """

    offered: int
    values: tuple[float, ...] = ()


class Measure(Protocol):
    """An accuracy in [0, 1] by the share of the records that is kept. Never falls as the share rises."""

    def reached(self, share: float, seen: Seen) -> float:
        """The accuracy that a share of the records gives."""
        ...

    def needed(self, accuracy: float, seen: Seen) -> float:
        """The least share of the records that gives an accuracy."""
        ...


@dataclass(frozen=True, slots=True)
class Records:
    """The share of the records itself [S3]."""

    def reached(self, share: float, seen: Seen) -> float:  # noqa: ARG002
        return share

    def needed(self, accuracy: float, seen: Seen) -> float:  # noqa: ARG002
        return accuracy


@dataclass(frozen=True, slots=True)
class JoinRecall:
    """The share of the pairs that a join still finds, where its inputs drop independently of one another.

    Where they drop by key it is the share of the keys: then the accuracy is that of ``records``.

    >>> JoinRecall().reached(0.5, Seen(10)), JoinRecall().needed(0.25, Seen(10))
    (0.25, 0.5)
    """

    inputs: int = 2

    def __post_init__(self) -> None:
        _require("inputs", self.inputs, "an integer ≥ 1", type(self.inputs) is int and self.inputs >= 1)

    def reached(self, share: float, seen: Seen) -> float:  # noqa: ARG002
        return float(share**self.inputs)

    def needed(self, accuracy: float, seen: Seen) -> float:  # noqa: ARG002
        return float(accuracy ** (1 / self.inputs))


@dataclass(frozen=True, slots=True)
class AggregateError:
    """1 − the relative error of a sum of values that are weighted by 1 ÷ share, half the width of its interval.

    Records are kept independently of one another, so the sum's standard error is √((1 − d) ÷ (d·n) · (1 + v²)) of it.

    >>> measure = AggregateError(variation=0.0)
    >>> round(measure.reached(0.5, Seen(1537)), 3), round(measure.needed(0.95, Seen(1537)), 3)
    (0.95, 0.5)

    Attributes:
        variation: v, standard deviation of the values ÷ their mean.
        confidence: of the interval.
        groups: results that share the records equally, such as the windows and keys of a look.
    """

    variation: float = 1.0
    confidence: float = 0.95
    groups: int = 1

    def __post_init__(self) -> None:
        for name in ("variation", "confidence", "groups"):
            _require(name, getattr(self, name), "a number", type(getattr(self, name)) in (int, float))
        _require("variation", self.variation, "≥ 0", 0 <= self.variation < inf)
        _require("confidence", self.confidence, "between 0 and 1", 0 < self.confidence < 1)
        _require("groups", self.groups, "≥ 1", 1 <= self.groups < inf)

    def reached(self, share: float, seen: Seen) -> float:
        if share >= 1.0:
            return 1.0
        spread = self._spread(seen)
        return max(0.0, 1 - (spread * (1 - share) / share) ** 0.5) if share > 0 else 0.0

    def needed(self, accuracy: float, seen: Seen) -> float:
        spread = self._spread(seen)
        return spread / (spread + (1 - accuracy) ** 2) if accuracy > 0 else 0.0

    def _spread(self, seen: Seen) -> float:
        z = NormalDist().inv_cdf((1 + self.confidence) / 2)
        return z * z * (1 + self.variation**2) * self.groups / max(1, seen.offered)


@dataclass(frozen=True, slots=True)
class Weight:
    """The share of the sum of the values, where an edge keeps the greatest first; of the records, without values.

    >>> seen = Seen(100, (0.0, 0.0, 10.0))
    >>> Weight().reached(0.5, seen), Weight().needed(0.75, seen)
    (1.0, 0.375)
    """

    def reached(self, share: float, seen: Seen) -> float:
        points = _weights(seen.values)
        return _interpolate(points, share) if points else share

    def needed(self, accuracy: float, seen: Seen) -> float:
        points = _weights(seen.values)
        return _interpolate([(weight, share) for share, weight in points], accuracy) if points else accuracy


def _require(name: str, given: Any, allowed: str, holds: bool) -> None:
    if not holds:
        message = f"{name} is {given!r}, it must be {allowed}"
        raise ValueError(message)


def _weights(values: tuple[float, ...]) -> list[tuple[float, float]]:
    """Shares of the records, the greatest first, and the share of the sum that they have."""
    parts = [max(0.0, (low + high) / 2) for low, high in pairwise(values)][::-1]
    whole, points, so_far = sum(parts), [(0.0, 0.0)], 0.0
    for number, part in enumerate(parts, 1):
        so_far += part
        points.append((number / len(parts), so_far / whole if whole else number / len(parts)))
    return points if parts else []


def _interpolate(points: list[tuple[float, float]], at: float) -> float:
    for (left, low), (right, high) in pairwise(points):
        if at <= right:
            return low + (high - low) * (at - left) / (right - left) if right > left else low
    return points[-1][1]


def measures_of(graph: SheddingGraph) -> dict[str, Measure]:
    """What the accuracy of each sink is measured by.

    Raises:
        InputError: every measure that is unknown, lacks a part, or does not take its options.
    """
    found, faults = dict[str, Measure](), list[Fault]()
    for sink in graph.sinks.values():
        if sink.measure == "records":
            found[sink.name] = Records()
            if sink.measure_options:
                given = repr(dict(sink.measure_options))
                faults.append(Fault(f"sinks.{sink.name}.measure_options", given, "none", "records has no options"))
            continue
        kind: Any = attempt(MEASURES.load, None, faults, sink.measure, ("reached", "needed"))
        if kind is None:
            continue
        try:
            measure = kind(**sink.measure_options)
            _try(measure, sink.minimum_accuracy)
            found[sink.name] = measure
        except (TypeError, ValueError, ArithmeticError) as error:
            field = f"sinks.{sink.name}.measure_options"
            faults.append(Fault(field, repr(dict(sink.measure_options)), f"options of {sink.measure}", str(error)))
    if faults:
        raise InputError(faults)
    return found


def _try(measure: Any, minimum: float) -> None:
    """Raise ValueError if what a measure answers is no share."""
    share = measure.needed(minimum, Seen(1000))
    for name, answer in (("needed", share), ("reached", measure.reached(share, Seen(1000)))):
        if not isinstance(answer, int | float) or not 0 <= answer <= 1:
            message = f"{name}() of the measure gives {answer!r}, which is no number from 0 to 1"
            raise ValueError(message)


def in_records(graph: SheddingGraph, measures: Mapping[str, Measure], seen: Mapping[str, Seen]) -> SheddingGraph:
    """The graph with each promise as the share of the records that keeps it."""
    sinks = {
        name: replace(sink, minimum_accuracy=min(1.0, measures[name].needed(sink.minimum_accuracy, seen[name])))
        for name, sink in graph.sinks.items()
    }
    return replace(graph, sinks=sinks)
