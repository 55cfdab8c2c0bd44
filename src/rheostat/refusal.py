"""What cannot work on a session is refused, with all causes at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rheostat.errors import Fault
from rheostat.jvm.reading import QueryPlan, SessionFacts
from rheostat.model import Bounds, Observation

__all__ = ["layer_refusals", "objective_refusals", "query_refusals", "session_refusals"]

_LEVERS = ("standalone", "yarn", "kubernetes", "local-cluster")
_TRIGGERS = {
    "continuous": "a continuous query has no batches, and its tasks never end",
    "real-time": "a real-time query has no batches to measure",
    "available-now": "the query ends by itself when it has caught up",
    "once": "the query ends by itself after one batch",
}


def session_refusals(facts: SessionFacts, bounds: Bounds) -> list[Fault]:
    """Why the executors of a session cannot be changed within ``bounds``; empty: they can."""
    if facts.connect:
        message = "the driver's levers are out of a client's reach: attach in the driver"
        return [Fault("spark", "a Spark Connect session", "a classic session", message)]
    return [*_master(facts), *_allocation(facts), *_cores(facts, bounds)]


def query_refusals(
    plans: Iterable[QueryPlan], seen: Observation | None, bounds: Bounds | None, lag_s: float
) -> list[Fault]:
    """Why running queries cannot be scaled as asked.

    Args:
        plans: the active queries.
        seen: what was seen of them, for the numbers of partitions.
        bounds: None: watch only, and only the objective is looked at.
        lag_s: the objective.
    """
    faults: list[Fault] = []
    for plan in plans:
        name = plan.name or plan.run.query_id
        faults += _trigger(plan, name, lag_s)
    return faults + ([] if bounds is None or seen is None else list(_partitions(seen, bounds)))


def objective_refusals(name: str, trigger_s: float | None, lag_s: float) -> Iterator[Fault]:
    """Why a query with this trigger (None: not known) cannot keep this lag."""
    if trigger_s is not None and lag_s < 2 * trigger_s:
        message = "records wait up to a trigger and then for their batch: no number of executors keeps this objective"
        allowed = f"at least two triggers of the query {name}, {2 * trigger_s:g} s"
        yield Fault("objective", f"lag < {lag_s:g} s", allowed, message)


def layer_refusals(facts: SessionFacts, actuator: str) -> list[Fault]:
    """Why the Workers below a session cannot be changed, if that is asked for."""
    if actuator != "workers" or facts.deploy == "standalone":
        return []
    message = "node servers start the Workers of a standalone cluster"
    return [Fault("actuator", f"workers, on {facts.master}", "executors, or a spark:// master", message)]


def _master(facts: SessionFacts) -> Iterator[Fault]:
    if facts.deploy not in _LEVERS:
        message = "this master has no executors to add or to give back"
        allowed = "a standalone, YARN or Kubernetes cluster, or mode='watch'"
        yield Fault("spark.master", str(facts.master), allowed, message)


def _allocation(facts: SessionFacts) -> Iterator[Fault]:
    if facts.dynamic_allocation:
        message = "two owners of one number would undo each other: switch Spark's dynamic allocation off"
        yield Fault("spark.dynamicAllocation.enabled", "true", "false, or mode='watch'", message)


def _cores(facts: SessionFacts, bounds: Bounds) -> Iterator[Fault]:
    if facts.deploy != "standalone" or facts.cores_max is None:
        return
    each = facts.executor_cores or 1
    if facts.cores_max // each < bounds.maximum:
        allowed = f"≥ {bounds.maximum * each} ({bounds.maximum} executors × {each} cores), or not set"
        message = "it is a hard cap that cannot be changed while the application runs"
        yield Fault("spark.cores.max", str(facts.cores_max), allowed, message)


def _trigger(plan: QueryPlan, name: str, lag_s: float) -> Iterator[Fault]:
    kind, interval = plan.trigger.kind, plan.trigger.interval_s
    if kind in _TRIGGERS:
        yield Fault(f"queries.{name}.trigger", kind, "a processing-time trigger, or mode='watch'", _TRIGGERS[kind])
    else:
        yield from objective_refusals(name, interval, lag_s)


def _partitions(seen: Observation, bounds: Bounds) -> Iterator[Fault]:
    total = 0
    for query in seen.queries:
        if query.offsets is None or not query.offsets.topics:
            return
        total += len(query.offsets.topics)
    if seen.queries and total < bounds.maximum:
        message = "an executor without a partition has nothing to read: lower the bounds or add partitions"
        yield Fault("executors", f"at most {bounds.maximum}", f"at most {total}, the partitions that are read", message)
