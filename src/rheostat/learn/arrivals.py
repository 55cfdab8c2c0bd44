"""The load: the curve of arrivals, the level of their rate, the error of a forecast, growth, and regular rises.

The curve A(t) is the number of records that have arrived until t, known at each look and linear in between. What a
sample of s seconds says is y = ln(records that arrived in it ÷ s).

*Level* [ours]: a local-level Kalman filter on y. How much of y is noise is measured by the autocovariance of the
steps d = yₖ − yₖ₋₁, γ0 and γ1: the noise of a sample has the variance −γ1, the walk of the level γ0 + 2 γ1. Where
samples are shorter than 15 s, the steps are those between the means of m samples that last as long; the noise of a
sample is m times theirs then, and its walk 1 ÷ m. So what comes and goes within seconds is noise, though samples next
to each other have it in common, and the level depends little on how often the load is sampled. A sample farther from
the level than 3.5 standard deviations is a *jump*: the level is that sample. A fall is measured as a share of the rate,
since samples of few records are far apart in logarithms.

*Forecast error* [ours]: the rate is forecast to stay at its level. How wrong that is after k samples is measured, not
derived from the filter: v(k) is the mean square of ln(mean rate of the last k samples ÷ level before them). Noise that
reverts makes no forecast worse; a random walk extrapolated from the filter would.

*Growth* [ours]. A predictor says by how much ln(rate) will grow in a sample: its *slope* p. What it would have said of
the forecast that missed by e = ln(mean rate of the last k samples ÷ level before them) is x = p·(k + 1) ÷ 2. The share
of the predicted growth that came true is β = Σ e·x ÷ Σ x², and it explains c² = (Σ e·x)² ÷ (Σ x² · Σ e²) of what the
level alone missed. A predictor that explains less than a quarter of it, or no more than chance may, is not believed at
all: then nothing is different from what it would be without. A trend within two standard errors of none is none.

*Rhythm* [ours]: whether a load rises at regular times, as with jobs that run every hour, and when it will rise next.
The last four rises are remembered, each with the rate four samples later: a burst that is over by then is none. They
are regular if the times between them differ from their median by two samples at most; bursts without memory are so once
in hundreds of times. Nothing is expected of others.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

_MOST_LOOKS = 64
_LEAST_SHARE = 0.25
"""A sample without records, in a window with some, counts as this share of the window's rate: zero has no logarithm."""


class Curve(NamedTuple):
    """A(t): ascending times, s, and records that had arrived by then, counted from the first look."""

    times: tuple[float, ...] = ()
    totals: tuple[float, ...] = ()

    @property
    def total(self) -> float:
        return self.totals[-1] if self.totals else 0.0

    def rate_since(self, at: float) -> float:
        """Records/s from then until the last look; from the first look on, if that is later.

        >>> Curve((0.0, 10.0, 20.0), (0.0, 100.0, 400.0)).rate_since(5.0)
        23.333333333333332
        """
        if len(self.times) < 2 or at >= self.times[-1]:
            return 0.0
        place = max(1, bisect_left(self.times, at))
        since = max(at, self.times[0])
        return (self.total - _between(self.times, self.totals, place, since)) / (self.times[-1] - since)

    def time_of(self, total: float) -> float:
        """When so many records had arrived; beyond the known times by the slope at that end.

        >>> Curve((0.0, 10.0, 20.0), (0.0, 100.0, 400.0)).time_of(250.0)
        15.0
        """
        if len(self.times) < 2:
            return self.times[-1] if self.times else 0.0
        place = min(max(bisect_left(self.totals, total), 1), len(self.times) - 1)
        if self.totals[place] <= self.totals[place - 1]:
            return self.times[place - 1]
        return _between(self.totals, self.times, place, total)


def _between(xs: tuple[float, ...], ys: tuple[float, ...], place: int, x: float) -> float:
    """Y at x, on the line through the points before ``place`` and at it."""
    return ys[place - 1] + (ys[place] - ys[place - 1]) * (x - xs[place - 1]) / (xs[place] - xs[place - 1])


