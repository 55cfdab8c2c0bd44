"""``mst`` (Gesscale): a model of the maximum sustainable throughput says how many executors, and where. S2, corrected.

MST = α · n^β − γ · ND (:mod:`rheostat.learn.throughput`), where ND is the greatest round trip among the nodes in use.

* *Overloaded* (S2, Algorithm 1): the backpressure of a query is high (:mod:`rheostat.analyze.batches`). What it
  carries (as published: its present throughput CT) is then a measurement of MST, and the model is fitted again. Several
  queries are measured each by itself; the application needs the sum.
* *Up* (Algorithm 3): n + 1 as published. Ours: the smallest n' with MST(n', ND') ≥ (w + excess ÷ D) ÷ (1 − T), w being
  the arrival rate and D = ``catch_up_lags`` × the objective's lag; with ``grow_at`` before anything is overloaded.
* *Down* (Algorithms 2 and 4, corrected): DT = 100 · (MST − CT) ÷ MST ≥ T is a surplus. The farthest nodes are removed
  one after another, down to the last number that carries the arrival rate with DT ≥ T; all of them leave in one step.
  That DT ≥ T holds afterwards too is our margin. T is never less than the relative error of the model, since otherwise
  that error alone makes the target oscillate.
* *Forgetting* [ours]: when residuals show a change point, the query's model restarts from the newest point. What was
  learned in an earlier run, or hours before a jump, counts as :mod:`rheostat.decide.trust` says.

``mst-alpha`` is MDL-NLUnaware of section V: MST = α · n, nodes at random.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, NamedTuple

from pydantic import Field

from rheostat.analyze.batches import HIGH
from rheostat.decide.placement import Choice, Placing, choose_nodes_to_add, choose_nodes_to_leave, nd_max
from rheostat.decide.policy import PolicyContext, has_finished
from rheostat.decide.trust import Trust, drop_old, is_jump
from rheostat.learn.throughput import FitOptions, MstModel, Point, Saturated, add_measurement, configuration, fit
from rheostat.model import Assessment, Nodes, Reason, ReasonCode, Recommendation
from rheostat.policies.capacity import (
    MOST_EXECUTORS,
    NOISE,
    ROUNDING,
    BuiltInPolicy,
    PolicyOptions,
    Spike,
    add_healthy,
    capacity_shown,
    count_surplus,
    due_in_s,
    find_miss,
    follow_spike,
    in_use,
    is_at_limit,
    propose_nothing,
    spike_rate,
    valid_target,
)
from rheostat.policies.trend import Detector, DetectorState
from rheostat.text import carry, count, executors, per_second, percent, seconds, several

_SIGMAS = 2.0
_LEAST_POINTS = 3
_MOST_QUERIES = 16


class MstOptions(PolicyOptions):
    """Options of ``mst``, with the defaults of the preset ``default``."""

    dt_threshold: float = Field(7.0, ge=0, lt=100)
    """T: the share of MST that must be left over, %; never less than the model's error."""
    check_every_s: float | None = Field(None, gt=0, le=3600)
    """Time between two decisions, s; null: each sample (S2: each minute)."""
    increase: Literal["one", "needed"] = "needed"
    """one: n + 1 (S2, Algorithm 3); needed: as many as arrival rate and backlog need."""
    grow_at: float | None = Field(1.0, gt=0, le=2)
    """Arrival rate ÷ MST above which executors are added before an overload; null: not checked (S2)."""
    catch_up_lags: float | None = Field(2.0, gt=0, le=10_000)
    """Time to work off a backlog, in lags of the objective; null: not checked."""
    settle_batches: int = Field(2, ge=0, le=1000)
    """Batches that must finish after a change before the new number is measured or judged; 0: none."""
    samples_to_shrink: int = Field(10, ge=1, le=10_000)
    """Decisions in a row with a surplus before executors are removed (S2: 1)."""
    lower_bounds: bool = True
    """Whether healthy samples raise the model; false: only saturated ones count (S2)."""
    shun_far: bool = True
    """Whether nodes so far away that they lower MST are not used; false: only a warning (S2)."""
    beta_from: int = Field(2, ge=2, le=100)
    """Configurations from which on β is fitted (S2: 3)."""
    residual_limit: float | None = Field(0.25, gt=0, le=10)
    """Relative residual of a change point; null: the model never forgets (S2)."""
    residuals_in_a_row: int = Field(2, ge=1, le=1000, json_schema_extra={"only_with": ["residual_limit", "set"]})
    """Residuals above the limit in a row that are a change point."""


