"""The records of a journal, and assessments, decisions and outcomes as short JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import groupby
from typing import Any

from rheostat.model import (
    Action,
    Assessment,
    Decision,
    EdgeCount,
    EdgeLoad,
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
    SheddingPlan,
    SinkAccuracy,
    StageLoad,
    Threshold,
    Unmeasured,
)

SCHEMA = "rheostat.journal/1"
_MAX_COUNT = 1_000_000
"""Executors, partitions or nodes that one number in a journal may stand for."""

_ELSEWHERE = frozenset(["at", "nodes", "ended", "bounds", "answer", "processors"])
_DEFAULTS = tuple((field.name, field.default) for field in fields(Assessment) if field.name not in _ELSEWHERE)
_OUTCOME_COUNTS = ("target", "before", "after", "method", "redone_tasks")
_OUTCOME_SECONDS = ("waited_s", "took_s")
_TUPLES = frozenset(name for name, default in _DEFAULTS if default == ())


@dataclass(frozen=True, slots=True)
class Header:
    """The run that writes a journal.

    Attributes:
        version: of Rheostat.
        settings: everything that decisions depend on, as JSON; a replay is built from it.
        seed: of the run's random draws, if there are any.
        job: name of the application.
    """

    version: str
    settings: Mapping[str, Any]
    seed: int | None = None
    job: str | None = None


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """The start of a file, of a run, or of other settings. A replay can begin here.

    Attributes:
        states: state of analysis, decision and loop *before* the next record.
        note: for people, such as a repaired file or a state that could not be restored.
    """

    at: float
    header: Header
    states: Mapping[str, Any]
    note: str | None = None


class DecisionRecord:
    """One cycle: observation, assessment and decision, each decoded on first use.

    Assessment and observation are None if the cycle failed before. The observation is exact; an assessment's figures
    have six digits. ``decision_id`` is unique within a journal, ascending.
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
        return cls(decision.at, decision.decision_id, lambda: decision, lambda: assessment, lambda: observation)

    @cached_property
    def decision(self) -> Decision:
        return self._decode_decision()

    @cached_property
    def assessment(self) -> Assessment | None:
        return self._decode_assessment()

    @cached_property
    def observation(self) -> Observation | None:
        return self._decode_observation()

    def __repr__(self) -> str:
        return f"DecisionRecord(at={self.at}, decision_id={self.decision_id})"


@dataclass(frozen=True, slots=True)
class OutcomeRecord:
    """The outcome of the decision with the id ``outcome.decision_id``."""

    at: float
    outcome: Outcome


Record = SessionRecord | DecisionRecord | OutcomeRecord


def assessment_to_json(assessment: Assessment, at: float) -> dict[str, Any]:
    """The figures that differ from their defaults, without what other records have: nodes, batches, outcomes."""
    out: dict[str, Any] = {} if assessment.at == at else {"at": assessment.at}
    for name, default in _DEFAULTS:
        value = getattr(assessment, name)
        if value != default:
            out[name] = _round(value)
    for name in ("by_query", "stages", "edge_loads"):
        if name in out:
            out[name] = [[_round(value) for value in row] for row in out[name]]
    if assessment.idle_s:
        out["idle_s"] = _runs(assessment.idle_s)
    return out


def assessment_from_json(data: Mapping[str, Any], at: float, nodes: Nodes | None = None) -> Assessment:
    """The inverse of :func:`assessment_to_json`; ``nodes`` are those of the observation."""
    values: dict[str, Any] = {name: tuple(value) if name in _TUPLES else value for name, value in data.items()}
    values.setdefault("at", at)
    if "arrival_rates" in values:
        values["arrival_rates"] = tuple((topic, rate) for topic, rate in values["arrival_rates"])
    if "by_query" in values:
        values["by_query"] = tuple(QueryLoad(*load) for load in values["by_query"])
    if "unmeasured" in values:
        rows = values["unmeasured"]
        values["unmeasured"] = tuple(
            Unmeasured(query, since, tuple(lacks), *others) for query, since, lacks, *others in rows
        )
    if "stages" in values:
        values["stages"] = tuple(StageLoad(*stage) for stage in values["stages"])
    if "edge_loads" in values:
        rows = values["edge_loads"]
        values["edge_loads"] = tuple(
            [EdgeLoad(query, edges_from_json(edges), *figures) for query, edges, *figures in rows]
        )
    if "idle_s" in values:
        values["idle_s"] = _expand_runs(values["idle_s"])
    return Assessment(**values, nodes=nodes)


def decision_to_json(decision: Decision) -> dict[str, Any]:
    """A decision. ``reason`` is left out if it is the policy's, and a number if it is that of a guard note."""
    proposed, placement = decision.recommendation, decision.placement
    out: dict[str, Any] = {
        "id": decision.decision_id,
        "action": decision.action.value,
        "current": decision.current,
        "target": decision.target,
        "proposed": proposed.target,
        "policy": _reason_to_json(proposed.reason),
    }
    if decision.notes:
        out["notes"] = [[note.step, note.before, note.after, _reason_to_json(note.reason)] for note in decision.notes]
    if decision.reason != proposed.reason:
        reasons = [note.reason for note in decision.notes]
        known = decision.reason in reasons
        out["reason"] = reasons.index(decision.reason) if known else _reason_to_json(decision.reason)
    if decision.projections:
        out["projections"] = [[p.executors, _round(p.capacity), _round(p.utilization)] for p in decision.projections]
    if decision.first:
        out["first"] = decision.first
    if decision.shedding is not None:
        out["shedding"] = _shedding_to_json(decision.shedding)
    if placement is not None:
        columns = [placement.use, placement.add, placement.leave, *([placement.slow] if placement.slow else [])]
        out["placement"] = [
            [name if count == 1 else [name, count] for name, count in _runs(column)] for column in columns
        ]
    return out


