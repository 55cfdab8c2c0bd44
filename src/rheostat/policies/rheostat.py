"""``rheostat``: our own policy. It models the next batches, and prices every number of executors.

Three ideas [ours]:

* A limit on the lag is a limit on two batches in a row. So a job needs more executors only when its next batches,
  played forward, would miss the objective; and not a decision earlier than that.
* What is worth doing else is a question of prices: each number costs so many executor-seconds beyond the cheapest way
  to go on for ever with the present load, its going rate. Waiting, going down, and going up by one more are compared
  in one unit (:mod:`rheostat.policies.prices`).
* Nothing is tuned to a job. What a batch costs, how long executors start, how noisy the load is and how wrong a
  forecast of it are measured (:mod:`rheostat.learn.batch_cost`, :mod:`~rheostat.learn.start_up`,
  :mod:`~rheostat.learn.arrivals`).

Where there is no such model, ``mst`` decides, by the measured throughput: until a batch has ended, for several busy
queries, and for a job without batches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

from pydantic import Field

from rheostat.analyze.batches import driver_part
from rheostat.decide.policy import PolicyContext, current_target
from rheostat.learn.arrivals import (
    REACH,
    Curve,
    Level,
    Rhythm,
    Trust,
    extend_curve,
    find_trend,
    follow_level,
    follow_rhythm,
    follow_trust,
    forget_level,
    is_falling,
)
from rheostat.learn.batch_cost import Batch, BatchCost, Costs, fit, freshness, learn_batch, learn_cold
from rheostat.learn.start_up import StartUp, follow_start_up
from rheostat.model import Assessment, Reason, ReasonCode, Recommendation, StageWork
from rheostat.policies.capacity import (
    BuiltInPolicy,
    PolicyOptions,
    Spike,
    follow_spike,
    propose_nothing,
    round_up,
    spike_rate,
)
from rheostat.policies.mst import MstOptions, MstPolicy, MstState
from rheostat.policies.prices import CHANGE, Choice, Forecast, GoingRate, Load, Position, Terms, Weighing
from rheostat.text import carry, count, finite, per_second, seconds

_MOST_DEVIATION = 0.7
_LATE = 0.6
"""Share of the objective's lag from which on an unknown capacity is no reason to wait."""
_COOLDOWN_S = 60.0
_SAME_S = 1e-3
_KEPT_GAIN, _LEAST_KEPT = 0.2, 0.35
_PAUSE = 4
"""Samples without figures after which what was going on is over."""
_SPIKE_LAGS = 2.0
"""Lags of the objective in which a burst is worked off."""


class RheostatOptions(PolicyOptions):
    """Options of ``rheostat``."""

    margin: float = Field(0.015, ge=0, lt=0.5)
    """Share of the objective's lag that is kept free, for errors of the model."""


@dataclass(frozen=True, slots=True)
class RheostatState:
    """What is remembered from sample to sample.

    Attributes:
        at, target: time and current target of the last sample.
        changed_at: when the target was changed last.
        started_at: when the last batch began.
        backlog: at the last sample.
        weight: w, the most executors that the load ever needed.
        grew_from: executors before the last ones joined, until one has ended that began with all of them.
        joined_at: when the last ones joined, or the run of the query began.
        spike: the last burst of records, for which a decrease leaves enough.
        run_since: of the run that the batch model is of.
        lowered: when the last decrease was, and how long its number should last, s; None: no decrease is watched.
        kept_share: mean of how long low numbers lasted ÷ how long they should have.
        measured: state of ``mst``, while that decides.
    """

    at: float | None = None
    target: int | None = None
    changed_at: float | None = None
    started_at: float | None = None
    backlog: int | None = None
    weight: float = 1.0
    spike: Spike | None = None
    grew_from: int | None = None
    joined_at: float | None = None
    run_since: float | None = None
    curve: Curve = field(default_factory=Curve)
    level: Level = field(default_factory=Level)
    trend: Trust = field(default_factory=Trust)
    rhythm: Rhythm = field(default_factory=Rhythm)
    cost: BatchCost = field(default_factory=BatchCost)
    start_up: StartUp = field(default_factory=StartUp)
    lowered: tuple[float, float] | None = None
    kept_share: float = 1.0
    measured: MstState | None = None


