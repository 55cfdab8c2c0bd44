"""What is to be done about it and why, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = [
    "Action",
    "Code",
    "Decision",
    "GuardNote",
    "Outcome",
    "OutcomeStatus",
    "Placement",
    "Projection",
    "Reason",
    "Recommendation",
]


class Code(StrEnum):
    """Stable reason codes. A code is never renamed: journals and dashboards depend on it.

    The first group is given by policies, the second by the guard pipeline, the third by the loop and by
    actuators.
    """

    FIXED = "FIXED"
    SLA_VIOLATED = "SLA_VIOLATED"
    UNDERSIZED = "UNDERSIZED"
    OVERSIZED = "OVERSIZED"
    PROBE_DOWN = "PROBE_DOWN"
    SURPLUS_COUNTING = "SURPLUS_COUNTING"
    STEADY = "STEADY"
    STABILIZING = "STABILIZING"
    CAPACITY_UNKNOWN = "CAPACITY_UNKNOWN"
    FORECAST = "FORECAST"
    CHANGE_POINT = "CHANGE_POINT"
    SICK_SINK = "SICK_SINK"
    SLOW_EXECUTOR = "SLOW_EXECUTOR"

    NO_QUERY = "NO_QUERY"
    METRICS_MISSING = "METRICS_MISSING"
    METRICS_INVALID = "METRICS_INVALID"
    METRICS_STALE = "METRICS_STALE"
    OBJECTIVE_TOO_SHORT = "OBJECTIVE_TOO_SHORT"
    RESCALE_RUNNING = "RESCALE_RUNNING"
    TASK_FAILURES = "TASK_FAILURES"
    WARMING_UP = "WARMING_UP"
    HOLD_AFTER_RESCALE = "HOLD_AFTER_RESCALE"
    LARGEST_STEP = "LARGEST_STEP"
    COOLDOWN_UP = "COOLDOWN_UP"
    COOLDOWN_DOWN = "COOLDOWN_DOWN"
    FAILOVER = "FAILOVER"
    SCALE_DOWN_HOLD = "SCALE_DOWN_HOLD"
    ROUND_TRIP = "ROUND_TRIP"
    WITHIN_TOLERANCE = "WITHIN_TOLERANCE"
    ALIGNED = "ALIGNED"
    PARTITIONS_PER_SLOT = "PARTITIONS_PER_SLOT"
    RESCALE_COST = "RESCALE_COST"
    INEFFECTIVE = "INEFFECTIVE"
    BATCH_CAP = "BATCH_CAP"
    QUOTA = "QUOTA"
    CATCHING_UP = "CATCHING_UP"
    USELESS_EXECUTORS = "USELESS_EXECUTORS"
    NO_ROOM = "NO_ROOM"
    AT_MAX = "AT_MAX"
    AT_MIN = "AT_MIN"
    LAST_CHECK = "LAST_CHECK"
    NO_FREE_NODE = "NO_FREE_NODE"

    START = "START"
    RESTORED = "RESTORED"
    REPLACING_LOST = "REPLACING_LOST"
    PAUSED = "PAUSED"
    WATCH_ONLY = "WATCH_ONLY"
    DRY_RUN = "DRY_RUN"
    APPLIED = "APPLIED"
    NOTHING_IDLE = "NOTHING_IDLE"
    REQUEST_REJECTED = "REQUEST_REJECTED"
    CYCLE_FAILED = "CYCLE_FAILED"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why: a stable code, a sentence with the figures, and the figures."""

    code: Code
    text: str
    figures: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What a policy proposes: a number of executors, or None for "no opinion" (hold)."""

    target: int | None
    reason: Reason


@dataclass(frozen=True, slots=True)
class GuardNote:
    """A guard step that changed the target: its name, what went in and came out, and why."""

    step: str
    before: int
    after: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Projection:
    """What ``executors`` would mean at the present arrival rate, by the capacity model; None without one.

    Attributes:
        capacity: records/s that many executors carry.
        utilization: arrival rate ÷ capacity.
    """

    executors: int
    capacity: float | None = None
    utilization: float | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """On which nodes executors are to be. A node that hosts several stands there several times.

    Attributes:
        use: the node of each executor after the change, sorted.
        add: the nodes of those that come, in that order.
        leave: the nodes of those that go, in that order.
        slow: nodes that are slow, sorted; a standby, or what comes instead of a full node, comes there last.
    """

    use: tuple[str, ...]
    add: tuple[str, ...] = ()
    leave: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()


class Action(StrEnum):
    """What a decision does to the number of executors."""

    HOLD = "hold"
    UP = "up"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done. A hold is a decision too.

    Attributes:
        decision_id: unique within a journal, ascending.
        current: executors in force when it was made; None: unknown.
        target: executors wanted; equals ``current`` for a hold.
        reason: the last step that determined the target.
        notes: every guard step that changed the target, in order.
        projections: n − 1, n, n + 1.
        placement: where executors come and go; None: of a hold, or where nodes are not known.
        first: executors that leave before any other, by id, in this order; with a placement, from the nodes that it
            gives up.
    """

    at: float
    decision_id: int
    action: Action
    current: int | None
    target: int | None
    reason: Reason
    recommendation: Recommendation
    notes: tuple[GuardNote, ...] = ()
    projections: tuple[Projection, ...] = ()
    placement: Placement | None = None
    first: tuple[str, ...] = ()

    @property
    def acts(self) -> bool:
        """Whether something is to be executed."""
        return self.action is not Action.HOLD

    @property
    def why(self) -> str:
        """What the policy wanted and why, then what the guards made of it; where no guard changed it, the reason alone.

        >>> notes = (GuardNote("largest_step", 3, 17, Reason(Code.LARGEST_STEP, "at most 1 at a time")),)
        >>> wanted = Recommendation(3, Reason(Code.OVERSIZED, "3 carry 900/s"))
        >>> Decision(0.0, 7, Action.DOWN, 18, 17, notes[0].reason, wanted, notes).why
        'the policy wanted 3: 3 carry 900/s; the guard largest_step made it 17: at most 1 at a time'
        """
        if not self.notes:
            return self.reason.text
        target, last = self.recommendation.target, self.notes[-1].reason.text
        wanted = "the policy had no opinion" if target is None else f"the policy wanted {target}"
        parts = [f"{wanted}: {self.recommendation.reason.text}"]
        parts += [f"the guard {note.step} made it {note.after}: {note.reason.text}" for note in self.notes]
        return "; ".join(parts) + self.reason.text.removeprefix(last)


class OutcomeStatus(StrEnum):
    """How the execution of a decision ended."""

    APPLIED = "applied"
    PARTIAL = "partial"
    NO_ROOM = "no_room"
    HELD = "held"
    FAILED = "failed"
    RECORDED = "recorded"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a decision.

    Attributes:
        at: when it ended.
        before, after: executors registered.
        method: ``"request"``, ``"gap"``, ``"idle"``, ``"forced"``, ``"restart"``, ``"dry-run"``, ``"none"``.
        redone_tasks: tasks that had to run again because of it.
        waited_s: how long a safe moment was waited for.
        took_s: from the decision until it was confirmed.
    """

    at: float
    decision_id: int
    status: OutcomeStatus
    reason: Reason
    target: int
    before: int | None = None
    after: int | None = None
    method: str = "none"
    redone_tasks: int | None = None
    waited_s: float | None = None
    took_s: float | None = None
