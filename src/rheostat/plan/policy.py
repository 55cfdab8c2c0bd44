"""What a policy is: it looks at one assessment and its own state, and proposes a number of executors.

Policies are pure: no I/O, no clock, no random numbers. They need not know about bounds, cooldowns, largest steps or
stale metrics: the guard pipeline (:mod:`rheostat.plan.guard`) shapes what they propose, for all alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

from pydantic import BaseModel

from rheostat.model import Assessment, Objective, Recommendation
from rheostat.ports import Archive

__all__ = ["Policy", "PolicyContext", "PolicyFactory", "in_force"]

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class PolicyContext:
    """What a policy is built for, beside its options.

    Attributes:
        objective: what is to hold.
        sample_s: seconds between two assessments.
        preset: the set of defaults asked for by the settings or their profile. A policy without a preset of that name
            takes its own defaults; the option ``preset`` goes before it.
        archive: where samples go that are too many for the state; None: nowhere.
        rate_window_s: time that arrival rates are means of, up to the sample.
    """

    objective: Objective
    sample_s: float
    preset: str = "default"
    archive: Archive | None = None
    rate_window_s: float = 60.0


class Policy(Protocol[S]):
    """Proposes a number of executors.

    Attributes:
        name: as in its entry point.
        brings: names of guard steps that it does better itself and that are skipped for it; only steps marked
            ``may_be_brought``.
        state_type: a frozen dataclass that pydantic's ``TypeAdapter`` turns into JSON and back; never NaN or infinite.

    A policy may also have an attribute ``placing`` (:class:`~rheostat.plan.placement.Placing`): how nodes are taken
    where they are known. Without it the nearest are. And a method ``unready(state)``: what it does not do yet and what
    it still needs for that, in words; None: it works as it is meant to.
    """

    name: ClassVar[str]
    brings: ClassVar[frozenset[str]]
    state_type: type[S]

    def initial(self) -> S:
        """The state before anything was seen."""
        ...

    def recommend(self, seen: Assessment, state: S) -> tuple[Recommendation, S]:
        """Propose.

        ``seen.requested`` is the number in force: the one that was last asked for. ``seen.executors`` is the number
        registered. With ``seen.missing`` or ``seen.invalid`` the sample does not count: no opinion (None), and what
        counts samples in a row starts again. ``seen.missing`` also names reasons for which a sample must not count
        (``"fresh metrics"``, ``"settled job"``).
        """
        ...

    def capacity(self, executors: int, state: S) -> float | None:
        """Records/s that so many executors carry; None without a model."""
        ...


class PolicyFactory(Protocol):
    """What an entry point names, usually the class of the policy.

    Attributes:
        options_type: a frozen pydantic model with ``extra="forbid"``, each field with a description.
        presets: name → values of options that are its defaults; ``"default"`` need not be there.
    """

    options_type: ClassVar[type[BaseModel]]
    presets: ClassVar[Mapping[str, Mapping[str, object]]]

    def __call__(self, options: Any, context: PolicyContext) -> Policy[Any]:
        """Build the policy. ``options`` is an ``options_type``."""
        ...


def in_force(seen: Assessment) -> int | None:
    """The number of executors that decisions start from: the one asked for last, else the registered ones.

    >>> in_force(Assessment(at=0.0, executors=3, requested=5)), in_force(Assessment(at=0.0, executors=3))
    (5, 3)
    """
    return seen.executors if seen.requested is None else seen.requested