def decision_from_json(data: Mapping[str, Any], at: float) -> Decision:
    """The inverse of :func:`decision_to_json`."""
    proposed = Recommendation(target=data["proposed"], reason=_reason_from_json(data["policy"]))
    notes = tuple(
        GuardNote(step=step, before=before, after=after, reason=_reason_from_json(reason))
        for step, before, after, reason in data.get("notes", ())
    )
    reason = data.get("reason")
    if reason is None:
        reason = proposed.reason
    else:
        reason = notes[reason].reason if isinstance(reason, int) else _reason_from_json(reason)
    return Decision(
        at=at,
        decision_id=data["id"],
        action=Action(data["action"]),
        current=data["current"],
        target=data["target"],
        reason=reason,
        recommendation=proposed,
        notes=notes,
        projections=tuple(Projection(*values) for values in data.get("projections", ())),
        placement=_placement_from_json(data["placement"]) if "placement" in data else None,
        first=tuple(data.get("first", ())),
        shedding=_shedding_from_json(data["shedding"]) if "shedding" in data else None,
    )


def edges_from_json(rows: Iterable[Any]) -> tuple[EdgeCount, ...]:
    """The counts of edges, each as a list; quantiles come last."""
    return tuple([EdgeCount(*counts)._replace(values=tuple(values)) for *counts, values in rows])


def _shedding_to_json(plan: SheddingPlan) -> list[Any]:
    sinks = []
    for each in plan.sinks:
        reached = [] if each.reached is None else [_round(each.reached)]
        sinks.append([each.sink, _round(each.minimum), _round(each.wanted), _round(each.measured), *reached])
    above = {edge: list(threshold) for edge, threshold in plan.above.items()}
    return [sinks, dict(plan.keep), _reason_to_json(plan.reason), *([above] if above else [])]


def _shedding_from_json(data: list[Any]) -> SheddingPlan:
    sinks, keep, reason, *rest = data
    above = {edge: Threshold(*threshold) for found in rest for edge, threshold in found.items()}
    return SheddingPlan(tuple([SinkAccuracy(*sink) for sink in sinks]), keep, _reason_from_json(reason), above)


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    """An outcome, without its time."""
    return {
        "id": outcome.decision_id,
        "status": outcome.status.value,
        "reason": _reason_to_json(outcome.reason),
        **{name: getattr(outcome, name) for name in _OUTCOME_COUNTS},
        **{name: _finite(getattr(outcome, name)) for name in _OUTCOME_SECONDS},
    }


def outcome_from_json(data: Mapping[str, Any], at: float) -> Outcome:
    """The inverse of :func:`outcome_to_json`."""
    return Outcome(
        at=at,
        decision_id=data["id"],
        status=OutcomeStatus(data["status"]),
        reason=_reason_from_json(data["reason"]),
        **{name: data[name] for name in (*_OUTCOME_COUNTS, *_OUTCOME_SECONDS)},
    )


def counted(number: Any) -> int:
    """Return a count; raise ValueError if it is none, or so large that expanding it would take all memory."""
    if type(number) is not int or not 0 <= number <= _MAX_COUNT:
        message = f"a count is no integer from 0 to {_MAX_COUNT}: {number!r}"
        raise ValueError(message)
    return number


def _placement_from_json(data: list[list[Any]]) -> Placement:
    columns = [_expand_runs((run, 1) if isinstance(run, str) else run[:2] for run in runs) for runs in data]
    return Placement(**dict(zip(("use", "add", "leave", "slow"), columns, strict=False)))


def _runs(values: Iterable[Any]) -> list[list[Any]]:
    return [[value, len(list(same))] for value, same in groupby(values)]


def _expand_runs(runs: Iterable[Any]) -> tuple[Any, ...]:
    pairs = [(value, counted(times)) for value, times in runs]
    counted(sum(times for _, times in pairs))
    return tuple([value for value, times in pairs for _ in range(times)])


def _reason_to_json(reason: Reason) -> list[Any]:
    figures = {name: _round(value) for name, value in reason.figures.items()}
    return [reason.code.value, reason.text, *([figures] if figures else [])]


def _reason_from_json(data: list[Any]) -> Reason:
    return Reason(code=ReasonCode(data[0]), text=data[1], figures=data[2] if len(data) > 2 else {})


def _finite(value: float | None) -> float | None:
    return value if value is None or math.isfinite(value) else None


def _round(value: Any) -> Any:
    """A float to six digits, to a thousandth from 1000 on; None if it is not finite."""
    if type(value) is not float:
        return value
    if not math.isfinite(value):
        return None
    return round(value, 3) if abs(value) >= 1000 else float(f"{value:.6g}")
