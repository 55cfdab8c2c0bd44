"""``dynamic-allocation``: the proposals of Spark's own ExecutorAllocationManager, from the tasks of each sample.

Source: apache/spark, core/src/main/scala/org/apache/spark/ExecutorAllocationManager.scala, and "Dynamic Resource
Allocation" in the job scheduling guide (https://spark.apache.org/docs/latest/job-scheduling.html).

**Up.** While tasks wait, executors are added in rounds: the first after ``backlog_timeout_s``, the next ones each
``sustained_timeout_s``; 1, 2, 4, 8 … of them, never to more than one slot for each task::

    most = ⌈ratio × tasks ÷ slots of an executor⌉

The manager runs each 100 ms, a policy once in a sample period; so the rounds since the last sample are computed. A
batch of b seconds whose tasks need W = ⌈tasks ÷ slots⌉ waves has tasks waiting for b × (W − 1) ÷ W. The batch in flight
counts if it is longer than the last one, otherwise the last one, once. Between two batches no task waits: the rounds
restart from the registered executors. A batch in flight over several samples continues its rounds.

**Down.** An executor without a task for ``idle_timeout_s`` is removed, as long as one slot for each task remains.
Tasks are those of the batch in flight; between two batches there are none, so long triggers lose executors.

Not modelled: executors that are kept for cached blocks or shuffle files (shuffle tracking keeps them for ever).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from pydantic import Field

from rheostat.model import Assessment, Reason, ReasonCode, Recommendation
from rheostat.policies.capacity import ROUNDING, BuiltInPolicy, PolicyOptions, propose_nothing, valid_target
from rheostat.text import executors, seconds, several

_Proposal = tuple[Recommendation, "DynamicAllocationState"]

TUNED: Mapping[str, object] = {"backlog_timeout_s": None, "idle_timeout_s": None}


class DynamicAllocationOptions(PolicyOptions):
    """Options of ``dynamic-allocation``, with the defaults of Spark: the preset ``faithful``."""

    backlog_timeout_s: float | None = Field(1.0, gt=0, le=86_400)
    """Tasks wait this long before the first round (schedulerBacklogTimeout); null: the trigger."""
    sustained_timeout_s: float | None = Field(None, gt=0, le=86_400)
    """Time between rounds (sustainedSchedulerBacklogTimeout); null: the same as backlog_timeout_s."""
    idle_timeout_s: float | None = Field(
        60.0,
        gt=0,
        le=86_400,
        description="Executors without a task for this long are given back (executorIdleTimeout); null: two trigger "
        "intervals, at least 60 s.",
    )
    allocation_ratio: float = Field(1.0, gt=0, le=1)
    """Share of the slots that all tasks at once would fill (executorAllocationRatio)."""
    tasks: int | None = Field(None, ge=1, le=1_000_000)
    """Tasks of the widest stage; null: one for each partition of the sources."""


@dataclass(frozen=True, slots=True)
class DynamicAllocationState:
    """Last finished batch at the last sample; rounds that the batch in flight has had, and what its next one adds."""

    batch: int | None = None
    rounds: int = 0
    add: int = 1


def useful_executors(tasks: int, slots_per_executor: int, ratio: float = 1.0) -> int:
    """Executors whose slots so many tasks fill, times the ratio, rounded up.

    >>> useful_executors(20, 1, 0.5), useful_executors(20, 2, 1 / 3)
    (10, 4)
    """
    return math.ceil(tasks * ratio / slots_per_executor - ROUNDING)


def waiting_s(batch_s: float, tasks: int, slots: int) -> float:
    """How long tasks of a batch wait for a slot, if all take equally long: all waves but the last.

    >>> waiting_s(12.0, tasks=24, slots=6), waiting_s(12.0, tasks=6, slots=6)
    (9.0, 0.0)
    """
    waves = -(-tasks // max(1, slots))
    return batch_s * (waves - 1) / waves if waves > 1 else 0.0


def rounds_passed(waited_s: float, first_s: float, next_s: float) -> int:
    """Rounds while tasks waited: one after ``first_s``, then one each ``next_s``.

    >>> rounds_passed(0.9, 1.0, 1.0), rounds_passed(1.0, 1.0, 1.0), rounds_passed(13.0, 1.0, 4.0)
    (0, 1, 4)
    """
    return 0 if waited_s < first_s else 1 + math.floor((waited_s - first_s) / next_s + ROUNDING)


def grow(start: int, add: int, rounds: int, most: int) -> tuple[int, int]:
    """Executors after so many rounds, and what the next round would add: 1, 2, 4, 8 …, anew from 1 once limited.

    >>> grow(1, 1, 3, 10), grow(1, 1, 4, 10)
    ((8, 8), (10, 1))
    """
    for _ in range(rounds):
        target = max(start, min(start + add, most))
        add = 2 * add if target - start == add else 1
        if target == start:
            break
        start = target
    return start, add


class DynamicAllocationPolicy(BuiltInPolicy[DynamicAllocationOptions, DynamicAllocationState]):
    """More executors while tasks wait, fewer once executors have none. See the module's description."""

    name: ClassVar[str] = "dynamic-allocation"
    self_managed_steps = frozenset({"hold", "largest_step", "cooldown_down", "useful_executors"})
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {"default": TUNED, "tuned": TUNED, "faithful": {}}

    def recommend(self, assessment: Assessment, state: DynamicAllocationState) -> _Proposal:
        """Up if rounds have passed, else down by the executors that have been idle for too long."""
        n = valid_target(assessment)
        # tasks of a batch's widest stage, no fewer than run now
        widest = self.options.tasks if self.options.tasks is not None else assessment.partitions
        tasks = max(widest or 0, assessment.active_tasks or 0)
        if n is None or not assessment.executors or not tasks:
            return propose_nothing(assessment, "executors or tasks"), DynamicAllocationState(assessment.last_batch_id)
        slots = assessment.executors * (assessment.slots_per_executor or 1)
        waited_s = waiting_s(assessment.batch_s or 0.0, tasks, slots)
        target, state = self._count_rounds(assessment, n, tasks, waited_s, state)
        if target > n:
            return self._increase(assessment, n, target, tasks, waited_s), state
        return self._decrease(assessment, n, tasks), state

    # ------------------------------------------------------------------------------------------------- up

    def _count_rounds(
        self, assessment: Assessment, n: int, tasks: int, waited_s: float, state: DynamicAllocationState
    ) -> tuple[int, DynamicAllocationState]:
        """The number after the rounds that have passed since the last sample."""
        first_s = self._backlog_timeout_s(assessment)
        in_flight, had = _choose_batch(assessment, state)
        passed = rounds_passed(waited_s, first_s, self.options.sustained_timeout_s or first_s) if had is not None else 0
        before = had or 0
        start, add = (n, state.add) if before else (assessment.executors or n, 1)
        most = useful_executors(tasks, assessment.slots_per_executor or 1, self.options.allocation_ratio)
        target, add = grow(start, add, max(0, passed - before), most)
        after = DynamicAllocationState(assessment.last_batch_id)
        if in_flight:
            after = replace(after, rounds=max(passed, before), add=add)
        return max(n, target), after

    def _backlog_timeout_s(self, assessment: Assessment) -> float:
        return self.options.backlog_timeout_s or max(1.0, assessment.trigger_s or 0.0)

    def _increase(self, assessment: Assessment, n: int, target: int, tasks: int, waited_s: float) -> Recommendation:
        text = (
            f"{several(tasks, 'task')} on {executors(assessment.executors or 0)} {'waits' if tasks == 1 else 'wait'} "
            f"for {seconds(waited_s)} of a batch of {seconds(assessment.batch_s or 0.0)}, "
            f"{seconds(self._backlog_timeout_s(assessment))} are allowed: {n} → {target}"
        )
        figures = {"tasks": float(tasks), "waited_s": waited_s, "executors": float(n)}
        return Recommendation(target, Reason(ReasonCode.UNDERSIZED, text, figures))

    # ----------------------------------------------------------------------------------------------- down

    def _decrease(self, assessment: Assessment, n: int, tasks: int) -> Recommendation:
        """Remove those that are idle for too long, but keep as many as the present tasks need."""
        limit_s = self.options.idle_timeout_s or max(60.0, 2 * (assessment.trigger_s or 0.0))
        idle_s = assessment.idle_s or ()
        expired = sum(idle >= limit_s for idle in idle_s)
        now = (assessment.active_tasks or 0) if assessment.running is False else tasks
        need = useful_executors(now, assessment.slots_per_executor or 1, self.options.allocation_ratio)
        target = min(n, max(1, need, n - expired))
        needs = f"{several(now, 'task needs', 'tasks need')} {need}"
        if target < n:
            code = ReasonCode.OVERSIZED
            text = f"{executors(expired)} had no task for {seconds(limit_s)}, {needs}: {n} → {target}"
        elif idle_s and not expired:
            code = ReasonCode.SURPLUS_COUNTING
            longest = f"the longest for {seconds(idle_s[0])} of {seconds(limit_s)}"
            text = f"{executors(len(idle_s))} without a task, {longest}"
        else:
            code = ReasonCode.STEADY
            text = f"no task waits for too long, {executors(expired)} idle for {seconds(limit_s)}; {needs}"
        figures = {"idle": float(expired), "tasks": float(now), "executors": float(n)}
        return Recommendation(target, Reason(code, text, figures))


def _choose_batch(assessment: Assessment, state: DynamicAllocationState) -> tuple[bool, int | None]:
    """Whether the batch that counts is in flight, and how many rounds it had; None: it was counted before."""
    last, before = assessment.last_batch_id, state.batch
    finished = None if last is None or before is None else last - before
    if assessment.running and (assessment.batch_s or 0.0) > (assessment.last_batch_s or 0.0):
        return True, state.rounds if finished == 0 else 0
    if finished == 0:
        return False, None
    return False, state.rounds if finished == 1 else 0