_BEYOND = 2.0
"""ND ÷ the greatest one measured up to which the loss by distance grows."""

FAITHFUL: Mapping[str, object] = {
    "dt_threshold": 10.0,
    "check_every_s": 60.0,
    "increase": "one",
    "grow_at": None,
    "catch_up_lags": None,
    "settle_batches": 0,
    "samples_to_shrink": 1,
    "lower_bounds": False,
    "shun_far": False,
    "beta_from": 3,
    "residual_limit": None,
}

# ------------------------------------------------------------------- what a query teaches: S2, Algorithm 1, 7 to 15


@dataclass(frozen=True, slots=True)
class QueryModel:
    """The model of one query, and what it is made of.

    Attributes:
        query: its id; empty for the only one of an application.
        points: its saturated configurations.
        shown: throughput of healthy samples, as points: lower bounds.
        recent: throughput of the last healthy batches in a row, at most three; ``batch_id``: the last one of them.
        model: None: nothing is known.
        forgot_at: time of the last change point.
        trust: which points and bounds count.
    """

    query: str = ""
    points: tuple[Point, ...] = ()
    shown: tuple[Point, ...] = ()
    recent: tuple[float, ...] = ()
    model: MstModel | None = None
    watched: DetectorState = field(default_factory=DetectorState)
    forgot_at: float | None = None
    batch_id: int | None = None
    trust: Trust = field(default_factory=Trust)

    @property
    def trusted(self) -> QueryModel:
        """Without doubtful points and bounds; the model is as it was."""
        trust = self.trust
        if trust.since is None:
            return self
        return replace(self, points=trust.trusted(self.points), shown=trust.trusted(self.shown))

    @property
    def doubted(self) -> bool:
        """Whether all that is known is doubtful."""
        return self.trust.since is not None and not (self.trusted.points or self.trusted.shown)


class QuerySample(NamedTuple):
    """One query in one sample.

    Attributes:
        assessment: with the query's figures in place of those of all.
        executors: its share of the current target: that of the time in which its batches run.
        distance_ms: ND of all that are registered.
    """

    past: QueryModel
    assessment: Assessment
    executors: float
    distance_ms: float

    @property
    def arrival_rate(self) -> float:
        """Records/s; 0 where it is unknown."""
        return self.assessment.arrival_rate or 0.0

    def point(self, rate: float) -> Saturated:
        return Saturated(self.assessment.at, self.executors, self.distance_ms, rate)


def split_by_query(
    assessment: Assessment, executors: int, distance_ms: float, past: Mapping[str, QueryModel]
) -> tuple[QuerySample, ...]:
    """The sample of each query; where there is one, it is the application.

    Queries run on the same slots, so each has them in proportion to the time in which its batches run; where that is
    unknown, equally. A query without input has none.
    """
    loads = [load for load in assessment.by_query if not load.idle] or assessment.by_query
    if not loads:
        return (QuerySample(past.get("") or QueryModel(), assessment, float(executors), distance_ms),)
    runs = [_share_of_interval(load.batch_s, load.trigger_s) for load in loads]
    known = [each for each in runs if each is not None]
    shares = known if len(known) == len(runs) and sum(known) > 0 else [1.0] * len(runs)
    samples = []
    for load, share in zip(loads, shares, strict=True):
        own = {name: value for name, value in load._asdict().items() if name != "query_id"}
        last_s = load.batch_s if assessment.last_batch_records is None else assessment.last_batch_s
        view = replace(assessment, last_batch_s=last_s, by_query=(), **own)
        model = past.get(load.query_id) or QueryModel(load.query_id)
        samples.append(QuerySample(model, view, executors * share / sum(shares), distance_ms))
    return tuple(samples)


def _share_of_interval(batch_s: float | None, trigger_s: float | None) -> float | None:
    if batch_s is None or trigger_s is None:
        return None
    longest = max(batch_s, trigger_s)
    return batch_s / longest if longest > 0 else 1.0