def extend_curve(curve: Curve, at: float, arrived: float) -> Curve:
    """The curve with one more look: so many records have arrived since the one before.

    >>> extend_curve(extend_curve(extend_curve(Curve(), 0.0, 0.0), 15.0, 150.0), 30.0, 300.0).totals
    (0.0, 150.0, 450.0)
    """
    if not curve.times or at <= curve.times[-1]:
        return Curve((at,), (0.0,))
    return Curve((*curve.times, at)[-_MOST_LOOKS:], (*curve.totals, curve.total + arrived)[-_MOST_LOOKS:])


# ------------------------------------------------------------------------------------------------------- level

_HORIZONS = (2, 4, 8, 16, 32, 64, 128)
_ERRORS = (0.004, 0.004, 0.006, 0.01, 0.014, 0.02, 0.028)
"""Samples ahead for which the error of the forecast is measured, and variances before any was."""
_FEWEST_HORIZONS = 4
_LONGEST_S = 240.0
"""The greatest horizon, where that is 16 samples or more."""
_NOTHING_MISSED: tuple[float | None, ...] = (None,) * _FEWEST_HORIZONS
_BLOCK_S = 15.0
"""Time over which samples are averaged to tell noise from a walk of the level."""
_MEMORY_S, _PRIOR_WEIGHT = 750.0, 8
"""Time that noise is averaged over; and what is assumed of it at first counts as so many blocks."""
_JUMP = 12.0
"""Squared deviations of a jump: 3.5 standard deviations, of ln(rate) upwards, of the share of the rate downwards."""
_SAME_JUMP = 3
_JUMPS = 12
_FEW_JUMPS = 4
_WINSOR = 2.5


@dataclass(frozen=True, slots=True)
class Level:
    """The level of the arrival rate, and what is known of its noise; variances of logarithms of rates.

    Attributes:
        log_rate: ln of the level, ln(records/s); None: nothing arrives.
        variance: of ``log_rate``.
        spread, link: γ0 and γ1 of the steps between blocks; ``block``: samples in each, one until three whole blocks
            are there.
        logs: y of the samples of the last three blocks, the latest last.
        jumps: times of the last jumps.
        calm: samples since the last jump.
        count: samples so far.
        rates, levels: of the last samples, the latest last.
        errors: v(k) for the horizons; beyond 16 samples only where samples are short.
        missed: what this sample said of the forecasts made k samples ago: ln(mean rate since ÷ level then); None: it
            said nothing.
    """

    log_rate: float | None = None
    variance: float = 0.01
    spread: float = 0.0204
    link: float = -0.01
    block: int = 1
    logs: tuple[float, ...] = ()
    jumps: tuple[float, ...] = ()
    calm: int = 0
    count: int = 0
    rates: tuple[float, ...] = ()
    levels: tuple[float, ...] = ()
    errors: tuple[float, ...] = _ERRORS[:_FEWEST_HORIZONS]
    missed: tuple[float | None, ...] = _NOTHING_MISSED

    @property
    def rate(self) -> float:
        """Records/s."""
        return 0.0 if self.log_rate is None else math.exp(self.log_rate)

    @property
    def block_noise(self) -> float:
        """Variance of the mean of a block around the level."""
        return min(max(-self.link, 0.02 * self.spread), 0.5 * self.spread)

    @property
    def noise(self) -> float:
        """Variance of a sample around the level."""
        return self.block * self.block_noise

    @property
    def walk(self) -> float:
        """Variance that the level gains in a sample."""
        return max(self.spread + 2 * self.link, 0.003 * self.spread) / self.block

    @property
    def longest(self) -> int:
        """The greatest horizon, samples."""
        return _HORIZONS[len(self.errors) - 1]

    def deviation(self, samples: float) -> float:
        """Standard deviation of ln(rate ÷ level) after so many samples.

        >>> level = Level(errors=(0.01, 0.04, 0.04, 0.09))
        >>> [round(level.deviation(samples), 6) for samples in (1, 3, 16, 64)]
        [0.1, 0.15, 0.3, 0.6]
        """
        if samples >= self.longest:
            return math.sqrt(self.errors[-1] * samples / self.longest)
        before = _HORIZONS[0], math.sqrt(self.errors[0])
        for horizon, error in zip(_HORIZONS, self.errors, strict=False):
            now = horizon, math.sqrt(error)
            if samples <= horizon:
                width = now[0] - before[0]
                return now[1] if not width else before[1] + (now[1] - before[1]) * (samples - before[0]) / width
            before = now
        return before[1]

    def between_jumps_s(self, at: float) -> float | None:
        """Mean time between jumps, s; None while fewer than four are known. The time since the last one counts, too."""
        if len(self.jumps) < _FEW_JUMPS:
            return None
        first, *_, last = self.jumps
        return max((last - first) / (len(self.jumps) - 1), (at - first) / len(self.jumps))


