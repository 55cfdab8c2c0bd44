"""Named random numbers: a draw depends only on the seed, its name and its number."""

from __future__ import annotations

from hashlib import blake2b
from math import exp, log, sqrt
from statistics import NormalDist

from rheostat.sim.jobfile import Distribution

_NORMAL = NormalDist()
_Z95 = _NORMAL.inv_cdf(0.95)
_STEPS = 1 << 52


def uniform(seed: int, name: str, number: int) -> float:
    """A uniform number in (0, 1).

    >>> round(uniform(1, "start-up", 0), 6), round(uniform(1, "start-up", 1), 6)
    (0.309641, 0.23392)
    """
    digest = blake2b(f"{seed}:{name}:{number}".encode(), digest_size=8).digest()
    return ((int.from_bytes(digest, "big") >> 12) + 0.5) / _STEPS


def duration(spread: Distribution, u: float) -> float:
    """The u-quantile of a log-normal duration, s: median · (p95 ÷ median)^(z(u) ÷ z(0.95)).

    >>> spread = Distribution(median_s=10.0, p95_s=20.0)
    >>> duration(spread, 0.5), round(duration(spread, 0.95), 6)
    (10.0, 20.0)
    """
    if spread.p95_s == spread.median_s:
        return spread.median_s
    return spread.median_s * exp(_NORMAL.inv_cdf(u) / _Z95 * log(spread.p95_s / spread.median_s))


def noise(cv: float, u: float) -> float:
    """The u-quantile of a log-normal factor of mean 1 and coefficient of variation ``cv``.

    >>> noise(0.0, 0.3), round(noise(0.2, 0.5), 6)
    (1.0, 0.980581)
    """
    if cv == 0:
        return 1.0
    sigma = sqrt(log(1 + cv * cv))
    return exp(sigma * _NORMAL.inv_cdf(u) - sigma * sigma / 2)
