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
from rheostat.analyze.forecast import Point, Rates, ahead, extended, forecast
from rheostat.learn.model import SlowModel
from rheostat.learn.samples import Sample
from rheostat.learn.training import TrainingOptions
from rheostat.model import Assessment, Code, Reason, Recommendation
from rheostat.plan.capacity import slow_records
from rheostat.plan.collector import Collected, added, dropped, gathered
from rheostat.plan.control import Carrier, Outlook, residuals, smallest
from rheostat.plan.exploration import Check, check
from rheostat.plan.hysteresis import eased, rounded
from rheostat.plan.policy import PolicyContext, in_force
from rheostat.plan.proactive_options import FAITHFUL, ProactiveOptions
from rheostat.plan.reactive import ReactivePolicy, ReactiveState
from rheostat.plan.recovery import Recovery, followed, ready, rescale_s
from rheostat.plan.words import executors, per_second, percent, seconds, several

__all__ = ["ProactiveOptions", "ProactivePolicy", "ProactiveState"]

_Proposal = tuple[Recommendation, "ProactiveState"]
_MOST_SLOW = 1e6


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


@dataclass(frozen=True, slots=True)
class _Sample:
    """A complete sample: the figures that every rule needs, none of them unknown."""

    seen: Assessment
    n: int
    rates: Rates
    slow: float

    @property
    def at(self) -> float:
        return self.seen.at

    def propose(self, target: int, code: Code, text: str, **figures: float | None) -> Recommendation:
        known = {"slow_records": self.slow, "arrival_rate": self.seen.arrival_rate, "executors": float(self.n)}
        return Recommendation(target, Reason(code, text, {**known, **figures}))


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
        explores_s = max(context.sample_s, options.explore_every_s or 0.0)
        self._reactive = ReactivePolicy(options, replace(context, sample_s=explores_s))
        self._detector = Detector(
            options.residual_limit,
            options.residuals_in_a_row,
            options.residual_allowance,
            options.residual_patience,
        )
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
        state = self._heard(seen, state)
        sample = self._sample(seen)
        if sample is None:
            proposal, reactive = self._reactive.recommend(seen, state.reactive)
            return replace(proposal, target=None), replace(state, reactive=reactive)
        hold_s = math.inf if self.options.hold_s is None else self.options.hold_s
        state = replace(state, recovery=followed(seen, sample.n, state.recovery, hold_s))
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

    def _heard(self, seen: Assessment, state: ProactiveState) -> ProactiveState:
        """The state with the arrival rates of this sample, also of one that counts for nothing else (in a hold)."""
        rates = _rates(seen)
        if rates is None or seen.invalid:
            return state
        series = extended(state.series, Point(seen.at, rates), self.options.back_s)
        topics = tuple(topic for topic, _ in seen.arrival_rates)
        if topics == state.data.topics:
            return replace(state, series=series)
        return self._anew(seen.at, replace(state, series=series), topics)

    def _sample(self, seen: Assessment) -> _Sample | None:
        n, rates, excess = in_force(seen), _rates(seen), seen.backlog_excess
        if seen.missing or seen.invalid or not n or rates is None or excess is None:
            return None
        slow = slow_records(excess, math.fsum(rates), self.options.slow_interval_s)
        return _Sample(seen, n, rates, min(slow, self.options.most_slow or _MOST_SLOW))

    def _counts(self, sample: _Sample, state: ProactiveState) -> bool:
        """Whether slow records are those of the number in force: it is there, and the job has recovered from before."""
        if self.options.hold_s is None:
            return sample.seen.executors == sample.n
        return ready(sample.seen, sample.n) and state.recovery.recovered

    def _kept(self, sample: _Sample, state: ProactiveState) -> ProactiveState:
        """The state with a row of this sample, if it counts."""
        if not self._counts(sample, state):
            return state
        row = Sample(sample.at, sample.rates, sample.n, sample.slow)
        return replace(state, data=added(row, state.data, self.context.archive))

    def _due(self, sample: _Sample, last: float | None, every_s: float | None) -> bool:
        """Whether so much time has passed; half a sample period early is not too early."""
        return every_s is None or last is None or sample.at - last >= every_s - self.context.sample_s / 2

    # ------------------------------------------------------------------------------------------ exploration

    def _explore(self, sample: _Sample, state: ProactiveState) -> _Proposal:
        if not self._due(sample, state.explored_at, self.options.explore_every_s):
            text = f"exploring: a check each {seconds(self.options.explore_every_s or 0.0)}"
            return sample.propose(sample.n, Code.STEADY, text), state
        proposal, reactive = self._reactive.recommend(sample.seen, state.reactive)
        state = self._kept(sample, replace(state, reactive=reactive, explored_at=sample.at))
        found = self._checked(sample, state)
        if found is None:
            return proposal, state
        state = replace(state, data=replace(state.data, unchecked=0))
        if found.model is not None:
            state = replace(state, mode="control", model=found.model, outlook=None, level=None, watched=Watched())
        follows = "control begins" if found.model is not None else "exploration goes on"
        return _saying(proposal, f"{found.text}: {follows}"), state

    def _checked(self, sample: _Sample, state: ProactiveState) -> Check | None:
        """The check of a model, where one is due; None: none is, or the capacity is unknown."""
        if state.data.unchecked < self.options.check_every:
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

    def _control(self, sample: _Sample, state: ProactiveState, model: SlowModel) -> _Proposal:
        worsening, state = self._compared(sample, state, model)
        caught: Recommendation | None = None
        if self.options.net:
            caught, reactive = self._reactive.recommend(sample.seen, state.reactive)
            state = replace(state, reactive=reactive)
        proposal, state = self._decided(sample, state, model)
        if caught is not None and (caught.target or 0) > max(sample.n, proposal.target or 0):
            proposal = caught
        if worsening is not None:
            proposal = _with(proposal, residual=state.watched.recent[-1], score=worsening.score)
        if worsening is None or not worsening.changed:
            return self._relearned(sample, proposal, state)
        how = "gradually" if worsening.gradual else "abruptly"
        text = f"the model no longer predicts, {how}: score {worsening.score:.2f} ≥ 1; exploration begins again"
        target = max(sample.n, proposal.target or 0)
        reason = replace(proposal.reason, code=Code.CHANGE_POINT, text=f"{text}: {sample.n} → {target}")
        return Recommendation(target, reason), self._anew(sample.at, state, state.data.topics)

    def _compared(
        self, sample: _Sample, state: ProactiveState, model: SlowModel
    ) -> tuple[Worsening | None, ProactiveState]:
        """What the residual of this sample says, where there is one; and the state with its row."""
        if not self._due(sample, state.sampled_at, self.options.sample_every_s):
            return None, state
        state = self._kept(sample, replace(state, sampled_at=sample.at))
        told = None if state.outlook is None else state.outlook.told(sample.at)
        if told is None or not self._counts(sample, state):
            return None, state
        most = self.options.most_slow or _MOST_SLOW
        found = residuals(model, told, sample.rates, sample.n, sample.slow, most)
        worsening, watched = self._detector.watch(found.of_model, state.watched)
        missed = self._detector.forecast_missed(found.total, found.of_model)
        return worsening, replace(state, watched=replace(watched, misses=watched.misses + 1 if missed else 0))

    def _decided(self, sample: _Sample, state: ProactiveState, model: SlowModel) -> _Proposal:
        if not self._due(sample, state.decided_at, self.options.decide_every_s):
            text = f"in control: a decision each {seconds(self.options.decide_every_s or 0.0)}"
            return sample.propose(sample.n, Code.FORECAST, text), state
        horizon_s = max(self.options.horizon_s, rescale_s(state.recovery))
        points = self._points(state, horizon_s)
        target = self._target(sample, state, model, points)
        gains = (self.options.gain_up, self.options.gain_down)
        level = eased(sample.n if state.level is None else state.level, target, sample.n, gains)
        proposed = rounded(level)
        if proposed < sample.n and not self._counts(sample, state):
            proposed = sample.n
        outlook = Outlook(sample.at, self.options.step_s, points)
        state = replace(state, level=level, decided_at=sample.at, outlook=outlook)
        return self._said(sample, state, (target, proposed), horizon_s), state

    def _points(self, state: ProactiveState, horizon_s: float) -> tuple[Rates, ...]:
        late_s = min(self.context.rate_window_s, self.options.back_s) / 2 if self.options.timely else 0.0
        return forecast(state.series, ahead(horizon_s, self.options.step_s), late_s)

    def _target(self, sample: _Sample, state: ProactiveState, model: SlowModel, points: tuple[Rates, ...]) -> int:
        asked = (sample.rates, *points) if self.options.present else points
        bounded = self.options.bounded and len(sample.rates) == 1
        carrier = Carrier(model, self.options.sla, lambda n: self.capacity(n, state) if bounded else None)
        partitions, slots = sample.seen.partitions, sample.seen.slots_per_executor
        useful = -(-partitions // slots) if partitions and slots else None
        return smallest(carrier, asked, sample.n, self.options.headroom, useful)

    def _said(
        self, sample: _Sample, state: ProactiveState, numbers: tuple[int, int], horizon_s: float
    ) -> Recommendation:
        target, proposed = numbers
        most = max(map(math.fsum, state.outlook.points)) if state.outlook is not None else 0.0
        arrival = math.fsum(sample.rates)
        text = (
            f"slow records {percent(sample.slow)}; arrival {per_second(arrival)}, at most {per_second(most)} "
            f"within {seconds(horizon_s)}, which {executors(target)} can carry: "
            + (f"{sample.n} stays" if proposed == sample.n else f"{sample.n} → {proposed}")
        )
        misses = float(state.watched.misses)
        return sample.propose(proposed, Code.FORECAST, text, forecast=most, wanted=float(target), misses=misses)

    def _relearned(self, sample: _Sample, proposal: Recommendation, state: ProactiveState) -> _Proposal:
        """A model of all rows so far, where one is due and stable; else it goes on with the old one."""
        found = self._checked(sample, state) if self.options.relearn else None
        if found is None:
            return proposal, state
        follows = "it replaces the old one" if found.model is not None else "the old one stays"
        state = replace(state, model=found.model or state.model, data=replace(state.data, unchecked=0))
        return _saying(proposal, f"{found.text}: {follows}"), state


def _saying(proposal: Recommendation, text: str) -> Recommendation:
    return replace(proposal, reason=replace(proposal.reason, text=f"{proposal.reason.text}; {text}"))


def _with(proposal: Recommendation, **figures: float) -> Recommendation:
    return replace(proposal, reason=replace(proposal.reason, figures={**proposal.reason.figures, **figures}))


def _rates(seen: Assessment) -> Rates | None:
    """Records/s by topic where a query reads several, else in all; None: unknown."""
    if seen.arrival_rate is None:
        return None
    return tuple(rate for _, rate in seen.arrival_rates) or (seen.arrival_rate,)
