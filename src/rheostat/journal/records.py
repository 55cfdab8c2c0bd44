"""The records of a journal, as their readers see them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import groupby
from typing import Any

from rheostat.model import (
    Action,
    Assessment,
    Decision,
    GuardNote,
    Nodes,
    Observation,
    Outcome,
    OutcomeStatus,
    Placement,
    Projection,
    QueryLoad,
    Reason,
    ReasonCode,
    Recommendation,
    StageLoad,
)

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


# Assessments, decisions and outcomes as short JSON, and back.


_ASSESSMENT = tuple((field.name, field.default) for field in fields(Assessment) if field.name not in {"at", "nodes"})
_MOST = 1_000_000
"""Executors, partitions or nodes that a line of a journal can stand for."""

_TUPLES = frozenset({"missing", "invalid", "slow", "slow_executors", "slow_on", "slow_nodes"})


def assessment_to_json(assessment: Assessment, at: float) -> dict[str, Any]:
    """Every figure that differs from its default; ``at`` only where it differs from the record's.

    Nodes are left out: they stand in the observation.
    """
    out: dict[str, Any] = {} if assessment.at == at else {"at": assessment.at}
    for name, default in _ASSESSMENT:
        value = getattr(assessment, name)
        if value != default:
            out[name] = _short(value)
    if assessment.by_query:
        out["by_query"] = [[_short(value) for value in load] for load in assessment.by_query]
    if assessment.stages:
        out["stages"] = [[_short(value) for value in stage] for stage in assessment.stages]
    if assessment.idle_s:
        out["idle_s"] = [[value, len(list(same))] for value, same in groupby(assessment.idle_s)]
    return out


def assessment_from_json(data: Mapping[str, Any], at: float, nodes: Nodes | None = None) -> Assessment:
    """The inverse of :func:`assessment_to_json`; ``nodes`` are those of the observation."""
    values: dict[str, Any] = {name: tuple(value) if name in _TUPLES else value for name, value in data.items()}
    values.setdefault("at", at)
    if "arrival_rates" in values:
        values["arrival_rates"] = tuple((topic, rate) for topic, rate in values["arrival_rates"])
    if "by_query" in values:
        values["by_query"] = tuple(QueryLoad(*load) for load in values["by_query"])
    if "stages" in values:
        values["stages"] = tuple(StageLoad(*stage) for stage in values["stages"])
    if "idle_s" in values:
        values["idle_s"] = _unrolled(values["idle_s"])
    return Assessment(**values, nodes=nodes)


def decision_to_json(decision: Decision) -> dict[str, Any]:
    """A decision; ``reason`` is left out where it is the policy's, and a number where it is that of a guard note."""
    proposed = decision.recommendation
    out: dict[str, Any] = {
        "id": decision.decision_id,
        "action": decision.action.value,
        "current": decision.current,
        "target": decision.target,
        "proposed": proposed.target,
        "policy": _reason(proposed.reason),
    }
    if decision.notes:
        out["notes"] = [[note.step, note.before, note.after, _reason(note.reason)] for note in decision.notes]
    if decision.reason != proposed.reason:
        out["reason"] = (
            _place(decision)
            if any(note.reason == decision.reason for note in decision.notes)
            else _reason(decision.reason)
        )
    if decision.projections:
        out["projections"] = [[p.executors, _short(p.capacity), _short(p.utilization)] for p in decision.projections]
    if decision.first:
        out["first"] = decision.first
    if decision.placement is not None:
        placed = decision.placement
        out["placement"] = [_runs(placed.use), _runs(placed.add), _runs(placed.leave)]
        out["placement"] += [_runs(placed.slow)] if placed.slow else []
    return out


def decision_from_json(data: Mapping[str, Any], at: float) -> Decision:
    """The inverse of :func:`decision_to_json`."""
    recommendation = Recommendation(data["proposed"], _reason_from(data["policy"]))
    notes = tuple(
        GuardNote(step, before, after, _reason_from(why)) for step, before, after, why in data.get("notes", ())
    )
    why = data.get("reason")
    reason = recommendation.reason if why is None else notes[why].reason if isinstance(why, int) else _reason_from(why)
    return Decision(
        at=at,
        decision_id=data["id"],
        action=Action(data["action"]),
        current=data["current"],
        target=data["target"],
        reason=reason,
        recommendation=recommendation,
        notes=notes,
        projections=tuple(Projection(*values) for values in data.get("projections", ())),
        placement=_placement_from(data["placement"]) if "placement" in data else None,
        first=tuple(data.get("first", ())),
    )


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    """An outcome, without its time."""
    return {
        "id": outcome.decision_id,
        "status": outcome.status.value,
        "reason": _reason(outcome.reason),
        "target": outcome.target,
        "before": outcome.before,
        "after": outcome.after,
        "method": outcome.method,
        "redone_tasks": outcome.redone_tasks,
        "waited_s": _finite(outcome.waited_s),
        "took_s": _finite(outcome.took_s),
    }


def outcome_from_json(data: Mapping[str, Any], at: float) -> Outcome:
    """The inverse of :func:`outcome_to_json`."""
    return Outcome(
        at=at,
        decision_id=data["id"],
        status=OutcomeStatus(data["status"]),
        reason=_reason_from(data["reason"]),
        target=data["target"],
        before=data["before"],
        after=data["after"],
        method=data["method"],
        redone_tasks=data["redone_tasks"],
        waited_s=data["waited_s"],
        took_s=data["took_s"],
    )


def _runs(names: tuple[str, ...]) -> list[Any]:
    """Names, each with how many of it follow one another: ``[name, count]`` where it is more than one."""
    runs = [(name, len(list(same))) for name, same in groupby(names)]
    return [name if several == 1 else [name, several] for name, several in runs]


def _placement_from(data: list[list[Any]]) -> Placement:
    runs = [[(run, 1) if isinstance(run, str) else (run[0], run[1]) for run in names] for names in data]
    return Placement(*map(_unrolled, runs))


def _unrolled(runs: Sequence[tuple[Any, Any]]) -> tuple[Any, ...]:
    """Each value as often as it followed itself."""
    counted(sum(counted(times) for _, times in runs))
    return tuple([value for value, times in runs for _ in range(times)])


def counted(number: Any) -> int:
    """A number of executors, partitions or the like as a journal says it.

    Raises:
        ValueError: it is none; or so large that no job has so many, and to write them out would take all memory.
    """
    if type(number) is not int or not 0 <= number <= _MOST:
        message = f"a count is no integer from 0 to {_MOST}: {number!r}"
        raise ValueError(message)
    return number


def _place(decision: Decision) -> int:
    return next(place for place, note in enumerate(decision.notes) if note.reason == decision.reason)


def _reason(reason: Reason) -> list[Any]:
    figures = {name: _short(value) for name, value in reason.figures.items()}
    return [reason.code.value, reason.text, figures] if figures else [reason.code.value, reason.text]


def _reason_from(data: list[Any]) -> Reason:
    return Reason(ReasonCode(data[0]), data[1], data[2] if len(data) > 2 else {})


def _finite(value: float | None) -> float | None:
    return value if value is None or math.isfinite(value) else None


def _short(value: Any) -> Any:
    if type(value) is not float:
        return value
    if not math.isfinite(value):
        return None
    return round(value, 3) if abs(value) >= 1000 else float(f"{value:.6g}")
