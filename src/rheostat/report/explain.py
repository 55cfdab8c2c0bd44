"""A journal in words: why the number of executors is what it is, and how each decision ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import groupby, pairwise
from typing import Any

from rheostat.errors import Fault, InputError
from rheostat.journal.records import DecisionRecord, OutcomeRecord, Record, SessionRecord
from rheostat.model import (
    Assessment,
    Decision,
    Nodes,
    Objective,
    Outcome,
    OutcomeStatus,
    Reason,
    SheddingPlan,
    SinkAccuracy,
)
from rheostat.report.score import changes_asked, samples_of
from rheostat.report.times import clock, day_and_clock, duration
from rheostat.text import count, executors, names, per_second, percent, records, several

EXPLAIN_SCHEMA = "rheostat.explain/1"


@dataclass(frozen=True, slots=True)
class Cycle:
    """A cycle with the outcome of its decision, and the settings in force.

    Attributes:
        superseded_by: the decision that took over before this one had an outcome; None: none did.
    """

    record: DecisionRecord
    outcome: Outcome | None
    settings: Mapping[str, Any]
    superseded_by: int | None = None

    @property
    def decision(self) -> Decision:
        return self.record.decision

    @property
    def withheld(self) -> Outcome | None:
        """The outcome of a decision that would have changed something and was not executed."""
        if self.outcome is None or self.outcome.status not in {OutcomeStatus.HELD, OutcomeStatus.RECORDED}:
            return None
        return self.outcome if self.decision.acts else None

    @property
    def changes(self) -> bool:
        """Whether the decision was to be executed."""
        return self.decision.acts and self.withheld is None


class Story:
    """The cycles of a journal, each with its outcome and its settings.

    Attributes:
        changes_asked: how often the target changed, as in a score.
        start, end: times of the first and of the last decision.

    Raises:
        InputError: the journal holds no decision; from methods: it does not cover the time, or has no such decision.
    """

    def __init__(self, records: Iterable[Record], where: str) -> None:
        records = list(records)
        self.sessions = [record for record in records if isinstance(record, SessionRecord)]
        self.changes_asked = changes_asked(samples_of(records))
        outcomes = {each.outcome.decision_id: each.outcome for each in records if isinstance(each, OutcomeRecord)}
        cycles, settings = list[Cycle](), dict[str, Any]()
        for record in records:
            if isinstance(record, SessionRecord):
                settings = dict(record.header.settings)
            elif isinstance(record, DecisionRecord):
                cycles.append(Cycle(record, outcomes.get(record.decision_id), settings))
        if not cycles:
            raise InputError([Fault("journal", where, "a journal with decisions", "it holds no decision yet")])
        self.cycles = _mark_superseded(cycles)
        self.start, self.end = cycles[0].record.at, cycles[-1].record.at

    def at(self, time: float, field: str) -> Cycle:
        """The cycle that was in force at a time."""
        return self._require([cycle for cycle in self.cycles if cycle.record.at <= time], field, time)[-1]

    def since(self, time: float, field: str) -> list[Cycle]:
        """The cycles from a time on."""
        return self._require([cycle for cycle in self.cycles if cycle.record.at >= time], field, time)

    def decision(self, number: int) -> Cycle:
        """The last cycle with this number."""
        for cycle in reversed(self.cycles):
            if cycle.record.decision_id == number:
                return cycle
        first, last = self.cycles[0].record.decision_id, self.cycles[-1].record.decision_id
        raise InputError([Fault("--decision", str(number), f"{first} to {last}", "the journal has no such decision")])

    def gaps(self) -> Iterator[tuple[float, float]]:
        """Times without a record for more than three sample periods."""
        for before, after in pairwise(self.cycles):
            sample_s = before.settings.get("sample_s")
            if sample_s and after.record.at - before.record.at > 3 * sample_s:
                yield before.record.at, after.record.at

    def _require(self, cycles: list[Cycle], field: str, time: float) -> list[Cycle]:
        if not cycles:
            allowed = f"{day_and_clock(self.start)} to {day_and_clock(self.end)}"
            raise InputError([Fault(field, day_and_clock(time), allowed, "the journal does not cover that time")])
        return cycles


def _mark_superseded(cycles: list[Cycle]) -> list[Cycle]:
    """The cycles; one whose decision was to be executed and has no outcome names the decision that took over."""
    marked, after = list[Cycle](), None
    for cycle in reversed(cycles):
        open_end = cycle.changes and cycle.outcome is None
        marked.append(replace(cycle, superseded_by=after) if open_end else cycle)
        after = cycle.record.decision_id if cycle.changes else after
    return marked[::-1]


# One decision


def explain_decision(cycle: Cycle) -> dict[str, Any]:
    """One decision: the proposal, the guards, the decision and its outcome; ``lines``: in words."""
    decision, outcome = cycle.decision, cycle.outcome
    return {
        "schema": EXPLAIN_SCHEMA,
        "at": decision.at,
        "decision": decision.decision_id,
        "action": decision.action.value,
        "current": decision.current,
        "target": decision.target,
        "code": decision.reason.code.value,
        "reason": decision.reason.text,
        "proposed": {"target": decision.recommendation.target, **_reason(decision.recommendation.reason)},
        "guards": [
            {"step": note.step, "before": note.before, "after": note.after, **_reason(note.reason)}
            for note in decision.notes
        ],
        "placement": None if decision.placement is None else asdict(decision.placement),
        **({} if decision.shedding is None else {"shedding": _shedding(decision.shedding)}),
        "outcome": None if outcome is None else _outcome(outcome),
        "superseded_by": cycle.superseded_by,
        "lines": _decision_lines(cycle),
    }


def _decision_lines(cycle: Cycle) -> list[str]:
    decision = cycle.decision
    code = decision.reason.code.value
    change = f"hold at {_number(decision.target)} ({code})"
    if decision.acts:
        target = "an unknown number of executors" if decision.target is None else executors(decision.target)
        change = f"{_number(decision.current)} → {target} ({code})"
    head = f"{day_and_clock(decision.at)}, decision {decision.decision_id}: {change}"
    rows = (*_describe_assessment(cycle.record, cycle.settings), *_describe_decision(cycle))
    return [head, *(f"  {label:<9} {text}" for label, text in rows)]


def _describe_decision(cycle: Cycle) -> Iterator[tuple[str, str]]:
    """``(label, text)``: proposal, guards, placement, the capacity of other numbers where it is known, outcome."""
    decision, proposed, placed = cycle.decision, cycle.decision.recommendation, cycle.decision.placement
    yield "proposed", f"{'no opinion' if proposed.target is None else proposed.target}: {_why(proposed.reason)}"
    for note in decision.notes:
        yield "guard", f"{note.step}, {note.before} → {note.after}: {_why(note.reason)}"
    yield "decided", f"{_number(decision.target)}: {_why(decision.reason)}"
    if placed is not None:
        moved = [("added on ", placed.add), ("given up on ", placed.leave)]
        moves = "".join(f"{what}{names(nodes)}; " for what, nodes in moved if nodes)
        yield "placed", f"{moves}then on {names(placed.use)}"
    if decision.shedding is not None:
        yield "kept", _why(decision.shedding.reason)
        yield from (("accuracy", _describe_accuracy(sink)) for sink in decision.shedding.sinks)
    for projection in decision.projections:
        if projection.capacity is not None:
            used = "" if projection.utilization is None else f", {percent(projection.utilization)} used"
            yield "expected", f"{executors(projection.executors)}: {per_second(projection.capacity)}{used}"
    yield "outcome", _describe_outcome(cycle)


def _describe_accuracy(sink: SinkAccuracy) -> str:
    got = "not counted" if sink.measured is None else percent(sink.measured)
    own = "" if sink.reached is None else f", an accuracy of {percent(sink.reached)}"
    return f"{sink.sink}: {percent(sink.wanted)} wanted, {got} measured, {percent(sink.minimum)} promised{own}"


def _describe_outcome(cycle: Cycle) -> str:
    outcome = cycle.outcome
    if outcome is None:
        return _explain_missing(cycle.superseded_by) if cycle.decision.acts else "nothing was to be done"
    parts = [f"{outcome.status.value}: {_why(outcome.reason)}"]
    if outcome.took_s is not None:
        parts.append(f"after {duration(outcome.took_s)}")
    if outcome.redone_tasks:
        parts.append(f"{several(outcome.redone_tasks, 'task')} had to run again")
    return "; ".join(parts)


def _explain_missing(superseded_by: int | None) -> str:
    return "none: the journal ends" if superseded_by is None else f"superseded by decision {superseded_by}"


# A span of time


def explain_since(story: Story, cycles: list[Cycle]) -> dict[str, Any]:
    """All changes from a time on, and the holds between them."""
    spans, start, end = list(_spans(cycles)), cycles[0].record.at, cycles[-1].record.at
    return {
        "schema": EXPLAIN_SCHEMA,
        "from": start,
        "to": end,
        "spans": spans,
        "gaps": [list(gap) for gap in story.gaps() if gap[1] >= start],
        "lines": [f"{day_and_clock(start)} to {day_and_clock(end)}", *map(_span_line, spans)],
    }


def _spans(cycles: list[Cycle]) -> Iterator[dict[str, Any]]:
    """Changes one by one; holds, and decisions that were not executed, grouped where the reason is the same."""

    def key(cycle: Cycle) -> tuple[Any, ...]:
        decision, withheld = cycle.decision, cycle.withheld
        if cycle.changes:
            return (decision.decision_id,)
        return (decision.target, decision.reason.code, withheld and withheld.reason.code)

    for _, group in groupby(cycles, key):
        same = list(group)
        first, last = same[0].decision, same[-1].decision
        yield {
            "from": first.at,
            "to": last.at,
            "decisions": len(same),
            "action": last.action.value,
            "current": first.current,
            "target": last.target,
            "code": last.reason.code.value,
            "reason": last.why,
            "outcome": None if same[-1].outcome is None else _outcome(same[-1].outcome),
            "superseded_by": same[-1].superseded_by,
        }


def _span_line(span: Mapping[str, Any]) -> str:
    time = clock(span["from"]) if span["decisions"] == 1 else f"{clock(span['from'])}–{clock(span['to'])}"
    held = span["action"] == "hold"
    what = f"held at {_number(span['target'])}" if held else f"{_number(span['current'])} → {_number(span['target'])}"
    what += f" ({span['decisions']} times)" if span["decisions"] > 1 else ""
    status = span["outcome"]["status"] if span["outcome"] else None
    if status is None and not held:
        after = span["superseded_by"]
        status = "no outcome: the journal ends" if after is None else _explain_missing(after)
    became = "" if status is None else f" [{status}]"
    return f"  {time:<17}  {what}{became}: {span['code']}: {span['reason']}"


# The whole journal


def explain_summary(story: Story) -> dict[str, Any]:
    """The whole journal: its sessions, every change with its reason, the holds by reason, and the gaps."""
    changes = [explain_decision(cycle) for cycle in story.cycles if cycle.changes]
    withheld = Counter(cycle.withheld.reason.code.value for cycle in story.cycles if cycle.withheld)
    holds = Counter(cycle.decision.reason.code.value for cycle in story.cycles if not cycle.decision.acts)
    gaps = [list(gap) for gap in story.gaps()]
    return {
        "schema": EXPLAIN_SCHEMA,
        "from": story.start,
        "to": story.end,
        "decisions": len(story.cycles),
        "sessions": [
            {"at": session.at, "version": session.header.version, "note": session.note} for session in story.sessions
        ],
        "changes": [
            {key: value for key, value in change.items() if key not in ("schema", "lines")} for change in changes
        ],
        "reconfigurations": story.changes_asked,
        "withheld": dict(withheld.most_common()),
        "holds": dict(holds.most_common()),
        "gaps": gaps,
        "lines": list(_summary_lines(story, holds, gaps)),
    }


def _summary_lines(story: Story, holds: Counter[str], gaps: list[list[float]]) -> Iterator[str]:
    span = duration(story.end - story.start)
    many = several(len(story.cycles), "decision")
    yield f"{day_and_clock(story.start)} to {day_and_clock(story.end)} ({span}), {many}"
    yield from _session_lines(story.sessions)
    asked = [cycle for cycle in story.cycles if cycle.changes]
    withheld = [cycle for cycle in story.cycles if cycle.withheld]
    # as a score counts them; the first request is no change
    changes = several(story.changes_asked, "change")
    if len(asked) != story.changes_asked:
        changes += f" of the target, {several(len(asked), 'request')}"
    not_executed = several(len(withheld), "decision that was not executed", "decisions that were not executed")
    for head, cycles in ((changes, asked), (not_executed, withheld)):
        yield head + (":" if cycles else "")
        yield from (_span_line(span) for span in _spans(cycles))
    yield several(holds.total(), "hold") + (":" if holds else "")
    yield from (f"  {number:>6}  {code}" for code, number in holds.most_common())
    for before, after in gaps:
        yield f"no record from {day_and_clock(before)} for {duration(after - before)}"


def _session_lines(sessions: list[SessionRecord]) -> Iterator[str]:
    before: Mapping[str, Any] | None = None
    for session in sessions:
        settings = session.header.settings
        if settings != before or session.note:
            note = f" ({session.note})" if session.note else ""
            yield f"  since {day_and_clock(session.at)}: {_describe_settings(settings)}{note}"
        before = settings


def _describe_settings(settings: Mapping[str, Any]) -> str:
    """In few words; a journal that no loop wrote may hold none."""
    if not settings:
        return "the journal does not say under which settings"
    bounds = settings.get("executors")
    limits = f"{bounds[0]} to {bounds[1]} executors" if bounds else "no bounds"
    policy, objective, mode = (settings.get(key) for key in ("policy", "objective", "mode"))
    named = (policy or "an unknown policy", objective or "an unknown objective", limits, mode or "an unknown mode")
    return ", ".join(map(str, named))


def _reason(reason: Reason) -> dict[str, Any]:
    return {"code": reason.code.value, "reason": reason.text, "figures": dict(reason.figures)}


def _shedding(plan: SheddingPlan) -> dict[str, Any]:
    return {"keep": dict(plan.keep), "sinks": [asdict(sink) for sink in plan.sinks], **_reason(plan.reason)}


def _outcome(outcome: Outcome) -> dict[str, Any]:
    rest = ("before", "after", "method", "redone_tasks", "waited_s", "took_s")
    figures = {name: getattr(outcome, name) for name in rest}
    return {"at": outcome.at, "status": outcome.status.value, **_reason(outcome.reason), **figures}


def _why(reason: Reason) -> str:
    return f"{reason.code.value}: {reason.text}"


def _number(value: int | None) -> str:
    return "an unknown number" if value is None else str(value)


# A cycle in words: its assessment, the projections and the placement


def _describe_assessment(record: DecisionRecord, settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    assessment = record.assessment
    if assessment is None:
        yield "seen", "nothing: the cycle failed"
        return
    yield "load", _describe_load(assessment)
    yield "lag", _describe_lag(assessment, settings)
    yield "batch", _describe_batch(assessment)
    yield "cluster", _describe_cluster(assessment)
    if assessment.nodes is not None:
        yield "nodes", _describe_nodes(assessment.nodes)
    if assessment.missing:
        yield "unknown", ", ".join(assessment.missing)
    if assessment.invalid:
        yield "invalid", ", ".join(assessment.invalid)
    for gap in record.observation.gaps if record.observation else ():
        yield "not seen", f"{gap.section}: {gap.why}"


def _describe_nodes(nodes: Nodes) -> str:
    room = [node.free for node in nodes.nodes if node.free > 0]
    where = f" on {len(room)} of {several(len(nodes.nodes), 'node')}" if room else ""
    return f"in use: {names(nodes.in_use)}; room for {sum(room)} more{where}"


def _describe_load(assessment: Assessment) -> str:
    exact = "" if assessment.backlog_exact else " (not exact)"
    return (
        f"{per_second(assessment.arrival_rate)} arriving, {per_second(assessment.processed_rate)} processed; "
        f"backlog {records(assessment.backlog)}{exact}: {count(assessment.waiting)} waiting, "
        f"{count(assessment.in_flight)} in flight; {count(assessment.backlog_excess)} more than a healthy job has"
    )


def _describe_lag(assessment: Assessment, settings: Mapping[str, Any]) -> str:
    lag = _seconds(assessment.lag_s)
    try:
        objective = Objective.parse(settings.get("objective"))
    except InputError:
        return lag
    kept = "" if assessment.lag_s is None else ", violated" if assessment.lag_s > objective.lag_s else ", kept"
    return f"{lag}; the objective is {objective}{kept}"


def _describe_batch(assessment: Assessment) -> str:
    capped = ", as large as its cap allows" if assessment.capped else ""
    return (
        f"{_seconds(assessment.batch_s)}{capped}; "
        f"occupancy {percent(assessment.occupancy)} of {_seconds(assessment.period_s)}; "
        f"{assessment.batches} finished at this number"
    )


def _describe_cluster(assessment: Assessment) -> str:
    registered = "an unknown number of executors" if assessment.executors is None else executors(assessment.executors)
    requested = "none requested" if assessment.requested is None else f"{assessment.requested} requested"
    failed = f"; {several(assessment.failed_tasks, 'task')} failed lately" if assessment.failed_tasks else ""
    return f"{registered} registered, {requested}; slots {percent(assessment.busy_ratio)} busy{failed}"


def _seconds(value: float | None) -> str:
    return "unknown" if value is None else duration(value)