def forget_level(past: Level) -> Level:
    """What is known of the noise, without the level: nothing arrives, or nobody has looked."""
    return replace(past, log_rate=None, logs=(), calm=0, rates=(), levels=(), missed=_NOTHING_MISSED)


def follow_level(past: Level, at: float, rate: float, window_rate: float, sample_s: float) -> Level:
    """The level with one more sample: its ``rate``, and the mean rate over the rate window, records/s."""
    if len(past.errors) < len(_HORIZONS) and 2 * past.longest * sample_s <= _LONGEST_S:
        past = replace(past, errors=(*past.errors, _ERRORS[len(past.errors)]))
    if window_rate <= 0 or (past.log_rate is None and rate <= 0):
        return forget_level(past)
    y = math.log(max(rate, _LEAST_SHARE * window_rate))
    block = max(1, round(_BLOCK_S / sample_s))
    if block != past.block and len(past.logs) >= 3 * block:
        past = _measure_blocks(past, block)
    if past.log_rate is None:
        return replace(past, log_rate=y, logs=(y,), variance=past.noise, calm=1, rates=(rate,), levels=(y,))
    error, predicted = y - past.log_rate, past.variance + past.walk
    jumps, calm = past.jumps, past.calm + 1
    apart = error if error > 0 else -math.expm1(error)
    if apart * apart > _JUMP * (predicted + past.noise):
        level, variance, calm = y, max(past.noise, 0.1 * error * error), 0
        if past.calm >= _SAME_JUMP or not jumps:
            jumps = (*jumps, at)[-_JUMPS:]
    else:
        gain = predicted / (predicted + past.noise)
        level, variance = past.log_rate + gain * error, (1 - gain) * predicted
    logs = (*past.logs, y)[-3 * max(block, past.block) :]
    spread, link = _follow_noise(past, logs, sample_s / _MEMORY_S)
    rates, levels = (*past.rates, rate)[-past.longest :], past.levels
    missed = _find_missed(past.errors, rates, levels, calm)
    errors = _follow_errors(past.errors, missed, past.count)
    return replace(
        past,
        log_rate=level,
        variance=variance,
        logs=logs,
        spread=spread,
        link=link,
        jumps=jumps,
        calm=calm,
        count=past.count + 1,
        rates=rates,
        levels=(*levels, level)[-past.longest :],
        errors=errors,
        missed=missed,
    )


def _measure_blocks(past: Level, block: int) -> Level:
    """From now on noise is measured between blocks of so many samples; until then as single samples show it."""
    noise, walk = past.noise / block, past.walk * block
    return replace(past, block=block, spread=walk + 2 * noise, link=-noise)


