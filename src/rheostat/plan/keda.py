"""``keda``: replicas by the lag of a consumer group, as KEDA's Kafka scaler has it.

KEDA hands the total lag (latest − committed offsets) to a HorizontalPodAutoscaler as an external metric with an
AverageValue::

    desired = ⌈lag ÷ lag threshold⌉          n where |1 − lag ÷ (threshold × n)| ≤ tolerance

and that shapes it like any other (:mod:`rheostat.plan.behavior`). Without ``allow_idle_consumers`` the lag counts as
no more than partitions × threshold; as in the original the quotient is rounded down for this comparison, so a lag of
less than one threshold more still asks for one replica more. With ``even_partitions`` it is the smallest divisor of the
number of partitions that suffices. A consumer is a slot: with c slots an executor the bounds are ⌈number ÷ c⌉.

**A threshold for micro-batches** [ours]. The published threshold of 10 records is a placeholder: with it every job is
always at its greatest number. A micro-batch job that keeps up has a lag of arrival rate × (trigger + batch time) just
before a batch commits: up to two triggers' worth. The window of decreases holds on to the largest lag of its samples,
so the threshold may be a little more than what an executor works off in that time::

    lag threshold = threshold_triggers × trigger (τ where that is 0) × what one executor carries, records/s

which is what users come to by a load test. ``executor_rate`` takes their figure; left out, it is measured as the job
runs, on samples at which all executors in force are registered and two batches have finished on them. With overload
(a backlog beyond a healthy one, or batches of τ) it is processed ÷ n. Else the records of a busy second, min(arrival,
processed) × max(trigger, batch) ÷ batch ÷ n: what three samples in a row agree on may raise it.

Not here, because executors never go to zero: activationLagThreshold, pollingInterval (without cached metrics) and
cooldownPeriod, which only concern the way to and from zero. Spark commits no offsets to Kafka; somebody who uses KEDA
has a listener that does, after each batch.

Source: https://keda.sh/docs/latest/scalers/apache-kafka/; kedacore/keda, pkg/scalers/kafka_scaler.go (``getTotalLag``,
``getNextFactorThatBalancesConsumersToTopicPartitions``); kubernetes/kubernetes,
pkg/controller/podautoscaler/replica_calculator.go (``GetExternalPerPodMetricReplicas``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import ClassVar

from pydantic import BaseModel, Field

from rheostat.config.fields import FrozenModel
from rheostat.model import Assessment, Code, Reason, Recommendation
from rheostat.plan.behavior import DOWN, UP, Behavior, BehaviorState, Rules
from rheostat.plan.hpa import Proposal, answer, by_average, counted, unknown
from rheostat.plan.policy import PolicyContext
from rheostat.plan.words import count, executors, per_second

__all__ = ["Consumers", "KedaOptions", "KedaPolicy", "KedaState", "bounded_lag", "even"]

_COLD = 2
_IN_A_ROW = 3


class KedaOptions(FrozenModel):
    """Options of ``keda``, with the defaults of KEDA and Kubernetes."""

    lag_threshold: float | None = Field(
        10.0,
        gt=0,
        description="Lag for each replica, records; null: threshold_triggers × trigger × executor_rate.",
        json_schema_extra={"unit": "records"},
    )
    threshold_triggers: float = Field(
        2.3,
        gt=0,
        le=1000,
        description="With lag_threshold null: the threshold in triggers' work of an executor.",
        json_schema_extra={"only_with": ["lag_threshold", "null"]},
    )
    executor_rate: float | None = Field(
        None,
        gt=0,
        description="What one executor carries, from a load test; null: measured as the job runs.",
        json_schema_extra={"unit": "records/s"},
    )
    allow_idle_consumers: bool = Field(default=False, description="Whether to go beyond one slot for each partition.")
    even_partitions: bool = Field(
        default=False, description="Only numbers of slots that divide the partitions (ensureEvenDistribution…)."
    )
    tolerance: float = Field(0.1, ge=0, lt=1, description="No change while lag ÷ (threshold × n) is this close to 1.")
    scale_up: Rules = Field(UP, description="Behavior on the way up.")
    scale_down: Rules = Field(DOWN, description="Behavior on the way down.")


TUNED: Mapping[str, object] = MappingProxyType({"lag_threshold": None})


@dataclass(frozen=True, slots=True)
class KedaState:
    """What is remembered.

    Attributes:
        behavior: what the behavior needs.
        rate: what one executor carries as measured, records/s; None: not yet.
        recent: records of a busy second and executor at the last samples without overload, at most three.
    """

    behavior: BehaviorState = field(default_factory=BehaviorState)
    rate: float | None = None
    recent: tuple[float, ...] = ()


def even(consumers: float, partitions: int) -> int:
    """The smallest divisor of the partitions that is no less than ``consumers``; the partitions where none is.

    >>> even(5, 10), even(8, 10), even(99, 10)
    (5, 10, 10)
    """
    return next((each for each in range(1, partitions + 1) if partitions % each == 0 and each >= consumers), partitions)


@dataclass(frozen=True, slots=True)
class Consumers:
    """How many there may be: ``idle`` ones beyond the partitions, or only numbers that share them ``evenly``."""

    idle: bool = False
    evenly: bool = False


def bounded_lag(lag: float, threshold: float, partitions: int, slots: int, consumers: Consumers) -> float:
    """The lag that the scaler reports; in records, as it is where nothing bounds it.

    >>> bounded_lag(700, 100, 3, 1, Consumers())
    300
    """
    most = -(-partitions // slots)
    if consumers.evenly:
        lag = -(-even(lag / threshold * slots, partitions) // slots) * threshold
    elif consumers.idle:
        return lag
    return most * threshold if lag // threshold > most else lag


class KedaPolicy:
    """The Kafka scaler and the autoscaler behind it. See the module's description."""

    name: ClassVar[str] = "keda"
    brings: ClassVar[frozenset[str]] = frozenset(
        {
            "warm_up",
            "hold",
            "tolerance",
            "scale_down_hold",
            "largest_step",
            "cooldown_up",
            "cooldown_down",
        }
    )
    state_type: type[KedaState] = KedaState
    options_type: ClassVar[type[BaseModel]] = KedaOptions
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = MappingProxyType(
        {"default": TUNED, "tuned": TUNED, "faithful": {}}
    )

    def __init__(self, options: KedaOptions, context: PolicyContext) -> None:
        self.options = options
        self.context = context
        self.behavior = Behavior(options.scale_up, options.scale_down)
        self._lag_threshold, self._executor_rate = options.lag_threshold, options.executor_rate
        self._tolerance, self._triggers = options.tolerance, options.threshold_triggers
        self._measures = self._lag_threshold is None and self._executor_rate is None
        self._consumers = Consumers(options.allow_idle_consumers, options.even_partitions)

    def initial(self) -> KedaState:
        """Nothing was asked for yet."""
        return KedaState()

    def recommend(self, seen: Assessment, state: KedaState) -> tuple[Recommendation, KedaState]:
        """What the lag asks for, shaped by the behavior; no opinion without it."""
        current, backlog, at = counted(seen), seen.backlog, seen.at
        if current is None or backlog is None:
            return Recommendation(None, unknown(seen, "backlog")), KedaState(state.behavior, state.rate)
        measured, recent = self._measured(seen, current, state) if self._measures else (state.rate, state.recent)
        behavior = self.behavior.looked(at, current, state.behavior)
        threshold, said = self._threshold(seen, measured)
        if threshold is None:
            text = f"a lag of {count(backlog)}, and what an executor carries is unknown: {current} stays"
            hold = Recommendation(current, Reason(Code.CAPACITY_UNKNOWN, text))
            return hold, KedaState(behavior, measured, recent)
        lag = reported = float(backlog)
        if seen.partitions:
            reported = bounded_lag(lag, threshold, seen.partitions, seen.slots_per_executor or 1, self._consumers)
        desired = by_average(reported, threshold, current, self._tolerance)
        text = f"a lag of {count(backlog)} at {said} asks for {executors(desired)}"
        figures = {"lag": lag, "reported": reported, "threshold": threshold}
        answered, behavior = answer(Proposal(desired, text, figures), self.behavior, at, current, behavior)
        return answered, KedaState(behavior, measured, recent)

    def capacity(self, executors: int, state: KedaState) -> float | None:
        """What n executors carry, where the threshold is made from it."""
        if self._lag_threshold is not None:
            return None
        rate = state.rate if self._measures else self._executor_rate
        return None if rate is None else executors * rate

    def _threshold(self, seen: Assessment, measured: float | None) -> tuple[float | None, str]:
        """Records for each replica, and the words for it."""
        if self._lag_threshold is not None:
            return self._lag_threshold, f"{count(self._lag_threshold)} each"
        rate, interval = measured if self._measures else self._executor_rate, seen.trigger_s or seen.period_s
        if not rate or not interval:
            return None, ""
        threshold = self._triggers * interval * rate
        return threshold, _made_from(threshold, rate)

    def _measured(self, seen: Assessment, current: int, state: KedaState) -> tuple[float | None, tuple[float, ...]]:
        """The state's rate and recent records, with this sample's; no recent ones while the number is settling."""
        done, before, rate = seen.processed_rate, state.behavior.executors, state.rate
        changed = before is not None and before != current
        if not done or changed or seen.executors != current or seen.batches < _COLD:
            return rate, ()
        if seen.backlog_excess or (seen.occupancy is not None and seen.occupancy >= 1):
            return done / current, ()
        busy, batch_s, trigger_s = seen.arrival_rate, seen.batch_s, seen.trigger_s or 0.0
        if not batch_s or not busy:
            return rate, ()
        if busy > done:
            busy = done
        idle = trigger_s / batch_s if trigger_s > batch_s else 1.0
        recent = (*state.recent[1 - _IN_A_ROW :], busy * idle / current)
        if len(recent) < _IN_A_ROW:
            return rate, recent
        agreed = min(recent)
        return agreed if rate is None or agreed > rate else rate, recent


@lru_cache(maxsize=32)
def _made_from(threshold: float, rate: float) -> str:
    """The words for a threshold, which changes as rarely as what an executor carries."""
    return f"{count(threshold)} each (an executor carries {per_second(rate)})"
