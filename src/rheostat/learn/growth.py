"""How far a predicted growth of the load is to be believed, by horizon; and the growth that its trend predicts [ours].

A predictor says by how much ln(rate) will grow in a sample: its *slope* p. What it would have said of the forecast that
missed by e = ln(mean rate of the last k samples ÷ level before them) is x = p·(k + 1) ÷ 2. The share of the predicted
growth that came true is β = Σ e·x ÷ Σ x², and it explains c² = (Σ e·x)² ÷ (Σ x² · Σ e²) of what the level alone missed.
A predictor that explains less than a quarter of it, or no more than chance may, is not believed at all: then
nothing is different from what it would be without. A trend within two standard errors of none is none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from rheostat.learn.arrivals import FEWEST_HORIZONS, HORIZONS, JUMP, Level, memory_gain

_LEAST_EXPLAINED = 0.25
_SQUARED_DOUBT = 4.0
"""Two standard errors, squared."""
_FEWEST = 6
_HORIZONS = HORIZONS[:FEWEST_HORIZONS]
REACH = _HORIZONS[-1]
"""Samples that a trend reaches back, and is believed ahead."""
_MOST = 0.5


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
    links: tuple[float, ...] = (0.0,) * len(_HORIZONS)
    squares: tuple[float, ...] = (0.0,) * len(_HORIZONS)

    def growth(self, level: Level, samples: float) -> Growth:
        """What is believed of the growth until so many samples from now."""
        if not self.slopes or not self.slopes[-1]:
            return Growth()
        place = next((place for place, horizon in enumerate(_HORIZONS) if horizon >= samples), len(_HORIZONS) - 1)
        link, square, error = self.links[place], self.squares[place], level.errors[place]
        explained = link * link / (square * error) if link > 0 and square > 0 else 0.0
        apart = level.count / _HORIZONS[place]  # forecasts that do not overlap
        if explained < max(_LEAST_EXPLAINED, _SQUARED_DOUBT / (_SQUARED_DOUBT + apart)):
            return Growth()
        share = min(1.0, link / square)
        return Growth(min(max(share * self.slopes[-1] * min(samples, REACH), -_MOST), _MOST), min(explained, 0.9))


def is_falling(level: Level, slope: float) -> bool:
    """Whether the load falls by 3.5 standard deviations of its noise within 16 samples, even if it never did before."""
    fall = min(0.0, slope) * REACH
    return fall * fall > JUMP * level.block_noise


def follow_trust(past: Trust, level: Level, slope: float) -> Trust:
    """What is known with one more sample, whose ``level`` this is; ``slope``: predicted from now on."""
    links, squares = list(past.links), list(past.squares)
    for place, (samples, miss) in enumerate(zip(_HORIZONS, level.missed, strict=False)):
        if miss is None or len(past.slopes) < samples:
            continue
        predicted, gain = past.slopes[-samples] * (samples + 1) / 2, memory_gain(samples, level.count)
        links[place] += gain * (miss * predicted - links[place])
        squares[place] += gain * (predicted * predicted - squares[place])
    return Trust((*past.slopes, slope)[-REACH:], tuple(links), tuple(squares))


def find_trend(level: Level) -> float:
    """The slope of a line through the last samples since a jump, growth of ln(rate) a sample; 0 if in doubt."""
    rates = level.rates[-min(level.calm, REACH) :] if level.calm else ()
    count = len(rates)
    if count < _FEWEST or min(rates) <= 0:
        return 0.0
    logs, middle = [math.log(rate) for rate in rates], (count - 1) / 2
    mean, width = math.fsum(logs) / count, count * (count * count - 1) / 12
    slope = math.fsum([(place - middle) * log for place, log in enumerate(logs)]) / width
    unexplained = math.fsum([(log - mean) ** 2 for log in logs]) - slope * slope * width
    return slope if slope * slope > _SQUARED_DOUBT * unexplained / (count - 2) / width else 0.0