def _follow_noise(past: Level, logs: tuple[float, ...], least_gain: float) -> tuple[float, float]:
    """γ0 and γ1 with the last two steps; one beyond 2.5 deviations counts as that."""
    block, logs = past.block, logs[-3 * past.block :]
    if len(logs) < 3 * block:
        return past.spread, past.link
    most = _WINSOR * math.sqrt(past.spread)
    means = [math.fsum(logs[start : start + block]) / block for start in (0, block, 2 * block)]
    before, step = [min(max(later - sooner, -most), most) for sooner, later in pairwise(means)]
    gain = max(least_gain, 1 / (_PRIOR_WEIGHT * block + past.count))
    spread = past.spread + gain * (step * step - past.spread)
    return max(spread, 1e-8), past.link + gain * (step * before - past.link)


def _find_missed(
    errors: tuple[float, ...], rates: tuple[float, ...], levels: tuple[float, ...], calm: int
) -> tuple[float | None, ...]:
    """Of the forecasts that end at the last rate, three deviations at most; none of them spans a jump."""
    found = list[float | None]()
    for samples, error in zip(_HORIZONS, errors, strict=False):
        if len(levels) < samples or calm < samples + 1:
            found.append(None)
            continue
        mean, most = math.fsum(rates[-samples:]) / samples, 3 * math.sqrt(error)
        found.append(min(max(math.log(mean) - levels[-samples], -most), most) if mean > 0 else -most)
    return tuple(found)


def _memory_gain(samples: int, count: int) -> float:
    """Weight of one more forecast over so many samples, after ``count``."""
    return max(min(0.01, 0.16 / samples), 1 / (2 + count / (1 + samples / 2)))


def _follow_errors(errors: tuple[float, ...], missed: tuple[float | None, ...], count: int) -> tuple[float, ...]:
    """v(k) with these forecasts."""
    return tuple(
        [
            error if miss is None else error + _memory_gain(samples, count) * (miss * miss - error)
            for samples, error, miss in zip(_HORIZONS, errors, missed, strict=False)
        ]
    )


# ------------------------------------------------------------------------------------------------------ growth

_LEAST_EXPLAINED = 0.25
_SQUARED_DOUBT = 4.0
"""Two standard errors, squared."""
_FEWEST_RATES = 6
_TREND = _HORIZONS[:_FEWEST_HORIZONS]
REACH = _TREND[-1]
"""Samples that a trend reaches back, and is believed ahead."""
_MOST_GROWTH = 0.5


class Growth(NamedTuple):
    """Growth of ln(rate) until a horizon, and the share of the variance of the level's error that it explains."""

    log: float = 0.0
    explained: float = 0.0


@dataclass(frozen=True, slots=True)
class Trust:
    """What came of the slopes that were predicted.

    Attributes:
        slopes: of the last samples, growth of ln(rate) a sample, the latest last.
        links, squares: means of e·x and x² for 2, 4, 8 and 16 samples.
    """

    slopes: tuple[float, ...] = ()
    links: tuple[float, ...] = (0.0,) * len(_TREND)
    squares: tuple[float, ...] = (0.0,) * len(_TREND)

    def growth(self, level: Level, samples: float) -> Growth:
        """What is believed of the growth until so many samples from now."""
        if not self.slopes or not self.slopes[-1]:
            return Growth()
        place = next((place for place, horizon in enumerate(_TREND) if horizon >= samples), len(_TREND) - 1)
        link, square, error = self.links[place], self.squares[place], level.errors[place]
        explained = link * link / (square * error) if link > 0 and square > 0 else 0.0
        apart = level.count / _TREND[place]  # forecasts that do not overlap
        if explained < max(_LEAST_EXPLAINED, _SQUARED_DOUBT / (_SQUARED_DOUBT + apart)):
            return Growth()
        log = min(1.0, link / square) * self.slopes[-1] * min(samples, REACH)
        return Growth(min(max(log, -_MOST_GROWTH), _MOST_GROWTH), min(explained, 0.9))


