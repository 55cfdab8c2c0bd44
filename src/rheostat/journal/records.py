"""The records of a journal, as their readers see them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rheostat.model import Assessment, Decision, Observation, Outcome

__all__ = ["SCHEMA", "DecisionRecord", "Header", "OutcomeRecord", "Record", "SessionRecord"]

SCHEMA = "rheostat.journal/1"


@dataclass(frozen=True, slots=True)
class Header:
    """What a journal says of the run that writes it.

    Attributes:
        version: of Rheostat.
        settings: everything that decisions depend on, as JSON; a replay is built from it.
        seed: of what is random in the run; None: nothing is.
        job: name of the application, for people.
    """

    version: str
    settings: Mapping[str, Any]
    seed: int | None = None
    job: str | None = None


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """The start of a file, of a run, or of other settings: a replay can begin here.

    Attributes:
        states: state of analysis, plan and loop *before* the record that follows.
        note: what people should know of it (a repaired file, a state that could not be restored).
    """

    at: float
    header: Header
    states: Mapping[str, Any]
    note: str | None = None


class DecisionRecord:
    """One cycle: what was seen, what it meant, what was decided. Its parts are decoded when first asked for.

    Attributes:
        at: when it was decided.
        decision_id: unique within a journal, ascending.
    """

    def __init__(
        self,
        at: float,
        decision_id: int,
        decode_decision: Callable[[], Decision],
        decode_assessment: Callable[[], Assessment | None],
        decode_observation: Callable[[], Observation | None],
    ) -> None:
        self.at = at
        self.decision_id = decision_id
        self._decode_decision = decode_decision
        self._decode_assessment = decode_assessment
        self._decode_observation = decode_observation

    @classmethod
    def of(cls, observation: Observation | None, assessment: Assessment | None, decision: Decision) -> DecisionRecord:
        """A record made of values that are there already."""
        return cls(decision.at, decision.decision_id, lambda: decision, lambda: assessment, lambda: observation)

    @cached_property
    def decision(self) -> Decision:
        """What was decided."""
        return self._decode_decision()

    @cached_property
    def assessment(self) -> Assessment | None:
        """What the observation meant; figures to six digits. None where the cycle failed before."""
        return self._decode_assessment()

    @cached_property
    def observation(self) -> Observation | None:
        """What was seen, exactly. None where the cycle failed before."""
        return self._decode_observation()

    def __repr__(self) -> str:
        return f"DecisionRecord(at={self.at}, decision_id={self.decision_id})"


@dataclass(frozen=True, slots=True)
class OutcomeRecord:
    """What became of a decision; refers to it by ``outcome.decision_id``."""

    at: float
    outcome: Outcome


Record = SessionRecord | DecisionRecord | OutcomeRecord