_Proposal = tuple[Recommendation, RheostatState]
_CostsPair = tuple[Costs, Costs]
"""Of batches as they are predicted, and one standard deviation longer."""


class _Sample(NamedTuple):
    """A sample with the state that knows it."""

    assessment: Assessment
    n: int
    state: RheostatState

    def propose(self, target: int, code: ReasonCode, text: str, **figures: float | None) -> _Proposal:
        known = {"arrival_rate": self.assessment.arrival_rate, "executors": float(self.n), **figures}
        reason = Reason(code, text, {name: None if value is None else finite(value) for name, value in known.items()})
        return Recommendation(target, reason), self.state


class RheostatPolicy(BuiltInPolicy[RheostatOptions, RheostatState]):
    """The next batches played forward, and a price for every number. See the module's description."""

    name: ClassVar[str] = "rheostat"
    self_managed_steps = frozenset(
        {"warm_up", "hold", "largest_step", "cooldown_down", "tolerance", "scale_down_hold", "alignment", "round_trip"}
    )

    guard_settings = frozenset({"largest_step_up"})

    def __init__(self, options: RheostatOptions, context: PolicyContext) -> None:
        super().__init__(options, context)
        self._measured = MstPolicy(MstOptions.model_validate({}), context)

    def recommend(self, assessment: Assessment, state: RheostatState) -> _Proposal:
        proposal, state = self._recommend(assessment, state)
        n, step = current_target(assessment), self.context.guard.largest_step_up
        if step is None or n is None or proposal.target is None or proposal.target <= n + step:
            return proposal, state
        reason = replace(proposal.reason, text=f"{proposal.reason.text}; at most {step} at a time: {n} → {n + step}")
        return Recommendation(n + step, reason), state

    def _recommend(self, assessment: Assessment, state: RheostatState) -> _Proposal:
        n, is_new = current_target(assessment), not _is_read_before(assessment, state)
        if not n or assessment.invalid or assessment.arrival_rate is None or assessment.backlog is None:
            if is_new and assessment.arrived is not None:  # else the next look counts from the last one that knew
                curve = extend_curve(state.curve, read_at(assessment), float(assessment.arrived))
                state = replace(state, curve=curve)
            return propose_nothing(assessment, "arrival_rate or backlog"), state
        if not is_new:
            age = seconds(assessment.metrics_age_s or 0.0)
            text = f"nothing new is known since the last look, the figures are {age} old: {n} stays"
            return _Sample(assessment, n, state).propose(n, ReasonCode.METRICS_STALE, text)
        sample = _Sample(assessment, n, self._follow(assessment, n, state))
        if assessment.missing:
            return propose_nothing(assessment, ""), sample.state
        if not sample.state.cost.is_known or not has_batches(assessment):
            return self._decide_measured(sample)
        if sample.state.measured is not None:
            sample = sample._replace(state=replace(sample.state, measured=None))
        if assessment.waiting is None or not assessment.period_s:
            return sample.propose(n, ReasonCode.STEADY, f"no proposal without: waiting records: {n} stays")
        return self._decide(sample, state)

    def capacity(self, executors: int, state: RheostatState) -> float | None:
        """Records/s that batches of half the objective's lag work off; a first, cold batch says nothing of that."""
        if state.measured is not None:
            return self._measured.capacity(executors, state.measured)
        if not state.cost.is_known or state.cost.is_cold:
            return None
        return Costs(state.cost).capacity(executors, self.context.objective.lag_s / 2, 0.0) or None

    # ------------------------------------------------------------------------------------- what is remembered

    def _follow(self, assessment: Assessment, n: int, state: RheostatState) -> RheostatState:
        """The state that knows this sample."""
        at, rate = assessment.at, assessment.arrival_rate or 0.0
        longest_s = max(self.context.rate_window_s, _PAUSE * self.context.sample_s)
        resumes = state.at is not None and at - state.at > longest_s
        state, past = _resume(state) if resumes else state, state.curve
        curve = extend_curve(past, read_at(assessment), _count_arrived(assessment, past))
        level, trend, rhythm = state.level, state.trend, state.rhythm
        if past.times and curve.times[-1] > past.times[-1]:
            lasted_s = curve.times[-1] - past.times[-1]
            lately = rate if resumes else (curve.total - past.total) / lasted_s
            level = follow_level(level, at, lately, rate, self.context.sample_s)
            trend = follow_trust(trend, level, find_trend(level))
            if not resumes:
                rhythm = follow_rhythm(rhythm, state.level, level, at, self.context.sample_s)
        start_up = state.start_up
        if assessment.executors is not None:
            last_at = at if state.at is None else state.at
            start_up = follow_start_up(start_up, at, last_at, assessment.executors, n)
        changed = state.target is not None and n != state.target
        lowered, kept_share = _follow_promise(at, n, state)
        joined_at = _joined_at(assessment, state)
        return replace(
            state,
            at=at,
            target=n,
            changed_at=state.at if changed else state.changed_at,
            curve=curve,
            level=level,
            trend=trend,
            rhythm=rhythm,
            start_up=start_up,
            backlog=assessment.backlog,
            spike=follow_spike(assessment, state.spike, _SPIKE_LAGS * self.context.objective.lag_s),
            cost=self._follow_cost(assessment, state, joined_at),
            grew_from=_before_joining(assessment, state),
            joined_at=joined_at,
            run_since=assessment.run_since,
            lowered=lowered,
            kept_share=kept_share,
            started_at=find_start(assessment, state.started_at),
        )

    def _follow_cost(self, assessment: Assessment, state: RheostatState, joined_at: float | None) -> BatchCost:
        """The model with every batch that has ended since the last sample."""
        cost, run_since = state.cost, assessment.run_since
        if run_since != state.run_since and cost.is_known:
            cost = replace(cost, is_cold=True)  # maybe other code: the first batch of the run replaces it
        if cost.cap != assessment.batch_cap:
            cost = replace(cost, cap=assessment.batch_cap)
        more = _count_joined(assessment, state)
        if more < 0:
            cost = replace(cost, cold_is_open=False)
        grew_from = _before_joining(assessment, state) if more > 0 else state.grew_from
        batches = read_batches(assessment, joined_at) if has_batches(assessment) else []
        done = [max(0, assessment.batches - later) for later in reversed(range(len(batches)))]
        joined = [batch for batch, place in zip(batches, done, strict=True) if not place]
        if joined and grew_from is not None:
            cost = learn_cold(cost, max(joined, key=lambda batch: batch.duration_s), grew_from)
        for batch, place in zip(batches, done, strict=True):
            if (place or not cost.is_known) and not assessment.slow_executors:
                cost = learn_batch(cost, batch, is_first=place < 2)
        return cost if cost.seen is state.cost.seen else fit(cost, state.cost.count)

    # ------------------------------------------------------------------------------------------ without a model

    def _decide_measured(self, sample: _Sample) -> _Proposal:
        """By the measured throughput, as ``mst`` does; one step down a minute, of a third at most."""
        assessment, n, state = sample
        proposal, measured = self._measured.recommend(assessment, state.measured or self._measured.initial())
        state = replace(state, measured=measured)
        sample = sample._replace(state=state)
        target = n if proposal.target is None else proposal.target
        if target < n:
            since = state.changed_at
            if since is not None and assessment.at - since < _COOLDOWN_S:
                text = f"{proposal.reason.text}; the number changed less than {seconds(_COOLDOWN_S)} ago: {n} stays"
                return sample.propose(n, ReasonCode.STABILIZING, text)
            target = max(target, n - max(1, n // 3))
            return sample.propose(target, proposal.reason.code, f"{proposal.reason.text}; {n} → {target}")
        if target == n and not state.cost.is_known and not state.start_up.open:
            return self._grow_unknown(sample, proposal)
        return Recommendation(proposal.target, proposal.reason), state

    def _grow_unknown(self, sample: _Sample, proposal: Recommendation) -> _Proposal:
        """More executors while nothing is known of a batch, but the lag is long: by the running one, or by half."""
        assessment, n, state = sample
        lag_s, limit_s = assessment.lag_s or 0.0, self.context.objective.lag_s
        if lag_s < _LATE * limit_s or not assessment.backlog or not has_batches(assessment):
            return Recommendation(proposal.target, proposal.reason), state
        rate, runs_s, in_flight = assessment.arrival_rate or 0.0, assessment.batch_s or 0.0, assessment.in_flight or 0
        target, text = n + max(1, n // 2), "no batch has ended yet"
        if assessment.running and in_flight and runs_s >= limit_s / 2:
            speed = in_flight / runs_s
            target = min(max(n + 1, round_up(n * rate / speed)), 2 * n)
            text = f"the running batch works off {per_second(speed)} at most, {per_second(rate)} arrive"
        text = f"lag {seconds(lag_s)} of {seconds(limit_s)} allowed, capacity unknown: {text}: {n} → {target}"
        return sample.propose(target, ReasonCode.CAPACITY_UNKNOWN, text, lag_s=lag_s)

    # -------------------------------------------------------------------------------------------- with a model

    def _decide(self, sample: _Sample, past: RheostatState) -> _Proposal:
        costs = Costs(sample.state.cost), Costs(sample.state.cost, 1.0)
        weighing, state = self._weigh(sample, costs)
        sample = sample._replace(state=state)
        breach_s = weighing.breach_if_waiting(sample.n)
        if breach_s:
            choice = weighing.increase(sample.n)
            if choice is not None:
                return self._increase(sample, weighing, choice, breach_s)
            if weighing.is_beyond_bounds and weighing.need > sample.n:
                text = (
                    f"{seconds(breach_s)} over the limit are ahead, and no number that is allowed carries "
                    f"{_rates(weighing)}; {sample.n} → {weighing.need}, the one that carries most"
                )
                return sample.propose(weighing.need, ReasonCode.SLA_VIOLATED, text, breach_s=breach_s)
            bounds = sample.assessment.bounds
            why = "more executors now would change less than they cost"
            if bounds is not None and sample.n >= bounds.maximum:
                why = "no more executors are allowed"
            elif weighing.terms.locked_s:
                why = f"the next increase is allowed in {seconds(weighing.terms.locked_s)}"
            text = f"{seconds(breach_s)} over the limit are ahead, but {why}: {sample.n} stays"
            return self._doubt_model(sample, past) or sample.propose(
                sample.n, ReasonCode.STEADY, text, breach_s=breach_s
            )
        return self._await_rise(sample, costs) or self._decide_healthy(sample, costs, weighing)

    def _await_rise(self, sample: _Sample, costs: _CostsPair) -> _Proposal | None:
        """What a rise at its regular time needs, no earlier than executors take to start; None: there is none then."""
        assessment, n, state = sample
        sample_s = self.context.sample_s
        rise = state.rhythm.next_rise(assessment.at, sample_s, state.start_up.late_s + sample_s)
        if rise is None or rise.rate <= state.level.rate:
            return None
        weighing, _ = self._weigh(sample, costs, rise.rate)
        text = f"the load has risen to {per_second(rise.rate)} or more at regular times, and will again in "
        text += seconds(max(0.0, rise.at - assessment.at))
        breach_s = weighing.breach_if_waiting(n)
        if breach_s and weighing.need > n:
            text += f": to wait for it would breach for {seconds(breach_s)}; {n} → {weighing.need}"
            return sample.propose(weighing.need, ReasonCode.FORECAST, text, breach_s=breach_s, forecast=rise.rate)
        return sample.propose(n, ReasonCode.STEADY, f"{text}: {n} stays", forecast=rise.rate)

    def _weigh(self, sample: _Sample, costs: _CostsPair, least_rate: float = 0.0) -> tuple[Weighing, RheostatState]:
        """The options of this sample, at that rate or more, and the state with what its load needs."""
        assessment, state = sample.assessment, sample.state
        limit_s = self.context.objective.lag_s * (1 - self.options.margin)
        trigger_s, bounds = assessment.trigger_s or 0.0, assessment.bounds
        terms = Terms(
            period_s=(assessment.period_s or 0.0) * (1 - max(self.options.margin, state.cost.varies)),
            trigger_s=trigger_s,
            sample_s=self.context.sample_s,
            start_up_s=state.start_up.median_s,
            weight=state.weight if bounds is None else max(state.weight, float(bounds.maximum)),
            most=None if bounds is None else bounds.maximum,
            fewest=1 if bounds is None else bounds.minimum,
            step_up=self.context.guard.largest_step_up,
            pause_up_s=self.context.guard.cooldown_up_s,
            locked_s=self._locked_s(sample),
        )
        load, now_rate, more = self._read_load(sample, terms, least_rate)
        weighing = Weighing(
            _position(sample, limit_s, trigger_s, _cold_left_s(sample, costs[0])),
            costs,
            GoingRate(costs[0], load, terms),
            terms,
            state.start_up,
            (load.rate, load.rate * more),
            (Forecast(now_rate, load.ramp, load.ramp_s), Forecast(now_rate * more, load.ramp, load.ramp_s)),
        )
        return weighing, replace(state, weight=float(weighing.need)) if weighing.need > state.weight else state

    def _read_load(self, sample: _Sample, terms: Terms, least_rate: float) -> tuple[Load, float, float]:
        """The load when help would have come, the present rate, and the factor of one standard deviation."""
        level, trend, sample_s = sample.state.level, sample.state.trend, terms.sample_s
        ahead_s = min(sample_s + terms.start_up_s, REACH * sample_s)
        growth = trend.growth(level, ahead_s / sample_s)
        deviation = level.deviation((sample_s + terms.start_up_s + terms.period_s) / sample_s)
        deviation *= math.sqrt(1 - growth.explained)
        burst = spike_rate(sample.state.spike, self.context.objective.lag_s, terms.trigger_s)
        now_rate = level.rate
        if burst and level.calm == 0:  # a load of bursts: this one has been over as soon as it came before
            now_rate = min(now_rate, sample.assessment.arrival_rate or 0.0)
        now_rate, rise = max(now_rate, least_rate), max(0.0, growth.log)
        rate = now_rate * math.exp(rise)
        load = Load(
            rate=rate,
            deviation=math.sqrt(level.variance),
            wander=1.5 * rate * math.sqrt(level.errors[-1] / (level.longest * sample_s)),
            lasts_s=level.between_jumps_s(sample.assessment.at),
            burst=burst,
            ramp=(rate - now_rate) / ahead_s,
            ramp_s=REACH * sample_s,
            kept_share=sample.state.kept_share,
        )
        return load, now_rate, math.exp(max(0.0, min(_MOST_DEVIATION, rise + deviation) - rise))

    def _locked_s(self, sample: _Sample) -> float:
        """How long the guard allows no increase yet, s: for its cooldown after the last executors came."""
        state, at, cooldown_s = sample.state, sample.assessment.at, self.context.guard.cooldown_up_s
        if state.changed_at is None or not cooldown_s:
            return 0.0
        come_at = [at + come_s for come_s, _ in state.start_up.under_way(at)]
        last_at = max(state.changed_at, state.joined_at or state.changed_at, *come_at)
        return max(0.0, last_at + cooldown_s - at)

    def _increase(self, sample: _Sample, weighing: Weighing, choice: Choice, breach_s: float) -> _Proposal:
        n, assessment, target = sample.n, sample.assessment, choice.best.executors
        doubled, most = "", max(n, 2 * (assessment.executors or n))
        if sample.state.cost.is_cold and target > most:
            if most == n:
                text = (
                    f"{seconds(breach_s)} over the limit are ahead, but only a first batch is known, and twice as many "
                    f"executors as are registered have been asked for: {n} stays"
                )
                return sample.propose(n, ReasonCode.STABILIZING, text, breach_s=breach_s, forecast=weighing.rate)
            target, doubled = most, "; only a first batch is known, so no more than twice as many"
        late = (assessment.lag_s or 0.0) > self.context.objective.lag_s
        certain = weighing.prices.carries(n) < weighing.rate
        code = ReasonCode.SLA_VIOLATED if late else ReasonCode.UNDERSIZED if certain else ReasonCode.FORECAST
        text = f"waiting one more cycle would breach for {seconds(breach_s)} at {_rates(weighing)}; {n} → {target}"
        text += doubled + _compare(choice)
        return sample.propose(target, code, text, breach_s=breach_s, forecast=weighing.rate)

    def _decide_healthy(self, sample: _Sample, costs: _CostsPair, weighing: Weighing) -> _Proposal:
        """Fewer executors if that is cheaper than to stay."""
        assessment, n = sample.assessment, sample.n
        batch_s = min(
            max(assessment.trigger_s or 0.0, assessment.batch_s or 0.0, assessment.last_batch_s or 0.0),
            weighing.terms.period_s,
        )
        stay, choice = weighing.decrease(n, batch_s)
        while choice is not None and (usual := self._usual_rate(sample, n - choice.best.executors)) > weighing.rate:
            weighing, _ = self._weigh(sample, costs, usual)
            stay, choice = weighing.decrease(n, batch_s)
        prices = weighing.prices
        if choice is None:
            why = f"the next burst needs {prices.least}" if prices.least >= n > 1 else f"no number is cheaper than {n}"
            text = f"no breach ahead at {_rates(weighing)}, and {why}: {n} stays"
            return sample.propose(n, ReasonCode.STEADY, text, going_rate=prices.cost, forecast=weighing.rate)
        target = choice.best.executors
        dearer = count(stay.price - choice.best.price)
        lasts_s = prices.lasts_s(target, batch_s)
        text = (
            f"{carry(target)} {_rates(weighing)} for {seconds(lasts_s)} or longer; {n} → {target}; "
            f"{n} would be {dearer} executor-seconds dearer"
        )
        figures = {"going_rate": prices.cost, "forecast": weighing.rate}
        sample = sample._replace(
            state=replace(sample.state, lowered=(assessment.at, lasts_s / sample.state.kept_share))
        )
        return sample.propose(target, ReasonCode.OVERSIZED, text, **figures)

    def _usual_rate(self, sample: _Sample, fewer: int) -> float:
        """Records/s over the time in which so many executors cost as much as two changes; 0 if the load is falling.

        A dip is no reason for a decrease, and nobody knows at once whether it is one: what waiting costs by then is
        what a decrease in vain would have, down and up again. The second sample after a jump tells.
        """
        level, trend, look_s = sample.state.level, sample.state.trend, 2 * CHANGE / fewer
        if trend.growth(level, REACH).log < 0 or (trend.slopes and is_falling(level, trend.slopes[-1])):
            return 0.0
        if level.calm:
            look_s = min(look_s, (level.calm + 1) * self.context.sample_s)
        return sample.state.curve.rate_since(sample.assessment.at - look_s)

    def _doubt_model(self, sample: _Sample, past: RheostatState) -> _Proposal | None:
        """More executors against the model, where it is wrong; None: nothing shows that.

        The objective is missed, the backlog grows, no executor is under way, and yet the model sees no use in more: so
        the measured throughput is believed.
        """
        assessment, n, state = sample
        measured, rate = assessment.processed_rate, assessment.arrival_rate or 0.0
        late = (assessment.lag_s or 0.0) > self.context.objective.lag_s
        grows = past.backlog is not None and (assessment.backlog or 0) > past.backlog
        if not (late and grows and measured and measured < rate) or state.start_up.open or not assessment.batches:
            return None
        target = min(max(n + 1, round_up(n * rate / measured)), 2 * n)
        text = (
            f"lag {seconds(assessment.lag_s or 0.0)} and the backlog grows, though the model of batches sees no use in "
            f"more executors: measured, {carry(n)} {per_second(measured)} of {per_second(rate)}; {n} → {target}"
        )
        return sample.propose(target, ReasonCode.SLA_VIOLATED, text, processed_rate=measured)


def _follow_promise(at: float, n: int, state: RheostatState) -> tuple[tuple[float, float] | None, float]:
    """What a decrease promised, and what such promises are worth, once it has been kept, or broken by an increase."""
    if state.lowered is None or state.target is None:
        return None, state.kept_share
    lowered_at, promised_s = state.lowered
    if lowered_at == state.at and n >= state.target:
        return None, state.kept_share  # the guard did not let it happen
    lasted_s = at - lowered_at
    if lasted_s < promised_s and n <= state.target:
        return state.lowered, state.kept_share
    share = min(1.0, lasted_s / promised_s) if promised_s else 1.0
    return None, max(_LEAST_KEPT, state.kept_share + _KEPT_GAIN * (share - state.kept_share))


def _resume(state: RheostatState) -> RheostatState:
    """The state after a pause, as after a restart of the driver: with what was learned, without what was going on.

    Executors that were asked for before it are no start-ups: they came, or not, while nobody looked.
    """
    return replace(
        state,
        at=None,
        target=None,
        backlog=None,
        started_at=None,
        grew_from=None,
        joined_at=None,
        level=forget_level(state.level),
        trend=replace(state.trend, slopes=()),
        start_up=replace(state.start_up, open=(), waited_s=0.0, registered=None),
        cost=replace(state.cost, cold_is_open=False),
    )


def _count_joined(assessment: Assessment, state: RheostatState) -> int:
    """Executors that have joined since the last look; fewer than 0 have left."""
    before, now = state.start_up.registered, assessment.executors
    return 0 if before is None or now is None else now - before


def _before_joining(assessment: Assessment, state: RheostatState) -> int | None:
    """Executors before those that are joining; None: nobody is, or there were none."""
    more = _count_joined(assessment, state)
    if more > 0:
        return state.grew_from or state.start_up.registered or None
    is_over = more < 0 or assessment.batches or assessment.executors is None or state.start_up.registered is None
    return None if is_over else state.grew_from


def _joined_at(assessment: Assessment, state: RheostatState) -> float | None:
    """When the last executors joined, to a sample; None: nobody saw it."""
    is_new_run = assessment.run_since is not None and assessment.run_since != state.run_since
    last_at = assessment.at if state.at is None else state.at
    joined_at = (last_at + assessment.at) / 2 if _count_joined(assessment, state) > 0 else state.joined_at
    return assessment.run_since if is_new_run else joined_at


def has_batches(assessment: Assessment) -> bool:
    """Whether the figures are those of the batches of one query.

    Of several queries, one at most may have input. A batch that no driver plans is none: the engine works record at a
    time, and restarts to rescale.
    """
    busy = [load for load in assessment.by_query if not load.idle]
    return len(busy) <= 1 and assessment.driver_s != 0.0


def read_batches(assessment: Assessment, joined_at: float | None = None) -> list[Batch]:
    """The batches that have ended, oldest first; none where their records are no measure of their work.

    ``joined_at``: when the last executors joined; None: long ago.
    """
    executors = assessment.executors
    if not assessment.last_batch_records or not executors:
        return []
    slots, found = executors * (assessment.slots_per_executor or 1), list[Batch]()
    for ended in assessment.ended:
        covered = ended.offsets if ended.offsets and None not in ended.offsets else (ended.records,)
        records = sum([each or 0 for each in covered])
        if not records or not ended.duration_s:
            continue
        stages = [stage for stage in ended.stages if stage.tasks]
        if not any(stage.busy_s for stage in stages):
            stages = [StageWork(0, ended.duration_s * slots)]
        found.append(
            Batch(
                executors=executors,
                slots=slots,
                records=float(records),
                duration_s=ended.duration_s,
                tasks=tuple([stage.tasks for stage in stages]),
                busy_s=tuple([stage.busy_s for stage in stages]),
                driver_s=min(driver_part(ended) or 0.0, ended.duration_s),
                fresh=0.0 if joined_at is None else freshness(ended.at - ended.duration_s / 2 - joined_at),
            )
        )
    return found


def _count_arrived(assessment: Assessment, curve: Curve) -> float:
    """Records since the last look; where they are not known, by the mean rate."""
    if assessment.arrived is not None or not curve.times:
        return float(assessment.arrived or 0)
    return (assessment.arrival_rate or 0.0) * max(0.0, read_at(assessment) - curve.times[-1])


def read_at(assessment: Assessment) -> float:
    """When the figures were read, which is until when arrivals are counted."""
    return assessment.at - (assessment.metrics_age_s or 0.0)


def _is_read_before(assessment: Assessment, state: RheostatState) -> bool:
    """Whether the figures are those of the last look, or older: none have arrived since as far as they tell."""
    if state.at is None or not state.curve.times or assessment.at <= state.at:
        return False
    return read_at(assessment) <= state.curve.times[-1] + _SAME_S


def find_start(assessment: Assessment, before: float | None) -> float | None:
    """When the last batch began; None: unknown. ``before``: the same at the last look."""
    if assessment.running_since is not None:
        return assessment.running_since
    return assessment.ended[-1].at - assessment.ended[-1].duration_s if assessment.ended else before


def _position(sample: _Sample, limit_s: float, trigger_s: float, cold_s: float) -> Position:
    assessment, n, state = sample
    at = assessment.at
    in_flight, waiting = float(assessment.in_flight or 0), float(assessment.waiting or 0)
    oldest_s = -(assessment.lag_s or 0.0)
    if assessment.lag_s is None:
        oldest_s = state.curve.time_of(state.curve.total - waiting - in_flight) - at
    return Position(
        executors=max(1, min(assessment.executors or n, n)),
        in_flight=in_flight,
        waiting=waiting,
        started_s=min(0.0, (at if state.started_at is None else state.started_at) - at),
        oldest_s=min(0.0, oldest_s),
        trigger_s=trigger_s,
        limit_s=limit_s,
        curve=state.curve,
        at=at,
        cold_s=cold_s,
        joined_s=None if state.joined_at is None else min(0.0, state.joined_at - at),
        first_is_over=state.grew_from is None,
    )


def _cold_left_s(sample: _Sample, costs: Costs) -> float:
    """What executors that have joined still add to the running batch, by what is usual and has been seen of it, s."""
    executors, grew_from = sample.assessment.executors, sample.state.grew_from
    if grew_from is None or executors is None:
        return 0.0
    return max(0.0, costs.cold_s(executors - grew_from) - sample.state.cost.spent_cold_s)


def _rates(weighing: Weighing) -> str:
    return f"{per_second(weighing.rate)} to {per_second(weighing.high_rate)}"


def _compare(choice: Choice) -> str:
    """What the next best number would cost more, in words."""
    if choice.other is None:
        return ""
    dearer = choice.other.price - choice.best.price
    return f"; {choice.other.executors} would be {count(dearer)} executor-seconds dearer"
