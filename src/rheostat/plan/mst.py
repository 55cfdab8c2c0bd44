"""``mst`` (Gesscale): a model of the greatest sustainable throughput says how many executors, and where. S2, corrected.

::

    MST = α · n^β − γ · ND                                         (rheostat.learn.mst)

**Analyze.** Overloaded (Algorithm 1): the query's pressure is high (:mod:`rheostat.analyze.overload`). Then the present
throughput CT is a measurement of MST, and the model is fitted anew (:mod:`rheostat.plan.mst_learning`). Not overloaded,
and there is a model (Algorithm 2)::

    DT = 100 · (MST(n, ND) − CT) / MST(n, ND) ≥ T  →  there is a surplus

**Plan up** (Algorithm 3). ``increase="one"``: n + 1, as the document takes the needed rate as unknown. ``"needed"``
[ours]: the smallest n' with MST(n', ND') ≥ (w + excess ÷ D) ÷ (1 − T), w being the arrival rate and D =
``catch_up_lags`` × the objective's lag; several at once. Nothing is added while the number has not settled, or the
backlog will be gone within D, unless w alone needs more. With ``grow_at`` [ours] an arrival above that share of an MST
that was measured is enough, before anything is overloaded.

**Plan down** (Algorithm 4, corrected). The farthest nodes are given up one after another in thought, and n' is the last
number with m = MST(n', ND') ≥ IR and 100 · (m − CT) / m ≥ T; all of them leave in one step. The text requires DT ≥ T
before; that it holds after the removal too is our margin (T = 0 gives the text). T is never less than the relative
error of the model, else the model's error alone makes the number flap. ``samples_to_shrink`` decisions in a row must
agree.

**Several queries** (:mod:`rheostat.plan.mst_sizing`). Each is measured by itself; the application has the sum of what
they need. **Nodes.** ND is computed anew for each candidate set. A node so far that it lowers MST is warned of, and
with ``shun_far`` left alone. **Forgetting.** See :mod:`rheostat.plan.mst_learning`.

The target n is a hold: nothing is restarted. Without an overload, or lower bounds, there is no model, and nothing is
given up. ``mst-alpha`` is MDL-NLUnaware of section V: MST = α · n, nodes at random.

Source: S2, section IV, Algorithms 1 to 4; section V.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar, NamedTuple

from pydantic import BaseModel

from rheostat.analyze.overload import HIGH
from rheostat.learn.mst import FitOptions, MstModel
from rheostat.model import Assessment, Code, Reason, Recommendation
from rheostat.plan.mst_learning import Learner, Look, QueryModel, looks
from rheostat.plan.mst_options import FAITHFUL, MstOptions
from rheostat.plan.mst_sizing import Demand, Reach, carries, enough_below, least_above, reach
from rheostat.plan.placement import Choice, Placing
from rheostat.plan.policy import PolicyContext, in_force
from rheostat.plan.words import carry, count, executors, per_second, percent, seconds, several

__all__ = ["MstAlphaPolicy", "MstOptions", "MstPolicy", "MstState"]

_ROUNDING_S = 1e-6
_MOST_QUERIES = 16
_NOTHING = QueryModel()

_Proposal = tuple[Recommendation, "MstState"]


@dataclass(frozen=True, slots=True)
class MstState:
    """What is remembered from sample to sample.

    Attributes:
        queries: what is known of each, the one seen last first; at most 16.
        streak: decisions in a row with a surplus.
        executors, since: the number in force at the last sample, and when it was first seen.
        checked_at: time of the last decision.
        overlaps: until so late a sample overlapped a reconfiguration, or figures were missing; None: none yet.
        distance_ms: ND at the last sample.
    """

    queries: tuple[QueryModel, ...] = ()
    streak: int = 0
    executors: int | None = None
    since: float | None = None
    checked_at: float | None = None
    overlaps: float | None = None
    distance_ms: float = 0.0


class _Sample(NamedTuple):
    """A complete sample, with what each query is known to carry."""

    seen: Assessment
    n: int
    reached: Reach
    looks: tuple[Look, ...]
    models: tuple[MstModel | None, ...]
    measured: bool = False
    """Whether every query was saturated once."""

    @property
    def demands(self) -> list[Demand]:
        pairs = zip(self.looks, self.models, strict=True)
        return [Demand(model, look.executors) for look, model in pairs]

    @property
    def arrivals(self) -> list[float]:
        return [look.seen.arrival_rate or 0.0 for look in self.looks]

    @property
    def pressure(self) -> float | None:
        known = [look.seen.pressure for look in self.looks if look.seen.pressure is not None]
        return max(known) if len(known) == len(self.looks) else None

    def mst(self, number: int) -> float | None:
        """MST of so many where there is one query, records/s."""
        model = self.models[0] if len(self.models) == 1 else None
        return None if model is None else model.mst(number, self.reached.distance_ms(number))

    def propose(self, target: int, code: Code, text: str, **figures: float | None) -> Recommendation:
        known = {
            "arrival_rate": self.seen.arrival_rate,
            "processed_rate": self.seen.processed_rate,
            "pressure": self.pressure,
            "mst": self.mst(self.n),
            "distance_ms": self.reached.distance_ms(self.n),
            "executors": float(self.n),
        }
        return Recommendation(target, Reason(code, text, {**known, **figures}))


class MstPolicy:
    """A capacity model over nodes. See the module's description."""

    name: ClassVar[str] = "mst"
    brings: ClassVar[frozenset[str]] = frozenset({"largest_step"})
    placing: ClassVar[Placing] = Placing.NEAREST
    alpha_only: ClassVar[bool] = False
    state_type: type[MstState] = MstState
    options_type: ClassVar[type[BaseModel]] = MstOptions
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = MappingProxyType({"default": {}, "faithful": FAITHFUL})

    def __init__(self, options: MstOptions, context: PolicyContext) -> None:
        self.options = options
        self.context = context
        self._learner = Learner(options, FitOptions(alpha_only=self.alpha_only, beta_from=options.beta_from))

    def initial(self) -> MstState:
        """Nothing was measured."""
        return MstState()

    def recommend(self, seen: Assessment, state: MstState) -> _Proposal:
        """Propose by the rules above."""
        n = in_force(seen)
        if seen.missing or seen.invalid or not n or seen.arrival_rate is None:
            names = seen.missing or seen.invalid or ("arrival_rate",)
            reason = Reason(Code.METRICS_MISSING, f"nothing is proposed without: {', '.join(names)}")
            return Recommendation(None, reason), replace(state, streak=0, overlaps=seen.at)
        state = _followed(seen, n, state)
        reached = reach(seen.nodes, Choice(self.placing, 0, frozenset(seen.slow_nodes), seen.slow_on))
        waits = self._waits(seen.at, state)
        if waits > 0:
            sample = self._sample(seen, n, reached, state)
            return sample.propose(n, Code.STEADY, f"the next decision is in {seconds(waits)}: {n} stays"), state
        state = self._learned(seen, n, reached, replace(state, checked_at=seen.at))
        return self._decided(self._sample(seen, n, reached, state), state)

    def capacity(self, executors: int, state: MstState) -> float | None:
        """MST at the distance of the last sample, of an application with one query; None without a model."""
        models = [each.model for each in state.queries if not each.query]
        return None if not models or models[0] is None else models[0].mst(executors, state.distance_ms)

    def unready(self, state: MstState) -> tuple[str, str] | None:
        """The model, and what it still needs; None: there is one of every query."""
        without = [each for each in state.queries if each.model is None]
        if state.queries and not without:
            return None
        return "the model of what executors carry", "no query has been at its limit, nor healthy for three samples"

    # ---------------------------------------------------------------------------------------------- samples

    def _waits(self, at: float, state: MstState) -> float:
        """Seconds until the next decision, 0 or less where it is due: a whole interval without a reconfiguration."""
        every = self.options.check_every_s
        times = [each for each in (state.checked_at, state.overlaps) if each is not None]
        if every is None or not times:
            return 0.0
        left = max(times) + every - at
        return 0.0 if left <= _ROUNDING_S else left

    def _sample(self, seen: Assessment, n: int, reached: Reach, state: MstState) -> _Sample:
        found = looks(seen, n, reached.distance_ms(n))
        known = {each.query: each for each in state.queries}
        models = [known.get(look.query, _NOTHING) for look in found]
        measured = all(each.points for each in models)
        return _Sample(seen, n, reached, found, tuple(each.model for each in models), measured)

    def _learned(self, seen: Assessment, n: int, reached: Reach, state: MstState) -> MstState:
        """The state with what this sample teaches of each query."""
        known = {each.query: each for each in state.queries}
        distance_ms = reached.distance_ms(n)
        fresh = []
        for look in looks(seen, n, distance_ms):
            past = known.pop(look.query, None) or QueryModel(look.query)
            fresh.append(self._learner.learned(look, past, settled=self._at_rest(seen, n, least=1)))
        queries = (*fresh, *known.values())[:_MOST_QUERIES]
        return replace(state, queries=queries, distance_ms=distance_ms)

    def _at_rest(self, seen: Assessment, n: int, least: int = 0) -> bool:
        """Whether figures belong to the number in force: all registered, and the first batches over."""
        return seen.executors == n and seen.batches >= max(least, self.options.settle_batches)

    # ------------------------------------------------------------------------------------------- decisions

    def _decided(self, sample: _Sample, state: MstState) -> _Proposal:
        pressure = sample.pressure
        if pressure is not None and pressure > HIGH:
            return self._overloaded(sample, replace(state, streak=0), pressure)
        short = self._short(sample)
        if short is not None:
            target, text = self._up(sample, self._asked(sample))
            return sample.propose(target, Code.UNDERSIZED, f"{short}: {text}"), replace(state, streak=0)
        if pressure is None:
            text = f"whether the job is overloaded is not known yet: {sample.n} stays"
            return sample.propose(sample.n, Code.STEADY, text), replace(state, streak=0)
        return self._down(sample, state)

    def _overloaded(self, sample: _Sample, state: MstState, pressure: float) -> _Proposal:
        what = f"overloaded for {percent(pressure)} of the time at {_rate(sample.seen)}"
        wait = self._wait(sample, state)
        if wait is not None and self._short(sample) is None:
            return sample.propose(sample.n, wait[0], f"{what}, but {wait[1]}: {sample.n} stays"), state
        target, text = self._up(sample, self._asked(sample))
        code = Code.SLA_VIOLATED if target > sample.n else Code.NO_ROOM
        return sample.propose(target, code, f"{what}: {text}"), state

    def _wait(self, sample: _Sample, state: MstState) -> tuple[Code, str] | None:
        """Why more executors would not help yet; None: they would."""
        limit = self._catch_up_s()
        if limit is None:
            return None
        starts = [each for each in (state.since, state.overlaps) if each is not None]
        waited = sample.seen.at - max(starts, default=sample.seen.at)
        known = all(look.seen.throughput is not None for look in sample.looks if look.seen.pressure)
        if not (known and self._at_rest(sample.seen, sample.n)) and waited < self.context.objective.lag_s:
            many = several(sample.n, "executor has", "executors have")
            return Code.WARMING_UP, f"{many} not settled since {seconds(waited)}"
        drains = [_drain_s(look.seen) for look in sample.looks]
        shrinking = [each for each in drains if each is not None]
        if len(shrinking) < len(drains) or max(shrinking) > limit:
            return None
        return Code.CATCHING_UP, f"it will have caught up in {seconds(max(shrinking))}, {seconds(limit)} are allowed"

    def _short(self, sample: _Sample) -> str | None:
        """What arrives is more than the model carries, in words; None: it is not, or nothing was ever saturated."""
        share = self.options.grow_at
        if share is None or self.options.increase == "one" or not sample.measured:
            return None
        asked = [rate / share for rate in sample.arrivals]
        if carries(sample.demands, asked, sample.n, sample.reached):
            return None
        mst = sample.mst(sample.n)
        of = f"{percent(share)} of " if share != 1 else ""
        return f"arrival {per_second(sample.seen.arrival_rate)} > {of}" + (
            f"MST {per_second(mst)} of {executors(sample.n)}" if mst is not None else f"what {carry(sample.n)}"
        )

    def _asked(self, sample: _Sample) -> list[float]:
        """What an increase is to carry, by query: arrival, and the backlog within D, with the margin T."""
        limit, asked = self._catch_up_s(), []
        for look, model in zip(sample.looks, sample.models, strict=True):
            backlog = 0.0 if limit is None else (look.seen.backlog_excess or 0.0) / limit
            asked.append(((look.seen.arrival_rate or 0.0) + backlog) / (1 - self._margin(model)))
        return asked

    def _catch_up_s(self) -> float | None:
        lags = self.options.catch_up_lags
        return None if lags is None else lags * self.context.objective.lag_s

    def _margin(self, model: MstModel | None) -> float:
        """T, a share: no less than the error of the model, which is no more than a half."""
        return max(self.options.dt_threshold / 100, min(0.5, model.error if model is not None else 0.0))

    # --------------------------------------------------------------------------------------------- up, down

    def _up(self, sample: _Sample, asked: Sequence[float]) -> tuple[int, str]:
        """Algorithm 3, and the words for it."""
        n, most = sample.n, sample.reached.most
        if most <= n:
            return n, f"no node has room for one more, {n} stays"
        unknown = None in sample.models
        if self.options.increase == "one" or unknown:
            target, enough = n + 1, True
        else:
            target, enough = least_above(sample.demands, asked, n, sample.reached)
        warning = _far(sample, max(target, n + 1))
        if warning and target > n and self.options.shun_far and self._worse(sample, target):
            target, enough = n, False
        text = f"{n} → {target}" if target > n else f"{n} stays"
        said = [f"{text} for {per_second(sum(asked))}" if not unknown and self.options.increase == "needed" else text]
        said += [] if enough else ["no number that there is room for carries that"]
        said += [warning] if warning else []
        said += ["a round trip is not known, the longest known one stands for it"] if sample.reached.unknown else []
        return target, "; ".join(said)

    def _worse(self, sample: _Sample, target: int) -> bool:
        """Whether every query would carry less."""
        at, now = sample.reached.distance_ms(target), sample.reached.distance_ms(sample.n)
        grown = target / sample.n
        known = [(look, model) for look, model in zip(sample.looks, sample.models, strict=True) if model is not None]
        lower = [model.mst(look.executors * grown, at) < model.mst(look.executors, now) for look, model in known]
        return bool(lower) and all(lower)

    def _down(self, sample: _Sample, state: MstState) -> _Proposal:
        """Algorithms 2 and 4."""
        rates = [look.seen.processed_rate for look in sample.looks]
        models = [model for model in sample.models if model is not None]
        if len(models) < len(sample.models):
            text = f"no overload seen yet, so MST is unknown: {sample.n} stays"
            return sample.propose(sample.n, Code.CAPACITY_UNKNOWN, text), replace(state, streak=0)
        if None in rates:
            text = f"the present throughput is not known yet: {sample.n} stays"
            return sample.propose(sample.n, Code.STEADY, text), replace(state, streak=0)
        asked, margin = [], max(map(self._margin, models))
        for look, model in zip(sample.looks, models, strict=True):
            arrival, present = look.seen.arrival_rate or 0.0, look.seen.processed_rate or 0.0
            least = present if self.options.increase == "one" else max(arrival, present)
            asked.append(max(arrival, least / (1 - self._margin(model))))
        in_turn = not self.options.shun_far
        target = enough_below(sample.demands, asked, sample.n, sample.reached, in_turn=in_turn)
        text = f"{_rate(sample.seen)} with a margin of {percent(margin)} needs {executors(target)}{_dt(sample)}"
        if target == sample.n:
            return sample.propose(sample.n, Code.STEADY, f"{text}: {sample.n} stays"), replace(state, streak=0)
        return self._surplus(sample, state, target, text)

    def _surplus(self, sample: _Sample, state: MstState, target: int, text: str) -> _Proposal:
        """Count one more decision with a surplus; propose from the last one on, until the number changes."""
        wanted = self.options.samples_to_shrink
        state = replace(state, streak=min(state.streak + 1, wanted))
        if state.streak < wanted:
            counted = f"{text}: sample {state.streak} of {wanted} in a row"
            return sample.propose(sample.n, Code.SURPLUS_COUNTING, counted), state
        return sample.propose(target, Code.OVERSIZED, f"{text}: {sample.n} → {target}"), state


