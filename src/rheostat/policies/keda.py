"""``keda``: replicas by the lag of a consumer group, as KEDA's Kafka scaler has it.

KEDA passes the total lag (latest − committed offsets) to a HorizontalPodAutoscaler as an external metric with an
AverageValue::

    desired = ⌈lag ÷ lag threshold⌉          n where |1 − lag ÷ (threshold × n)| ≤ tolerance

and that shapes it like any other (:mod:`rheostat.policies.hpa`). Without ``allow_idle_consumers`` the lag counts as
no more than partitions × threshold; as in the original the quotient is rounded down for this comparison, so a lag of
less than one threshold more still asks for one replica more. With ``even_partitions`` it is the smallest divisor of the
number of partitions that suffices. A consumer is a slot: with c slots an executor the bounds are ⌈number ÷ c⌉.

**A threshold for micro-batches** [ours]. A micro-batch job that keeps up has a lag of up to two triggers' worth just
before a batch commits, and the window of decreases keeps the largest lag of its samples::

    lag threshold = threshold_triggers × trigger (τ where that is 0) × what one executor carries, records/s

Without ``executor_rate``, what one carries is measured on samples at which the whole target is registered and two
batches have finished. With overload (a backlog beyond a healthy one, or batches of τ) it is processed ÷ n. Else the
records of a busy second, min(arrival, processed) × max(trigger, batch) ÷ batch ÷ n: the least of three samples in a row
may raise it.

Not here: activationLagThreshold, pollingInterval and cooldownPeriod, which only concern the way to and from zero.

Source: https://keda.sh/docs/latest/scalers/apache-kafka/; kedacore/keda, pkg/scalers/kafka_scaler.go (``getTotalLag``,
``getNextFactorThatBalancesConsumersToTopicPartitions``); kubernetes/kubernetes,
pkg/controller/podautoscaler/replica_calculator.go (``GetExternalPerPodMetricReplicas``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from pydantic import Field

from rheostat.decide.policy import PolicyContext
from rheostat.model import Assessment, Reason, ReasonCode, Recommendation
from rheostat.policies.capacity import BuiltInPolicy, PolicyOptions, add_in_a_row, propose_nothing
from rheostat.policies.hpa import (
    DOWN,
    UP,
    Behavior,
    BehaviorState,
    Proposal,
    Rules,
    group_pods,
    recommend_shaped,
    size_by_average,
)
from rheostat.text import count, executors, per_second

_COLD = 2


class KedaOptions(PolicyOptions):
    """Options of ``keda``, with the defaults of KEDA and Kubernetes."""

    lag_threshold: float | None = Field(10.0, gt=0, json_schema_extra={"unit": "records"})
    """Lag for each replica, records; null: threshold_triggers × trigger × executor_rate."""
    threshold_triggers: float = Field(2.3, gt=0, le=1000, json_schema_extra={"only_with": ["lag_threshold", "null"]})
    """With lag_threshold null: the threshold in triggers' work of an executor."""
    executor_rate: float | None = Field(None, gt=0, json_schema_extra={"unit": "records/s"})
    """What one executor carries, from a load test; null: measured as the job runs."""
    allow_idle_consumers: bool = False
    """Whether to go beyond one slot for each partition."""
    even_partitions: bool = False
    """Only numbers of slots that divide the partitions (ensureEvenDistribution…)."""
    tolerance: float = Field(0.1, ge=0, lt=1)
    """No change while lag ÷ (threshold × n) is this close to 1."""
    scale_up: Rules = UP
    """Behavior on the way up."""
    scale_down: Rules = DOWN
    """Behavior on the way down."""


TUNED: Mapping[str, object] = {"lag_threshold": None}


@dataclass(frozen=True, slots=True)
class KedaState:
    """State of the behavior; measured capacity of one executor, records/s; its last busy rates without overload."""

    behavior: BehaviorState = field(default_factory=BehaviorState)
    rate: float | None = None
    recent: tuple[float, ...] = ()


def even(consumers: float, partitions: int) -> int:
    """The smallest divisor of the partitions that is no less than ``consumers``; the partitions where none is.

    >>> even(5, 10), even(8, 10), even(99, 10)
    (5, 10, 10)
    """
    return next((each for each in range(1, partitions + 1) if partitions % each == 0 and each >= consumers), partitions)


