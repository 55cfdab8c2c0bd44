"""``reactive``: more executors once records are slow, fewer once there are too many. S1 Algorithms 1 and 2, corrected.

Slow records, the share of the records of one interval T that are late::

    y = backlog_excess ÷ (arrival_rate × T)          0 where both are 0; infinite where only the rate is 0

``y ≥ sla`` is a violation. ``backlog_excess`` is the part beyond the backlog of a healthy micro-batch job, so it begins
only where the objective is about to be missed. So ``occupancy ≥ occupancy_limit`` is a violation too [ours]: with
batches that take τ the job is at its capacity by definition. So is an *expected wait* of ``wait_limit`` × the
objective's lag while more arrives than is processed [ours], which is detected 20 to 30 s earlier on a steep rise::

    expected wait = backlog ÷ (records of the last batch ÷ its duration)

With w the arrival rate, n the current target, N(r) the smallest number that carries r
(:mod:`rheostat.policies.capacity`):

**Violation.** Learn, then propose

* ``increase="one"`` (option 1, the experiments of S1): n + 1;
* ``increase="needed"`` (option 2): max(n + 1, N(w + excess ÷ D)), where D = ``catch_up_lags`` × the objective's lag:
  the backlog is to be gone after D. n + 1 while nothing is known of the capacity.

Three cases are no reason for n + 1, only for N(w) if that is more: the target has not *settled* (executors are
starting, or fewer than ``settle_batches`` batches have finished at it; after the objective's lag without them it counts
as settled); the job catches up within D anyway; the batch cap limits the rate (then nothing is proposed).

**Surplus.** n > N(w ÷ headroom) for ``samples_to_shrink`` samples in a row proposes fewer, from the last of these on
and until the target changes. A violation, an increase, a missing sample and one that comes later than two sample
periods end the count; with ``shrink_on`` a decrease does not [ours], so that the guard alone sets the pace of a long
way down.

**Probe** [ours]. While the capacity is unknown, a generous start would stay for ever; and figures learned in a stall
may be far too low. If less than 0.5 × (n − 1) ÷ n of the job is used (the greater of busy ratio and occupancy) for as
many samples, one executor less is proposed: the others then are at most half used, and waves of tasks explain a factor
of two. A measurement of n − 1 within the last half hour is used instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, NamedTuple

from pydantic import Field

from rheostat.decide.policy import PolicyContext, cap_limits, current_target, has_finished
from rheostat.model import Assessment, Reason, ReasonCode, Recommendation
from rheostat.policies.capacity import (
    BuiltInPolicy,
    Learned,
    PolicyOptions,
    Spike,
    batch_speed,
    count_surplus,
    expected_wait,
    find_miss,
    follow_run,
    follow_spike,
    is_at_limit,
    learn_arrival,
    learn_healthy,
    learn_overload,
    may_miss,
    needed,
    propose_nothing,
    slow_records,
    spike_rate,
    usage,
    valid_target,
)
from rheostat.text import count, executors, finite, per_second, percent, seconds, several


class ReactiveOptions(PolicyOptions):
    """Options of ``reactive``, with the defaults of the preset ``default``."""

    sla: float = Field(0.10, gt=0, le=100)
    """Slow records from which on the SLA is violated, a share (S1)."""
    occupancy_limit: float | None = Field(1.0, gt=0, le=100)
    """Batch time ÷ τ from which on the job is overloaded; null: not looked at (S1)."""
    wait_limit: float | None = Field(0.6, gt=0, le=100)
    """Expected wait ÷ the objective's lag from which on the job falls behind; null: not looked at (S1)."""
    slow_interval_s: float = Field(15.0, gt=0, le=3600)
    """T of the slow records, s. One for all modes: y depends on it (S1: 15 s)."""
    increase: Literal["one", "needed"] = "needed"
    """one: n + 1 at a violation; needed: as many as arrival and backlog need."""
    decrease: Literal["one", "needed"] = "needed"
    """one: n − 1; needed: down to the need (the guard largest_step_down limits it)."""
    samples_to_shrink: int = Field(10, ge=1, le=10_000)
    """Samples in a row with a surplus (S1: 10)."""
    shrink_on: bool = True
    """Whether the count goes on after a decrease; false: it begins again (S1)."""
    headroom: float = Field(0.9, gt=0, le=1)
    """Share of the capacity to be used after a decrease (S1)."""
    learn_from: Literal["arrival", "processed"] = "processed"
    """arrival: Algorithm 1 as printed; processed: what the executors have really done."""
    memory: int | None = Field(5, ge=1, le=10_000)
    """Overloaded samples that the mean weighs at most; null: all of them (S1)."""
    settle_batches: int = Field(2, ge=0, le=1000)
    """Batches at a new number before it is judged; 0: at once. The first one is cold."""
    catch_up_lags: float | None = Field(2.0, gt=0, le=10_000)
    """Time to work off a backlog, in lags of the objective; null: not looked at."""
    probe: bool = True
    """Whether to go down on low use while the capacity is unknown."""