class Learner:
    """Updates the model of a query from its samples; it has settings only."""

    def __init__(self, options: MstOptions, fitting: FitOptions) -> None:
        self._options = options
        self._fitting = fitting
        limit = options.residual_limit
        self._detector = None if limit is None else Detector(limit, options.residuals_in_a_row, limit / 4)

    def learn(self, sample: QuerySample, *, settled: bool) -> QueryModel:
        """The model with this sample; nothing is learned before the target has settled."""
        pressure, past = sample.assessment.pressure, sample.past
        if self._options.lower_bounds:
            trust = past.trust.follow(sample.assessment)
            past = past if trust is past.trust else replace(past, trust=trust, recent=(), watched=DetectorState())
        if not settled or pressure is None:
            return replace(past, recent=())
        if pressure > HIGH:
            return self._learn_saturated(sample, replace(past, recent=()))
        return self._learn_healthy(sample, past) if self._options.lower_bounds else past

    def _learn_saturated(self, sample: QuerySample, past: QueryModel) -> QueryModel:
        rate = sample.assessment.throughput
        if self._options.lower_bounds and sample.assessment.last_batch_records:
            rate = capacity_shown(sample.assessment)  # the mean over a window may span idle time
        if not rate or (self._options.lower_bounds and not in_use(sample.assessment)):
            return past
        new = sample.point(rate)
        past = self._settle(new, past, measured=True)
        residual, watched = _find_residual(new, past), past.watched
        if self._detector is not None and residual is not None:
            worsening, watched = self._detector.watch(residual, watched)
            if worsening.changed:
                points = add_measurement((), new, self._fitting)
                return self._fit(QueryModel(past.query, points, forgot_at=new.at, trust=past.trust.settled()))
            if residual >= self._detector.limit:
                return replace(past, watched=watched)
        shown = tuple(each for each in past.shown if _is_possible(each, new))
        points = add_measurement(past.points, new, self._fitting)
        return self._fit(replace(past, points=points, shown=shown, watched=watched))

    def _learn_healthy(self, sample: QuerySample, past: QueryModel) -> QueryModel:
        sampled = sample.assessment
        rate = (
            capacity_shown(sampled) if sampled.backlog_excess == 0 or sampled.last_batch_records is not None else None
        )
        point = configuration(past.trusted.points, sample.point(0.0))
        measured = None if point is None else point.throughput
        recent, batch_id, bound = add_healthy(sampled, rate, past.recent, past.batch_id, measured=measured)
        past = replace(past, recent=recent, batch_id=batch_id)
        if bound is None:
            return past
        new = sample.point(bound)
        past = self._settle(new, past, measured=False)
        known = _expect(new, past)
        if is_jump(bound, known) and bound > (known or 0.0):
            past = replace(past, points=drop_old(past.points, new.at), shown=drop_old(past.shown, new.at))
        return past if bound <= (known or 0.0) and not past.doubted else self._raise_bound(new, past)

    def _settle(self, new: Saturated, past: QueryModel, *, measured: bool) -> QueryModel:
        """The model with what a new rate says of the doubtful points: they count again, or go."""
        trust = past.trust
        old = replace(past, points=trust.doubtful(past.points), shown=trust.doubtful(past.shown), trust=trust.settled())
        expected = _expect(new, self._fit(old)) if old.points or old.shown else None
        confirmed = trust.confirms(new.throughput, expected, measured=measured)
        if confirmed is None:
            return past
        past = replace(past if confirmed else past.trusted, trust=trust.settled())
        return self._fit(past) if past.points or past.shown else replace(past, model=None)

    def _raise_bound(self, new: Saturated, past: QueryModel) -> QueryModel:
        """The model with a lower bound above it; a point of the same configuration is raised to the bound."""
        measured = configuration(past.trusted.points, new)
        if measured is not None:
            raised = replace(measured, throughput=max(measured.throughput, new.throughput), at=new.at)
            return self._fit(replace(past, points=tuple(raised if each is measured else each for each in past.points)))
        old = configuration(past.shown, new)
        kept = [
            each
            for each in past.shown
            if each is not old and (each.executors < new.executors or each.throughput > new.throughput)
        ]
        return self._fit(replace(past, shown=add_measurement(kept, new, self._fitting)))

    def _fit(self, past: QueryModel) -> QueryModel:
        """Fit to the points and the lower bounds above their model; without points to the best lower bound.

        Doubtful ones count while there are no others.
        """
        known = past if past.doubted else past.trusted
        if not known.points:
            best = max(known.shown, key=lambda each: each.throughput / each.executors)
            return replace(past, model=self._limit(fit([best], self._fitting), [best]))
        model = fit(known.points, self._fitting)
        above = [each for each in known.shown if each.throughput > model.mst(each.executors, each.distance_ms)]
        points = (*known.points, *above)
        return replace(past, model=self._limit(fit(points, self._fitting) if above else model, points))

    def _limit(self, model: MstModel, points: Sequence[Point]) -> MstModel:
        """Ours: a loss by distance says nothing far beyond the distances that were measured."""
        if not self._options.shun_far:
            return model
        return replace(model, farthest_ms=_BEYOND * max(each.distance_ms for each in points))


