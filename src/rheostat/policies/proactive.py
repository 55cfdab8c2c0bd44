"""``proactive``: explore reactively, learn f(workload, n), then scale ahead of a forecast. S1, corrected.

Two modes. Slow records y are those of :mod:`rheostat.policies.reactive`, with one T in both.

**Exploration.** What ``reactive`` proposes, by its options (both scale-up rules, probing), and a row (w, n, y) from
each sample that counts. Each ``check_every`` samples, once the capacity is known, a
model is made and must be stable; then control begins with the next sample.

**Control.** The arrival rates of the last ten minutes say what the next minute brings
(:mod:`rheostat.policies.trend`), or as long as an increase was measured to take, if that is more
(:mod:`rheostat.policies.capacity`). The smallest number without a predicted violation is the target
, which hysteresis approaches. Every sample is compared
with what was predicted for it, at the number in force, unless executors are on their way or the job has not recovered.
A high residual that the measured workload explains is a *forecast miss*, and only counted. One that remains is the
model's: it is given to a detector (:mod:`rheostat.policies.trend`). At a change point the policy explores again:

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import ClassVar, Literal, NamedTuple

from pydantic import BaseModel, Field

from rheostat.decide.policy import PolicyContext, in_force
from rheostat.errors import InputError, JournalError
from rheostat.learn.slow_records import Sample, SlowModel, TrainingOptions, resampled, train
from rheostat.model import Assessment, Reason, ReasonCode, Recommendation
from rheostat.policies.capacity import Recovery, followed, ready, rescale_s, slow_records
from rheostat.policies.reactive import FAITHFUL as FAITHFUL_REACTIVE
from rheostat.policies.reactive import ReactiveOptions, ReactivePolicy, ReactiveState
from rheostat.policies.trend import Detector, LoadPoint, Rates, Watched, Worsening, ahead, extended, forecast
from rheostat.ports import SampleStore
from rheostat.text import executors, per_second, percent, seconds, several

# Options of ``proactive``: those of ``reactive``, which it explores with, and those of the model and the forecast.


class ProactiveOptions(ReactiveOptions):
    """Options of ``proactive``, with the defaults of the preset ``default``."""

    headroom: float = Field(
        0.95,
        gt=0,
        le=1,
        description="Share of the capacity to be used after a decrease; a rise is seen before it comes (S1: 0.9).",
    )
    explore_every_s: float | None = Field(
        None, gt=0, le=3600, description="Time between two checks in exploration, s; null: each sample (S1: 15 s)."
    )
    sample_every_s: float | None = Field(
        None, gt=0, le=3600, description="Time between two samples in control, s; null: each one (S1: 5 s)."
    )
    decide_every_s: float | None = Field(
        None, gt=0, le=3600, description="Time between two decisions in control, s; null: each sample (S1: 60 s)."
    )
    hold_s: float | None = Field(
        240.0,
        ge=0,
        le=86_400,
        description="How long recovery from a change is waited for at most, s; until then samples are not learnt from. "
        "null: they always are (the profile faithful has the hold of S1 in its guards).",
    )
    most_slow: float | None = Field(
        1.0, gt=0, le=1e6, description="Slow records above this are learnt as this: a stall of minutes is no more."
    )
    check_every: int = Field(240, ge=10, le=100_000, description="Samples between two checks of the model (S1: 450).")
    learn_rows: int = Field(3000, ge=50, le=1_000_000, description="Newest samples that a model is made of.")
    degree: int = Field(8, ge=1, le=8, description="The highest degree that is tried, from 1 on (S1: 8).")
    resamples: int = Field(250, ge=2, le=10_000, description="k, resamples of the stability check (S1: 250).")
    block: int = Field(30, ge=1, le=10_000, description="Samples in a row that are drawn together.")
    stability_limit: float = Field(
        TrainingOptions.stability_limit,
        gt=0,
        le=100,
        description="λ, the largest standard deviation of a stable model's predictions (S1: 0.05, by another method).",
    )
    outliers: bool = Field(default=True, description="Whether outliers are found and left out of the training data.")
    relearn: bool = Field(
        default=True, description="Whether the model is learnt anew in control too; false: once, in exploration (S1)."
    )
    back_s: float = Field(600.0, gt=0, le=86_400, description="How far back the forecast looks, s (S1: 10 minutes).")
    horizon_s: float = Field(
        60.0, gt=0, le=3600, description="How far ahead it looks, at least as far as a change takes, s (S1: 1 minute)."
    )
    step_s: float = Field(5.0, gt=0, le=3600, description="Step of the forecast, s (S1: 5 s).")
    timely: bool = Field(
        default=True, description="Whether a rate counts for the middle of the window that it is the mean of."
    )
    present: bool = Field(default=True, description="Whether the present rate must be carried too, not only forecasts.")
    bounded: bool = Field(
        default=True, description="Whether what the executors were seen to carry is believed beside the model."
    )
    net: bool = Field(
        default=True, description="Whether a violation in control is answered at once, as in exploration."
    )
    gain_up: float = Field(
        0.9, gt=0, le=1, description="α of the hysteresis: share of the way up by one decision (S1)."
    )
    gain_down: float = Field(0.4, gt=0, le=1, description="β of the hysteresis: share of the way down (S1).")
    residual_limit: float = Field(
        0.08, gt=0, le=100, description="Slow records by which a prediction may be wrong (S1)."
    )
    residuals_in_a_row: int = Field(
        3, ge=1, le=1000, description="Residuals above the limit in a row that are a change point (S1: 1)."
    )
    residual_allowance: float | None = Field(
        0.02, ge=0, le=100, description="Residual that does not add up to a gradual change; null: not looked for (S1)."
    )
    residual_patience: float = Field(
        5.0,
        gt=0,
        le=10_000,
        description="How many times the limit may add up before it is a change point.",
        json_schema_extra={"only_with": ["residual_allowance", "set"]},
    )


FAITHFUL: Mapping[str, object] = MappingProxyType(
    {
        **FAITHFUL_REACTIVE,
        "headroom": 0.9,
        "explore_every_s": 15.0,
        "sample_every_s": 5.0,
        "decide_every_s": 60.0,
        "hold_s": None,
        "most_slow": None,
        "check_every": 450,
        "learn_rows": 1_000_000,
        "outliers": False,
        "relearn": False,
        "timely": False,
        "present": False,
        "bounded": False,
        "net": False,
        "residuals_in_a_row": 1,
        "residual_allowance": None,
    }
)


# Optimal control: the smallest number without a predicted violation. S1 Algorithms 6 and 7, corrected.


_BEYOND = 16
"""Numbers that are tried beyond twice the one in force, where nothing says how many are useful."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """A forecast, kept to see what became of it.

    Attributes:
        at: when it was made.
        step_s: between its points; the first is one step after ``at``.
        points: the rates, by topic.
    """

    at: float
    step_s: float
    points: tuple[Rates, ...]

    def told(self, at: float) -> Rates | None:
        """The rates that were forecast for this time, by the nearest point; None: it does not reach so far.

        >>> Outlook(100.0, 5.0, ((10.0,), (20.0,))).told(109.0)
        (20.0,)
        """
        place = round((at - self.at) / self.step_s) - 1
        return self.points[max(0, place)] if at > self.at and place < len(self.points) else None


class Carrier(NamedTuple):
    """What decides whether a number carries a workload.

    Attributes:
        capacity: n → records/s that it was seen to carry; None: that is not looked at, or not known.
    """

    model: SlowModel
    sla: float
    capacity: Callable[[int], float | None]

    def carries(self, executors: int, points: Sequence[Rates], share: float = 1.0) -> bool:
        """Whether so many executors carry every point, at this share of what they were seen to carry."""
        seen = self.capacity(executors)
        if seen is not None and max(map(sum, points)) > share * seen:
            return False
        return all(self.model.predict(point, executors) < self.sla for point in points)


def smallest(carrier: Carrier, points: Sequence[Rates], in_force: int, headroom: float, useful: int | None) -> int:
    """The smallest number that carries the points; below the number in force, with headroom.

    Args:
        carrier: what decides.
        points: forecast rates; of one topic only the greatest matters, f never falls with the workload.
        in_force: the number in force.
        headroom: share of what was seen to be carried that may be used after a decrease.
        useful: the most executors that are of use; None: not known.
    """
    if len(points[0]) == 1:
        points = (max(points),)
    most = useful or 2 * in_force + _BEYOND
    target = _first(carrier, points, 1, most, 1.0)
    if target >= in_force:
        return target
    return min(in_force, _first(carrier, points, target, in_force, headroom))


def _first(carrier: Carrier, points: Sequence[Rates], low: int, high: int, share: float) -> int:
    return next((n for n in range(low, high) if carrier.carries(n, points, share)), max(low, high))


class Residuals(NamedTuple):
    """How wrong a prediction was, as shares of slow records.

    Attributes:
        total: for the workload that was forecast.
        of_model: for the workload that came.
    """

    total: float
    of_model: float


def residuals(model: SlowModel, forecast: Rates, came: Rates, executors: int, slow: float, most: float) -> Residuals:
    """|measured − predicted| at the number in force, both no more than ``most``."""
    expected, known = (min(most, model.predict(rates, executors)) for rates in (forecast, came))
    return Residuals(abs(min(most, slow) - expected), abs(min(most, slow) - known))


# The rows that the model is learnt from: bounded in the state, the rest in the archive. S1, Data Collector.


MOST_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Collected:
    """What was collected.

    Attributes:
        rows: the newest ones, oldest first; at most :data:`MOST_ROWS`.
        archived: how many are in the archive: the number that the first one in ``rows`` will have there.
        since: rows from before this time do not count; None: all do.
        unchecked: rows since the model was last checked.
        lost: rows that the archive did not take in time.
        topics: what the rates in a row are of; empty: of all topics together.
    """

    rows: tuple[Sample, ...] = ()
    archived: int = 0
    since: float | None = None
    unchecked: int = 0
    lost: int = 0
    topics: tuple[str, ...] = ()


def added(row: Sample, data: Collected, archive: SampleStore | None) -> Collected:
    """The same with one more row."""
    rows = (*data.rows, row)
    data = replace(data, rows=rows, unchecked=data.unchecked + 1)
    if len(rows) < MOST_ROWS:
        return data
    try:
        if archive is not None:
            archive.put(data.archived, rows)
            return replace(data, rows=(), archived=data.archived + len(rows))
    except JournalError:
        data = replace(data, lost=data.lost + 1)
    return replace(data, rows=rows[1:])


def gathered(data: Collected, archive: SampleStore | None, most: int) -> Sequence[Sample]:
    """The newest rows that count, at most so many, oldest first: those of the archive and those of the state."""
    rows: Sequence[Sample] = data.rows
    if len(rows) < most and archive is not None and data.archived:
        rows = [*archive.read(data.archived, most - len(rows)), *rows]
    if data.since is not None:
        rows = [row for row in rows if row.at >= data.since]
    return rows[-most:]


def dropped(data: Collected, at: float, topics: tuple[str, ...] | None = None) -> Collected:
    """Nothing counts from before ``at``; what is in the archive stays there as history."""
    topics = data.topics if topics is None else topics
    return Collected((), data.archived, at, lost=data.lost, topics=topics)


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
    series: tuple[LoadPoint, ...] = ()
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

    assessment: Assessment
    n: int
    rates: Rates
    slow: float

    @property
    def at(self) -> float:
        return self.assessment.at

    def propose(self, target: int, code: ReasonCode, text: str, **figures: float | None) -> Recommendation:
        known = {"slow_records": self.slow, "arrival_rate": self.assessment.arrival_rate, "executors": float(self.n)}
        return Recommendation(target, Reason(code, text, {**known, **figures}))


class ProactivePolicy:
    """Reactive until a model is stable, then by forecast and model. See the module's description."""

    name: ClassVar[str] = "proactive"
    self_managed_steps: ClassVar[frozenset[str]] = frozenset()
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

    def recommend(self, assessment: Assessment, state: ProactiveState) -> _Proposal:
        """Propose by the rules above."""
        state = self._heard(assessment, state)
        sample = self._sample(assessment)
        if sample is None:
            proposal, reactive = self._reactive.recommend(assessment, state.reactive)
            return replace(proposal, target=None), replace(state, reactive=reactive)
        hold_s = math.inf if self.options.hold_s is None else self.options.hold_s
        state = replace(state, recovery=followed(assessment, sample.n, state.recovery, hold_s))
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

    def _heard(self, assessment: Assessment, state: ProactiveState) -> ProactiveState:
        """The state with the arrival rates of this sample, also of one that counts for nothing else (in a hold)."""
        rates = _rates(assessment)
        if rates is None or assessment.invalid:
            return state
        series = extended(state.series, LoadPoint(assessment.at, rates), self.options.back_s)
        topics = tuple(topic for topic, _ in assessment.arrival_rates)
        if topics == state.data.topics:
            return replace(state, series=series)
        return self._anew(assessment.at, replace(state, series=series), topics)

    def _sample(self, assessment: Assessment) -> _Sample | None:
        n, rates, excess = in_force(assessment), _rates(assessment), assessment.backlog_excess
        if assessment.missing or assessment.invalid or not n or rates is None or excess is None:
            return None
        slow = slow_records(excess, math.fsum(rates), self.options.slow_interval_s)
        return _Sample(assessment, n, rates, min(slow, self.options.most_slow or _MOST_SLOW))

    def _counts(self, sample: _Sample, state: ProactiveState) -> bool:
        """Whether slow records are those of the number in force: it is there, and the job has recovered from before."""
        if self.options.hold_s is None:
            return sample.assessment.executors == sample.n
        return ready(sample.assessment, sample.n) and state.recovery.recovered

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
            return sample.propose(sample.n, ReasonCode.STEADY, text), state
        proposal, reactive = self._reactive.recommend(sample.assessment, state.reactive)
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
            caught, reactive = self._reactive.recommend(sample.assessment, state.reactive)
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
        reason = replace(proposal.reason, code=ReasonCode.CHANGE_POINT, text=f"{text}: {sample.n} → {target}")
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
            return sample.propose(sample.n, ReasonCode.FORECAST, text), state
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
        partitions, slots = sample.assessment.partitions, sample.assessment.slots_per_executor
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
        return sample.propose(proposed, ReasonCode.FORECAST, text, forecast=most, wanted=float(target), misses=misses)

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


