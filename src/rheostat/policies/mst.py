"""``mst`` (Gesscale): a model of the greatest sustainable throughput says how many executors, and where. S2, corrected.

::

    MST = α · n^β − γ · ND                                         (rheostat.learn.throughput)

**Analyze.** Overloaded (Algorithm 1): the query's pressure is high (:mod:`rheostat.analyze.batches`). Then the present
throughput CT is a measurement of MST, and the model is fitted anew. Not overloaded,
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

**Several queries**. Each is measured by itself; the application has the sum of what
they need. **Nodes.** ND is computed anew for each candidate set. A node so far that it lowers MST is warned of, and
with ``shun_far`` left alone. **Forgetting.** See :mod:`rheostat.policies.mst`.

The target n is a hold: nothing is restarted. Without an overload, or lower bounds, there is no model, and nothing is
given up. ``mst-alpha`` is MDL-NLUnaware of section V: MST = α · n, nodes at random.

Source: S2, section IV, Algorithms 1 to 4; section V.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, Field

from rheostat.analyze.batches import HIGH
from rheostat.config.models import FrozenModel
from rheostat.decide.placement import Choice, Placing, grown, nd_max, shrunk
from rheostat.decide.policy import PolicyContext, in_force
from rheostat.learn.throughput import FitOptions, MstModel, Point, Saturated, added, configuration, fit
from rheostat.model import Assessment, Nodes, Reason, ReasonCode, Recommendation
from rheostat.policies.capacity import busy_rate
from rheostat.policies.trend import Detector, Watched, Worsening
from rheostat.text import carry, count, executors, per_second, percent, seconds, several

# What one query teaches ``mst`` of its greatest sustainable throughput: S2, Algorithm 1, lines 7 to 15.


_AGREE = 1.1
_IN_A_ROW = 3
_IN_USE = 0.5
_SIGMAS = 2.0
_TOLD = 3


@dataclass(frozen=True, slots=True)
class QueryModel:
    """What is known of one query.

    Attributes:
        query: its id; empty for the only one of an application.
        points: its saturated configurations.
        shown: throughput that healthy samples have shown, as points: lower bounds.
        recent: throughput of the last healthy samples in a row, at most three.
        model: fitted to them; None: nothing is known.
        watched: what the detector remembers.
        forgot_at: time of the last change point.
    """

    query: str = ""
    points: tuple[Point, ...] = ()
    shown: tuple[Point, ...] = ()
    recent: tuple[float, ...] = ()
    model: MstModel | None = None
    watched: Watched = field(default_factory=Watched)
    forgot_at: float | None = None


class Look(NamedTuple):
    """One query at one sample.

    Attributes:
        assessment: the assessment with its figures in place of those of all.
        executors: what it has of those in force: its share of the time in which batches run.
        distance_ms: ND of all that are registered.
    """

    query: str
    assessment: Assessment
    executors: float
    distance_ms: float


def looks(assessment: Assessment, executors: int, distance_ms: float) -> tuple[Look, ...]:
    """Each query by itself; where there is one, it is the application.

    Queries run on the same slots, so each has them in proportion to the time in which its batches run; where that is
    unknown, all alike.
    """
    if not assessment.by_query:
        return (Look("", assessment, float(executors), distance_ms),)
    runs = [_runs(load.batch_s, load.trigger_s) for load in assessment.by_query]
    known = [each for each in runs if each is not None]
    shares = known if len(known) == len(runs) and sum(known) > 0 else [1.0] * len(runs)
    found = []
    for load, share in zip(assessment.by_query, shares, strict=True):
        own = {name: value for name, value in load._asdict().items() if name != "query_id"}
        view = replace(assessment, last_batch_s=load.batch_s, by_query=(), **own)
        found.append(Look(load.query_id, view, executors * share / sum(shares), distance_ms))
    return tuple(found)


def _runs(batch_s: float | None, trigger_s: float | None) -> float | None:
    """Share of the time in which batches run."""
    if batch_s is None or trigger_s is None:
        return None
    longest = max(batch_s, trigger_s)
    return batch_s / longest if longest > 0 else 1.0


class Learner:
    """Learns from looks; settings only."""

    def __init__(self, options: MstOptions, fitting: FitOptions) -> None:
        self._options = options
        self._fitting = fitting
        limit = options.residual_limit
        self._detector = None if limit is None else Detector(limit, options.residuals_in_a_row, limit / 4)

    def learned(self, look: Look, past: QueryModel, *, settled: bool) -> QueryModel:
        """With what this look teaches; nothing where the number has not settled."""
        if not settled or look.assessment.pressure is None:
            return replace(past, recent=())
        if look.assessment.pressure > HIGH:
            return self._saturated(look, replace(past, recent=()))
        return self._healthy(look, past) if self._options.lower_bounds else past

    # ------------------------------------------------------------------------------------------- saturated

    def _saturated(self, look: Look, past: QueryModel) -> QueryModel:
        rate = look.assessment.throughput
        if not rate or (self._options.lower_bounds and not _in_use(look.assessment)):
            return past
        new = Saturated(look.assessment.at, look.executors, look.distance_ms, rate)
        worsening, watched = self._watched(new, past)
        if worsening is not None and worsening.changed:
            point = added((), new, self._fitting)
            return self._fitted(QueryModel(past.query, point, forgot_at=look.assessment.at))
        if worsening is not None and watched.recent[-1] >= (self._options.residual_limit or math.inf):
            return replace(past, watched=watched)
        shown = tuple(each for each in past.shown if _possible(each, new))
        points = added(past.points, new, self._fitting)
        return self._fitted(replace(past, points=points, shown=shown, watched=watched))

    def _watched(self, new: Saturated, past: QueryModel) -> tuple[Worsening | None, Watched]:
        """What the residual of this measurement says; None where the model had no means to know better."""
        new_to_it = configuration(past.points, new, self._fitting) is None
        if self._detector is None or past.model is None or (new_to_it and len(past.points) < _TOLD):
            return None, past.watched
        expected = past.model.mst(new.executors, new.distance_ms)
        if expected <= 0:
            return None, past.watched
        error = _SIGMAS * past.model.standard_error(new.executors, new.distance_ms)
        off = max(0.0, abs(new.throughput - expected) - error) / expected
        return self._detector.watch(off, past.watched)

    # --------------------------------------------------------------------------------------------- healthy

    def _healthy(self, look: Look, past: QueryModel) -> QueryModel:
        rate = busy_rate(look.assessment) if look.assessment.backlog_excess == 0 else None
        if not rate:
            return replace(past, recent=())
        recent = (*past.recent, rate)[-_IN_A_ROW:]
        past = replace(past, recent=recent)
        if len(recent) < _IN_A_ROW or max(recent) > _AGREE * min(recent):
            return past
        known = None if past.model is None else past.model.mst(look.executors, look.distance_ms)
        if min(recent) <= (known or 0.0) or (known is None and not _in_use(look.assessment)):
            return past
        return self._shown(Saturated(look.assessment.at, look.executors, look.distance_ms, min(recent)), past)

    def _shown(self, new: Saturated, past: QueryModel) -> QueryModel:
        """A lower bound above the model: the same configuration is raised to it."""
        measured = configuration(past.points, new, self._fitting)
        if measured is not None:
            raised = replace(measured, throughput=max(measured.throughput, new.throughput), at=new.at)
            points = tuple(raised if each is measured else each for each in past.points)
            return self._fitted(replace(past, points=points))
        old = configuration(past.shown, new, self._fitting)
        shown = added([each for each in past.shown if each is not old and not _under(each, new)], new, self._fitting)
        return self._fitted(replace(past, shown=shown))

    def _fitted(self, past: QueryModel) -> QueryModel:
        """With the model of the saturated points, and of those shown that lie above it; else of the best one shown."""
        if not past.points:
            best = max(past.shown, key=lambda each: each.throughput / each.executors)
            return replace(past, model=fit([best], self._fitting))
        model = fit(past.points, self._fitting)
        above = [each for each in past.shown if each.throughput > model.mst(each.executors, each.distance_ms)]
        return replace(past, model=fit((*past.points, *above), self._fitting) if above else model)


def _in_use(assessment: Assessment) -> bool:
    """Whether the slots are in use for half of the time, as far as is known."""
    return assessment.busy_ratio is None or assessment.busy_ratio >= _IN_USE


def _possible(shown: Point, new: Saturated) -> bool:
    """Whether a lower bound can be true beside a measurement, and says more than it: at equal or greater distance."""
    if shown.executors <= new.executors:
        return shown.throughput <= _AGREE * new.throughput and shown.executors < new.executors
    return shown.throughput > new.throughput


def _under(shown: Point, new: Saturated) -> bool:
    """Whether a new lower bound says more than one for no fewer executors."""
    return shown.executors >= new.executors and shown.throughput <= new.throughput


# Options of ``mst`` and ``mst-alpha``: ours by default, and those of the document (S2).


class MstOptions(FrozenModel):
    """Options of ``mst``, with the defaults of the preset ``default``."""

    dt_threshold: float = Field(
        7.0, ge=0, lt=100, description="T, % of MST that must be left over; never less than the model's error."
    )
    check_every_s: float | None = Field(
        None, gt=0, le=3600, description="Time between two decisions, s; null: each sample (S2: each minute)."
    )
    increase: Literal["one", "needed"] = Field(
        "needed", description="one: n + 1 (S2, Algorithm 3); needed: as many as arrival rate and backlog need."
    )
    grow_at: float | None = Field(
        1.0, gt=0, le=2, description="Arrival ÷ MST above which they are added before that; null: not looked at (S2)."
    )
    catch_up_lags: float | None = Field(
        2.0, gt=0, le=10_000, description="Time to work off a backlog, in lags of the objective; null: not looked at."
    )
    settle_batches: int = Field(
        2, ge=0, le=1000, description="Batches at a new number before it is measured or judged; 0: at once."
    )
    samples_to_shrink: int = Field(
        10, ge=1, le=10_000, description="Decisions in a row with a surplus before executors are given up (S2: 1)."
    )
    lower_bounds: bool = Field(
        default=True, description="Whether healthy samples raise the model; false: only saturated ones count (S2)."
    )
    shun_far: bool = Field(
        default=True, description="Whether nodes so far away that they lower MST are left alone; false: only warn (S2)."
    )
    beta_from: int = Field(2, ge=2, le=100, description="Configurations from which on β is fitted (S2: 3).")
    residual_limit: float | None = Field(
        0.25, gt=0, le=10, description="Relative residual of a change point; null: the model never forgets (S2)."
    )
    residuals_in_a_row: int = Field(
        2,
        ge=1,
        le=1000,
        description="How many residuals above the limit make one.",
        json_schema_extra={"only_with": ["residual_limit", "set"]},
    )


FAITHFUL: Mapping[str, object] = MappingProxyType(
    {
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
)

NO_HOLD: Mapping[str, Any] = MappingProxyType({"hold_s": 0.0, "hold_both": False})
"""Guard settings to be used with the profile ``faithful``, which brings the hold of S1: S2 has none."""


# How many executors carry what is asked for, and how far apart their nodes are: S2, Algorithms 3 and 4.


_ROUNDING = 1e-9
_MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class Reach:
    """The numbers that can be reached, with their distances.

    Attributes:
        distances: ND of 0, 1, 2 … executors, ms; None: nodes are not known, and play no part.
        unknown: whether a round trip is not known; the longest known one then stands for it.
    """

    distances: tuple[float, ...] | None = None
    unknown: bool = False

    @property
    def most(self) -> int:
        """The greatest number that there is room for."""
        return _MOST if self.distances is None else len(self.distances) - 1

    def distance_ms(self, executors: int) -> float:
        """ND of so many, ms; beyond the room that of the greatest number."""
        if self.distances is None:
            return 0.0
        return self.distances[min(executors, self.most)]


@dataclass(frozen=True, slots=True)
class Demand:
    """What one query asks for.

    Attributes:
        model: None: not known yet, and then it keeps the executors that it has.
        executors: those that it has now, its share of all.
    """

    model: MstModel | None
    executors: float


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
    down = shrunk(used, nodes, len(used), choice)
    up = grown(used, nodes, sum(node.free for node in nodes.nodes), choice)
    fewer = [tuple((Counter(used) - Counter(down[:count])).elements()) for count in range(len(used), 0, -1)]
    sets = [*fewer, *(used + up[:count] for count in range(len(up) + 1))]
    known = [nd_max(each, nodes) for each in sets]
    worst = max((trip.ms for trip in nodes.round_trips), default=0.0)
    return Reach(tuple(worst if each is None else each for each in known), None in known)


def load_of(demands: Sequence[Demand], asked: Sequence[float], distance_ms: float) -> float:
    """Executors that all queries need together at this distance, a real number."""
    pairs = zip(demands, asked, strict=True)
    return sum(
        demand.executors if demand.model is None else demand.model.needed(rate, distance_ms) for demand, rate in pairs
    )


def carries(demands: Sequence[Demand], asked: Sequence[float], executors: int, reached: Reach) -> bool:
    """Whether so many executors carry the rates that are asked for."""
    need = load_of(demands, asked, reached.distance_ms(executors))
    return need <= executors * (1 + _ROUNDING)


def enough_below(
    demands: Sequence[Demand], asked: Sequence[float], executors: int, reached: Reach, *, in_turn: bool
) -> int:
    """The least number below ``executors`` that carries what is asked for; ``executors`` where none does.

    Args:
        demands: of each query.
        asked: records/s that each is to carry.
        executors: those that there are.
        reached: the candidate sets.
        in_turn: whether to stop at the first number that does not (Algorithm 4); else nearer sets are looked at too.
    """
    best = executors
    for number in range(executors - 1, 0, -1):
        if carries(demands, asked, number, reached):
            best = number
        elif in_turn or reached.distances is None:
            break
    return best


def least_above(demands: Sequence[Demand], asked: Sequence[float], executors: int, reached: Reach) -> tuple[int, bool]:
    """The least number above ``executors`` that carries what is asked for, and whether it does.

    Where none does, that with the greatest share of what is needed; ``executors`` itself where more only make it worse.
    """
    if reached.distances is None:
        need = load_of(demands, asked, 0.0)
        return max(executors + 1, _MOST if need >= _MOST else math.ceil(need * (1 - _ROUNDING))), True

    def share(number: int) -> float:
        need = load_of(demands, asked, reached.distance_ms(number))
        return number / need if need > 0 else math.inf

    for number in range(executors + 1, reached.most + 1):
        if carries(demands, asked, number, reached):
            return number, True
    best = max(range(executors, max(executors, reached.most) + 1), key=lambda number: (share(number), -number))
    return best, False


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

    assessment: Assessment
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
        return [look.assessment.arrival_rate or 0.0 for look in self.looks]

    @property
    def pressure(self) -> float | None:
        known = [look.assessment.pressure for look in self.looks if look.assessment.pressure is not None]
        return max(known) if len(known) == len(self.looks) else None

    def mst(self, number: int) -> float | None:
        """MST of so many where there is one query, records/s."""
        model = self.models[0] if len(self.models) == 1 else None
        return None if model is None else model.mst(number, self.reached.distance_ms(number))

    def propose(self, target: int, code: ReasonCode, text: str, **figures: float | None) -> Recommendation:
        known = {
            "arrival_rate": self.assessment.arrival_rate,
            "processed_rate": self.assessment.processed_rate,
            "pressure": self.pressure,
            "mst": self.mst(self.n),
            "distance_ms": self.reached.distance_ms(self.n),
            "executors": float(self.n),
        }
        return Recommendation(target, Reason(code, text, {**known, **figures}))


class MstPolicy:
    """A capacity model over nodes. See the module's description."""

    name: ClassVar[str] = "mst"
    self_managed_steps: ClassVar[frozenset[str]] = frozenset({"largest_step"})
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

    def recommend(self, assessment: Assessment, state: MstState) -> _Proposal:
        """Propose by the rules above."""
        n = in_force(assessment)
        if assessment.missing or assessment.invalid or not n or assessment.arrival_rate is None:
            names = assessment.missing or assessment.invalid or ("arrival_rate",)
            reason = Reason(ReasonCode.METRICS_MISSING, f"nothing is proposed without: {', '.join(names)}")
            return Recommendation(None, reason), replace(state, streak=0, overlaps=assessment.at)
        state = _followed(assessment, n, state)
        reached = reach(assessment.nodes, Choice(self.placing, 0, frozenset(assessment.slow_nodes), assessment.slow_on))
        waits = self._waits(assessment.at, state)
        if waits > 0:
            sample = self._sample(assessment, n, reached, state)
            return sample.propose(n, ReasonCode.STEADY, f"the next decision is in {seconds(waits)}: {n} stays"), state
        state = self._learned(assessment, n, reached, replace(state, checked_at=assessment.at))
        return self._decided(self._sample(assessment, n, reached, state), state)

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

    def _sample(self, assessment: Assessment, n: int, reached: Reach, state: MstState) -> _Sample:
        found = looks(assessment, n, reached.distance_ms(n))
        known = {each.query: each for each in state.queries}
        models = [known.get(look.query, _NOTHING) for look in found]
        measured = all(each.points for each in models)
        return _Sample(assessment, n, reached, found, tuple(each.model for each in models), measured)

    def _learned(self, assessment: Assessment, n: int, reached: Reach, state: MstState) -> MstState:
        """The state with what this sample teaches of each query."""
        known = {each.query: each for each in state.queries}
        distance_ms = reached.distance_ms(n)
        fresh = []
        for look in looks(assessment, n, distance_ms):
            past = known.pop(look.query, None) or QueryModel(look.query)
            fresh.append(self._learner.learned(look, past, settled=self._at_rest(assessment, n, least=1)))
        queries = (*fresh, *known.values())[:_MOST_QUERIES]
        return replace(state, queries=queries, distance_ms=distance_ms)

    def _at_rest(self, assessment: Assessment, n: int, least: int = 0) -> bool:
        """Whether figures belong to the number in force: all registered, and the first batches over."""
        return assessment.executors == n and assessment.batches >= max(least, self.options.settle_batches)

    # ------------------------------------------------------------------------------------------- decisions

    def _decided(self, sample: _Sample, state: MstState) -> _Proposal:
        pressure = sample.pressure
        if pressure is not None and pressure > HIGH:
            return self._overloaded(sample, replace(state, streak=0), pressure)
        short = self._short(sample)
        if short is not None:
            target, text = self._up(sample, self._asked(sample))
            return sample.propose(target, ReasonCode.UNDERSIZED, f"{short}: {text}"), replace(state, streak=0)
        if pressure is None:
            text = f"whether the job is overloaded is not known yet: {sample.n} stays"
            return sample.propose(sample.n, ReasonCode.STEADY, text), replace(state, streak=0)
        return self._down(sample, state)

    def _overloaded(self, sample: _Sample, state: MstState, pressure: float) -> _Proposal:
        what = f"overloaded for {percent(pressure)} of the time at {_rate(sample.assessment)}"
        wait = self._wait(sample, state)
        if wait is not None and self._short(sample) is None:
            return sample.propose(sample.n, wait[0], f"{what}, but {wait[1]}: {sample.n} stays"), state
        target, text = self._up(sample, self._asked(sample))
        code = ReasonCode.SLA_VIOLATED if target > sample.n else ReasonCode.NO_ROOM
        return sample.propose(target, code, f"{what}: {text}"), state

    def _wait(self, sample: _Sample, state: MstState) -> tuple[ReasonCode, str] | None:
        """Why more executors would not help yet; None: they would."""
        limit = self._catch_up_s()
        if limit is None:
            return None
        starts = [each for each in (state.since, state.overlaps) if each is not None]
        waited = sample.assessment.at - max(starts, default=sample.assessment.at)
        known = all(look.assessment.throughput is not None for look in sample.looks if look.assessment.pressure)
        if not (known and self._at_rest(sample.assessment, sample.n)) and waited < self.context.objective.lag_s:
            many = several(sample.n, "executor has", "executors have")
            return ReasonCode.WARMING_UP, f"{many} not settled since {seconds(waited)}"
        drains = [_drain_s(look.assessment) for look in sample.looks]
        shrinking = [each for each in drains if each is not None]
        if len(shrinking) < len(drains) or max(shrinking) > limit:
            return None
        return (
            ReasonCode.CATCHING_UP,
            f"it will have caught up in {seconds(max(shrinking))}, {seconds(limit)} are allowed",
        )

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
        return f"arrival {per_second(sample.assessment.arrival_rate)} > {of}" + (
            f"MST {per_second(mst)} of {executors(sample.n)}" if mst is not None else f"what {carry(sample.n)}"
        )

    def _asked(self, sample: _Sample) -> list[float]:
        """What an increase is to carry, by query: arrival, and the backlog within D, with the margin T."""
        limit, asked = self._catch_up_s(), []
        for look, model in zip(sample.looks, sample.models, strict=True):
            backlog = 0.0 if limit is None else (look.assessment.backlog_excess or 0.0) / limit
            asked.append(((look.assessment.arrival_rate or 0.0) + backlog) / (1 - self._margin(model)))
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
        rates = [look.assessment.processed_rate for look in sample.looks]
        models = [model for model in sample.models if model is not None]
        if len(models) < len(sample.models):
            text = f"no overload seen yet, so MST is unknown: {sample.n} stays"
            return sample.propose(sample.n, ReasonCode.CAPACITY_UNKNOWN, text), replace(state, streak=0)
        if None in rates:
            text = f"the present throughput is not known yet: {sample.n} stays"
            return sample.propose(sample.n, ReasonCode.STEADY, text), replace(state, streak=0)
        asked, margin = [], max(map(self._margin, models))
        for look, model in zip(sample.looks, models, strict=True):
            arrival, present = look.assessment.arrival_rate or 0.0, look.assessment.processed_rate or 0.0
            least = present if self.options.increase == "one" else max(arrival, present)
            asked.append(max(arrival, least / (1 - self._margin(model))))
        in_turn = not self.options.shun_far
        target = enough_below(sample.demands, asked, sample.n, sample.reached, in_turn=in_turn)
        text = f"{_rate(sample.assessment)} with a margin of {percent(margin)} needs {executors(target)}{_dt(sample)}"
        if target == sample.n:
            return sample.propose(sample.n, ReasonCode.STEADY, f"{text}: {sample.n} stays"), replace(state, streak=0)
        return self._surplus(sample, state, target, text)

    def _surplus(self, sample: _Sample, state: MstState, target: int, text: str) -> _Proposal:
        """Count one more decision with a surplus; propose from the last one on, until the number changes."""
        wanted = self.options.samples_to_shrink
        state = replace(state, streak=min(state.streak + 1, wanted))
        if state.streak < wanted:
            counted = f"{text}: sample {state.streak} of {wanted} in a row"
            return sample.propose(sample.n, ReasonCode.SURPLUS_COUNTING, counted), state
        return sample.propose(target, ReasonCode.OVERSIZED, f"{text}: {sample.n} → {target}"), state