class MstAlphaPolicy(MstPolicy):
    """MDL-NLUnaware of S2: MST = α · n, nodes at random."""

    name: ClassVar[str] = "mst-alpha"
    placing: ClassVar[Placing] = Placing.ANY
    alpha_only: ClassVar[bool] = True


def _followed(seen: Assessment, n: int, state: MstState) -> MstState:
    """The state as this sample finds it: a new number ends what was counted, but on the way down."""
    if state.executors == n:
        return state if seen.executors == n else replace(state, overlaps=seen.at)
    overlaps = state.overlaps if state.executors is None else seen.at
    streak = state.streak if n < (state.executors or 0) else 0
    return replace(state, executors=n, since=seen.at, streak=streak, overlaps=overlaps)


def _drain_s(seen: Assessment) -> float | None:
    """Time until the excess is gone at the present rates; None where it does not shrink."""
    done = seen.processed_rate if seen.throughput is None else seen.throughput
    excess, gain = seen.backlog_excess or 0.0, (done or 0.0) - (seen.arrival_rate or 0.0)
    if excess <= 0 and gain >= 0 and done is not None:
        return 0.0
    return excess / gain if gain > 0 else None


def _rate(seen: Assessment) -> str:
    excess = f", excess {count(seen.backlog_excess)}" if seen.backlog_excess else ""
    return f"arrival {per_second(seen.arrival_rate)}, processed {per_second(seen.processed_rate)}{excess}"


def _dt(sample: _Sample) -> str:
    """DT and MST in words, where there is one query."""
    mst = sample.mst(sample.n)
    if not mst:
        return ""
    dt = (mst - (sample.seen.processed_rate or 0.0)) / mst
    return f"; MST of {sample.n} is {per_second(mst)}, {percent(dt)} of it not used"


def _far(sample: _Sample, target: int) -> str | None:
    """A warning where the nodes that come lower MST."""
    now, then = sample.mst(sample.n), sample.mst(target)
    if now is None or then is None or then >= now:
        return None
    distances = f"{sample.reached.distance_ms(sample.n):g} → {sample.reached.distance_ms(target):g} ms"
    return f"warning: {executors(target)} lower MST, {per_second(now)} → {per_second(then)} (round trip {distances})"
