"""``proactive``: explore reactively, learn f(workload, n), then scale ahead of a forecast. S1, corrected.

**Exploration.** The proposals of ``reactive``, and a row (w, n, y) from each sample that counts. Slow records y are
those of :mod:`rheostat.policies.reactive`, with one T in both modes. Each ``check_every`` samples, once the capacity
is known, a model is trained; if it is stable, control begins with the next sample.

**Control.** The smallest number without a predicted violation in the forecast is the target, which hysteresis
approaches. The forecast reaches as far as the longest measured increase takes, or farther. Every sample is compared
with its prediction, unless executors are starting or the job has not recovered. A high residual that the measured
workload explains is a *forecast miss*, and only counted. Any other belongs to the model, and goes to a change detector
(:mod:`rheostat.policies.trend`). At a change point, and in a new run of the queries, the policy explores again, with
the capacity, the durations of changes and the arrival rates that it has. Figures by number give way to the first
measurement that contradicts them; of the document's one figure the count becomes 1, so that the next violation weighs
half.

Ours beyond the document, each with an option that the preset ``faithful`` switches off: ``net``, ``bounded`` (where
there is one topic: of several the capacity is known for the sum alone), ``present``, ``timely``, ``one_sided`` and
``relearn``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, NamedTuple

from pydantic import Field

from rheostat.decide.policy import PolicyContext
from rheostat.errors import InputError, JournalError
from rheostat.learn.slow_records import Sample, SlowModel, TrainingOptions, refit_resamples, train
from rheostat.model import Assessment, Reason, ReasonCode, Recommendation
from rheostat.policies.capacity import (
    BuiltInPolicy,
    Recovery,
    due_in_s,
    follow_recovery,
    ready,
    rescale_s,
    slow_records,
    valid_target,
)
from rheostat.policies.reactive import FAITHFUL as FAITHFUL_REACTIVE
from rheostat.policies.reactive import ReactiveOptions, ReactivePolicy, ReactiveState
from rheostat.policies.trend import Detector, DetectorState, LoadPoint, Rates, Worsening, add_point, ahead, forecast
from rheostat.ports import SampleStore
from rheostat.text import executors, per_second, percent, seconds, several

MOST_ROWS = 1000
"""Rows in the state; older ones are in the sample store."""
_MOST_SLOW = 1e6
_BEYOND = 16
"""Numbers that are tried beyond twice the current target, where the useful number is unknown."""
_POINTS = 10


class ProactiveOptions(ReactiveOptions):
    """Options of ``proactive``, with the defaults of the preset ``default``."""

    headroom: float = Field(0.95, gt=0, le=1)
    """Share of the capacity to be used after a decrease; the forecast shows a rise before it comes (S1: 0.9)."""
    explore_every_s: float | None = Field(None, gt=0, le=3600)
    """Time between two checks in exploration, s; null: each sample (S1: 15 s)."""
    sample_every_s: float | None = Field(None, gt=0, le=3600)
    """Time between two samples in control, s; null: each one (S1: 5 s)."""
    decide_every_s: float | None = Field(None, gt=0, le=3600)
    """Time between two decisions in control, s; null: each sample (S1: 60 s)."""
    hold_s: float | None = Field(240.0, ge=0, le=86_400)
    """Longest wait for recovery from a change, s; until then samples do not count. null: they always count."""
    most_slow: float | None = Field(1.0, gt=0, le=1e6)
    """Greatest share of slow records in a training sample; a stall of minutes counts as this. null: no limit."""
    check_every: int = Field(240, ge=10, le=100_000)
    """Samples between two checks of the model (S1: 450)."""
    learn_rows: int = Field(3000, ge=50, le=1_000_000)
    """Most samples that a model is trained on, the newest."""
    degree: int = Field(8, ge=1, le=8)
    """Highest degree that is tried, from 1 on (S1: 8)."""
    resamples: int = Field(250, ge=2, le=10_000)
    """k: resamples of the stability check (S1: 250)."""
    block: int = Field(30, ge=1, le=10_000)
    """Samples in a row that are drawn together."""
    stability_limit: float = Field(TrainingOptions.stability_limit, gt=0, le=100)
    """λ: largest standard deviation of a stable model's predictions (S1: 0.05, by another method)."""
    outliers: bool = True
    """Whether outliers are left out of the training data."""
    relearn: bool = True
    """Whether the model is trained again in control; false: once, in exploration (S1)."""
    back_s: float = Field(600.0, gt=0, le=86_400)
    """How far back the forecast looks, s (S1: 10 minutes)."""
    horizon_s: float = Field(60.0, gt=0, le=3600)
    """How far ahead the forecast looks, s; at least as long as a change takes (S1: 1 minute)."""
    step_s: float = Field(5.0, gt=0, le=3600)
    """Step of the forecast, s (S1: 5 s)."""
    timely: bool = True
    """Whether a rate counts for the middle of the window that it is the mean of."""
    present: bool = True
    """Whether the present rate must be carried too, not only the forecast."""
    bounded: bool = True
    """Whether the measured capacity limits what the model allows."""
    net: bool = True
    """Whether a violation in control is answered at once, as in exploration."""
    gain_up: float = Field(0.9, gt=0, le=1)
    """α of the hysteresis: share of the way up by one decision (S1)."""
    gain_down: float = Field(0.4, gt=0, le=1)
    """β of the hysteresis: share of the way down by one decision (S1)."""
    one_sided: bool = True
    """Whether only more slow records than samples at least as hard had are a residual; false: any difference (S1)."""
    residual_limit: float = Field(0.08, gt=0, le=100)
    """Slow records by which a prediction may be wrong (S1)."""
    residuals_in_a_row: int = Field(3, ge=1, le=1000)
    """Residuals above the limit in a row that are a change point (S1: 1)."""
    residual_allowance: float | None = Field(0.02, ge=0, le=100)
    """Residual that does not count towards a gradual change; null: gradual changes are not detected (S1)."""
    residual_patience: float = Field(
        5.0, gt=0, le=10_000, json_schema_extra={"only_with": ["residual_allowance", "set"]}
    )
    """Cumulative sum of residuals that is a change point, in multiples of the limit."""