def bounded_lag(lag: float, threshold: float, partitions: int, slots: int, options: KedaOptions) -> float:
    """The lag that the scaler reports; in records, as it is where nothing bounds it.

    >>> bounded_lag(700, 100, 3, 1, KedaOptions())
    300
    """
    most = -(-partitions // slots)
    if options.even_partitions:
        lag = -(-even(lag / threshold * slots, partitions) // slots) * threshold
    elif options.allow_idle_consumers:
        return lag
    return most * threshold if lag // threshold > most else lag


class KedaPolicy(BuiltInPolicy[KedaOptions, KedaState]):
    """The Kafka scaler and the autoscaler behind it. See the module's description."""

    name: ClassVar[str] = "keda"
    self_managed_steps = frozenset(
        {"warm_up", "hold", "tolerance", "scale_down_hold", "largest_step", "cooldown_up", "cooldown_down"}
    )
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {"default": TUNED, "tuned": TUNED, "faithful": {}}

    def __init__(self, options: KedaOptions, context: PolicyContext) -> None:
        super().__init__(options, context)
        self.behavior = Behavior(options.scale_up, options.scale_down)

    def recommend(self, assessment: Assessment, state: KedaState) -> tuple[Recommendation, KedaState]:
        pods = group_pods(assessment)
        if pods is None or assessment.backlog is None:
            return propose_nothing(assessment, "backlog"), replace(state, recent=())
        state = self._measure(assessment, pods.current, state)
        state = replace(state, behavior=self.behavior.observe(assessment.at, pods.current, state.behavior))
        threshold, words = self._threshold(assessment, state)
        if threshold is None and assessment.idle:
            threshold, words = 1.0, "any threshold"
        lag, partitions = float(assessment.backlog), assessment.partitions
        lag_text = f"a lag of {count(lag)}"
        if threshold is None:
            text = f"{lag_text}, and what an executor carries is unknown: {pods.current} stays"
            return Recommendation(pods.current, Reason(ReasonCode.CAPACITY_UNKNOWN, text)), state
        slots = assessment.slots_per_executor or 1
        reported = bounded_lag(lag, threshold, partitions, slots, self.options) if partitions else lag
        desired = size_by_average(reported, threshold, pods, self.options.tolerance)
        text = f"{lag_text} at {words} asks for {executors(desired)}"
        proposal = Proposal(desired, text, {"lag": lag, "reported": reported, "threshold": threshold})
        recommendation, after = recommend_shaped(proposal, self.behavior, assessment.at, pods.current, state.behavior)
        return recommendation, replace(state, behavior=after)

    def capacity(self, executors: int, state: KedaState) -> float | None:
        """Capacity of n executors, where the threshold depends on it."""
        rate = None if self.options.lag_threshold is not None else self._rate(state)
        return None if rate is None else executors * rate

    def _rate(self, state: KedaState) -> float | None:
        return state.rate if self.options.executor_rate is None else self.options.executor_rate

    def _threshold(self, assessment: Assessment, state: KedaState) -> tuple[float | None, str]:
        """Records for each replica, and its words."""
        if self.options.lag_threshold is not None:
            return self.options.lag_threshold, f"{count(self.options.lag_threshold)} each"
        rate, interval = self._rate(state), assessment.trigger_s or assessment.period_s
        if not rate or not interval:
            return None, ""
        threshold = self.options.threshold_triggers * interval * rate
        return threshold, f"{count(threshold)} each (an executor carries {per_second(rate)})"

    def _measure(self, assessment: Assessment, current: int, state: KedaState) -> KedaState:
        """The state with this sample's rate of one executor; nothing is measured while the target is settling."""
        if self.options.lag_threshold is not None or self.options.executor_rate is not None:
            return state
        done, changed = assessment.processed_rate, state.behavior.executors not in {None, current}
        if not done or changed or assessment.executors != current or assessment.batches < _COLD:
            return replace(state, recent=())
        if assessment.backlog_excess or (assessment.occupancy is not None and assessment.occupancy >= 1):
            return replace(state, rate=done / current, recent=())
        if not assessment.batch_s or not assessment.arrival_rate:
            return replace(state, recent=())
        idle = max(assessment.trigger_s or 0.0, assessment.batch_s) / assessment.batch_s
        recent, least = add_in_a_row(state.recent, min(done, assessment.arrival_rate) * idle / current, math.inf)
        return replace(state, rate=max(least or 0.0, state.rate or 0.0) or None, recent=recent)
