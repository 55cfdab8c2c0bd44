"""The problem of the clairvoyant optimum: a load, and a relaxation of the job that no run can exceed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import inf

from rheostat.load.curves import Pieces
from rheostat.sim.capacity import batch_s, best_curve, capacity_curve, long_batch_rate
from rheostat.sim.events import CodeChange, DeadExecutor, Event, LostNode, SkewChange
from rheostat.sim.jobfile import JobFile
from rheostat.sim.seeded import duration

_LEAST_QUANTILE = 0.001
"""A log-normal duration has no least value; one start in a thousand is faster than this."""

_LEAST_POSITIVE = 1e-9

Curve = Sequence[float]


@dataclass(frozen=True, slots=True)
class Problem:
    """A job and its load, as :func:`~rheostat.optimum.optimum.optimum` sees them.

    Tuples over n have the numbers 0 … n_max; they ascend.

    Attributes:
        load: records/s.
        objective_s: L.
        step_s: from one decision to the next; the first one is at second 0.
        n_min, n_max, start: bounds, and the executors at second 0. Faults may take executors away below the least
            number of the job, so n_min is as many fewer, down to 0.
        capacity: records/s on n executors while the lag is within L.
        long_rate: records/s beyond it, ≥ capacity.
        carried: a change from n to n′ at the right moment within a batch gains up to ``|carried[n′] − carried[n]|``
            records.
        slack: records by which a run may be ahead of ``capacity`` at any time: its one batch.
        weight: executor-hours that an hour over the objective costs.
        change_s: executor-seconds that a change costs.
        start_up_s: seconds an added executor is paid for, at least, before it serves.
        free_changes: changes that cost nothing, since faults make them.
    """

    load: Pieces
    objective_s: float
    step_s: float
    n_min: int
    n_max: int
    start: int
    capacity: tuple[float, ...]
    long_rate: tuple[float, ...]
    carried: tuple[float, ...]
    slack: tuple[float, ...]
    weight: float
    change_s: float = 60.0
    start_up_s: float = 0.0
    free_changes: int = 0


def problem_of(job: JobFile, load: Pieces, start: int, weight: float) -> Problem:
    """The relaxation of a job, of whose events those count that could make it faster.

    See :mod:`rheostat.optimum.optimum` for why each figure is one. ``load`` is in records/s, ``start`` are the
    executors at second 0, ``weight`` is w, executors.
    """
    lost = sum(_lost_executors(job, event) for event in job.events)
    curves = [_upper_envelope(each) for each in zip(*map(_rates, _variants(job)), strict=True)]
    capacity, long_rate, carried, slack = curves
    return Problem(
        load=load,
        objective_s=job.objective_s,
        step_s=job.decide_every_s,
        n_min=max(0, job.n_min - lost),
        n_max=job.n_max,
        start=start,
        capacity=capacity,
        long_rate=long_rate,
        carried=carried,
        slack=slack,
        weight=weight,
        start_up_s=least_start_up_s(job),
        free_changes=2 * lost,
    )


def _lost_executors(job: JobFile, event: Event) -> int:
    """Executors that an event takes away, at most."""
    if isinstance(event, LostNode):
        return 0 if job.nodes is None else job.nodes.places[event.node]
    return int(isinstance(event, DeadExecutor))


def least_start_up_s(job: JobFile) -> float:
    """The start-up that one executor in a thousand undercuts, s; a start-up that does not vary as it is."""
    return duration(job.executor.start_up, _LEAST_QUANTILE)


def _rates(job: JobFile) -> tuple[Curve, Curve, Curve, Curve]:
    """``capacity``, ``long_rate``, ``carried`` and ``slack`` of a :class:`Problem`."""
    if job.record is not None and job.model == "record":
        curve = best_curve(job)
        interval = [rate * job.record.commit_every_s + job.partitions for rate in curve]
        return curve, curve, [0.0] * len(curve), interval
    curve = capacity_curve(job)
    long_rates = [long_batch_rate(job, n) for n in range(job.n_max + 1)]
    idle = [_idle_records(job, n, rate) for n, rate in enumerate(curve)]
    slack = [_slack_records(job, n, records) for n, records in enumerate(idle)]
    return curve, long_rates, [records / 2 for records in idle], slack


def _idle_records(job: JobFile, executors: int, capacity: float) -> float:
    """Records that n executors would process in the fixed part of a batch."""
    if executors < 1 or capacity <= 0:
        return 0.0
    records = min(capacity * job.period_s, inf if job.batch_cap is None else float(job.batch_cap))
    marginal = long_batch_rate(job.model_copy(update={"batch_cap": None}), executors)
    return max(0.0, batch_s(job, records, executors) * marginal - records)


def _slack_records(job: JobFile, executors: int, idle: float) -> float:
    """Records by which a run may be ahead of C(n): see the module of the optimum, *slack*."""
    cap = 0.0 if job.batch_cap is None or executors < 1 else float(job.batch_cap)
    waits = cap > 0 and batch_s(job, cap, executors) < job.trigger_s
    return (cap if waits else 2 * idle) + job.partitions


def _variants(job: JobFile) -> list[JobFile]:
    """The job with each version of its code, and with each skew of its partitions."""
    codes = [job]
    for event in sorted(job.events, key=lambda each: each.at_s):
        if isinstance(event, CodeChange):
            codes.append(_change_code(codes[-1], event))
    skews = [event.skew for event in job.events if isinstance(event, SkewChange)]
    updates = [{"partition_skew": skew, "partition_shares": None} for skew in skews]
    return [code.model_copy(update=update) for code in codes for update in ({}, *updates)]


def _change_code(job: JobFile, code: CodeChange) -> JobFile:
    if job.record is not None:
        table = job.record.table and tuple((n, rate / code.factor) for n, rate in job.record.table)
        slower = {"alpha": job.record.alpha / code.factor, "gamma": job.record.gamma / code.factor, "table": table}
        return job.model_copy(update={"record": job.record.model_copy(update=slower)})
    stages = [
        stage.model_copy(update={"cost_ms": stage.cost_ms * code.factor}) if code.stage in {None, stage.name} else stage
        for stage in job.stages
    ]
    return job.model_copy(update={"stages": tuple(stages)})


def _upper_envelope(curves: Sequence[Curve]) -> tuple[float, ...]:
    """For each n, the greatest value of all variants on at most n executors."""
    return tuple(accumulate((max(at_n) for at_n in zip(*curves, strict=True)), max))


def drop_useless_numbers(problem: Problem) -> Problem:
    """The problem without the numbers from which on more executors are no faster.

    A plan that never goes beyond the first of them costs less and does as much.
    """
    names = ("capacity", "long_rate", "carried", "slack")
    curves = {name: getattr(problem, name) for name in names}
    first = max(curve.index(curve[-1]) for curve in curves.values())
    most = max(first, problem.start, problem.n_min)
    if most >= problem.n_max:
        return problem
    return replace(problem, n_max=most, **{name: curve[: most + 1] for name, curve in curves.items()})


def check_problem(problem: Problem) -> None:
    """Raises ValueError where the problem is out of range; callers build it from checked job files and loads."""
    sound = 0 <= problem.n_min <= problem.start <= problem.n_max and 0 < problem.step_s < inf
    if not sound or problem.long_rate[problem.n_max] < _LEAST_POSITIVE:
        message = f"no run can end: executors {problem.n_min} .. {problem.n_max} from {problem.start}"
        raise ValueError(message)