FAITHFUL: Mapping[str, object] = {
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
    "one_sided": False,
    "residuals_in_a_row": 1,
    "residual_allowance": None,
}


# ---------------------------------------------------------------------------------------------- training data


@dataclass(frozen=True, slots=True)
class TrainingRows:
    """The rows that the model is trained on: the newest in the state, the others in the sample store.

    Attributes:
        rows: the newest ones, oldest first; at most :data:`MOST_ROWS`.
        archived: rows in the store, and the number that the first one in ``rows`` will have there.
        since: rows from before this time do not count; None: all do.
        unchecked: rows since the model was last checked.
        lost: rows that the store did not take in time.
        topics: of the rates in a row; empty: of all topics together.
    """

    rows: tuple[Sample, ...] = ()
    archived: int = 0
    since: float | None = None
    unchecked: int = 0
    lost: int = 0
    topics: tuple[str, ...] = ()


def add_row(row: Sample, data: TrainingRows, store: SampleStore | None) -> TrainingRows:
    rows = (*data.rows, row)
    data = replace(data, rows=rows, unchecked=data.unchecked + 1)
    if len(rows) < MOST_ROWS:
        return data
    try:
        if store is not None:
            store.put(data.archived, rows)
            return replace(data, rows=(), archived=data.archived + len(rows))
    except JournalError:
        data = replace(data, lost=data.lost + 1)
    return replace(data, rows=rows[1:])


def read_rows(data: TrainingRows, store: SampleStore | None, most: int) -> Sequence[Sample]:
    """The newest rows that count, at most ``most``, oldest first, from the store and the state."""
    rows: Sequence[Sample] = data.rows
    if len(rows) < most and store is not None and data.archived:
        rows = [*store.read(data.archived, most - len(rows)), *rows]
    if data.since is not None:
        rows = [row for row in rows if row.at >= data.since]
    return rows[-most:]


