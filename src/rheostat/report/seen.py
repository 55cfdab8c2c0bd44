"""What a cycle saw and what was expected, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rheostat.errors import InputError
from rheostat.journal import DecisionRecord
from rheostat.model import Assessment, Decision, Nodes, Objective
from rheostat.plan.words import count, executors, names, per_second, percent, records, several
from rheostat.report.times import duration

__all__ = ["expectation", "placing", "sight"]


def sight(record: DecisionRecord, settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What was seen, each with its label: load, lag, batches, executors, nodes, and what could not be seen."""
    seen = record.assessment
    if seen is None:
        yield "seen", "nothing: the cycle failed"
        return
    yield "load", _load(seen)
    yield "lag", _lag(seen, settings)
    yield "batch", _batch(seen)
    yield "cluster", _cluster(seen)
    if seen.nodes is not None:
        yield "nodes", _nodes(seen.nodes)
    if seen.missing:
        yield "unknown", ", ".join(seen.missing)
    if seen.invalid:
        yield "invalid", ", ".join(seen.invalid)
    for gap in record.observation.gaps if record.observation else ():
        yield "not seen", f"{gap.section}: {gap.why}"


def expectation(decision: Decision) -> Iterator[str]:
    """What the numbers around it would have meant by the capacity model; nothing without one."""
    for projection in decision.projections:
        if projection.capacity is not None:
            used = "" if projection.utilization is None else f", {percent(projection.utilization)} used"
            yield f"{executors(projection.executors)}: {per_second(projection.capacity)}{used}"


def placing(decision: Decision) -> Iterator[str]:
    """On which nodes executors come and go; nothing where nodes are not known."""
    placed = decision.placement
    if placed is not None:
        moved = [("added on ", placed.add), ("given up on ", placed.leave)]
        yield "".join(f"{what}{names(nodes)}; " for what, nodes in moved if nodes) + f"then on {names(placed.use)}"


def _nodes(nodes: Nodes) -> str:
    room = [node.free for node in nodes.nodes if node.free > 0]
    where = f" on {len(room)} of {several(len(nodes.nodes), 'node')}" if room else ""
    return f"in use: {names(nodes.in_use)}; room for {sum(room)} more{where}"


def _load(seen: Assessment) -> str:
    exact = "" if seen.backlog_exact else " (not exact)"
    return (
        f"{per_second(seen.arrival_rate)} arriving, {per_second(seen.processed_rate)} processed; "
        f"backlog {records(seen.backlog)}{exact}: {count(seen.waiting)} waiting, {count(seen.in_flight)} in "
        f"flight; {count(seen.backlog_excess)} more than a healthy job has"
    )


def _lag(seen: Assessment, settings: Mapping[str, Any]) -> str:
    lag = _seconds(seen.lag_s)
    try:
        objective = Objective.parse(settings.get("objective"))
    except InputError:
        return lag
    kept = "" if seen.lag_s is None else ", violated" if seen.lag_s > objective.lag_s else ", kept"
    return f"{lag}; the objective is {objective}{kept}"


def _batch(seen: Assessment) -> str:
    capped = ", as large as its cap allows" if seen.capped else ""
    return (
        f"{_seconds(seen.batch_s)}{capped}; occupancy {percent(seen.occupancy)} of {_seconds(seen.period_s)}; "
        f"{seen.batches} finished at this number"
    )


def _cluster(seen: Assessment) -> str:
    registered = "an unknown number of executors" if seen.executors is None else executors(seen.executors)
    asked = "nobody has asked for a number" if seen.requested is None else f"{seen.requested} asked for"
    failed = f"; {several(seen.failed_tasks, 'task')} failed lately" if seen.failed_tasks else ""
    return f"{registered} registered, {asked}; slots {percent(seen.busy_ratio)} busy{failed}"


def _seconds(value: float | None) -> str:
    return "unknown" if value is None else duration(value)