def is_falling(level: Level, slope: float) -> bool:
    """Whether the load falls by 3.5 standard deviations of its noise within 16 samples, even if it never did before."""
    fall = min(0.0, slope) * REACH
    return fall * fall > _JUMP * level.block_noise


def follow_trust(past: Trust, level: Level, slope: float) -> Trust:
    """What is known with one more sample, whose ``level`` this is; ``slope``: predicted from now on."""
    links, squares = list(past.links), list(past.squares)
    for place, (samples, miss) in enumerate(zip(_TREND, level.missed, strict=False)):
        if miss is None or len(past.slopes) < samples:
            continue
        predicted, gain = past.slopes[-samples] * (samples + 1) / 2, _memory_gain(samples, level.count)
        links[place] += gain * (miss * predicted - links[place])
        squares[place] += gain * (predicted * predicted - squares[place])
    return Trust((*past.slopes, slope)[-REACH:], tuple(links), tuple(squares))


def find_trend(level: Level) -> float:
    """The slope of a line through the last samples since a jump, growth of ln(rate) a sample; 0 if in doubt."""
    rates = level.rates[-min(level.calm, REACH) :] if level.calm else ()
    count = len(rates)
    if count < _FEWEST_RATES or min(rates) <= 0:
        return 0.0
    logs, middle = [math.log(rate) for rate in rates], (count - 1) / 2
    mean, width = math.fsum(logs) / count, count * (count * count - 1) / 12
    slope = math.fsum([(place - middle) * log for place, log in enumerate(logs)]) / width
    unexplained = math.fsum([(log - mean) ** 2 for log in logs]) - slope * slope * width
    return slope if slope * slope > _SQUARED_DOUBT * unexplained / (count - 2) / width else 0.0


# ------------------------------------------------------------------------------------------------------ rhythm

_RISES = 4
_LEAST_RISE = math.log(1.3)
_SAME_RISE, _OFF_BY = 4, 2
"""Samples that a rise may take, and by which it may be early or late."""
_RARE = 4


class Rise(NamedTuple):
    """When the load had jumped up, and its rate four samples later."""

    at: float
    rate: float


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The last rises, the latest last."""

    rises: tuple[Rise, ...] = ()

    def next_rise(self, at: float, sample_s: float, ahead_s: float) -> Rise | None:
        """The rise within that time, to the least rate of the last ones; None: they are not regular, or it is late.

        Nor is there any where they come so often that one would hardly do anything but wait for the next.

        >>> rhythm = Rhythm(tuple([Rise(3600.0 * hour, 500.0 + hour) for hour in range(4)]))
        >>> rhythm.next_rise(14_000.0, 15.0, 300.0), rhythm.next_rise(14_200.0, 15.0, 300.0)
        (None, Rise(at=14385.0, rate=500.0))
        """
        if len(self.rises) < _RISES:
            return None
        between = sorted([after.at - before.at for before, after in pairwise(self.rises)])
        period_s, allowed_s = between[len(between) // 2], _OFF_BY * sample_s
        if period_s - between[0] > allowed_s or between[-1] - period_s > allowed_s or period_s < _RARE * ahead_s:
            return None
        due = self.rises[-1].at + period_s
        if not due - sample_s - ahead_s <= at <= due + allowed_s:
            return None
        return Rise(due - sample_s, min([rise.rate for rise in self.rises]))


def follow_rhythm(past: Rhythm, before: Level, level: Level, at: float, sample_s: float) -> Rhythm:
    """The rises with one more sample, whose ``level`` this is."""
    last = past.rises[-1] if past.rises else None
    if last is not None and at - last.at <= _SAME_RISE * sample_s:
        return Rhythm((*past.rises[:-1], Rise(last.at, level.rate)))
    if level.log_rate is None or not before.count:
        return past
    if before.log_rate is not None and (level.calm or level.log_rate - before.log_rate < _LEAST_RISE):
        return past
    return Rhythm((*past.rises, Rise(at, level.rate))[-_RISES:])
