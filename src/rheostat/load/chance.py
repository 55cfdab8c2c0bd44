"""Shapes of chance: bursts, spikes, drift, shift, outage. Equal seeds give equal loads."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, cycle

from rheostat.load.curves import Pieces, RateCurve
from rheostat.load.kinds import AT, SEED, Kind, Option, Part, levels, mean_time, seconds_option, share_option

__all__ = ["CHANCE"]


def _bursts(part: Part) -> RateCurve:
    """The intensity of a Markov-modulated Poisson process with two states, which begins in the low one.

    The time in a state is exponential with mean ``off`` (low) or ``on`` (high). What is offered is the intensity
    itself; the Poisson noise on top of it is 1/√n of n records, which vanishes at the rates of a stream.
    """

    def states() -> Iterator[tuple[float, float]]:
        for mean, rate in cycle(((part.options["off"], part.low), (part.options["on"], part.high))):
            yield part.random.expovariate(1 / mean), rate

    return levels(states(), part.seconds)


def _spikes(part: Part) -> RateCurve:
    """After exponential pauses of mean ``every`` a spike, by half to the whole of ``high − low`` above the low rate."""

    def steps() -> Iterator[tuple[float, float]]:
        while True:
            yield part.random.expovariate(1 / part.options["every"]), part.low
            yield part.options["width"], part.low + (part.high - part.low) * part.random.uniform(0.5, 1.0)

    return levels(steps(), part.seconds)


def _shift(part: Part) -> RateCurve:
    """Levels between the two rates, each for an exponential time of mean ``every``."""

    def steps() -> Iterator[tuple[float, float]]:
        while True:
            yield part.random.expovariate(1 / part.options["every"]), part.random.uniform(part.low, part.high)

    return levels(steps(), part.seconds)


def _drift(part: Part) -> RateCurve:
    """From the first rate to the last one along a Brownian bridge, never below 0.

    ``B(t) = W(t) − t/T · W(T)`` has the standard deviation √T/2 in the middle; it is scaled so that this is ``wander``
    times the larger rate. A point every hundredth of the time.
    """
    steps, unit = 100, 2 * part.options["wander"] * max(part.low, part.high) / 100**0.5
    walk = list(accumulate((part.random.gauss(0.0, unit) for _ in range(steps)), initial=0.0))
    bridge = [value - walk[-1] * index / steps for index, value in enumerate(walk)]
    line = [part.low + (part.high - part.low) * index / steps for index in range(steps + 1)]
    rates = [max(0.0, level + off) for level, off in zip(line, bridge, strict=True)]
    return Pieces([(part.seconds * index / steps, rate) for index, rate in enumerate(rates)])


def _outage(part: Part) -> RateCurve:
    """Nothing for ``width`` seconds; then what was held back comes as well, at the second rate until it is made up.

    With R the first rate and C the second this takes ``R · width / (C − R)`` seconds; with C ≤ R it is lost.
    """
    width = min(part.options["width"], part.seconds)
    drawn = part.random.uniform(0.0, part.seconds - width)
    at, faster = part.options.get("at", drawn), part.high - part.low
    catching_up = part.low * width / faster if faster > 0 else 0.0
    steps = [(at, part.low), (width, 0.0), (catching_up, part.high), (part.seconds, part.low)]
    return levels([step for step in steps if step[0] > 0], part.seconds)


_DRAWN = Option(AT.allowed, AT.fits, "drawn from the seed", None)


CHANCE: dict[str, Kind] = {
    "bursts": Kind(
        "Markov-modulated: the low rate for `off` seconds on average, then the high one for `on`, and so on",
        _bursts,
        options={
            "on": mean_time("a thirtieth of the time", lambda seconds: seconds / 30),
            "off": mean_time("a tenth of the time", lambda seconds: seconds / 10),
            "seed": SEED,
        },
    ),
    "spikes": Kind(
        "spikes of half to full height, after pauses of `every` seconds on average",
        _spikes,
        options={
            "every": mean_time("a tenth of the time", lambda seconds: seconds / 10),
            "width": seconds_option("a hundredth of the time", lambda seconds: seconds / 100),
            "seed": SEED,
        },
    ),
    "drift": Kind(
        "wanders from the first rate to the last; `wander` is the usual distance from the straight line half-way, "
        "as a share of the larger rate",
        _drift,
        options={"wander": share_option(0.1), "seed": SEED},
    ),
    "shift": Kind(
        "another level between the two rates after `every` seconds on average",
        _shift,
        options={"every": mean_time("a sixth of the time", lambda seconds: seconds / 6), "seed": SEED},
    ),
    "outage": Kind(
        "the first rate; nothing for `width` seconds; what was held back comes at the second rate",
        _outage,
        options={
            "at": _DRAWN,
            "width": seconds_option("a tenth of the time", lambda seconds: seconds / 10),
            "seed": SEED,
        },
    ),
}
"""By name."""
