"""``reactive``: more executors once records are slow, fewer once there are too many. S1 Algorithms 1 and 2, corrected.

Slow records, the share of the records of one interval T that are late::

    y = backlog_excess ÷ (arrival_rate × T)          0 where both are 0; without bound where only the rate is 0

``y ≥ sla`` is a violation. ``backlog_excess`` is what is beyond the backlog of a healthy micro-batch job, so a job at
90 % occupancy reads 0; and it begins only where the objective is about to be missed. So ``occupancy ≥
occupancy_limit`` is a violation too [ours]: with batches that take τ the job is at its capacity by definition. So is
an *expected wait* of ``wait_limit`` × the objective's lag while more arrives than is processed [ours]: a record that
arrives now waits for the backlog before it, at the speed of the last batches::

    expected wait = backlog ÷ (processed × max(trigger, batch) ÷ batch)

Under a load that rises faster than batches end, it sees 20 to 30 s earlier what slow records will show.

With w the arrival rate, n the number in force, N(r) the smallest number that carries r
(:mod:`rheostat.policies.capacity`):

**Violation.** Learn, then propose

* ``increase="one"`` (option 1, the experiments of S1): n + 1;
* ``increase="needed"`` (option 2): max(n + 1, N(w + excess ÷ D)), where D = ``catch_up_lags`` × the objective's lag:
  the backlog is to be gone after D. n + 1 while nothing at all is known of the capacity.

Three cases are no reason for n + 1, only for N(w) if that is more: the number has not *settled* (executors are on
their way, or fewer than ``settle_batches`` batches have finished at it; after the objective's lag without them it
counts as settled); the job catches up within D anyway; the batch cap limits the rate (then nothing is proposed).

**Surplus.** n > N(w ÷ headroom) for ``samples_to_shrink`` samples in a row proposes fewer, from the last of these on
and until the number changes. The count lives across turns. A violation, an increase, a missing sample and one that
comes later than two sample periods end it; with ``shrink_on`` a decrease does not [ours], so that the guards alone set
the pace of a long way down.

**Probe** [ours]. While the capacity is unknown, an ample start would stay for ever; and figures that were learned in a
stall may be far too low. If less than 0.5 × (n − 1) ÷ n of the job is used (the greater of busy ratio and occupancy)
for as many samples, one executor less is proposed: the rest then is at most half used, and waves of tasks explain a
factor of two. Where n − 1 was measured within the last half hour, its figure is believed instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import ClassVar, Literal, NamedTuple

from pydantic import BaseModel, Field

from rheostat.config.models import FrozenModel
from rheostat.decide.policy import PolicyContext, cap_limits, in_force
from rheostat.model import Assessment, Reason, ReasonCode, Recommendation
from rheostat.policies.capacity import (
    Learned,
    expected_wait,
    learn_arrival,
    learn_healthy,
    learn_overload,
    needed,
    slow_records,
    usage,
)
from rheostat.text import count, executors, finite, per_second, percent, seconds, several

# Options of ``reactive``: ours by default, and those of the document (S1).


class ReactiveOptions(FrozenModel):
    """Options of ``reactive``, with the defaults of the preset ``default``."""

    sla: float = Field(0.10, gt=0, le=100, description="Slow records from which on the SLA is violated, a share (S1).")
    occupancy_limit: float | None = Field(
        1.0, gt=0, le=100, description="Batch time ÷ τ from which on the job is overloaded; null: not looked at (S1)."
    )
    wait_limit: float | None = Field(
        0.6,
        gt=0,
        le=100,
        description="Expected wait ÷ the objective's lag from which on the job falls behind; null: not looked at (S1).",
    )
    slow_interval_s: float = Field(
        15.0, gt=0, le=3600, description="T of the slow records, s. One for all modes: y depends on it (S1: 15 s)."
    )
    increase: Literal["one", "needed"] = Field(
        "needed", description="one: n + 1 at a violation; needed: as many as arrival and backlog need."
    )
    decrease: Literal["one", "needed"] = Field(
        "needed", description="one: n − 1; needed: down to the need (the guard largest_step_down limits it)."
    )
    samples_to_shrink: int = Field(10, ge=1, le=10_000, description="Samples in a row with a surplus (S1: 10).")
    shrink_on: bool = Field(
        default=True, description="Whether the count goes on after a decrease; false: it begins again (S1)."
    )
    headroom: float = Field(0.9, gt=0, le=1, description="Share of the capacity to be used after a decrease (S1).")
    learn_from: Literal["arrival", "processed"] = Field(
        "processed", description="arrival: Algorithm 1 as printed; processed: what the executors have really done."
    )
    memory: int | None = Field(
        5, ge=1, le=10_000, description="Overloaded samples that the mean weighs at most; null: all of them (S1)."
    )
    settle_batches: int = Field(
        2, ge=0, le=1000, description="Batches at a new number before it is judged; 0: at once. The first one is cold."
    )
    catch_up_lags: float | None = Field(
        2.0, gt=0, le=10_000, description="Time to work off a backlog, in lags of the objective; null: not looked at."
    )
    probe: bool = Field(default=True, description="Whether to go down on low use while the capacity is unknown.")


FAITHFUL: Mapping[str, object] = MappingProxyType(
    {
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
)


_DOUBT_S = 1800.0
"""How long a measured figure outweighs low use, s: a cliff between two numbers costs one violation in that time."""

_Proposal = tuple[Recommendation, "ReactiveState"]


@dataclass(frozen=True, slots=True)
class ReactiveState:
    """What is remembered from sample to sample.

    Attributes:
        learned: what one executor carries.
        streak: samples in a row with a surplus.
        executors: the number in force at the last sample.
        since: when that number was first seen.
        at: when the last sample was taken.
        whole_since: since when as many are registered as are in force; None: they are not.
    """

    learned: Learned = field(default_factory=Learned)
    streak: int = 0
    executors: int | None = None
    since: float | None = None
    at: float | None = None
    whole_since: float | None = None


class _Sample(NamedTuple):
    """A complete sample: the figures that every rule needs, none of them unknown."""

    assessment: Assessment
    n: int
    arrival: float
    excess: float
    slow: float

    def reason(self, code: ReasonCode, text: str) -> Reason:
        figures = {
            "slow_records": finite(self.slow),
            "arrival_rate": self.arrival,
            "processed_rate": self.assessment.processed_rate,
            "backlog_excess": self.excess,
            "executors": float(self.n),
        }
        return Reason(code, text, figures)

    def hold(self, code: ReasonCode, text: str) -> Recommendation:
        return Recommendation(self.n, self.reason(code, text))


class ReactivePolicy:
    """Thresholds on slow records; capacity learned from overload. See the module's description."""

    name: ClassVar[str] = "reactive"
    self_managed_steps: ClassVar[frozenset[str]] = frozenset()
    state_type: type[ReactiveState] = ReactiveState
    options_type: ClassVar[type[BaseModel]] = ReactiveOptions
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = MappingProxyType(
        {"default": {}, "faithful": FAITHFUL, "demo": {"samples_to_shrink": 4}}
    )

    def __init__(self, options: ReactiveOptions, context: PolicyContext) -> None:
        self.options = options
        self.context = context

    def initial(self) -> ReactiveState:
        """Nothing is known about the capacity."""
        return ReactiveState()

    def recommend(self, assessment: Assessment, state: ReactiveState) -> _Proposal:
        """Propose by the rules above."""
        sample = self._sample(assessment)
        if sample is None:
            unknown = assessment.missing or assessment.invalid or ("arrival_rate or backlog_excess",)
            reason = Reason(ReasonCode.METRICS_MISSING, f"this sample does not count without: {', '.join(unknown)}")
            learned = replace(state.learned, recent=())
            return Recommendation(None, reason), replace(state, learned=learned, streak=0, at=assessment.at)
        state = self._reached(sample, state)
        violation = self._violation(sample)
        return self._healthy(sample, state) if violation is None else self._violated(sample, state, violation)

    def capacity(self, executors: int, state: ReactiveState) -> float | None:
        """Of n executors: what the learned curve says, with the document's rule n × w_max.

        None until an overload was seen.
        """
        w_max = state.learned.w_max
        if self.options.learn_from == "processed":
            return state.learned.carried(executors)
        return None if w_max is None else executors * w_max

    def _sample(self, assessment: Assessment) -> _Sample | None:
        n, arrival, excess = in_force(assessment), assessment.arrival_rate, assessment.backlog_excess
        if assessment.missing or assessment.invalid or not n or arrival is None or excess is None:
            return None
        return _Sample(assessment, n, arrival, excess, slow_records(excess, arrival, self.options.slow_interval_s))

    def _reached(self, sample: _Sample, state: ReactiveState) -> ReactiveState:
        """The state as this sample finds it: a new number, or a sample that came late, ends what was counted."""
        at, changed = sample.assessment.at, state.executors != sample.n
        late = state.at is not None and at - state.at > 2 * self.context.sample_s
        if changed or late:
            fell = not late and self.options.shrink_on and sample.n < (state.executors or 0)
            streak = state.streak if fell else 0
            state = replace(state, streak=streak, learned=replace(state.learned, recent=()))
        whole_since = None
        if sample.assessment.executors == sample.n:
            whole_since = at if changed or state.whole_since is None else state.whole_since
        since = at if changed else state.since
        return replace(state, executors=sample.n, since=since, at=at, whole_since=whole_since)

    def _enough(self, rate: float, state: ReactiveState) -> int | None:
        """The smallest number that carries this rate; None while the capacity is unknown."""
        if self.options.learn_from == "processed":
            return state.learned.enough(rate)
        w_max = state.learned.w_max
        return None if w_max is None else needed(rate, w_max)

    def _enough_to_grow(self, rate: float, state: ReactiveState) -> int | None:
        """The same for an increase: while nothing was measured, what an executor has shown must do."""
        known, shown = self._enough(rate, state), state.learned.shown
        return needed(rate, shown) if known is None and shown else known

    def _at_rest(self, assessment: Assessment) -> bool:
        """Whether rates belong to the number in force: all registered, and the first batches over."""
        if self.options.settle_batches == 0:
            return True
        return assessment.executors == in_force(assessment) and assessment.batches >= self.options.settle_batches

    # ------------------------------------------------------------------------------------------- violation

    def _violation(self, sample: _Sample) -> str | None:
        """What is beyond its limit; None: nothing."""
        if sample.slow >= self.options.sla:
            return f"slow records {percent(sample.slow)} ≥ {percent(self.options.sla)}"
        occupancy, limit = sample.assessment.occupancy, self.options.occupancy_limit
        if occupancy is not None and limit is not None and occupancy >= limit and sample.arrival > 0:
            return f"occupancy {percent(occupancy)} ≥ {percent(limit)}"
        return self._falls_behind(sample)

    def _falls_behind(self, sample: _Sample) -> str | None:
        """Whether a record that arrives now will wait for too long."""
        wait, share = expected_wait(sample.assessment), self.options.wait_limit
        if wait is None or share is None or (sample.assessment.processed_rate or 0.0) >= sample.arrival:
            return None
        limit = share * self.context.objective.lag_s
        return None if wait < limit else f"expected wait {seconds(wait)} ≥ {seconds(limit)}"

    def _violated(self, sample: _Sample, state: ReactiveState, violation: str) -> _Proposal:
        state = replace(state, streak=0, learned=self._learn_violated(sample, state))
        wait = self._wait(sample, state)
        target = self._increased(sample, state) if wait is None else self._carrying(sample, wait[0], state)
        what = (
            f"{violation} at {executors(sample.n)} "
            f"(arrival {per_second(sample.arrival)}, processed {per_second(sample.assessment.processed_rate)}, "
            f"excess {count(sample.excess)})"
        )
        if wait is not None and target == sample.n:
            return sample.hold(wait[0], f"{what}: {wait[1]}"), state
        return Recommendation(target, sample.reason(ReasonCode.SLA_VIOLATED, f"{what}: {sample.n} → {target}")), state

    def _learn_violated(self, sample: _Sample, state: ReactiveState) -> Learned:
        """What it teaches, once the number is at rest; an overload may last for long without two batches' ends."""
        if not (self._at_rest(sample.assessment) or self._whole(sample, state)):
            return replace(state.learned, recent=())
        learn = learn_arrival if self.options.learn_from == "arrival" else learn_overload
        return learn(sample.assessment, state.learned, self.options.memory)

    def _wait(self, sample: _Sample, state: ReactiveState) -> tuple[ReasonCode, str] | None:
        """Why one more executor would not help, or not yet."""
        if self.options.learn_from == "processed" and cap_limits(sample.assessment):
            text = "the batch cap limits the rate, not the executors; raise maxOffsetsPerTrigger"
            return ReasonCode.USELESS_EXECUTORS, text
        if not self._settled(sample, state):
            return ReasonCode.WARMING_UP, self._awaited(sample)
        drain = self._drain_s(sample)
        limit = self._catch_up_s()
        if drain is not None and limit is not None and drain <= limit:
            return ReasonCode.CATCHING_UP, f"it will have caught up in {seconds(drain)}, {seconds(limit)} are allowed"
        return None

    def _settled(self, sample: _Sample, state: ReactiveState) -> bool:
        waited = sample.assessment.at - (sample.assessment.at if state.since is None else state.since)
        return self._at_rest(sample.assessment) or waited >= self.context.objective.lag_s

    def _whole(self, sample: _Sample, state: ReactiveState) -> bool:
        """Whether the number in force has been there for the objective's lag, and has finished a batch since.

        A lost executor and its replacement end this: their batches wait for a start-up, and tell of no capacity.
        """
        since = state.whole_since
        long = since is not None and sample.assessment.at - since >= self.context.objective.lag_s
        return long and sample.assessment.batches >= 1

    def _awaited(self, sample: _Sample) -> str:
        if sample.assessment.executors != sample.n:
            return (
                f"{sample.assessment.executors} of {executors(sample.n)} registered, wait for the effect of {sample.n}"
            )
        wanted = several(self.options.settle_batches, "batch", "batches")
        return f"{sample.assessment.batches} of {wanted} finished at this number, wait for its effect"

    def _catch_up_s(self) -> float | None:
        lags = self.options.catch_up_lags
        return None if lags is None else lags * self.context.objective.lag_s

    def _drain_s(self, sample: _Sample) -> float | None:
        """Time until the excess is gone at the present rates; None where it does not shrink."""
        gain = (sample.assessment.processed_rate or 0.0) - sample.arrival
        return sample.excess / gain if gain > 0 else None

    def _carrying(self, sample: _Sample, why: ReasonCode, state: ReactiveState) -> int:
        """The number in force, or more if the arrival rate alone needs more."""
        enough = self._enough_to_grow(sample.arrival, state)
        if enough is None or why is ReasonCode.USELESS_EXECUTORS or self.options.increase == "one":
            return sample.n
        return max(sample.n, enough)

    def _increased(self, sample: _Sample, state: ReactiveState) -> int:
        limit = self._catch_up_s()
        rate = sample.arrival if limit is None else sample.arrival + sample.excess / limit
        enough = self._enough_to_grow(rate, state)
        if enough is None or self.options.increase == "one":
            return sample.n + 1
        return max(sample.n + 1, enough)

    # --------------------------------------------------------------------------------------------- surplus

    def _healthy(self, sample: _Sample, state: ReactiveState) -> _Proposal:
        if self.options.learn_from == "processed" and self._at_rest(sample.assessment):
            state = replace(state, learned=learn_healthy(sample.assessment, state.learned))
        enough = self._enough(sample.arrival / self.options.headroom, state)
        if enough is None:
            return self._unknown(sample, state)
        carried = self.capacity(min(enough, sample.n), state)
        text = (
            f"arrival {per_second(sample.arrival)} needs {executors(enough)} at {percent(self.options.headroom)} of "
            f"{per_second(carried)}"
        )
        if sample.n > enough:
            target = enough if self.options.decrease == "needed" else sample.n - 1
            return self._surplus(sample, state, target, ReasonCode.OVERSIZED, text)
        low = self._low_use(sample)
        if low is not None and self._doubtful(sample, state):
            return self._surplus(sample, state, sample.n - 1, ReasonCode.PROBE_DOWN, f"{text}, yet {low}")
        steady = f"no violation, slow records {percent(sample.slow)}; {text}, {sample.n} in force"
        return sample.hold(ReasonCode.STEADY, steady), replace(state, streak=0)

    def _unknown(self, sample: _Sample, state: ReactiveState) -> _Proposal:
        low = self._low_use(sample)
        if low is not None:
            return self._surplus(sample, state, sample.n - 1, ReasonCode.PROBE_DOWN, f"capacity unknown, {low}")
        used = usage(sample.assessment)
        share = "how much of the time is used is not known" if used is None else f"{percent(used)} of the time used"
        text = f"no violation, and the capacity is unknown until one is measured; {share}"
        return sample.hold(ReasonCode.CAPACITY_UNKNOWN, text), replace(state, streak=0)

    def _low_use(self, sample: _Sample) -> str | None:
        """So low a use that one executor less would be at most half used, in words; None: it is not."""
        used, limit = usage(sample.assessment), 0.5 * (sample.n - 1) / sample.n
        if not self.options.probe or used is None or used >= limit:
            return None
        return f"{percent(used)} of the time used, under {percent(limit)}"

    def _doubtful(self, sample: _Sample, state: ReactiveState) -> bool:
        """Whether low use outweighs the figures: unless one executor less was tried of late, and was too few."""
        tried = state.learned.figure(sample.n - 1)
        return tried is None or not tried.samples or sample.assessment.at - tried.at >= _DOUBT_S

    def _blind(self, assessment: Assessment) -> str | None:
        """What is not known, and might be a violation, in words; None: nothing is."""
        if self.options.occupancy_limit is not None and assessment.occupancy is None:
            return "how long batches take"
        if self.options.wait_limit is not None and assessment.processed_rate is None and assessment.backlog:
            return "how fast the backlog is worked off"
        return None

    def _surplus(self, sample: _Sample, state: ReactiveState, target: int, code: ReasonCode, text: str) -> _Proposal:
        """Count one more sample of a surplus; propose from the last one on, until the number changes."""
        blind = self._blind(sample.assessment)
        if blind is not None:
            return sample.hold(ReasonCode.SURPLUS_COUNTING, f"{text}, but {blind} is not known: the count waits"), state
        wanted = self.options.samples_to_shrink
        streak = min(state.streak + 1, wanted)
        state = replace(state, streak=streak)
        if streak < wanted:
            return sample.hold(ReasonCode.SURPLUS_COUNTING, f"{text}: sample {streak} of {wanted} in a row"), state
        reason = sample.reason(code, f"{text}, {several(wanted, 'sample')} in a row: {sample.n} → {target}")
        return Recommendation(target, reason), state
