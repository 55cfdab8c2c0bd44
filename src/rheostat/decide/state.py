"""What the guard steps look at, what they remember and what they answer.

A step is a pure function of the target so far and a :class:`Context`. It returns None where it has nothing to say, or a
:class:`Change`: the target that it wants instead, and why. The steps stand in the modules ``steps_metrics``,
``steps_change``, ``steps_size`` and ``steps_time``; their order and their settings in :mod:`rheostat.decide.guard`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError

from rheostat.analyze.state import AnalysisState
from rheostat.config.models import GuardSettings
from rheostat.decide.effectiveness import Cold, Cost, Trial, Useless
from rheostat.errors import JournalError
from rheostat.model import Assessment, Bounds, Reason, ReasonCode

if TYPE_CHECKING:
    from rheostat.decide.decide import Planner


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


class Proposal(NamedTuple):
    """A number that was proposed, and when."""

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
    proposed: tuple[Proposal, ...] = ()
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
class Context:
    """What the steps may look at.

    Attributes:
        current: the number in force.
        recommended: what the policy proposed.
        sample_s: time between two assessments.
        objective_s: lag that is to hold; None: unknown.
        capacity: records/s that so many executors carry, by the policy's model; it returns None without one.
        fewer_do: whether the policy says that fewer are enough and waits before it proposes them.
    """

    assessment: Assessment
    current: int
    recommended: int | None
    bounds: Bounds
    settings: GuardSettings
    sample_s: float
    state: GuardState
    objective_s: float | None = None
    capacity: Callable[[int], float | None] | None = None
    fewer_do: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """What a step wants instead, and why."""

    target: int
    reason: Reason


def move(current: int, target: int) -> str:
    """The change in words.

    >>> move(3, 5), move(3, 3)
    ('3 → 5', '3 stays')
    """
    return f"{current} stays" if current == target else f"{current} → {target}"


def stay(context: Context, code: ReasonCode, text: str, **figures: float | None) -> Change:
    """Hold the number in force."""
    return Change(context.current, Reason(code, f"{text}: {context.current} stays", figures))


def undoing(target: int, context: Context) -> bool:
    """Whether this target takes an increase back that brought nothing."""
    useless = context.state.useless
    if useless is None or useless.undone:
        return False
    return context.current == useless.after and target == useless.before


# One decision: ask the policy, shape its answer, say why; and what the outcome of a decision teaches.


S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class PlanState(Generic[S]):
    """What is remembered from one decision to the next. JSON by :attr:`Planner.state_adapter`.

    Attributes:
        policy: the policy's own state.
        guard: the guard pipeline's.
        next_id: number of the next decision.
    """

    policy: S
    guard: GuardState = field(default_factory=GuardState)
    next_id: int = 1


# What a loop remembers from one cycle to the next: values that go through JSON and back.


@dataclass(frozen=True, slots=True)
class OwnState:
    """What the loop's own decisions depend on.

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


_ANALYSIS = TypeAdapter(AnalysisState)
_OWN = TypeAdapter(OwnState)


@dataclass(frozen=True, slots=True)
class Memory:
    """The states of the stages."""

    analysis: AnalysisState
    plan: PlanState[Any]
    own: OwnState

    @classmethod
    def initial(cls, planner: Planner) -> Memory:
        """Nothing has been seen yet."""
        return cls(AnalysisState(), planner.initial(), OwnState())

    def to_json(self, planner: Planner) -> dict[str, Any]:
        """The states as JSON."""
        return {
            "analysis": _ANALYSIS.dump_python(self.analysis, mode="json"),
            "plan": planner.state_adapter.dump_python(self.plan, mode="json"),
            "own": _OWN.dump_python(self.own, mode="json"),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], planner: Planner) -> Memory:
        """The inverse of :meth:`to_json`.

        Raises:
            JournalError: it belongs to another version or another policy.
        """
        try:
            return cls(
                _ANALYSIS.validate_python(data["analysis"]),
                planner.state_adapter.validate_python(data["plan"]),
                _OWN.validate_python(data["own"]),
            )
        except (KeyError, ValidationError) as error:
            message = f"the state does not fit this version or the policy {planner.policy.name}: {error}"
            raise JournalError(message) from error

    def restarted(self) -> Memory:
        """For a new run: nobody is executing anything, and the last target may have to be asked for again."""
        guard = replace(self.plan.guard, pending=None)
        own = OwnState(restored=self.own.target, target=self.own.target)
        return Memory(self.analysis, replace(self.plan, guard=guard), own)

    def numbered_from(self, number: int) -> Memory:
        """The next decision has this number, or a greater one."""
        return replace(self, plan=replace(self.plan, next_id=max(number, self.plan.next_id)))