def _expect(new: Saturated, past: QueryModel) -> float | None:
    return None if past.model is None else past.model.mst(new.executors, new.distance_ms)


def _find_residual(new: Saturated, past: QueryModel) -> float | None:
    """The relative residual beyond two standard errors; None where the model could not have predicted it."""
    is_new = configuration(past.points, new) is None
    if past.model is None or (is_new and len(past.points) < _LEAST_POINTS):
        return None
    expected = past.model.mst(new.executors, new.distance_ms)
    error = _SIGMAS * past.model.standard_error(new.executors, new.distance_ms)
    return max(0.0, abs(new.throughput - expected) - error) / expected if expected > 0 else None


def _is_possible(shown: Point, new: Saturated) -> bool:
    """Whether a lower bound can be true beside a measurement, and says more than it: at equal or greater distance."""
    if shown.executors <= new.executors:
        return shown.throughput <= NOISE * new.throughput and shown.executors < new.executors
    return shown.throughput > new.throughput


# ------------------------------------------------------- how many executors, and where: S2, Algorithms 3 and 4


@dataclass(frozen=True, slots=True)
class Reach:
    """ND of 0, 1, 2 … executors, ms, as far as there is room; None: nodes are unknown, and play no part.

    ``unknown``: whether a round trip is unknown; the longest known one then stands for it.
    """

    distances: tuple[float, ...] | None = None
    unknown: bool = False

    @property
    def most(self) -> int:
        return MOST_EXECUTORS if self.distances is None else len(self.distances) - 1

    def distance_ms(self, executors: int) -> float:
        """ND of so many, ms; beyond the room that of the greatest number."""
        return 0.0 if self.distances is None else self.distances[min(executors, self.most)]


@dataclass(frozen=True, slots=True)
class Demand:
    """One query's need: a rate, records/s, that its model says the executors for.

    Attributes:
        model: None: unknown, and then it keeps the executors that it has.
        executors: its share of the current target.
    """

    model: MstModel | None
    executors: float
    rate: float

    def needed(self, distance_ms: float) -> float:
        return self.executors if self.model is None else self.model.needed(self.rate, distance_ms)


def reach(nodes: Nodes | None, choice: Choice) -> Reach:
    """The candidate sets around the nodes in use.

    >>> from rheostat.model import NodeReading, RoundTrip
    >>> near = (RoundTrip("a", "b", 20.0), RoundTrip("a", "c", 300.0), RoundTrip("b", "c", 250.0))
    >>> there = (NodeReading("a", 1, 0), NodeReading("b", 0, 1), NodeReading("c", 0, 1))
    >>> reach(Nodes(0.0, there, near), Choice())
    Reach(distances=(0.0, 0.0, 20.0, 300.0), unknown=False)
    """
    if nodes is None:
        return Reach()
    used = nodes.in_use
    down = choose_nodes_to_leave(used, nodes, len(used), choice)
    up = choose_nodes_to_add(used, nodes, sum(node.free for node in nodes.nodes), choice)
    fewer = [tuple((Counter(used) - Counter(down[:count])).elements()) for count in range(len(used), 0, -1)]
    sets = [*fewer, *(used + up[:count] for count in range(len(up) + 1))]
    known = [nd_max(each, nodes) for each in sets]
    worst = max((trip.ms for trip in nodes.round_trips), default=0.0)
    return Reach(tuple(worst if each is None else each for each in known), None in known)


def sum_needs(demands: Sequence[Demand], distance_ms: float) -> float:
    return sum(each.needed(distance_ms) for each in demands)


def carries(demands: Sequence[Demand], executors: int, reached: Reach) -> bool:
    return sum_needs(demands, reached.distance_ms(executors)) <= executors * (1 + ROUNDING)


