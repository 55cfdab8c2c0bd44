"""A search for the load under which a policy loses most against the clairvoyant optimum.

Every algorithm that decides without knowing the future does badly under some load (S5). The search goes through loads
of one to four parts of the shape language, each a level, a ramp, a train of pulses or Markov-modulated bursts between
two rates. Periods are drawn on a logarithmic scale up to the whole time, so that a train can fall into step with any
delay of a policy: its interval, its cooldown, its hold, the start-up of an executor.

Hill climbing with random restarts: each climb begins with the worst of some loads, changes one thing at a time, keeps
what is no better for the policy, and gives up after :data:`_PATIENCE` changes without progress. The first climb begins
with loads that are known to be hard. The result is a lower bound of what the policy can lose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from random import Random

from rheostat.errors import Fault, InputError
from rheostat.judge.cases import PEAK_SHARE, Case, LoadSpec, PolicySpec, Treatment
from rheostat.judge.compare import Comparison, Defeat, Progress, crew, find_reference, run_one
from rheostat.judge.scoring import cost_parts, scoring_case
from rheostat.judge.simulate import simulate
from rheostat.load.curves import Pieces, RateCurve
from rheostat.load.prepare import prepare
from rheostat.load.shapes import parse_shape
from rheostat.optimum.dynamic_program import problem_of
from rheostat.optimum.optimum import optimum
from rheostat.sim.capacity import capacity
from rheostat.sim.jobfile import JobFile
from rheostat.text import several

LOWEST_SHARE = 0.05
"""The lowest rate of the loads that are tried, as a share of the highest."""

_MOST_PARTS = 4
_FIRST = 6
"""Loads of which a later climb takes the worst to begin with."""
_PATIENCE = 25
_SEEDS = 10_000
_MOST_TIMES = 5000
"""A part lasts at most this many times its shortest time."""


# The worst load of each policy, by cost ÷ the clairvoyant optimum


@dataclass(frozen=True, slots=True)
class Hunt:
    """A search for the worst load of one policy, among ``tries`` loads of ``seconds`` each."""

    job: JobFile
    spec: PolicySpec
    seconds: float
    tries: int
    seed: int


def find_worst_cases(
    hunts: Sequence[Hunt], *, jobs: int = 1, progress: Progress = lambda _done, _of, _words: None
) -> Comparison:
    """The worst load for each policy, in their order.

    Raises:
        InputError: a policy is faulty, or the loads are too short.
        PartFailedError: a process was ended from outside.
    """

    def report(done: int, _: int, result: Defeat) -> None:
        progress(done, len(hunts), f"{several(result.tried, 'load')} for {result.policy}")

    with crew(find_defeat, jobs, len(hunts)) as workers:
        defeats = workers.run(hunts, report)
    return Comparison(tuple(each.entry for each in defeats), defeats=tuple(defeats))


def find_defeat(hunt: Hunt) -> Defeat:
    high = PEAK_SHARE * capacity(hunt.job, hunt.job.n_max)
    worst = worst_case(
        lambda curve: _ratio(hunt, curve),
        seconds=hunt.seconds,
        low=LOWEST_SHARE * high,
        high=high,
        seed=hunt.seed,
        tries=hunt.tries,
    )
    as_it_is = Treatment(longest_s=None, scaled=False)
    case = Case(hunt.job, hunt.job.name, LoadSpec(worst.shape, shape=worst.shape), hunt.seed, as_it_is)
    entry = find_reference(case, reached=False).with_runs([run_one(case, hunt.spec)])
    ratio = worst.value if math.isfinite(worst.value) else None
    return Defeat(hunt.spec.label, worst.shape, ratio, worst.tried, entry)


def _ratio(hunt: Hunt, curve: RateCurve) -> float:
    """Cost ÷ optimum under a load; infinite if the run does not count, 0 if the optimum costs nothing."""
    load = prepare(curve, name="a load", seed=hunt.seed, peak_rate=None, longest_s=None)
    scored = scoring_case(hunt.job, load)
    run = simulate(hunt.job, load, hunt.spec, seed=hunt.seed)
    if run.faults:
        return math.inf
    cost = cost_parts(scored, run.history).cost(scored.weight)
    least = optimum(problem_of(hunt.job, load.curve, scored.start, scored.weight)).cost
    return cost / least if least > 0 else 0.0


# The search, for any measure of how bad a load is


@dataclass(frozen=True, slots=True)
class Worst:
    """The worst load: :func:`~rheostat.load.shapes.parse_shape` makes exactly ``curve`` from ``shape``."""

    curve: Pieces
    shape: str
    value: float
    tried: int


def worst_case(
    evaluate: Callable[[Pieces], float], *, seconds: float, low: float, high: float, seed: int, tries: int
) -> Worst:
    """The load between two rates with the largest value of ``evaluate``.

    Args:
        evaluate: how bad a load is for the policy: the greater, the worse; always the same for the same load.
        seconds: duration of every load, ≥ 60.
        low: least rate, records/s, ≥ 0.
        high: greatest rate, records/s, > ``low``.
        seed: of the search; the same seed finds the same load.
        tries: how many loads may be evaluated, ≥ 1. A load that comes up again is not evaluated again.

    Raises:
        InputError: with every number that is out of range.
        ValueError: ``evaluate`` gave NaN.
    """
    _check(seconds, low, high, tries)
    judge = _Judge(evaluate, _Room(seconds, low, high), tries)
    random = Random(f"{seed} worst case")
    _climb(judge, _KNOWN, random)
    while judge.left:
        _climb(judge, [_draw_load(random) for _ in range(_FIRST)], random)
    shape, value = max(judge.values.items(), key=lambda item: item[1])
    return Worst(parse_shape(shape).pieces(), shape, value, len(judge.values))


@dataclass(frozen=True, slots=True)
class _Segment:
    """One part: its kind, its weight in the whole time, and its numbers, each from 0 to 1 (see ``_NUMBERS``)."""

    kind: str
    weight: float
    numbers: tuple[float, ...]


_NUMBERS = {"constant": 1, "ramp": 2, "pulses": 7, "bursts": 5}
"""How many numbers a kind takes. One or two rates come first; then