def drop_rows(data: TrainingRows, at: float, topics: tuple[str, ...] | None = None) -> TrainingRows:
    """The data without rows from before ``at``; what is in the store stays there as history."""
    topics = data.topics if topics is None else topics
    return TrainingRows((), data.archived, at, lost=data.lost, topics=topics)


# --------------------------------------------- end of exploration: a stable model. S1 Algorithms 3 to 5, corrected


class Check(NamedTuple):
    """The model, and a sentence with its figures; None: it is not stable, or could not be trained."""

    model: SlowModel | None
    text: str


def check(rows: Sequence[Sample], now: tuple[Rates, int], w_max: float, options: TrainingOptions) -> Check:
    """Train a model on rows, oldest first, and check whether it is stable at them, and at the present rates and target.

    ``w_max`` is what one executor carries, records/s.
    """
    try:
        trained = train(rows, w_max, options)
        refits = refit_resamples(rows, trained, options)
    except InputError as error:
        return Check(None, f"no model can be trained on {several(len(rows), 'sample')}: {error.faults[0].message}")
    everywhere = refits.deviation(sorted({(row.workload, row.executors) for row in rows}))
    here = refits.deviation(line_to(*now, w_max))
    limit = options.stability_limit
    is_stable = everywhere <= limit and here <= limit
    text = (
        f"model of degree {trained.degree} from {several(len(rows), 'sample')}, deviation {everywhere:.3f} at the "
        f"samples and {here:.3f} here, {'at most' if is_stable else 'more than'} {limit:g}"
    )
    return Check(trained.model if is_stable else None, text)


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


# ---------------------------------------------------------------- optimal control: S1 Algorithms 6 and 7, corrected


@dataclass(frozen=True, slots=True)
class Outlook:
    """A forecast made at a time, kept for the comparison with what came; its first point is one step later."""

    at: float
    step_s: float
    points: tuple[Rates, ...]

    def rates_at(self, at: float) -> Rates | None:
        """The forecast rates at a time, those of the nearest point; None: beyond the forecast.

        >>> Outlook(100.0, 5.0, ((10.0,), (20.0,))).rates_at(109.0)
        (20.0,)
        """
        place = round((at - self.at) / self.step_s) - 1
        return self.points[max(0, place)] if at > self.at and place < len(self.points) else None


def ease(level: float, target: int, in_force: int, gains: tuple[float, float]) -> float:
    """S of the hysteresis after one decision: up quickly, down slowly. S1 3.3, corrected.

    Bounds, cooldowns or a full cluster may keep the current target from following S. So that S does not run away from
    it, S starts from the nearest value that rounds to the current target [ours]. The gains are α and β, in (0, 1].

    >>> ease(6.0, 1, 6, (0.9, 0.4)), ease(2.0, 5, 2, (0.9, 0.4)), ease(30.0, 4, 8, (0.9, 0.4))
    (4.0, 4.7, 6.7)
    """
    level = min(max(level, in_force - 0.5), in_force + 0.5)
    gain = gains[0] if target > level else gains[1]
    return level + gain * (target - level)


def round_half_up(level: float) -> int:
    """The nearest whole number; a half goes up, to the safe side.

    >>> round_half_up(2.5), round_half_up(2.49)
    (3, 2)
    """
    return math.floor(level + 0.5)


# ------------------------------------------------------------------------------------------------ the policy


