"""What a loop remembers from one cycle to the next: values that go through JSON and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from rheostat.analyze import AnalysisState
from rheostat.errors import JournalError
from rheostat.plan import Planner, PlanState

__all__ = ["Memory", "OwnState"]


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