FAITHFUL: Mapping[str, object] = {
    "increase": "one",
    "decrease": "one",
    "learn_from": "arrival",
    "memory": None,
    "settle_batches": 0,
    "catch_up_lags": None,
    "occupancy_limit": None,
    "wait_limit": None,
    "probe": False,
    "shrink_on": False,
}


_DOUBT_S = 1800.0
"""How long a measured figure outweighs low use, s: a cliff between two numbers costs one violation in that time."""


@dataclass(frozen=True, slots=True)
class ReactiveState:
    """What is remembered from sample to sample.

    Attributes:
        streak, low_since: samples in a row with a surplus, and since when.
        executors, since: the current target at the last sample, and when it was first seen.
        at: time of the last sample.
        whole_since: since when all of the target's executors are registered; None: they are not.
    """

    learned: Learned = field(default_factory=Learned)
    streak: int = 0
    executors: int | None = None
    since: float | None = None
    at: float | None = None
    whole_since: float | None = None
    spike: Spike | None = None
    low_since: float = 0.0


_Proposal = tuple[Recommendation, ReactiveState]


class _Sample(NamedTuple):
    """The figures that every rule needs, all of them known; ``slow``: slow records, a share."""

    assessment: Assessment
    n: int
    arrival: float
    excess: float
    slow: float

    def propose(self, target: int, code: ReasonCode, text: str) -> Recommendation:
        figures = {
            "slow_records": finite(self.slow),
            "arrival_rate": self.arrival,
            "processed_rate": self.assessment.processed_rate,
            "backlog_excess": self.excess,
            "executors": float(self.n),
        }
        return Recommendation(target, Reason(code, text, figures))

    def hold(self, code: ReasonCode, text: str) -> Recommendation:
        return self.propose(self.n, code, text)


