"""``proactive``: explore reactively, learn f(workload, n), then scale ahead of a forecast. S1, corrected.

Two modes. Slow records y are those of :mod:`rheostat.plan.reactive`, with one T in both.

**Exploration.** What ``reactive`` proposes, by its options (both scale-up rules, probing), and a row (w, n, y) from
each sample that counts (:mod:`rheostat.plan.collector`). Each ``check_every`` samples, once the capacity is known, a
model is made and must be stable (:mod:`rheostat.plan.exploration`); then control begins with the next sample.

**Control.** The arrival rates of the last ten minutes say what the next minute brings
(:mod:`rheostat.analyze.forecast`), or as long as an increase was measured to take, if that is more
(:mod:`rheostat.plan.recovery`). The smallest number without a predicted violation is the target
(:mod:`rheostat.plan.control`), which hysteresis approaches (:mod:`rheostat.plan.hysteresis`). Every sample is compared
with what was predicted for it, at the number in force, unless executors are on their way or the job has not recovered.
A high residual that the measured workload explains is a *forecast miss*, and only counted. One that remains is the
model's: it is given to a detector (:mod:`rheostat.analyze.change`). At a change point the policy explores again:

* dropped: the rows, the model, the detector's and the hysteresis' state, the count of surplus samples;
* kept: the series of arrival rates (it is the load's, not the job's), how long changes take, and what is known of the
  capacity, since without it nothing could scale down until the next violation. Figures by number are replaced by the
  first measurement that contradicts them; of the one figure of the document the count goes to 1, so that the next
  violation weighs half.

Ours beyond the document, each with an option that the preset ``faithful`` switches off: a violation in control is
answered at once, as in exploration (``net``); the model must agree with what the executors were seen to carry, where
there is one topic (``bounded``: of several that is known for the sum alone), and the present rate must be carried too
(``present``); a rate counts for the middle of its window (``timely``); the model is made anew each ``check_every``
samples in control too (``relearn``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import ClassVar, Literal

from pydantic import BaseModel

from rheostat.analyze.change import Detector, Watched, Worsening
from rheostat.analyze.forecast import Point, Rates, ahead, extended, forecast, highest
from rheostat.learn.model import SlowModel
from rheostat.learn.samples import Sample
from rheostat.learn.training import TrainingOptions
from rheostat.model import Assessment, Code, Recommendation
from rheostat.plan.collector import Collected, added, dropped, gathered
from rheostat.plan.control import Carrier, Outlook, residuals, smallest
from rheostat.plan.exploration import Check, check
from rheostat.plan.hysteresis import eased, rounded
from rheostat.plan.policy import PolicyContext, in_force
from rheostat.plan.proactive_options import FAITHFUL, ProactiveOptions
from rheostat.plan.proactive_sample import ProactiveSample, figured, rates_of, saying
from rheostat.plan.reactive import ReactivePolicy, ReactiveState
from rheostat.plan.recovery import Recovery, followed, ready, rescale_s
from rheostat.plan.slow_records import slow_records
from rheostat.plan.words import executors, per_second, percent, seconds, several

__all__ = ["ProactiveOptions", "ProactivePolicy", "ProactiveState"]

_Proposal = tuple[Recommendation, "ProactiveState"]
_MOST_SLOW = 1e6
_FORECAST = Code.FORECAST
_NO_FIGURES: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ProactiveState:
    """What is remembered from sample to sample.

    Attributes:
        mode: exploration or control.
        reactive: the state of the policy that explores.
        recovery: where the last change of the number stands.
        series: arrival rates, as far back as the forecast looks.
        data: the rows of the training.
        model: in control, what predicts.
        outlook: the last forecast.
        level: S of the hysteresis; None: it begins with the number in force.
        watched: what the detector remembers.
        explored_at, sampled_at, decided_at: the last check in exploration, sample and decision in control.
    """

    mode: Literal["exploration", "control"] = "exploration"
    reactive: ReactiveState = field(default_factory=ReactiveState)
    recovery: Recovery = field(default_factory=Recovery)
    series: tuple[Point, ...] = ()
    data: Collected = field(default_factory=Collected)
    model: SlowModel | None = None
    outlook: Outlook | None = None
    level: float | None = None
    watched: Watched = field(default_factory=Watched)
    explored_at: float | None = None
    sampled_at: float | None = None
    decided_at: float | None = None


class ProactivePolicy:
    """Reactive until a model is stable, then by forecast and model. See the module's description."""

    name: ClassVar[str] = "proactive"
    brings: ClassVar[frozenset[str]] = frozenset()
    state_type: type[ProactiveState] = ProactiveState
    options_type: ClassVar[type[BaseModel]] = ProactiveOptions
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = MappingProxyType(
        {"default": {}, "faithful": FAITHFUL, "demo": {"samples_to_shrink": 4, "check_every": 100}}
    )

    def __init__(self, options: ProactiveOptions, context: PolicyContext) -> None:
        self.options = options
        self.context = context
        self._interval_s = options.slow_interval_s
        self._most_slow = options.most_slow or _MOST_SLOW
        self._hold_s = options.hold_s
        self._check_every = options.check_every
        self._back_s = options.back_s
        self._step_s = options.step_s
        self._horizon_s = options.horizon_s
        self._within = seconds(options.horizon_s)
        self._ahead = ahead(options.horizon_s, options.step_s)
        self._late_s = min(context.rate_window_s, options.back_s) / 2 if options.timely else 0.0
        self._explore_every_s = options.explore_every_s
        self._sample_every_s = options.sample_every_s
        self._decide_every_s = options.decide_every_s
        self._early_s = context.sample_s / 2
        self._net = options.net
        self._relearn = options.relearn
        self._present = options.present
        self._bounded = options.bounded
        self._sla = options.sla
        self._headroom = options.headroom
        self._gains = (options.gain_up, options.gain_down)
        explores_s = max(context.sample_s, options.explore_every_s or 0.0)
        self._reactive = ReactivePolicy(options, replace(context, sample_s=explores_s))
        limit, in_a_row = options.residual_limit, options.residuals_in_a_row
        self._detector = Detector(limit, in_a_row, options.residual_allowance, options.residual_patience)
        self._training = TrainingOptions(
            degrees=tuple(range(1, options.degree + 1)),
            resamples=options.resamples,
            block=options.block,
            stability_limit=options.stability_limit,
            objective=min(options.sla, 0.99),
            outliers=options.outliers,
        )

    def initial(self) -> ProactiveState:
        """Exploration, with nothing known."""
        return ProactiveState()

    def recommend(self, seen: Assessment, state: ProactiveState) -> _Proposal:
        """Propose by the rules above."""
        rates = rates_of(seen)
        series = state.series
        if rates is not None and not seen.invalid:
            series = extended(series, Point(seen.at, rates), self._back_s)
            topics = tuple([topic for topic, _ in seen.arrival_rates])
            if topics != state.data.topics:
                state = self._anew(seen.at, state, topics)
        sample = self._sample(seen, rates, series, state.recovery)
        if sample is None:
            proposal, reactive = self._reactive.recommend(seen, state.reactive)
            return replace(proposal, target=None), replace(state, reactive=reactive, series=series)
        return self._explore(sample, state) if state.model is None else self._control(sample, state, state.model)

    def capacity(self, executors: int, state: ProactiveState) -> float | None:
        """What ``reactive`` knows of it."""
        return self._reactive.capacity(executors, state.reactive)

    def unready(self, state: ProactiveState) -> tuple[str, str] | None:
        """Control, and what the model still needs; None: it is on."""
        if state.model is not None:
            return None
        counted, needed = state.data.unchecked, self.options.check_every
        if counted < needed:
            checks = (state.data.archived + len(state.data.rows)) // needed
            unstable = f"; {several(checks, 'model')} before had not been stable" if checks else ""
            return "control", f"a model needs {needed} samples that count, {counted} did{unstable}"
        return "control", "what an executor carries is not known: the job has not been at its limit yet"

    # ---------------------------------------------------------------------------------------------- samples

    def _sample(
        self, seen: Assessment, rates: Rates | None, series: tuple[Point, ...], recovery: Recovery
    ) -> ProactiveSample | None:
        n, excess, hold_s = in_force(seen), seen.backlog_excess, self._hold_s
        if seen.missing or seen.invalid or not n or rates is None or excess is None:
            return None
        total = sum(rates)
        slow = min(slow_records(excess, total, self._interval_s), self._most_slow)
        recovery = followed(seen, n, recovery, math.inf if hold_s is None else hold_s)
        counts = seen.executors == n if hold_s is None else recovery.recovered and ready(seen, n)
        return ProactiveSample(seen, seen.at, n, rates, total, slow, series, recovery, counts)

    def _kept(self, sample: ProactiveSample, state: ProactiveState) -> Collected:
        """The rows with one of this sample, if it counts."""
        if not sample.counts:
            return state.data
        row = Sample(sample.at, sample.rates, sample.n, sample.slow)
        return added(row, state.data, self.context.archive)

    def _due(self, sample: ProactiveSample, last: float | None, every_s: float | None) -> bool:
        """Whether so much time has passed; half a sample period early is not too early."""
        return every_s is None or last is None or sample.at - last >= every_s - self._early_s

    # ------------------------------------------------------------------------------------------ exploration

    def _explore(self, sample: ProactiveSample, state: ProactiveState) -> _Proposal:
        if not self._due(sample, state.explored_at, self._explore_every_s):
            text = f"exploring: a check each {seconds(self._explore_every_s or 0.0)}"
            state = replace(state, series=sample.series, recovery=sample.recovery)
            return sample.propose(sample.n, Code.STEADY, text, _NO_FIGURES), state
        proposal, reactive = self._reactive.recommend(sample.seen, state.reactive)
        state = ProactiveState(
            state.mode,
            reactive,
            sample.recovery,
            sample.series,
            self._kept(sample, state),
            state.model,
            state.outlook,
            state.level,
            state.watched,
            sample.at,
            state.sampled_at,
            state.decided_at,
        )
        found = self._checked(sample, state)
        if found is None:
            return proposal, state
        state = replace(state, data=replace(state.data, unchecked=0))
        if found.model is None:
            return saying(proposal, f"{found.text}: exploration goes on"), state
        state = replace(state, mode="control", model=found.model, outlook=None, level=None, watched=Watched())
        return saying(proposal, f"{found.text}: control begins"), state

    def _checked(self, sample: ProactiveSample, state: ProactiveState) -> Check | None:
        """The check of a model, where one is due; None: none is, or the capacity is unknown."""
        if state.data.unchecked < self._check_every:
            return None
        carried = self.capacity(sample.n, state)
        if not carried:
            return None
        rows = gathered(state.data, self.context.archive, self.options.learn_rows)
        now = (sample.rates, sample.n)
        return check(rows, now, carried / sample.n, self._training, self.options.stability_limit)

    def _anew(self, at: float, state: ProactiveState, topics: tuple[str, ...]) -> ProactiveState:
        """Exploration again: what is dropped and what is kept stands in the module's description."""
        learned = replace(state.reactive.learned, samples=min(1, state.reactive.learned.samples), recent=())
        return ProactiveState(
            reactive=replace(state.reactive, learned=learned, streak=0),
            recovery=state.recovery,
            series=state.series,
            data=dropped(state.data, at, topics),
            explored_at=state.explored_at,
        )

    # ---------------------------------------------------------------------------------------------- control

    def _control(self, sample: ProactiveSample, state: ProactiveState, model: SlowModel) -> _Proposal:
        caught: Recommendation | None = None
        reactive = state.reactive
        if self._net:
            caught, reactive = self._reactive.for_increase(sample.seen, reactive)
        worsening, state = self._compared(sample, state, model, reactive)
        judged = _NO_FIGURES
        if worsening is not None:
            judged = {"residual": state.watched.recent[-1], "score": worsening.score}
        proposal, state = self._decided(sample, state, model, judged)
        if caught is not None and (caught.target or 0) > max(sample.n, proposal.target or 0):
            proposal = figured(caught, judged)
        if worsening is None or not worsening.changed:
            return self._relearned(sample, proposal, state)
        how = "gradually" if worsening.gradual else "abruptly"
        text = f"the model no longer predicts, {how}: score {worsening.score:.2f} ≥ 1; exploration begins again"
        target = max(sample.n, proposal.target or 0)
        reason = replace(proposal.reason, code=Code.CHANGE_POINT, text=f"{text}: {sample.n} → {target}")
        return Recommendation(target, reason), self._anew(sample.at, state, state.data.topics)

    def _compared(
        self, sample: ProactiveSample, state: ProactiveState, model: SlowModel, reactive: ReactiveState
    ) -> tuple[Worsening | None, ProactiveState]:
        """What the residual of this sample says, where there is one; and the state with its row and ``reactive``."""
        worsening, watched, data, sampled_at = None, state.watched, state.data, state.sampled_at
        if self._due(sample, sampled_at, self._sample_every_s):
            data, sampled_at = self._kept(sample, state), sample.at
            told = None if state.outlook is None or not sample.counts else state.outlook.told(sample.at)
            if told is not None:
                worsening, watched = self._judged(sample, told, watched, model)
        return worsening, ProactiveState(
            state.mode,
            reactive,
            sample.recovery,
            sample.series,
            data,
            model,
            state.outlook,
            state.level,
            watched,
            state.explored_at,
            sampled_at,
            state.decided_at,
        )

    def _judged(
        self, sample: ProactiveSample, told: Rates, watched: Watched, model: SlowModel
    ) -> tuple[Worsening, Watched]:
        """What the residual says, and what the detector remembers of it."""
        found = residuals(model, told, sample.rates, sample.n, sample.slow, self._most_slow)
        worsening, watched = self._detector.watch(found.of_model, watched)
        missed = self._detector.forecast_missed(found.total, found.of_model)
        return worsening, Watched(watched.recent, watched.total, watched.misses + 1 if missed else 0)

    def _decided(
        self, sample: ProactiveSample, state: ProactiveState, model: SlowModel, judged: Mapping[str, float]
    ) -> _Proposal:
        """What is proposed, with the figures of the residual."""
        if not self._due(sample, state.decided_at, self._decide_every_s):
            text = f"in control: a decision each {seconds(self._decide_every_s or 0.0)}"
            return sample.propose(sample.n, _FORECAST, text, judged), state
        horizon_s = max(self._horizon_s, rescale_s(sample.recovery))
        times = self._ahead if horizon_s == self._horizon_s else ahead(horizon_s, self._step_s)
        points = forecast(sample.series, times, self._late_s)
        target = self._target(sample, state, model, points)
        level = eased(sample.n if state.level is None else state.level, target, sample.n, self._gains)
        proposed = rounded(level)
        if proposed < sample.n and not sample.counts:
            proposed = sample.n
        wanted = {"forecast": highest(points), "wanted": float(target), "misses": float(state.watched.misses), **judged}
        text = self._said(sample, wanted["forecast"], horizon_s, target, proposed)
        return sample.propose(proposed, _FORECAST, text, wanted), ProactiveState(
            state.mode,
            state.reactive,
            state.recovery,
            state.series,
            state.data,
            model,
            Outlook(sample.at, self._step_s, points),
            level,
            state.watched,
            state.explored_at,
            state.sampled_at,
            sample.at,
        )

    def _target(
        self, sample: ProactiveSample, state: ProactiveState, model: SlowModel, points: tuple[Rates, ...]
    ) -> int:
        alone, learner, reactive = len(sample.rates) == 1, self._reactive, state.reactive
        told = (points[0], points[-1]) if alone else points
        asked = (sample.rates, *told) if self._present else told
        if self._bounded and alone:
            carrier = Carrier(model, self._sla, learner.carrying(reactive), lambda rate: learner.enough(rate, reactive))
        else:
            carrier = Carrier(model, self._sla, _unknown, _unknown)
        partitions, slots = sample.seen.partitions, sample.seen.slots_per_executor
        useful = -(-partitions // slots) if partitions and slots else None
        return smallest(carrier, asked, sample.n, self._headroom, useful)

    def _said(self, sample: ProactiveSample, most: float, horizon_s: float, target: int, proposed: int) -> str:
        move = f"{sample.n} stays" if proposed == sample.n else f"{sample.n} → {proposed}"
        within = self._within if horizon_s == self._horizon_s else seconds(horizon_s)
        return (
            f"slow records {percent(sample.slow)}; arrival {per_second(sample.total)}, at most {per_second(most)} "
            f"within {within}, which {executors(target)} can carry: {move}"
        )

    def _relearned(self, sample: ProactiveSample, proposal: Recommendation, state: ProactiveState) -> _Proposal:
        """A model of all rows so far, where one is due and stable; else it goes on with the old one."""
        found = self._checked(sample, state) if self._relearn else None
        if found is None:
            return proposal, state
        follows = "it replaces the old one" if found.model is not None else "the old one stays"
        state = replace(state, model=found.model or state.model, data=replace(state.data, unchecked=0))
        return saying(proposal, f"{found.text}: {follows}"), state


def _unknown(number: float) -> None:  # noqa: ARG001
    """No capacity that is looked at: neither that of a number, nor the number for a rate."""
    return