class MstAlphaPolicy(MstPolicy):
    """MDL-NLUnaware of S2: MST = α · n, nodes at random."""

    name: ClassVar[str] = "mst-alpha"
    placing: ClassVar[Placing] = Placing.ANY
    alpha_only: ClassVar[bool] = True


def _followed(assessment: Assessment, n: int, state: MstState) -> MstState:
    """The state as this sample finds it: a new number ends what was counted, but on the way down."""
    if state.executors == n:
        return state if assessment.executors == n else replace(state, overlaps=assessment.at)
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


def _rate(assessment: Assessment) -> str:
    excess = f", excess {count(assessment.backlog_excess)}" if assessment.backlog_excess else ""
    return f"arrival {per_second(assessment.arrival_rate)}, processed {per_second(assessment.processed_rate)}{excess}"


def _dt(sample: _Sample) -> str:
    """DT and MST in words, where there is one query."""
    mst = sample.mst(sample.n)
    if not mst:
        return ""
    dt = (mst - (sample.assessment.processed_rate or 0.0)) / mst
    return f"; MST of {sample.n} is {per_second(mst)}, {percent(dt)} of it not used"


def _far(sample: _Sample, target: int) -> str | None:
    """A warning where the nodes that come lower MST."""
    now, then = sample.mst(sample.n), sample.mst(target)
    if now is None or then is None or then >= now:
        return None
    distances = f"{sample.reached.distance_ms(sample.n):g} → {sample.reached.distance_ms(target):g} ms"
    return f"warning: {executors(target)} lower MST, {per_second(now)} → {per_second(then)} (round trip {distances})"
