"""A journal as columns over time: what plots and tables draw."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rheostat.journal import DecisionRecord, OutcomeRecord, Record, SessionRecord
from rheostat.model import Decision, Outcome

__all__ = ["Change", "Series", "series"]


@dataclass(frozen=True, slots=True)
class Change:
    """A decision that acted, and what became of it; None: nothing was recorded of it."""

    decision: Decision
    outcome: Outcome | None


@dataclass(slots=True)
class Series:
    """One value a cycle in each column; None where it was not known.

    Attributes:
        at: seconds since ``start``.
        start: time of the first cycle, seconds of the epoch; 0 without a cycle.
        arrival, processed: records/s.
        backlog, excess: records.
        lag: seconds.
        registered, requested: executors.
        reasons: code and sentence of each decision, with what the policy wanted where a guard changed it.
        changes: decisions that acted.
    """

    start: float = 0.0
    at: list[float] = field(default_factory=list)
    arrival: list[float | None] = field(default_factory=list)
    processed: list[float | None] = field(default_factory=list)
    backlog: list[int | None] = field(default_factory=list)
    excess: list[float | None] = field(default_factory=list)
    lag: list[float | None] = field(default_factory=list)
    registered: list[int | None] = field(default_factory=list)
    requested: list[int | None] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)


def series(records: Iterable[Record]) -> Series:
    """Gather the columns; a cycle that saw nothing leaves None in them."""
    found = Series()
    outcomes: dict[int, Outcome] = {}
    acting: list[Decision] = []
    for record in records:
        match record:
            case SessionRecord():
                continue
            case OutcomeRecord():
                outcomes[record.outcome.decision_id] = record.outcome
            case DecisionRecord():
                _add(found, record)
                if record.decision.acts:
                    acting.append(record.decision)
    found.changes = [Change(decision, outcomes.get(decision.decision_id)) for decision in acting]
    return found


def _add(found: Series, record: DecisionRecord) -> None:
    meant, decided = record.assessment, record.decision
    if not found.at:
        found.start = record.at
    found.at.append(record.at - found.start)
    found.arrival.append(meant.arrival_rate if meant else None)
    found.processed.append(meant.processed_rate if meant else None)
    found.backlog.append(meant.backlog if meant else None)
    found.excess.append(meant.backlog_excess if meant else None)
    found.lag.append(meant.lag_s if meant else None)
    found.registered.append(meant.executors if meant else None)
    found.requested.append(decided.target if decided.target is not None else (meant.requested if meant else None))
    found.reasons.append(f"{decided.reason.code}: {decided.why}")
