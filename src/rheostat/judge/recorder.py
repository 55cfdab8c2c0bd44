"""What a simulated run remembers of its decisions, in bounded memory: those that act, and why the others held."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rheostat.journal import DecisionRecord, Header, OutcomeRecord, States
from rheostat.model import Decision, OutcomeStatus, Placement

__all__ = ["Act", "Held", "Recorder"]


@dataclass(frozen=True, slots=True)
class Act:
    """A decision that acted.

    Attributes:
        before, after: executors in force before, and asked for.
        text: what the policy wanted and why, and what the guards made of it.
        outcome: how its execution ended; None: it had not ended, or was superseded.
        placement: where executors were to come and go; None: the job has no nodes.
    """

    at: float
    before: int | None
    after: int
    code: str
    text: str
    outcome: OutcomeStatus | None = None
    placement: Placement | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """Decisions that changed nothing, of one reason code: how many, when the last one was, and its words."""

    count: int
    at: float
    text: str


class Recorder:
    """A journal for simulated runs. It keeps no observation: the simulated job knows its own history exactly.

    Attributes:
        acts: the first ``keep`` decisions that acted, in order.
        dropped: how many acting decisions came after those.
        last_id: it begins empty.
    """

    def __init__(self, keep: int = 20_000) -> None:
        self.acts: list[Act] = []
        self.dropped = 0
        self.last_id = 0
        self._keep = keep
        self._places: dict[int, int] = {}
        self._held: dict[str, tuple[int, Decision]] = {}

    @property
    def holds(self) -> dict[str, Held]:
        """The decisions that held, by reason code."""
        return {code: Held(count, last.at, last.why) for code, (count, last) in self._held.items()}

    def start(self, header: Header, note: str | None = None) -> None:
        """A session of a simulated run is the run itself."""

    def record(self, record: DecisionRecord | OutcomeRecord, states: States) -> None:  # noqa: ARG002
        """Keep what a reader will ask for."""
        if isinstance(record, OutcomeRecord):
            self._became(record.outcome.decision_id, record.outcome.status)
            return
        decision = record.decision
        code = decision.reason.code
        if not decision.acts:
            count = self._held[code][0] if code in self._held else 0
            self._held[code] = (count + 1, decision)
        elif len(self.acts) < self._keep and decision.target is not None:
            self._places[decision.decision_id] = len(self.acts)
            act = Act(
                at=record.at,
                before=decision.current,
                after=decision.target,
                code=code.value,
                text=decision.why,
                placement=decision.placement,
            )
            self.acts.append(act)
        else:
            self.dropped += 1

    def close(self) -> None:
        """Nothing is to be given free."""

    def _became(self, number: int, status: OutcomeStatus) -> None:
        place = self._places.pop(number, None)
        if place is not None:
            self.acts[place] = replace(self.acts[place], outcome=status)
