"""``ds2``: as many executors as the true processing rate says, in one step.

Source: V. Kalavri, J. Liagouris, M. Hoffmann, D. Dimitrova, M. Forshaw, T. Roscoe, "Three steps is all you need: fast,
accurate, automatic scaling decisions for distributed streaming dataflows", OSDI 2018, and its public repository
strymon-system/ds2, controller/src. A micro-batch job is one operator whose instances are the executors::

    true rate of an executor = processed rate ÷ busy share ÷ executors
    optimum                  = ⌈target rate ÷ true rate of an executor × (1 + scaling_factor)⌉

The target rate is the arrival rate; a backlog is not part of it. Where the optimum is no more than what runs, and yet
more arrives than is processed, by more than ``target_rate_ratio``, the optimum is multiplied by arrival ÷ processed.

The manager ignores the first ``warm_up_intervals`` after its start and after a change, acts after
``activation_intervals`` evaluations in a row, and treats a decrease by one as insignificant. The repository uses the
last of these evaluations; their median and maximum are ours.

The model assumes that rates grow in proportion to the instances and that load is spread evenly over them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import median_high
from typing import ClassVar, Literal

from pydantic import Field

from rheostat.config.models import FrozenModel
from rheostat.model import Assessment, Reason, ReasonCode, Recommendation
from rheostat.policies.capacity import (
    MOST_EXECUTORS,
    ROUNDING,
    BuiltInPolicy,
    Measure,
    busy_share,
    propose_nothing,
    round_up,
    valid_target,
)
from rheostat.text import executors, per_second, percent, several

_LATE = 2
"""A sample that comes later than so many periods ends the count."""

_Proposal = tuple[Recommendation, "Ds2State"]
_COMBINE: Mapping[str, Callable[[tuple[int, ...]], int]] = {
    "last": lambda found: found[-1],
    "median": median_high,
    "max": max,
}

TUNED: Mapping[str, object] = {
    "activation_intervals": 2,
    "combine": "max",
    "target_rate_ratio": 1.05,
    "scaling_factor": 0.1,
}


class Ds2Options(FrozenModel):
    """Options of ``ds2``, with the defaults of its repository: the preset ``faithful``."""

    useful_time: Measure = Field(
        "tasks", description="What counts as busy. tasks: slots in tasks; batches: time in which a batch is worked on."
    )
    warm_up_intervals: int = Field(2, ge=0, le=1000, description="Sample periods ignored after a change.")
    activation_intervals: int = Field(1, ge=1, le=100, description="Evaluations in a row before a change.")
    combine: Literal["last", "median", "max"] = Field("last", description="What of these evaluations is taken.")
    target_rate_ratio: float | None = Field(
        None,
        ge=1,
        le=100,
        description="Arrival ÷ processed beyond which an optimum that asks for no more is raised; null: never.",
    )
    scaling_factor: float = Field(0.0, ge=0, le=100, description="Executors beyond the optimum, as a share of it.")
    smallest_decrease: int = Field(2, ge=1, le=1000, description="A decrease by less than this is not significant.")


@dataclass(frozen=True, slots=True)
class Ds2State:
    """What is remembered from sample to sample.

    Attributes:
        executors: the current target, and the registered executors, at the last sample.
        since: when they were first seen like that.
        at: time of the last sample.
        found: the optima of the last evaluations in a row, no more than ``activation_intervals``.
        rate: true processing rate of one executor at the last evaluation, records/s.
    """

    executors: tuple[int, int] | None = None
    since: float | None = None
    at: float | None = None
    found: tuple[int, ...] = ()
    rate: float | None = None


def optimum(target_rate: float, true_rate: float, instances: int, scaling_factor: float = 0.0) -> int:
    """Instances that process the target rate, if so many have that true rate together.

    >>> optimum(200.0, 40.0, 1), optimum(800.0, 300.0, 3), optimum(0.0, 40.0, 1)
    (5, 8, 1)
    """
    return round_up(target_rate / (true_rate / instances) * (1 + scaling_factor))


class Ds2Policy(BuiltInPolicy[Ds2Options, Ds2State]):
    """Jumps to the optimum that the true processing rate gives. See the module's description."""

    name: ClassVar[str] = "ds2"
    self_managed_steps = frozenset({"warm_up", "hold", "largest_step", "cooldown_up", "cooldown_down"})
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {"default": TUNED, "tuned": TUNED, "faithful": {}}

    def recommend(self, assessment: Assessment, state: Ds2State) -> _Proposal:
        n, options = valid_target(assessment), self.options
        if n is None or not assessment.executors or assessment.arrival_rate is None:
            return propose_nothing(assessment, "executors"), replace(state, found=(), at=assessment.at)
        state = self._follow(assessment, n, state)
        ran_s = assessment.at - (assessment.at if state.since is None else state.since)
        if ran_s < options.warm_up_intervals * self.context.sample_s - ROUNDING:
            ignored = several(options.warm_up_intervals, "period")
            text = f"{several(n, 'executor has', 'executors have')} run for less than {ignored}, which do not count"
            return _hold(n, ReasonCode.STABILIZING, text), state
        if assessment.idle:
            return self._choose(n, 1, 1, f"nothing arrives, which is best on {executors(1)}", state)
        busy = busy_share(assessment, options.useful_time)
        if not busy or not assessment.processed_rate:
            text = "no true processing rate without processed records and busy time"
            return _hold(n, ReasonCode.CAPACITY_UNKNOWN, text), replace(state, found=())
        return self._evaluate(assessment, n, busy, state)

    def capacity(self, executors: int, state: Ds2State) -> float | None:
        """Of n executors: n × the true processing rate of one at the last evaluation."""
        return None if state.rate is None else executors * state.rate

    def _follow(self, assessment: Assessment, n: int, state: Ds2State) -> Ds2State:
        """The state with this sample's target: another one, or a sample that came late, ends the count."""
        now = (n, assessment.executors or n)
        if now != state.executors:
            return replace(state, executors=now, since=assessment.at, at=assessment.at, found=())
        late = state.at is not None and assessment.at - state.at > _LATE * self.context.sample_s
        return replace(state, at=assessment.at, found=() if late else state.found)

    def _evaluate(self, assessment: Assessment, n: int, busy: float, state: Ds2State) -> _Proposal:
        registered, arrival = assessment.executors or n, assessment.arrival_rate or 0.0
        rate = (assessment.processed_rate or 0.0) / busy
        best = self._adjust(assessment, registered, optimum(arrival, rate, registered, self.options.scaling_factor))
        state = replace(state, rate=rate / registered)
        each = f"{per_second(rate / registered)} each, {percent(busy)} busy"
        text = f"arrival {per_second(arrival)} at a true rate of {each}, is best on {executors(best)}"
        return self._choose(n, best, self.options.smallest_decrease, text, state)

    def _choose(self, n: int, best: int, smallest_decrease: int, text: str, state: Ds2State) -> _Proposal:
        """The number that so many evaluations in a row give."""
        options, found = self.options, (*state.found, best)[-self.options.activation_intervals :]
        state = replace(state, found=found)
        if len(found) < options.activation_intervals:
            waits = f"evaluation {len(found)} of {options.activation_intervals} in a row"
            return _hold(n, ReasonCode.SURPLUS_COUNTING, f"{text}: {waits}"), state
        target = _COMBINE[options.combine](found)
        if target == n or n - smallest_decrease < target < n:
            return _hold(n, ReasonCode.STEADY, f"{text}: {n} stays"), state
        code = ReasonCode.UNDERSIZED if target > n else ReasonCode.OVERSIZED
        reason = Reason(code, f"{text}: {n} → {target}", {"executors": float(n), "true_rate": state.rate})
        return Recommendation(target, reason), state

    def _adjust(self, assessment: Assessment, registered: int, best: int) -> int:
        """The final adjustment: the optimum asks for no more, and yet the target rate is not reached."""
        limit, processed = self.options.target_rate_ratio, assessment.processed_rate or 0.0
        ratio = (assessment.arrival_rate or 0.0) / processed if processed else 0.0
        if limit is None or best > registered or ratio <= limit:
            return best
        return min(MOST_EXECUTORS, math.ceil(ratio * best - ROUNDING))


def _hold(n: int, code: ReasonCode, text: str) -> Recommendation:
    return Recommendation(n, Reason(code, text, {"executors": float(n)}))
