"""Small jobs whose figures can be worked by hand, and what drives them."""

from rheostat.load.curves import constant
from rheostat.model import Action, Decision, Reason, ReasonCode, Recommendation
from rheostat.sim.job import SimulatedJob
from rheostat.sim.jobfile import job_of

__all__ = [
    "PLAIN",
    "ask",
    "close_to",
    "decision",
    "plain",
    "simulated",
    "stage",
]


PLAIN = {
    "name": "plain",
    "objective": "lag < 20s",
    "executors": [1, 8],
    "trigger_s": 2.0,
    "partitions": 1,
    "stages": [{"name": "read", "cost_ms": 5.0, "task_ms": 0.0}],
    "driver": {"planning_s": 0.0, "commit_s": 0.0},
    "executor": {"cold_task_s": 0.0, "start_up": {"median_s": 4.0, "p95_s": 4.0}},
}
"""Nothing is fixed, nothing is cold, nothing varies: a batch of r records takes 5 ms × r on one executor."""


def plain(**changes):
    return job_of({**PLAIN, **changes})


def stage(cost_ms=5.0, task_ms=0.0, **more):
    return [{"name": "read", "cost_ms": cost_ms, "task_ms": task_ms, **more}]


def simulated(job, load=None, executors=1, events=(), seed=1):
    load = constant(100, 20) if load is None else load
    return SimulatedJob(job, load, seed, executors, keep_batches=True, events=events)


def decision(target, at=0.0, number=1, current=None):
    reason = Reason(ReasonCode.SLA_VIOLATED, "a test")
    return Decision(at, number, Action.UP, current, target, reason, Recommendation(target, reason))


def ask(sim, target, at, number=1):
    """Ask for so many executors at a time."""
    sim.advance(at)
    sim.apply(decision(target, at, number))


def close_to(rows):
    return [tuple(round(value, 6) for value in row) for row in rows]
