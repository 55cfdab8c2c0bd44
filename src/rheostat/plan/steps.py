"""What the guard steps look at, what they remember and what they answer.

A step is a pure function of the target so far and a :class:`Context`. It returns None where it has nothing to say, or a
:class:`Change`: the target that it wants instead, and why. The steps stand in the modules ``steps_metrics``,
``steps_change``, ``steps_size`` and ``steps_time``; their order and their settings in :mod:`rheostat.plan.guard`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from rheostat.config import GuardSettings
from rheostat.model import Assessment, Bounds, Code, Reason
from rheostat.plan.ineffective import Trial, Useless
from rheostat.plan.rescale_cost import Cold, Cost

__all__ = ["Change", "Context", "GuardState", "Pending", "Proposal", "Replacing", "move", "stay", "undoing"]


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

    def outdates(self, seen: Assessment) -> bool:
        """Whether the figures are of before the last change, as those that come with a delay are for a while."""
        age_s, changed_at = seen.metrics_age_s, self.changed_at
        return age_s is not None and changed_at is not None and seen.at - age_s < changed_at


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

    seen: Assessment
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


def stay(context: Context, code: Code, text: str, **figures: float | None) -> Change:
    """Hold the number in force."""
    return Change(context.current, Reason(code, f"{text}: {context.current} stays", figures))


def undoing(target: int, context: Context) -> bool:
    """Whether this target takes an increase back that brought nothing."""
    useless = context.state.useless
    if useless is None or useless.undone:
        return False
    return context.current == useless.after and target == useless.before