def enough_below(demands: Sequence[Demand], executors: int, reached: Reach, *, in_turn: bool) -> int:
    """The least number below ``executors`` that carries the rates; ``executors`` where none does.

    With ``in_turn`` it ends at the first number that does not (Algorithm 4); else nearer sets are tried too.
    """
    best = executors
    for number in range(executors - 1, 0, -1):
        if carries(demands, number, reached):
            best = number
        elif in_turn or reached.distances is None:
            break
    return best


def least_above(demands: Sequence[Demand], executors: int, reached: Reach) -> tuple[int, bool]:
    """The least number above ``executors`` that carries the rates, and whether it does.

    Where none does, that with the greatest share of what is needed; ``executors`` itself where more only make it worse.
    """
    if reached.distances is None:
        need = sum_needs(demands, 0.0)
        most = MOST_EXECUTORS if need >= MOST_EXECUTORS else math.ceil(need * (1 - ROUNDING))
        return max(executors + 1, most), True

    def share(number: int) -> float:
        need = sum_needs(demands, reached.distance_ms(number))
        return number / need if need > 0 else math.inf

    numbers = range(executors + 1, reached.most + 1)
    enough = next((number for number in numbers if carries(demands, number, reached)), None)
    if enough is not None:
        return enough, True
    return max((executors, *numbers), key=lambda number: (share(number), -number)), False


# ------------------------------------------------------------------------------------------------ the policy


@dataclass(frozen=True, slots=True)
class MstState:
    """What is remembered from sample to sample.

    Attributes:
        queries: the models, the query seen last first; at most 16.
        streak: decisions in a row with a surplus.
        executors, since: the current target at the last sample, and when it was first seen.
        checked_at: time of the last decision.
        overlaps: time of the last sample that overlapped a reconfiguration, or lacked figures.
        distance_ms: ND at the last sample.
    """

    queries: tuple[QueryModel, ...] = ()
    streak: int = 0
    executors: int | None = None
    since: float | None = None
    checked_at: float | None = None
    overlaps: float | None = None
    distance_ms: float = 0.0
    low_since: float = 0.0
    spike: Spike | None = None


class _Sample(NamedTuple):
    """A complete sample, with the model of each query."""

    assessment: Assessment
    n: int
    reached: Reach
    queries: tuple[QuerySample, ...]

    @property
    def models(self) -> list[MstModel | None]:
        return [each.past.model for each in self.queries]

    def demands(self, rate_of: Callable[[QuerySample], float]) -> list[Demand]:
        return [Demand(each.past.model, each.executors, rate_of(each)) for each in self.queries]

    @property
    def pressure(self) -> float | None:
        known = [each.assessment.pressure for each in self.queries if each.assessment.pressure is not None]
        return max(known) if len(known) == len(self.queries) else None

    def mst(self, number: int) -> float | None:
        """MST of so many where there is one query, records/s."""
        model = self.models[0] if len(self.queries) == 1 else None
        return None if model is None else model.mst(number, self.reached.distance_ms(number))

    def propose(self, target: int, code: ReasonCode, text: str) -> Recommendation:
        figures = {
            "arrival_rate": self.assessment.arrival_rate,
            "processed_rate": self.assessment.processed_rate,
            "pressure": self.pressure,
            "mst": self.mst(self.n),
            "distance_ms": self.reached.distance_ms(self.n),
            "executors": float(self.n),
        }
        return Recommendation(target, Reason(code, text, figures))

    def hold(self, code: ReasonCode, text: str) -> Recommendation:
        return self.propose(self.n, code, f"{text}: {self.n} stays")