@dataclass(frozen=True, slots=True)
class ProactiveState:
    """What is remembered from sample to sample.

    Attributes:
        reactive: the state of the policy that explores.
        recovery: progress of the last change.
        series: arrival rates, as far back as the forecast looks.
        model: in control.
        outlook: the last forecast.
        level: S of the hysteresis; None: it starts with the current target.
        explored_at, sampled_at, decided_at: the last check in exploration, sample and decision in control.
        run: the runs of the queries that the model and its rows are of, by the time when they began.
    """

    mode: Literal["exploration", "control"] = "exploration"
    reactive: ReactiveState = field(default_factory=ReactiveState)
    recovery: Recovery = field(default_factory=Recovery)
    series: tuple[LoadPoint, ...] = ()
    data: TrainingRows = field(default_factory=TrainingRows)
    model: SlowModel | None = None
    outlook: Outlook | None = None
    level: float | None = None
    watched: DetectorState = field(default_factory=DetectorState)
    explored_at: float | None = None
    sampled_at: float | None = None
    decided_at: float | None = None
    run: float | None = None


_Proposal = tuple[Recommendation, ProactiveState]


class _Sample(NamedTuple):
    """A complete sample: the figures that every rule needs, all of them known."""

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


class ProactivePolicy(BuiltInPolicy[ProactiveOptions, ProactiveState]):
    """Reactive until a model is stable, then by forecast and model. See the module's description."""

    name: ClassVar[str] = "proactive"
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "default": {},
        "faithful": FAITHFUL,
        "demo": {"samples_to_shrink": 4, "check_every": 100},
    }

    def __init__(self, options: ProactiveOptions, context: PolicyContext) -> None:
        super().__init__(options, context)
        self._most_slow = options.most_slow or _MOST_SLOW
        explores_s = max(context.sample_s, options.explore_every_s or 0.0)
        self._reactive = ReactivePolicy(options, replace(context, sample_s=explores_s))
        self._detector = Detector(
            limit=options.residual_limit,
            in_a_row=options.residuals_in_a_row,
            allowance=options.residual_allowance,
            patience=options.residual_patience,
        )
        self._training = TrainingOptions(
            degrees=tuple(range(1, options.degree + 1)),
            resamples=options.resamples,
            block=options.block,
            stability_limit=options.stability_limit,
            objective=min(options.sla, 0.99),
            outliers=options.outliers,
        )

    def recommend(self, assessment: Assessment, state: ProactiveState) -> _Proposal:
        n, rates, excess = valid_target(assessment), _rates_of(assessment), assessment.backlog_excess
        if rates is not None and not assessment.invalid:  # also where the sample counts for nothing else
            state = self._add_rates(assessment, rates, state)
        if n is None or rates is None or excess is None:
            proposal, reactive = self._reactive.recommend(assessment, state.reactive)
            return replace(proposal, target=None), replace(state, reactive=reactive)
        slow = slow_records(excess, math.fsum(rates), self.options.slow_interval_s)
        sample = _Sample(assessment, n, rates, min(slow, self._most_slow))
        hold_s = math.inf if self.options.hold_s is None else self.options.hold_s
        state = replace(state, recovery=follow_recovery(assessment, n, state.recovery, hold_s))
        return self._explore(sample, state) if state.model is None else self._control(sample, state, state.model)

    def capacity(self, executors: int, state: ProactiveState) -> float | None:
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

    def _add_rates(self, assessment: Assessment, rates: Rates, state: ProactiveState) -> ProactiveState:
        state = replace(state, series=add_point(state.series, LoadPoint(assessment.at, rates), self.options.back_s))
        topics = tuple(topic for topic, _ in assessment.arrival_rates)
        run = assessment.run_since if self.options.relearn else state.run
        if topics == state.data.topics and run == state.run:
            return state
        return replace(self._restart(assessment.at, state, topics), run=run)

    def _counts(self, sample: _Sample, state: ProactiveState) -> bool:
        """Whether slow records belong to the current target: it is there, and the job has recovered from the change."""
        if self.options.hold_s is None:
            return sample.assessment.executors == sample.n
        return ready(sample.assessment, sample.n) and state.recovery.recovered

    def _keep_row(self, sample: _Sample, state: ProactiveState) -> ProactiveState:
        if not self._counts(sample, state) or sample.assessment.slow_executors:
            return state
        row = Sample(sample.at, sample.rates, sample.n, sample.slow)
        return replace(state, data=add_row(row, state.data, self.context.sample_store))

    def _is_due(self, sample: _Sample, last: float | None, every_s: float | None) -> bool:
        return not due_in_s(sample.at, last, every_s, self.context.sample_s / 2)

    def _train(self, sample: _Sample, proposal: Recommendation, state: ProactiveState) -> _Proposal:
        """A new model from all rows so far, where one is due, the capacity is known, and the model is stable."""
        carried = self.capacity(sample.n, state) if state.data.unchecked >= self.options.check_every else None
        if not carried:
            return proposal, state
        rows = read_rows(state.data, self.context.sample_store, self.options.learn_rows)
        model, text = check(rows, (sample.rates, sample.n), carried / sample.n, self._training)
        state = replace(state, data=replace(state.data, unchecked=0))
        if state.model is None:
            text += ": control begins" if model is not None else ": exploration goes on"
        else:
            text += ": it replaces the old one" if model is not None else ": the old one stays"
        if model is not None:
            state = replace(state, mode="control", model=model)
        return _add_text(proposal, text), state

    def _restart(self, at: float, state: ProactiveState, topics: tuple[str, ...]) -> ProactiveState:
        learned = replace(state.reactive.learned, samples=min(1, state.reactive.learned.samples), recent=())
        return ProactiveState(
            reactive=replace(state.reactive, learned=learned, streak=0),
            recovery=state.recovery,
            series=state.series,
            data=drop_rows(state.data, at, topics),
            explored_at=state.explored_at,
            run=state.run,
        )

    def _explore(self, sample: _Sample, state: ProactiveState) -> _Proposal:
        if not self._is_due(sample, state.explored_at, self.options.explore_every_s):
            text = f"exploring: a check each {seconds(self.options.explore_every_s or 0.0)}"
            return sample.propose(sample.n, ReasonCode.STEADY, text), state
        proposal, reactive = self._reactive.recommend(sample.assessment, state.reactive)
        state = self._keep_row(sample, replace(state, reactive=reactive, explored_at=sample.at))
        return self._train(sample, proposal, state)

    def _control(self, sample: _Sample, state: ProactiveState, model: SlowModel) -> _Proposal:
        worsening, state = self._compare(sample, state, model)
        safe: Recommendation | None = None
        if self.options.net:
            safe, reactive = self._reactive.recommend(sample.assessment, state.reactive)
            state = replace(state, reactive=reactive)
        proposal, state = self._decide(sample, state, model)
        if safe is not None and (safe.target or 0) > max(sample.n, proposal.target or 0):
            proposal = safe
        if worsening is not None:
            figures = {**proposal.reason.figures, "residual": state.watched.recent[-1], "score": worsening.score}
            proposal = replace(proposal, reason=replace(proposal.reason, figures=figures))
        if worsening is None or not worsening.changed:
            return self._train(sample, proposal, state) if self.options.relearn else (proposal, state)
        how = "gradually" if worsening.gradual else "abruptly"
        text = f"the model no longer predicts, {how}: score {worsening.score:.2f} ≥ 1; exploration begins again"
        target = max(sample.n, proposal.target or 0)
        reason = replace(proposal.reason, code=ReasonCode.CHANGE_POINT, text=f"{text}: {sample.n} → {target}")
        return Recommendation(target, reason), self._restart(sample.at, state, state.data.topics)

    def _compare(
        self, sample: _Sample, state: ProactiveState, model: SlowModel
    ) -> tuple[Worsening | None, ProactiveState]:
        """The score of this sample's residual, where there is one; and the state with its row.

        Residuals are shares of slow records at the current target: for the forecast workload, and for the measured
        one, which is the model's own.
        """
        if not self._is_due(sample, state.sampled_at, self.options.sample_every_s):
            return None, state
        state = self._keep_row(sample, replace(state, sampled_at=sample.at))
        expected = None if state.outlook is None else state.outlook.rates_at(sample.at)
        if expected is None or not self._counts(sample, state):
            return None, state
        of_forecast, of_model = (self._find_residual(sample, rates, model) for rates in (expected, sample.rates))
        if of_model is None:
            return None, state
        worsening, watched = self._detector.watch(of_model, state.watched)
        missed = of_forecast is not None and self._detector.forecast_missed(of_forecast, of_model)
        return worsening, replace(state, watched=replace(watched, misses=watched.misses + 1 if missed else 0))

    def _find_residual(self, sample: _Sample, rates: Rates, model: SlowModel) -> float | None:
        """Measured less predicted; None where no sample was as hard: the model says nothing of its own there."""
        if not self.options.one_sided:
            return abs(sample.slow - min(self._most_slow, model.predict(rates, sample.n)))
        most = model.most(rates, sample.n)
        return None if most == math.inf else sample.slow - min(self._most_slow, most)

    def _decide(self, sample: _Sample, state: ProactiveState, model: SlowModel) -> _Proposal:
        options, n = self.options, sample.n
        if not self._is_due(sample, state.decided_at, options.decide_every_s):
            text = f"in control: a decision each {seconds(options.decide_every_s or 0.0)}"
            return sample.propose(n, ReasonCode.FORECAST, text), state
        horizon_s = max(options.horizon_s, rescale_s(state.recovery))
        late_s = min(self.context.rate_window_s, options.back_s) / 2 if options.timely else 0.0
        points = forecast(state.series, ahead(horizon_s, options.step_s), late_s)
        target = self._size(sample, state, model, points)
        level = ease(n if state.level is None else state.level, target, n, (options.gain_up, options.gain_down))
        proposed = round_half_up(level)
        if proposed < n and not self._counts(sample, state):
            proposed = n
        outlook = Outlook(sample.at, options.step_s, points)
        state = replace(state, level=level, decided_at=sample.at, outlook=outlook)
        most, arrival = max(map(math.fsum, points)), math.fsum(sample.rates)
        text = (
            f"slow records {percent(sample.slow)}; arrival {per_second(arrival)}, at most {per_second(most)} "
            f"within {seconds(horizon_s)}, which {executors(target)} can carry: "
            + (f"{n} stays" if proposed == n else f"{n} → {proposed}")
        )
        figures = {"forecast": most, "wanted": float(target), "misses": float(state.watched.misses)}
        return sample.propose(proposed, ReasonCode.FORECAST, text, **figures), state

    def _size(self, sample: _Sample, state: ProactiveState, model: SlowModel, points: tuple[Rates, ...]) -> int:
        """The smallest number that carries the points; below the current target, with headroom.

        A number below it must be known to carry them, if only by a bound; a bound never asks for more than it.
        """
        options, n, one_topic = self.options, sample.n, len(sample.rates) == 1
        points = (sample.rates, *points) if options.present else points
        if one_topic:
            points = (max(points),)  # f never falls with the workload
        most = max(map(sum, points))

        def carries(number: int, share: float) -> bool:
            of = self._reactive.limit if number >= n else self._reactive.capacity
            capacity = of(number, state.reactive) if options.bounded and one_topic else None
            if capacity is not None and most > share * capacity:
                return False
            return all(model.predict(point, number) < options.sla for point in points)

        def find_first(low: int, high: int, share: float) -> int:
            return next((number for number in range(low, high) if carries(number, share)), max(low, high))

        useful = sample.assessment.useful_executors or 2 * n + _BEYOND
        target = find_first(1, useful, 1.0)
        return target if target >= n else min(n, find_first(target, n, options.headroom))


def _add_text(proposal: Recommendation, text: str) -> Recommendation:
    return replace(proposal, reason=replace(proposal.reason, text=f"{proposal.reason.text}; {text}"))


def _rates_of(assessment: Assessment) -> Rates | None:
    """Records/s by topic where a query reads several, otherwise in all; None: unknown."""
    if assessment.arrival_rate is None:
        return None
    return tuple(rate for _, rate in assessment.arrival_rates) or (assessment.arrival_rate,)