def _rates(assessment: Assessment) -> Rates | None:
    """Records/s by topic where a query reads several, else in all; None: unknown."""
    if assessment.arrival_rate is None:
        return None
    return tuple(rate for _, rate in assessment.arrival_rates) or (assessment.arrival_rate,)


# When exploration ends: the model is made and must be stable. S1 Algorithms 3 to 5, corrected (:mod:`rheostat.learn`).


_POINTS = 10


class Check(NamedTuple):
    """What a check found.

    Attributes:
        model: the model; None: it is not stable, or could not be made.
        text: one sentence with the figures.
    """

    model: SlowModel | None
    text: str


def check(
    rows: Sequence[Sample], now: tuple[Rates, int], w_max: float, options: TrainingOptions, stability_limit: float
) -> Check:
    """Make a model of the rows, and see whether it is stable.

    Args:
        rows: what was collected, oldest first.
        now: the present rates and the number in force.
        w_max: records/s that one executor carries.
        options: of the training.
        stability_limit: λ.
    """
    try:
        trained = train(rows, w_max, options)
        refits = resampled(rows, trained, options)
    except InputError as error:
        return Check(None, f"no model can be made of {several(len(rows), 'sample')}: {error.faults[0].message}")
    everywhere = refits.deviation(sorted({(row.workload, row.executors) for row in rows}))
    here = refits.deviation(line_to(*now, w_max))
    stable = everywhere <= stability_limit and here <= stability_limit
    text = (
        f"model of degree {trained.degree} from {several(len(rows), 'sample')}, deviation {everywhere:.3f} where "
        f"samples are and {here:.3f} here, {'at most' if stable else 'more than'} {stability_limit:g}"
    )
    return Check(trained.model if stable else None, text)