class MstPolicy(BuiltInPolicy[MstOptions, MstState]):
    """A capacity model over nodes. See the module's description."""

    name: ClassVar[str] = "mst"
    self_managed_steps = frozenset({"largest_step"})
    placing: ClassVar[Placing] = Placing.NEAREST
    alpha_only: ClassVar[bool] = False
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {"default": {}, "faithful": FAITHFUL}

    def __init__(self, options: MstOptions, context: PolicyContext) -> None:
        super().__init__(options, context)
        self._learner = Learner(options, FitOptions(alpha_only=self.alpha_only, beta_from=options.beta_from))
        lags = options.catch_up_lags
        self._catch_up_s = None if lags is None else lags * context.objective.lag_s

    def recommend(self, assessment: Assessment, state: MstState) -> tuple[Recommendation, MstState]:
        n = valid_target(assessment)
        if n is None or assessment.arrival_rate is None:
            return propose_nothing(assessment, "arrival_rate"), replace(state, streak=0, overlaps=assessment.at)
        state = _follow(assessment, n, state)
        reached = reach(assessment.nodes, Choice(self.placing, 0, frozenset(assessment.slow_nodes), assessment.slow_on))
        sample = _sample(assessment, n, reached, state)
        # The next decision is due a whole interval after the last one, and after the last reconfiguration.
        times = [each for each in (state.checked_at, state.overlaps) if each is not None]
        wait_s = due_in_s(assessment.at, max(times, default=None), self.options.check_every_s)
        if wait_s:
            return sample.hold(ReasonCode.STEADY, f"the next decision is in {seconds(wait_s)}"), state
        settled = self._is_settled(assessment, n, least=1) and not assessment.slow_executors
        fresh = [self._learner.learn(each, settled=settled) for each in sample.queries]
        present = {each.query for each in fresh}
        absent = [each for each in state.queries if each.query not in present]
        queries = (*fresh, *absent)[:_MOST_QUERIES]
        state = replace(state, queries=queries, distance_ms=reached.distance_ms(n), checked_at=assessment.at)
        return self._decide(_sample(assessment, n, reached, state), state)

    def capacity(self, executors: int, state: MstState) -> float | None:
        """MST at the distance of the last sample, of an application with one query; None without a model."""
        models = [each.model for each in state.queries if not each.query]
        return None if not models or models[0] is None else models[0].mst(executors, state.distance_ms)

    def unready(self, state: MstState) -> tuple[str, str] | None:
        """The model, and what it still needs; None: every query has one."""
        if state.queries and all(each.model is not None for each in state.queries):
            return None
        return "the model of what executors carry", "no query has been at its limit, nor healthy for two batches"

    def _is_settled(self, assessment: Assessment, n: int, least: int = 0) -> bool:
        """Whether figures belong to the current target: all registered, and the first batches over."""
        return assessment.executors == n and has_finished(assessment, max(least, self.options.settle_batches))

    def _decide(self, sample: _Sample, state: MstState) -> tuple[Recommendation, MstState]:
        pressure, shortage = sample.pressure, self._find_shortage(sample)
        lag_s, ahead_s = self.context.objective.lag_s, self._catch_up_s
        if ahead_s is not None:
            state = replace(state, spike=follow_spike(sample.assessment, state.spike, ahead_s))
        miss = None if ahead_s is None else find_miss(sample.assessment, lag_s)
        at_limit = ahead_s is None or is_at_limit(sample.assessment, lag_s, ahead_s)
        if pressure is not None and pressure > HIGH and at_limit:
            state = replace(state, streak=0)
            what = f"overloaded for {percent(pressure)} of the time at {_describe_rates(sample.assessment)}"
            wait = None if shortage is not None else self._find_wait(sample, state)
            if wait is not None:
                return sample.hold(wait[0], f"{what}, but {wait[1]}"), state
            target, text = self._size_up(sample)
            code = ReasonCode.SLA_VIOLATED if target > sample.n else ReasonCode.NO_ROOM
            return sample.propose(target, code, f"{what}: {text}"), state
        if shortage is not None:
            target, text = self._size_up(sample)
            return sample.propose(target, ReasonCode.UNDERSIZED, f"{shortage}: {text}"), replace(state, streak=0)
        if miss is not None and sample.assessment.behind is not None:
            code = ReasonCode.SLA_VIOLATED
            return sample.propose(sample.n + 1, code, f"{miss}: {sample.n} → {sample.n + 1}"), replace(state, streak=0)
        if pressure is None:
            return sample.hold(ReasonCode.STEADY, "backpressure is unknown"), replace(state, streak=0)
        return self._try_decrease(sample, state)

    def _find_wait(self, sample: _Sample, state: MstState) -> tuple[ReasonCode, str] | None:
        """Why more executors would not help yet; None: they would."""
        limit = self._catch_up_s
        if limit is None:
            return None
        starts = [each for each in (state.since, state.overlaps) if each is not None]
        waited = sample.assessment.at - max(starts, default=sample.assessment.at)
        known = all(each.assessment.throughput is not None for each in sample.queries if each.assessment.pressure)
        if not (known and self._is_settled(sample.assessment, sample.n)) and waited < self.context.objective.lag_s:
            many = several(sample.n, "executor has", "executors have")
            return ReasonCode.WARMING_UP, f"{many} not settled for {seconds(waited)}"
        drains = [_drain_s(each.assessment) for each in sample.queries]
        shrinking = [each for each in drains if each is not None]
        if len(shrinking) < len(drains) or max(shrinking) > limit:
            return None
        text = f"it will have caught up in {seconds(max(shrinking))}, {seconds(limit)} are allowed"
        return ReasonCode.CATCHING_UP, text

    def _find_shortage(self, sample: _Sample) -> str | None:
        """An arrival rate above what the model carries, in words; None: it is not, or nothing was ever saturated."""
        share = self.options.grow_at
        if (
            share is None
            or self.options.increase == "one"
            or not all(each.past.trusted.points for each in sample.queries)
        ):
            return None
        if carries(sample.demands(lambda query: query.arrival_rate / share), sample.n, sample.reached):
            return None
        mst = sample.mst(sample.n)
        of = f"{percent(share)} of " if share != 1 else ""
        return f"arrival {per_second(sample.assessment.arrival_rate)} > {of}" + (
            f"MST {per_second(mst)} of {executors(sample.n)}" if mst is not None else f"what {carry(sample.n)}"
        )

    def _margin(self, model: MstModel | None) -> float:
        """T, a share: no less than the error of the model, which is no more than a half."""
        return max(self.options.dt_threshold / 100, min(0.5, model.error if model is not None else 0.0))

    def _rate_up(self, query: QuerySample) -> float:
        """The rate that an increase must carry: arrival, and the backlog within D, with the margin T."""
        limit = self._catch_up_s
        backlog = 0.0 if limit is None else (query.assessment.backlog_excess or 0.0) / limit
        return (query.arrival_rate + backlog) / (1 - self._margin(query.past.model))

    def _rate_down(self, query: QuerySample) -> float:
        """The rate that a decrease must carry: arrival, and the present throughput with the margin T."""
        least = query.assessment.processed_rate or 0.0
        if self.options.increase == "needed":
            least = max(query.arrival_rate, least)
        return max(query.arrival_rate, least / (1 - self._margin(query.past.model)))

    def _size_up(self, sample: _Sample) -> tuple[int, str]:
        """Algorithm 3: the target of an increase, and its words."""
        n = sample.n
        if sample.reached.most <= n:
            return n, f"no node has room for one more, {n} stays"
        demands, target, enough = sample.demands(self._rate_up), n + 1, True
        is_sized = self.options.increase == "needed" and None not in sample.models
        if is_sized:
            target, enough = least_above(demands, n, sample.reached)
        warning = _warn_of_distance(sample, max(target, n + 1))
        if warning and target > n and self.options.shun_far and _is_worse(sample, target):
            target, enough = n, False
        text = f"{n} → {target}" if target > n else f"{n} stays"
        parts = [f"{text} for {per_second(sum(each.rate for each in demands))}" if is_sized else text]
        parts += [] if enough else ["no number that there is room for carries that"]
        parts += [warning] if warning else []
        limits = [each.past.model.farthest_ms for each in sample.queries if each.past.model and each.past.model.gamma]
        least = min((limit for limit in limits if limit is not None), default=math.inf)
        if target > n and sample.reached.distance_ms(target) > least:
            parts.append(f"round trips beyond {least:g} ms were not measured")
        parts += ["a round trip is unknown, the longest known one stands for it"] if sample.reached.unknown else []
        return target, "; ".join(parts)

    def _try_decrease(self, sample: _Sample, state: MstState) -> tuple[Recommendation, MstState]:
        """Algorithms 2 and 4."""
        nothing = replace(state, streak=0)
        doubted = any(each.past.doubted for each in sample.queries)
        unknown = doubted or None in sample.models
        if unknown and not sample.assessment.idle:
            why = "what is known is of an earlier run" if doubted else "no overload seen yet"
            return sample.hold(ReasonCode.CAPACITY_UNKNOWN, f"{why}, so MST is unknown"), nothing
        if any(each.assessment.processed_rate is None for each in sample.queries):
            return sample.hold(ReasonCode.STEADY, "the present throughput is unknown"), nothing
        in_turn = not self.options.shun_far
        target = max(1, sample.n // 2)
        if not unknown:
            rate = sample.assessment.arrival_rate or 0.0
            spike = spike_rate(state.spike, self.context.objective.lag_s, sample.assessment.trigger_s)
            part = 1 / len(sample.queries)
            demands = sample.demands(
                lambda query: max(self._rate_down(query), spike * (query.arrival_rate / rate if rate else part))
            )
            target = enough_below(demands, sample.n, sample.reached, in_turn=in_turn)
            if in_turn and not carries(demands, sample.n, sample.reached):
                target = sample.n  # Algorithm 2: no DT ≥ T, no decrease
        what = _describe_rates(sample.assessment)
        margin = percent(max(map(self._margin, sample.models)))
        text = f"{what} with a margin of {margin} needs {executors(target)}{_describe_dt(sample)}"
        if target == sample.n:
            return sample.hold(ReasonCode.STEADY, text), nothing
        required = self.options.samples_to_shrink
        streak, since, is_complete = count_surplus(state.streak, state.low_since, sample.assessment, required)
        state = replace(state, streak=streak, low_since=since)
        if is_complete:
            return sample.propose(target, ReasonCode.OVERSIZED, f"{text}: {sample.n} → {target}"), state
        text = f"{text}: sample {streak} of {required} in a row"
        return sample.propose(sample.n, ReasonCode.SURPLUS_COUNTING, text), state


class MstAlphaPolicy(MstPolicy):
    """MDL-NLUnaware of S2: MST = α · n, nodes at random."""

    name: ClassVar[str] = "mst-alpha"
    placing: ClassVar[Placing] = Placing.ANY
    alpha_only: ClassVar[bool] = True


def _sample(assessment: Assessment, n: int, reached: Reach, state: MstState) -> _Sample:
    past = {each.query: each for each in state.queries}
    return _Sample(assessment, n, reached, split_by_query(assessment, n, reached.distance_ms(n), past))


def _follow(assessment: Assessment, n: int, state: MstState) -> MstState:
    """The state with this sample's target: a new one ends the count, unless it is a decrease."""
    if state.executors == n:
        return state if assessment.executors == n or assessment.excluded else replace(state, overlaps=assessment.at)
    overlaps = state.overlaps if state.executors is None else assessment.at
    streak = state.streak if n < (state.executors or 0) else 0
    return replace(state, executors=n, since=assessment.at, streak=streak, overlaps=overlaps)


def _drain_s(assessment: Assessment) -> float | None:
    """Time until the excess is gone at the present rates; None where it does not shrink."""
    done = assessment.processed_rate if assessment.throughput is None else assessment.throughput
    excess, gain = assessment.backlog_excess or 0.0, (done or 0.0) - (assessment.arrival_rate or 0.0)
    if excess <= 0 and gain >= 0 and done is not None:
        return 0.0
    return excess / gain if gain > 0 else None


def _is_worse(sample: _Sample, target: int) -> bool:
    """Whether every query would carry less."""
    at, now = sample.reached.distance_ms(target), sample.reached.distance_ms(sample.n)
    growth = target / sample.n
    known = [(each.executors, each.past.model) for each in sample.queries if each.past.model is not None]
    return bool(known) and all(model.mst(n * growth, at) < model.mst(n, now) for n, model in known)


def _describe_rates(assessment: Assessment) -> str:
    excess = f", excess {count(assessment.backlog_excess)}" if assessment.backlog_excess else ""
    return f"arrival {per_second(assessment.arrival_rate)}, processed {per_second(assessment.processed_rate)}{excess}"


def _describe_dt(sample: _Sample) -> str:
    mst = sample.mst(sample.n)
    if not mst:
        return ""
    dt = (mst - (sample.assessment.processed_rate or 0.0)) / mst
    return f"; MST of {sample.n} is {per_second(mst)}, {percent(dt)} of it not used"


def _warn_of_distance(sample: _Sample, target: int) -> str | None:
    now, then = sample.mst(sample.n), sample.mst(target)
    if now is None or then is None or then >= now:
        return None
    distances = f"{sample.reached.distance_ms(sample.n):g} → {sample.reached.distance_ms(target):g} ms"
    return f"warning: {executors(target)} lower MST, {per_second(now)} → {per_second(then)} (round trip {distances})"
