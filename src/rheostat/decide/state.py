"""All that is remembered between two cycles, as JSON, and what proposers and guard steps are given and answer.

A proposer (:data:`rheostat.decide.decide.PROPOSERS`) is a pure function of the :class:`Context` that may start a
change. A step (:data:`rheostat.decide.guard.STEPS`) is a pure function of the target so far and the context that may
stop or lessen it. Both return None where they have nothing to say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Generic, NamedTuple, TypeVar

from rheostat.analyze.state import AnalysisState
from rheostat.config.models import GuardSettings
from rheostat.decide.effectiveness import Cold, Cost, Trial, Useless
from rheostat.decide.placement import Placing
from rheostat.model import Assessment, Bounds, Placement, Reason, ReasonCode, Recommendation


@dataclass(frozen=True, slots=True)
class Pending:
    """A decision whose outcome is not known yet.

    Attributes:
        rate: records/s that the number before processed, where it was at its limit; else None.
    """

    decision_id: int
    at: float
    before: int
    target: int
    rate: float | None = None


class PastRecommendation(NamedTuple):
    """A number that the policy recommended, and when."""

    at: float
    target: int


class Replacing(NamedTuple):
    """An executor in whose place one more was asked for, and the number before that."""

    executor: str
    before: int


@dataclass(frozen=True, slots=True)
class GuardState:
    """What the steps remember.

    Attributes:
        started_at: first decision.
        changed_at: the last change of the number of executors by us.
        changed_to: the number after it; None: there was none, or it was not executed.
        down_blocked_at: the last change, or failed attempt to go down; the cooldown of decreases counts from here.
        no_room_until: no increases before; None: none was refused since the last one granted.
        backoff_s: length of that back-off.
        pending: the change that is being executed.
        raised_at: the last increase.
        failover_at: when the switch ``failover`` was last seen on.
        proposed: what was proposed within ``scale_down_hold_s``, each less than the one before; at most 32.
        trial: an increase whose effect is being looked at.
        useless: an increase that brought nothing.
        cost_up, cost_down: what a change has cost so far.
        cold: a change whose first batches are being looked at.
        replacing: a slow executor that is to go.
    """

    started_at: float | None = None
    changed_at: float | None = None
    down_blocked_at: float | None = None
    no_room_until: float | None = None
    backoff_s: float | None = None
    pending: Pending | None = None
    raised_at: float | None = None
    failover_at: float | None = None
    proposed: tuple[PastRecommendation, ...] = ()
    trial: Trial | None = None
    useless: Useless | None = None
    cost_up: Cost | None = None
    cost_down: Cost | None = None
    cold: Cold | None = None
    replacing: Replacing | None = None
    changed_to: int | None = None

    def outdates(self, assessment: Assessment) -> bool:
        """Whether the figures are of before the last change, as those that come with a delay are for a while."""
        age_s, changed_at = assessment.metrics_age_s, self.changed_at
        return age_s is not None and changed_at is not None and assessment.at - age_s < changed_at


@dataclass(frozen=True, slots=True)
class RequestState:
    """What was asked for, and whether it came.

    Attributes:
        opened: whether the number to start from has been settled.
        restored: the target of the run before a crash or restart.
        paused: decisions are recorded, not executed.
        target: the number that was asked for last.
        reached: the number asked for when it was last there.
        missing_since: since when executors have been fewer than that.
        replaced_at: when lost executors were last asked for again.
    """

    opened: bool = False
    restored: int | None = None
    paused: bool = False
    target: int | None = None
    reached: int | None = None
    missing_since: float | None = None
    replaced_at: float | None = None


S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class State(Generic[S]):
    """What the loop remembers from one cycle to the next.

    Attributes:
        policy: the policy's own state.
        next_id: number of the next decision.
    """

    policy: S
    guard: GuardState = field(default_factory=GuardState)
    next_id: int = 1
    requests: RequestState = field(default_factory=RequestState)
    analysis: AnalysisState = field(default_factory=AnalysisState)

    def restarted(self) -> State[S]:
        """For a new run: nothing is being executed, and the last target may have to be asked for again."""
        target = self.requests.target
        guard = replace(self.guard, pending=None)
        return replace(self, guard=guard, requests=RequestState(restored=target, target=target))

    def numbered_from(self, number: int) -> State[S]:
        """The next decision has this number, or a greater one."""
        return replace(self, next_id=max(number, self.next_id))


@dataclass(frozen=True, slots=True)
class Context:
    """What proposers and steps may look at.

    Attributes:
        current: the number in force; of a proposal that starts from another number, that one.
        recommendation: of the policy; None: it has not been asked yet.
        sample_s: time between two assessments.
        objective_s: lag that is to hold; None: unknown.
        capacity: records/s that so many executors carry, by the policy's model; it returns None without one.
        fewer_do: whether the policy says that fewer are enough and waits before it proposes them.
        gate: why no change may start on this sample, and it must not count; None: it counts.
        active: whether decisions go to the actuator.
        proposed: the target of the proposal that the steps shape.
        avoids_slow_nodes: whether this proposal never takes a slow node.
        asks_again: whether this proposal asks for a number even where it stays.
        placing, seed: how nodes are taken.
    """

    assessment: Assessment
    current: int
    recommendation: Recommendation | None
    bounds: Bounds
    settings: GuardSettings
    sample_s: float
    state: GuardState
    objective_s: float | None = None
    capacity: Callable[[int], float | None] | None = None
    fewer_do: bool = False
    requests: RequestState = field(default_factory=RequestState)
    gate: Reason | None = None
    active: bool = False
    proposed: int | None = None
    avoids_slow_nodes: bool = False
    asks_again: bool = False
    placing: Placing = Placing.NEAREST
    seed: int = 0

    @property
    def recommended(self) -> int:
        """The policy's number; the one in force where it has no opinion."""
        target = None if self.recommendation is None else self.recommendation.target
        return self.current if target is None else target


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change that a proposer wants.

    Attributes:
        current: the number that the change starts from; None: the number in force.
    """

    target: int
    reason: Reason
    current: int | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """What a step wants instead, and why.

    Attributes:
        reason: None: the reason so far stands.
        remark: added to the text of that reason.
        current: the number that the change then starts from; None: as before.
        placement: where executors come and go; None: unknown.
    """

    target: int
    reason: Reason | None
    remark: str = ""
    current: int | None = None
    placement: Placement | None = None


def move(current: int, target: int) -> str:
    """The change in words.

    >>> move(3, 5), move(3, 3)
    ('3 → 5', '3 stays')
    """
    return f"{current} stays" if current == target else f"{current} → {target}"


def stay(context: Context, code: ReasonCode, text: str, **figures: float | None) -> Change:
    """Hold the number in force."""
    return Change(context.current, Reason(code, f"{text}: {context.current} stays", figures))