def line_to(rates: Rates, executors: int, w_max: float) -> list[tuple[Rates, int]]:
    """Points from the present rates to n · w_max, in their present proportion; only the present ones if that is less.

    >>> [point for point, n in line_to((600.0,), 2, 500.0)][:3], line_to((600.0,), 1, 500.0)
    ([(600.0,), (644.4444444444445,), (688.8888888888889,)], [((600.0,), 1)])
    """
    present, most = math.fsum(rates), executors * w_max
    if most <= present or present <= 0:
        return [(rates, executors)]
    steps = [1 + (most / present - 1) * place / (_POINTS - 1) for place in range(_POINTS)]
    return [(tuple(rate * step for rate in rates), executors) for step in steps]


# Hysteresis: a number of executors goes up at once and down slowly. S1 3.3, corrected.


def eased(level: float, target: int, in_force: int, gains: tuple[float, float]) -> float:
    """S after one decision.

    What kept the number in force from following S (bounds, cooldowns, a cluster without room) must not let S run
    away from it: it starts from the nearest value that rounds to the number in force [ours].

    Args:
        level: S so far.
        target: the number that is wanted.
        in_force: the number in force.
        gains: α and β, in (0, 1].

    >>> eased(6.0, 1, 6, (0.9, 0.4)), eased(2.0, 5, 2, (0.9, 0.4)), eased(30.0, 4, 8, (0.9, 0.4))
    (4.0, 4.7, 6.7)
    """
    level = min(max(level, in_force - 0.5), in_force + 0.5)
    gain = gains[0] if target > level else gains[1]
    return level + gain * (target - level)


def rounded(level: float) -> int:
    """The nearest whole number; a half goes up, to the safe side.

    >>> rounded(2.5), rounded(2.49)
    (3, 2)
    """
    return math.floor(level + 0.5)