class ReactivePolicy(BuiltInPolicy[ReactiveOptions, ReactiveState]):
    """Thresholds on slow records; capacity learned from overload. See the module's description."""

    name: ClassVar[str] = "reactive"
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "default": {},
        "faithful": FAITHFUL,
        "demo": {"samples_to_shrink": 4},
    }

    def __init__(self, options: ReactiveOptions, context: PolicyContext) -> None:
        super().__init__(options, context)
        lags = options.catch_up_lags
        self._catch_up_s = None if lags is None else lags * context.objective.lag_s

    def recommend(self, assessment: Assessment, state: ReactiveState) -> _Proposal:
        n, arrival, excess = valid_target(assessment), assessment.arrival_rate, assessment.backlog_excess
        if n is None or arrival is None or excess is None:
            learned = replace(state.learned, recent=())
            proposal = propose_nothing(assessment, "arrival_rate or backlog_excess")
            return proposal, replace(state, learned=learned, streak=0, at=assessment.at)
        slow = slow_records(excess, arrival, self.options.slow_interval_s)
        sample = _Sample(assessment, n, arrival, excess, slow)
        state = self._follow(sample, state)
        if self._catch_up_s is not None:
            state = replace(state, spike=follow_spike(assessment, state.spike, self._catch_up_s))
        violation = self._find_violation(sample)
        return self._decide_healthy(sample, state) if violation is None else self._decide(sample, state, violation)

    def capacity(self, executors: int, state: ReactiveState) -> float | None:
        """Of n executors: the learned curve, or n × w_max as printed; None until an overload was seen."""
        if self.options.learn_from == "processed":
            return state.learned.best.carried(executors)
        w_max = state.learned.w_max
        return None if w_max is None else executors * w_max

    def limit(self, executors: int, state: ReactiveState) -> float | None:
        """What n executors carry at most; None: only lower bounds are known."""
        learned = state.learned.trusted
        return learned.limit(executors) if self.options.learn_from == "processed" else self.capacity(executors, state)

    def _follow(self, sample: _Sample, state: ReactiveState) -> ReactiveState:
        """The state with this sample's target: a new one, or a sample that came late, ends the counts."""
        at, changed = sample.assessment.at, state.executors != sample.n
        state = replace(state, learned=follow_run(state.learned, sample.assessment))
        late = state.at is not None and at - state.at > 2 * self.context.sample_s
        if changed or late:
            decreased = not late and self.options.shrink_on and sample.n < (state.executors or 0)
            streak = state.streak if decreased else 0
            state = replace(state, streak=streak, learned=replace(state.learned, recent=()))
        whole_since = None
        if sample.assessment.executors == sample.n:
            whole_since = at if changed or state.whole_since is None else state.whole_since
        since = at if changed else state.since
        return replace(state, executors=sample.n, since=since, at=at, whole_since=whole_since)

    def _enough(self, rate: float, state: ReactiveState, above: int | None = None) -> int | None:
        """The smallest number that carries this rate, for an increase from ``above``; None: the capacity is unknown."""
        if self.options.learn_from == "processed":
            learned = state.learned
            return learned.trusted.enough(rate) if above is None else learned.best.enough_above(rate, above)
        w_max = state.learned.w_max
        return None if w_max is None else needed(rate, w_max)

    def _is_settled(self, assessment: Assessment, most: int = 1000) -> bool:
        """Whether rates belong to the current target: all registered, and the first batches over.

        A cold batch is slow, so for a lower bound (``most``) one is enough.
        """
        if self.options.settle_batches == 0:
            return True
        settled = has_finished(assessment, min(most, self.options.settle_batches))
        return assessment.executors == current_target(assessment) and settled

    # ------------------------------------------------------------------------------------------- violation

    def _find_violation(self, sample: _Sample) -> str | None:
        """The figure that is beyond its limit, in words; None also where the objective cannot be missed."""
        options, assessment, lag_s = self.options, sample.assessment, self.context.objective.lag_s
        may_be_late = self._catch_up_s is None or may_miss(assessment, lag_s, self._catch_up_s)
        if sample.slow >= options.sla and may_be_late:
            return f"slow records {percent(sample.slow)} ≥ {percent(options.sla)}"
        occupancy, limit, ahead_s = assessment.occupancy, options.occupancy_limit, self._catch_up_s or 0.0
        at_limit = may_be_late or is_at_limit(assessment, lag_s, ahead_s)
        if occupancy is not None and limit is not None and occupancy >= limit and sample.arrival > 0 and at_limit:
            return f"occupancy {percent(occupancy)} ≥ {percent(limit)}"
        speed, wait, share = batch_speed(assessment), expected_wait(assessment), options.wait_limit
        if wait is not None and share is not None and speed is not None and speed < sample.arrival:
            limit_s = share * lag_s
            if wait >= limit_s:
                return f"expected wait {seconds(wait)} ≥ {seconds(limit_s)}"
            if may_be_late and self._catch_up_s is not None:
                return f"expected wait {seconds(wait)} and growing, at {per_second(speed)}"
        return None if self._catch_up_s is None else find_miss(assessment, lag_s)

    def _decide(self, sample: _Sample, state: ReactiveState, violation: str) -> _Proposal:
        options, n = self.options, sample.n
        state = replace(state, streak=0, learned=self._learn(sample, state))
        wait, limit = self._find_wait(sample, state), self._catch_up_s
        rate = sample.arrival
        if wait is None and limit is not None:
            rate += sample.excess / limit
        enough = self._enough(rate, state, n) if options.increase == "needed" else 0
        target = max(n + 1 if wait is None else n, enough or 0)
        if wait is not None and wait[0] is ReasonCode.USELESS_EXECUTORS:
            target = n
        what = (
            f"{violation} at {executors(n)} "
            f"(arrival {per_second(sample.arrival)}, processed {per_second(sample.assessment.processed_rate)}, "
            f"excess {count(sample.excess)})"
        )
        if wait is not None and target == n:
            return sample.hold(wait[0], f"{what}: {wait[1]}"), state
        return sample.propose(target, ReasonCode.SLA_VIOLATED, f"{what}: {n} → {target}"), state

    def _learn(self, sample: _Sample, state: ReactiveState) -> Learned:
        """Learn from an overloaded sample, once the target has settled.

        A long overload may never finish the batches for that, so all executors for the objective's lag and one batch
        are enough. A lost executor restarts this: batches that wait for its replacement do not measure the capacity.
        """
        assessment, since = sample.assessment, state.whole_since
        whole = since is not None and assessment.at - since >= self.context.objective.lag_s and assessment.batches >= 1
        if not (self._is_settled(assessment) or whole):
            return replace(state.learned, recent=())
        learn = learn_arrival if self.options.learn_from == "arrival" else learn_overload
        return learn(assessment, state.learned, self.options.memory)

    def _find_wait(self, sample: _Sample, state: ReactiveState) -> tuple[ReasonCode, str] | None:
        """Why one more executor would not help, or not yet."""
        assessment, limit = sample.assessment, self._catch_up_s
        if self.options.learn_from == "processed" and cap_limits(assessment):
            text = "the batch cap limits the rate, not the executors; raise maxOffsetsPerTrigger"
            return ReasonCode.USELESS_EXECUTORS, text
        waited = assessment.at - (assessment.at if state.since is None else state.since)
        if not self._is_settled(assessment) and waited < self.context.objective.lag_s:
            wanted = several(self.options.settle_batches, "batch", "batches")
            text = f"{assessment.batches} of {wanted} finished at this number, wait for its effect"
            if assessment.executors != sample.n:
                text = f"{assessment.executors} of {executors(sample.n)} registered, wait for the effect of {sample.n}"
            return ReasonCode.WARMING_UP, text
        gain = (assessment.processed_rate or 0.0) - sample.arrival
        if limit is not None and gain > 0 and sample.excess / gain <= limit:
            drain_s = sample.excess / gain
            return ReasonCode.CATCHING_UP, f"it will have caught up in {seconds(drain_s)}, {seconds(limit)} are allowed"
        return None

    # --------------------------------------------------------------------------------------------- surplus

    def _decide_healthy(self, sample: _Sample, state: ReactiveState) -> _Proposal:
        options, n = self.options, sample.n
        if options.learn_from == "processed" and self._is_settled(sample.assessment, most=1):
            state = replace(state, learned=learn_healthy(sample.assessment, state.learned))
        rate = sample.arrival / options.headroom
        if self._catch_up_s is not None:
            rate = max(rate, spike_rate(state.spike, self.context.objective.lag_s, sample.assessment.trigger_s))
        low, enough = self._find_low_use(sample), self._enough(rate, state)
        if enough is None and low is not None:
            fewer = n // 2 if sample.assessment.idle and options.decrease == "needed" else n - 1
            return self._count_surplus(sample, state, fewer, ReasonCode.PROBE_DOWN, f"capacity unknown, {low}")
        if enough is None and state.learned.recent and usage(sample.assessment) is not None:
            shown = needed(rate, state.learned.frame.carried(min(state.learned.recent)) / n)
            if shown < n:
                text = f"one batch shows that {executors(shown)} are enough, a second one must agree"
                return self._count_surplus(sample, state, n, ReasonCode.CAPACITY_UNKNOWN, text)
        if enough is None:
            used = usage(sample.assessment)
            share = "how much of the time is used is unknown" if used is None else f"{percent(used)} of the time used"
            text = f"no violation, and the capacity is unknown until one is measured; {share}"
            return sample.hold(ReasonCode.CAPACITY_UNKNOWN, text), replace(state, streak=0)
        carried = self.capacity(min(enough, n), state)
        text = (
            f"arrival {per_second(sample.arrival)} needs {executors(enough)} at {percent(options.headroom)} of "
            f"{per_second(carried)}"
        )
        if n > enough:
            target = enough if options.decrease == "needed" else n - 1
            return self._count_surplus(sample, state, target, ReasonCode.OVERSIZED, text)
        tried = state.learned.trusted.figure(n - 1)
        doubtful = tried is None or not tried.samples or sample.assessment.at - tried.at >= _DOUBT_S
        if low is not None and doubtful:
            return self._count_surplus(sample, state, n - 1, ReasonCode.PROBE_DOWN, f"{text}, yet {low}")
        steady = f"no violation, slow records {percent(sample.slow)}; {text}, the target is {n}"
        return sample.hold(ReasonCode.STEADY, steady), replace(state, streak=0)

    def _find_low_use(self, sample: _Sample) -> str | None:
        """A use so low that one executor less would be at most half used, in words."""
        used, limit = usage(sample.assessment), 0.5 * (sample.n - 1) / sample.n
        if not self.options.probe or used is None or used >= limit:
            return None
        return f"{percent(used)} of the time used, under {percent(limit)}"

    def _count_surplus(
        self, sample: _Sample, state: ReactiveState, target: int, code: ReasonCode, text: str
    ) -> _Proposal:
        """Count one more sample of a surplus; propose from the last one on, until the target changes.

        An unknown figure might be a violation: the count waits for it.
        """
        options, assessment, unknown = self.options, sample.assessment, None
        if options.occupancy_limit is not None and assessment.occupancy is None:
            unknown = "how long batches take"
        elif options.wait_limit is not None and assessment.processed_rate is None and assessment.backlog:
            unknown = "how fast the backlog is worked off"
        if unknown is not None:
            text = f"{text}, but {unknown} is not known: the count waits"
            return sample.hold(ReasonCode.SURPLUS_COUNTING, text), state
        wanted = options.samples_to_shrink
        streak, since, complete = count_surplus(state.streak, state.low_since, assessment, wanted)
        state = replace(state, streak=streak, low_since=since)
        if not complete:
            return sample.hold(ReasonCode.SURPLUS_COUNTING, f"{text}: sample {streak} of {wanted} in a row"), state
        if target < sample.n:
            text = f"{text}, {several(wanted, 'sample')} in a row: {sample.n} → {target}"
        return sample.propose(target, code, text), state