* pulses: when they begin, the period, the share of it that is high, and the shares of that which rise and fall;
* bursts: the mean time from burst to burst, the share of it that is high, and the seed.
"""

_Load = tuple[_Segment, ...]

_LOW = _Segment("constant", 0.5, (0.0,))
_HIGH = _Segment("constant", 0.5, (1.0,))


def _train(tenths: int, high: float) -> _Load:
    return (_Segment("pulses", 1.0, (0.0, 1.0, 0.0, tenths / 10, high, 0.0, 0.0)),)


_KNOWN: tuple[_Load, ...] = (
    (_LOW, _HIGH),  # a step
    (_LOW, _Segment("constant", 0.1, (1.0,)), _LOW),  # a spike
    (_LOW, _Segment("ramp", 0.2, (0.0, 1.0)), _Segment("ramp", 0.2, (1.0, 0.0))),  # a slope after a calm
    (_Segment("pulses", 1.0, (0.0, 1.0, 0.0, 0.6, 0.9, 0.9, 0.0)),),  # a sawtooth
    (_Segment("bursts", 1.0, (0.0, 1.0, 0.6, 0.3, 0.0)),),
    *(_train(tenths, 0.1) for tenths in range(1, 9)),
    *(_train(tenths, 0.5) for tenths in range(1, 9)),
)
"""Loads that are known to be hard."""


@dataclass(frozen=True, slots=True)
class _Room:
    """The duration of the loads, and the rates between which they are drawn."""

    seconds: float
    low: float
    high: float

    def text(self, load: _Load) -> str:
        """The load in the language of shapes; parts begin and end at whole seconds."""
        total = sum(segment.weight for segment in load)
        shares = accumulate((segment.weight / total for segment in load[:-1]), initial=0.0)
        ends = [*(round(share * self.seconds) for share in shares), self.seconds]
        parts = zip(load, pairwise(ends), strict=True)
        return "+".join(self._part(segment, end - begin) for segment, (begin, end) in parts)

    def _part(self, segment: _Segment, lasts: float) -> str:
        rates = [f"{self.low + (self.high - self.low) * round(u, 3):.7g}" for u in segment.numbers[:2]]
        text, least = f"{segment.kind}:{'..'.join(rates)}@{lasts:.10g}", _shortest(lasts)
        if segment.kind == "bursts":
            period, high, seed = segment.numbers[2:]
            whole = _length(period, lasts)
            times = {"on": max(least, high * whole), "off": max(least, (1 - high) * whole)}
            return f"{text},{_times(times)},seed={round(seed * _SEEDS)}"
        if segment.kind == "pulses":
            at, (period, high, rise, fall) = round(segment.numbers[2] * lasts), segment.numbers[3:]
            whole = _length(period, lasts)
            on, off = max(least, high * whole), max(least, (1 - high) * whole)
            slopes = [slope if slope >= least else 0.0 for slope in (rise * on, fall * on * (1 - rise))]
            times = {"rise": slopes[0], "on": max(least, on - sum(slopes)), "fall": slopes[1], "off": off}
            return f"{text},at={min(at, lasts):.10g},{_times(times)}"
        return text


def _shortest(lasts: float) -> float:
    return max(1.0, lasts / _MOST_TIMES)


def _length(u: float, lasts: float) -> float:
    """From the shortest time to the whole part, logarithmically; ``u`` from 0 to 1."""
    least = _shortest(lasts)
    return least * math.exp(u * math.log(max(lasts, least) / least))


def _times(times: Mapping[str, float]) -> str:
    return ",".join(f"{name}={lasts:.4g}" for name, lasts in times.items())


class _Judge:
    """Evaluates loads, each text once. ``left``: the number of evaluations that are left."""

    def __init__(self, evaluate: Callable[[Pieces], float], room: _Room, tries: int) -> None:
        self.values: dict[str, float] = {}
        self.left = tries
        self._evaluate, self._room = evaluate, room

    def value(self, load: _Load) -> float:
        """The value of a load; −∞ when no try is left for it."""
        text = self._room.text(load)
        if text not in self.values and self.left:
            value = self._evaluate(parse_shape(text).pieces())
            if math.isnan(value):
                message = f"the value of the load {text} is NaN"
                raise ValueError(message)
            self.values[text] = value
            self.left -= 1
        return self.values.get(text, -math.inf)


def _climb(judge: _Judge, loads: Sequence[_Load], random: Random) -> None:
    """Start from the worst of some loads, and change it as long as that makes it worse."""
    value, load = max(((judge.value(load), load) for load in loads), key=lambda pair: pair[0])
    waited = 0
    while judge.left and waited < _PATIENCE:
        other = _change(load, random)
        worth = judge.value(other)
        waited = 0 if worth > value else waited + 1
        if worth >= value:
            value, load = worth, other


def _draw_load(random: Random) -> _Load:
    return tuple(_draw_segment(random) for _ in range(random.randint(1, _MOST_PARTS)))


def _draw_segment(random: Random) -> _Segment:
    """A segment of which every second number is at one of its ends."""
    kind = random.choice(list(_NUMBERS))
    numbers = (random.choice((0.0, 1.0, random.random(), random.random())) for _ in range(_NUMBERS[kind]))
    return _Segment(kind, random.uniform(0.1, 1.0), tuple(numbers))


def _change(load: _Load, random: Random) -> _Load:
    """The load with one thing changed: mostly a number or a weight; else a part is replaced, added or removed."""
    place, what = random.randrange(len(load)), random.random()
    if what < 0.7:
        return _put(load, place, _nudge(load[place], random))
    if what < 0.8:
        weight = min(1.0, max(0.1, load[place].weight + random.gauss(0.0, 0.2)))
        return _put(load, place, replace(load[place], weight=weight))
    if what < 0.9:
        return _put(load, place, _draw_segment(random))
    if what < 0.95 and len(load) < _MOST_PARTS:
        return (*load[:place], _draw_segment(random), *load[place:])
    return load[:place] + load[place + 1 :] if len(load) > 1 else _put(load, 0, _draw_segment(random))


def _nudge(segment: _Segment, random: Random) -> _Segment:
    """The segment with one of its numbers moved, a little or far."""
    index = random.randrange(len(segment.numbers))
    moved = segment.numbers[index] + random.gauss(0.0, random.choice((0.004, 0.02, 0.1, 0.4)))
    numbers = (*segment.numbers[:index], min(1.0, max(0.0, moved)), *segment.numbers[index + 1 :])
    return replace(segment, numbers=numbers)


def _put(load: _Load, place: int, segment: _Segment) -> _Load:
    return (*load[:place], segment, *load[place + 1 :])


def _check(seconds: float, low: float, high: float, tries: int) -> None:
    rows = (
        ("seconds", seconds, 60 <= seconds < math.inf, "a number ≥ 60", "a load must leave a policy time to decide"),
        ("low", low, 0 <= low < math.inf, "a number ≥ 0", "it is the least rate"),
        ("high", high, low < high < math.inf, f"a number > {low:g}", "it is the greatest rate"),
        ("tries", tries, tries >= 1, "a whole number ≥ 1", "without a try there is no load"),
    )
    faults = [Fault(name, f"{value:g}", allowed, message) for name, value, fine, allowed, message in rows if not fine]
    if faults:
        raise InputError(faults)
