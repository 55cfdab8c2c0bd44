"""The load as the router sees it: time buckets, a baseline without spikes, and what is predicted from it. S5.

An arrival rate is the mean over a window that ended at the metric's *own time*, which is older than the look by the
delay of the metrics; it counts for the middle of that window. Samples are gathered into buckets. A bucket that is
complete is tested against what the baseline before it follows, so it is itself left out: an error beyond 3 σ,
with a floor for σ, makes it an *outlier*, which is kept aside. As many outliers in a row as ``reset`` are no spike
but another load: they become the baseline, and what was before is dropped. One that fits the baseline ends the count;
the outliers before it were a spike. With each complete bucket the load is fitted anew: by a parabola in a trough
(:func:`rheostat.analyze.regression.trough_or_line`), else by a line.

Of several sources the sum is fitted: over the same buckets the lines of the sources add up to the line of their sum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from rheostat.analyze.regression import Fit, Point, trough_or_line

__all__ = ["Bucket", "Load", "Spikes", "collected", "is_outlier", "up_to_now"]

_FEWEST = 4
"""Points of a baseline from which on an outlier can be told: a line through three has one error left to judge by."""


class Bucket(NamedTuple):
    """The samples of one time bucket: which, how many, and the sums of their times and rates."""

    number: int
    samples: int
    time: float
    rate: float

    @property
    def point(self) -> Point:
        """The means."""
        return Point(self.time / self.samples, self.rate / self.samples)


@dataclass(frozen=True, slots=True)
class Load:
    """What is remembered of the load.

    Attributes:
        bucket: the one that is being filled; None: none yet.
        baseline: complete buckets without outliers, oldest first.
        outliers: complete buckets in a row, up to the last one, that lie beyond 3 σ.
        fit: what the baseline follows; None: no bucket is complete yet.
        resets: how often the baseline was reset.
    """

    bucket: Bucket | None = None
    baseline: tuple[Point, ...] = ()
    outliers: tuple[Point, ...] = ()
    fit: Fit | None = None
    resets: int = 0


class Spikes(NamedTuple):
    """How outliers are told.

    Attributes:
        deviations: errors of so many σ are outliers (S5: 3).
        floor: σ is no less than this share of the predicted rate: a steady load leaves no error at all.
        reset: so many outliers in a row reset the baseline.
    """

    deviations: float
    floor: float
    reset: int


def is_outlier(fit: Fit | None, point: Point, spikes: Spikes) -> bool:
    """Whether a point lies beyond 3 σ of what the points before it follow; never after fewer than four.

    >>> from rheostat.analyze.regression import line
    >>> fit = line([Point(x, 10 + 2 * x + e) for x, e in enumerate((1, -1, 0, 0, -1, 1))])
    >>> spikes = Spikes(deviations=3.0, floor=0.01, reset=3)
    >>> is_outlier(fit, Point(6, 22 + 2.44), spikes), is_outlier(fit, Point(6, 22 + 2.46), spikes)
    (False, True)
    """
    if fit is None or fit.points < _FEWEST:
        return False
    expected = fit.at(point.at)
    deviation = max(fit.deviation, spikes.floor * abs(expected))
    return abs(point.value - expected) > spikes.deviations * deviation


def collected(load: Load, at: float, rate: float, spans: tuple[float, float], spikes: Spikes) -> Load:
    """The load with one more sample.

    Args:
        load: as the sample before left it.
        at: the middle of the time that the rate is the mean of, s. Time that runs backwards starts anew.
        rate: records/s.
        spans: length of a bucket, and how far back the baseline reaches, s.
        spikes: how outliers are told.
    """
    bucket_s, window_s = spans
    number, bucket = int(at // bucket_s), load.bucket
    if bucket is None or number < bucket.number:
        return Load(Bucket(number, 1, at, rate), resets=load.resets)
    if number == bucket.number:
        return replace(load, bucket=Bucket(number, bucket.samples + 1, bucket.time + at, bucket.rate + rate))
    return _complete(load, bucket.point, Bucket(number, 1, at, rate), at - window_s, spikes)


def _complete(load: Load, point: Point, bucket: Bucket, oldest: float, spikes: Spikes) -> Load:
    """The load with a complete bucket: in the baseline, or aside, or in place of the baseline."""
    if not is_outlier(load.fit, point, spikes):
        kept = [each for each in load.baseline if each.at >= oldest]
        return _fitted(bucket, (*kept, point), load.resets)
    outliers = (*load.outliers, point)
    if len(outliers) < spikes.reset:
        return replace(load, bucket=bucket, outliers=outliers)
    return _fitted(bucket, outliers, load.resets + 1)


def _fitted(bucket: Bucket, baseline: tuple[Point, ...], resets: int) -> Load:
    return Load(bucket, baseline, fit=trough_or_line(baseline), resets=resets)


def up_to_now(load: Load, spikes: Spikes) -> Fit | None:
    """What the baseline follows together with the bucket that is being filled, unless a spike may be going on."""
    if load.bucket is None or not load.baseline or load.outliers or is_outlier(load.fit, load.bucket.point, spikes):
        return load.fit
    return trough_or_line((*load.baseline, load.bucket.point))
