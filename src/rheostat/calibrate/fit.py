"""A job file from the journals of real runs: each figure with its interval, and whether the runs identify it.

The costs of a batch come from a robust regression over the warm batches. Its jobs, with R records on s slots, read from
p partitions in w = ⌈p ÷ s⌉ waves, take

    y = F + g · R + a · w + c · w · R ÷ p + e · w · E[min(W, X)]

F: what no further executor shortens. g: the same, for each record. a: a task. c: a record in a task. The last term is
what Kafka adds at low rates: a reading task asks for the ends of the log on the connection on which a fetch for
further records still waits, until the next record of its partition comes (X, exponential with the partition's rate λ)
or ``fetch.max.wait.ms`` (W) have passed; E[min(W, X)] = (1 − e^(−λW)) ÷ λ. Its factor e is 1 where a source waits and 0
where it does not: it is not fitted, one of them is chosen.

Outliers (a pause of the machine, a garbage collection) weigh little: loss soft-L1, as in P. J. Huber, "Robust
Estimation of a Location Parameter", 1964, with its scale from the median absolute residual. Intervals are percentiles
of 200 seeded resamples of the batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt

from rheostat.calibrate.measured import RealBatch, RealRun
from rheostat.errors import Fault, InputError
from rheostat.model import Objective
from rheostat.sim.jobfile import JobFile, job_of
from rheostat.sim.micro_batch import next_record_s
from rheostat.text import several

Array = npt.NDArray[np.float64]
Pairs = Sequence[tuple[RealRun, RealBatch]]
Interval = tuple[float, float]

WARM_UP_S = 30.0
"""Batches that begin sooner after the first one of a run are left out: the driver is compiling its own code."""

_SETTLED = 1
"""Batches after a change from which on the executors count as warm."""

_AFTER = 2
"""Batches after the one that executors join that are checked for slots that are still cold."""

_LONGEST_COLD_S = 60.0
_FIT_RESAMPLES, _RESAMPLES = 200, 500
_LEAST_POINTS = 8
_WORST_CONDITION = 60.0
_LEAST_SHARE = 0.03
_NOT_REFUTED = "; the batches do not speak against it"
_OUTSIDE = "; a free fit differs, yet the batches are not explained better without it"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure of the job file; ``key``: dotted, as in the file; ``n``: measurements behind it; ``interval``: 95 %.

    ``identified``: False where the runs do not identify it; it is the default then, or 0 where the file has none.
    """

    key: str
    value: float
    unit: str
    n: int
    why: str
    interval: Interval | None = None
    identified: bool = True

    def to_json(self) -> dict[str, Any]:
        names = ("key", "value", "unit", "interval", "n", "identified", "why")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class Calibration:
    """A job file and its content, and how sure its figures are; ``batches``: number in all runs, warm or not."""

    job: JobFile
    values: dict[str, Any]
    estimates: tuple[Estimate, ...]
    fit: Fit
    batches: int

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": "rheostat.calibration/1",
            "job": self.values,
            "estimates": [each.to_json() for each in self.estimates],
            "batches": self.batches,
            "warm_batches": self.fit.points,
            "condition": self.fit.condition,
            "noise_cv": self.fit.noise,
        }


def calibrate(runs: Sequence[RealRun], *, name: str = "calibrated", warm_up_s: float = WARM_UP_S) -> Calibration:
    """Fit a micro-batch job to runs of one pipeline; ``warm_up_s``: see :data:`WARM_UP_S`.

    Raises:
        InputError: the runs differ in source, trigger, partitions, batch cap or cores of an executor, or there are
            fewer than 8 warm batches.
    """
    _check_same_job(runs)
    pairs = [(run, batch) for run in runs for batch in run.batches if batch.start >= run.batches[0].end + warm_up_s]
    warm = [(run, batch) for run, batch in pairs if batch.executors and batch.age >= _SETTLED and _is_steady(batch)]
    fit = fit_batches([Point.of(run, batch) for run, batch in warm])
    if fit is None:
        message = f"only {several(len(warm), 'batch was', 'batches were')} warm and undisturbed"
        raise InputError([Fault("journal", f"{len(runs)} journals", "at least 8 warm batches", message)])
    why = "median of the warm batches"
    rest_why = f"{why}: what is neither planning nor jobs"
    estimates = [
        *_batch_costs(runs[0], fit),
        _median("driver.planning_s", [batch.planning_s for _, batch in warm], "s", why),
        _median("driver.commit_s", [batch.rest_s for _, batch in warm], "s", rest_why),
        *_executor_costs([each for run in runs for each in run.start_ups], pairs, fit),
        Estimate("batch_noise_cv", fit.noise, "", fit.points, "median absolute residual of the warm batches × 1.4826"),
    ]
    values = _job_values(runs[0], name, {each.key: each.value for each in estimates})
    return Calibration(job_of(values), values, tuple(estimates), fit, sum(len(run.batches) for run in runs))


def _check_same_job(runs: Sequence[RealRun]) -> None:
    if not runs:
        raise InputError([Fault("journal", "none", "at least one journal", "there is nothing to fit to")])
    faults = []
    for what in ("kind", "longest_wait_s", "trigger_s", "partitions", "batch_cap", "cores"):
        found = {str(getattr(run.setup, what)) for run in runs}
        if len(found) > 1:
            faults.append(Fault("journal", ", ".join(sorted(found)), f"one value of {what}", "the runs differ in it"))
    if faults:
        raise InputError(faults)


def _is_steady(batch: RealBatch) -> bool:
    return not (batch.joined or batch.cold or batch.shrunk or batch.starting_s)


def _job_values(run: RealRun, name: str, found: dict[str, float]) -> dict[str, Any]:
    setup, settings = run.setup, run.setup.settings
    used = {key: float(f"{value:.6g}") for key, value in found.items()}
    period = max(setup.trigger_s, Objective.parse(settings["objective"]).lag_s / 2)

    def section(prefix: str, *names: str) -> dict[str, float]:
        return {name: used[f"{prefix}.{name}"] for name in names}

    return {
        "schema": "rheostat.job/1",
        "name": name,
        "model": "micro-batch",
        "objective": settings["objective"],
        "executors": list(settings.get("executors") or [1, max(1, len(run.executors))]),
        "decide_every_s": min(float(settings["sample_s"]), ceil(period)),
        "trigger_s": setup.trigger_s,
        "partitions": setup.partitions,
        "batch_cap": setup.batch_cap,
        "stages": [
            {"name": "read", **section("stages.0", "cost_ms", "task_ms", "fetch_wait_s")},
            {"name": "rest", "tasks": 1, **section("stages.1", "cost_ms", "task_ms"), "stateful": True},
        ],
        "driver": section("driver", "planning_s", "commit_s"),
        "executor": {
            "cores": setup.cores,
            "start_up": section("executor.start_up", "median_s", "p95_s"),
            **section("executor", "crowding", "slows_neighbours", "cold_task_s"),
        },
        "state": section("state", "reload_s"),
        "batch_noise_cv": min(2.0, used["batch_noise_cv"]),
    }


# Figures with their intervals


def _unidentified(key: str, value: float, unit: str, n: int, why: str, interval: Interval | None = None) -> Estimate:
    return Estimate(key, value, unit, n, why, interval, identified=False)


def _median(key: str, samples: Sequence[float], unit: str, why: str) -> Estimate:
    return Estimate(key, float(np.median(samples)), unit, len(samples), why, _median_interval(samples))


def _median_above_zero(key: str, samples: Sequence[float], unit: str, why: str, which: str) -> Estimate:
    """The median if its interval is above 0, else 0."""
    interval = _median_interval(samples)
    if interval is None or interval[0] <= 0:
        return _unidentified(key, 0.0, unit, len(samples), f"{which} do not show it ({len(samples)} seen)", interval)
    return _median(key, samples, unit, why)


def _median_interval(samples: Sequence[float]) -> Interval | None:
    """The 95 % percentile interval of the median, by seeded resampling; None under three samples."""
    if len(samples) < 3:
        return None
    random = np.random.default_rng(1)
    found = np.median(random.choice(np.array(samples), (_RESAMPLES, len(samples))), axis=1)
    low, high = np.percentile(found, [2.5, 97.5])
    return float(low), float(high)


def _batch_costs(run: RealRun, fit: Fit) -> list[Estimate]:
    """The terms of the regression; of the fetch wait, a setting of the source, only whether tasks wait is fitted."""
    regression, longest_s = "regression over the warm batches", run.setup.longest_wait_s
    costs = (
        ("record", "stages.0.cost_ms", "ms", 1000.0, regression),
        ("task", "stages.0.task_ms", "ms", 1000.0, regression),
        ("fixed", "stages.1.task_ms", "ms", 1000.0, regression),
        ("serial", "stages.1.cost_ms", "ms", 1000.0, regression),
        ("fetch", "stages.0.fetch_wait_s", "s", longest_s, "fetch.max.wait.ms of the source"),
    )
    found = []
    for term, key, unit, scale, why in costs:
        if term in fit.values:
            low, high = fit.intervals[term]
            interval = (scale * low, scale * high)
            if term == "fetch":
                why += _NOT_REFUTED if low <= fit.values[term] <= high else _OUTSIDE
            found.append(Estimate(key, scale * fit.values[term], unit, fit.points, why, interval))
        else:
            found.append(_unidentified(key, 0.0, unit, fit.points, fit.given_up[term]))
    return found


# Executors: their start-up, their cold first tasks, and what they take from their neighbours


def _executor_costs(start_ups: Sequence[tuple[float, int]], pairs: Pairs, fit: Fit) -> list[Estimate]:
    """Start-ups, crowding, the slow-down of neighbours, cold slots, and reloads of state.

    ``start_ups``: seconds of each, and how many executors were requested together; ``pairs``: batches after the
    warm-up.
    """
    crowding = _crowding(start_ups)
    shares = []
    for run, batch in pairs:
        if batch.starting_s > 0.5 and batch.executors and not (batch.joined or batch.cold or batch.shrunk):
            excess = fit.excess_s(run, batch)
            shares.append(excess / max(0.1, batch.starting_s - max(0.0, excess)))
    during = "batches with a start-up in them"
    slows = _median_above_zero("executor.slows_neighbours", shares, "", during, during)
    later = [fit.excess_s(run, batch) for run, batch in pairs if batch.shrunk and batch.executors and not batch.joined]
    return [
        *_start_up(start_ups),
        crowding,
        slows,
        _cold_task(pairs, fit, slows.value, crowding.value),
        _median_above_zero("state.reload_s", later, "s", "after decreases", "batches after a decrease"),
    ]


def _start_up(start_ups: Sequence[tuple[float, int]]) -> list[Estimate]:
    singles = [took for took, together in start_ups if together == 1]
    used = singles or [took for took, _ in start_ups]
    median_key, p95_key, n = "executor.start_up.median_s", "executor.start_up.p95_s", len(used)
    if n < 3:
        why = f"too few start-ups ({n} seen)"
        default = JobFile.model_fields["executor"].default.start_up
        defaults = ((median_key, default.median_s), (p95_key, default.p95_s))
        return [_unidentified(key, value, "s", n, why) for key, value in defaults]
    logs = np.log(used)
    p95 = float(np.exp(np.mean(logs) + 1.645 * np.std(logs, ddof=1)))
    why = "from the request to the registration, one executor requested" if singles else "all start-ups"
    median = _median(median_key, used, "s", why)
    return [median, Estimate(p95_key, max(median.value, p95), "s", n, f"{why}; log-normal")]


def _crowding(start_ups: Sequence[tuple[float, int]]) -> Estimate:
    singles = [took for took, together in start_ups if together == 1]
    several_ = [(took, together) for took, together in start_ups if together > 1]
    key = "executor.crowding"
    if not singles or not several_:
        why = "executors were never requested both singly and together"
        return _unidentified(key, 0.0, "", len(several_), why)
    alone = float(np.median(singles))
    shares = [(took / alone - 1) / (together - 1) for took, together in several_]
    value, why = max(0.0, float(np.median(shares))), "start-ups together ÷ start-ups alone"
    return Estimate(key, value, "", len(shares), why, _median_interval(shares))


def _cold_task(pairs: Pairs, fit: Fit, share: float, crowding: float) -> Estimate:
    """The extra time of a slot's first task that explains the batches after executors have come."""
    key = "executor.cold_task_s"
    found = [cold for episode in _episodes(pairs) if (cold := _cold_of(episode, fit, share, crowding)) is not None]
    if not found:
        default = JobFile.model_fields["executor"].default.cold_task_s
        return _unidentified(key, default, "s", 0, "no executor was seen to join a running query")
    return _median(key, found, "s", "the batch that executors join, and the two after it, against warm ones")


def _episodes(pairs: Pairs) -> list[list[tuple[RealRun, RealBatch]]]:
    """Batches that executors joined or began cold in, each with the next two if nothing happened in them."""
    found: list[list[tuple[RealRun, RealBatch]]] = []
    for run, batch in pairs:
        if batch.shrunk:
            continue
        if (batch.joined or batch.cold) and batch.executors is not None:
            found.append([(run, batch)])
        elif found and len(found[-1]) <= _AFTER and found[-1][0][0] is run and not batch.starting_s:
            found[-1].append((run, batch))
    return found


def _cold_of(episode: Pairs, fit: Fit, share: float, crowding: float) -> float | None:
    """The extra time with which the batches of an episode together take as long as measured; None: no effect."""
    if any(not batch.executors for _, batch in episode):
        return None
    measured = sum(batch.tasks_s - batch.starting_s * share / (1 + share) for _, batch in episode)
    cores = episode[0][0].setup.cores

    def predict(cold_s: float) -> float:
        total, fresh = 0.0, episode[0][1].cold * cores
        for run, batch in episode:
            task_s, after_s, count = fit.tasks(Point.of(run, batch))
            ready = [0.0] * fresh + [max(0.0, at - batch.planning_s) for at in batch.joined for _ in range(cores)]
            # like the simulator: executors that are cold at about the same time slow one another down
            beside = [max(0, sum(abs(at - other) < cold_s for other in ready) // cores - 1) for at in ready]
            cold = [(at, cold_s * (1 + crowding * number)) for at, number in zip(ready, beside, strict=True)]
            warm = [(0.0, 0.0)] * ((batch.executors or 0) * cores - fresh)
            end, fresh = _place_tasks(warm + cold, task_s, count)
            total += end + after_s
        return total

    if predict(_LONGEST_COLD_S) - predict(0.0) < 1.0:
        return None
    return _find_root(predict, measured, _LONGEST_COLD_S)


def _place_tasks(slots: list[tuple[float, float]], task_s: float, count: int) -> tuple[float, int]:
    """When the last of equal tasks ends, each in the slot that is free first, and how many cold slots ran none.

    ``slots``: when each is free, and how much longer its first task takes (0: it is warm).
    """
    heapify(slots)
    last = 0.0
    for _ in range(count):
        at, cold_s = slots[0]
        heapreplace(slots, (at + task_s + cold_s, 0.0))
        last = max(last, at + task_s + cold_s)
    return last, sum(cold_s > 0 for _, cold_s in slots)


def _find_root(rising: Callable[[float], float], target: float, most: float) -> float:
    """Where a function that never falls reaches a value, to 10 ms; an end of the range where it does not."""
    low, high = 0.0, most
    if rising(low) >= target:
        return low
    while high - low > 0.01:
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < target else (low, middle)
    return high


# The regression over warm batches


@dataclass(frozen=True, slots=True)
class Point:
    """A warm batch; ``rate``: records/s that arrived meanwhile, in all partitions; ``wait_s``: for the next record."""

    records: int
    slots: int
    partitions: int
    rate: float
    jobs_s: float
    wait_s: float = 0.0

    @classmethod
    def of(cls, run: RealRun, batch: RealBatch) -> Point:
        """A batch of a run; one slot where its executors are not known."""
        return cls(
            records=batch.records,
            slots=max(1, (batch.executors or 0) * run.setup.cores),
            partitions=run.setup.partitions,
            rate=run.arrival_rate(batch.start, batch.end),
            jobs_s=batch.tasks_s,
            wait_s=run.setup.longest_wait_s,
        )

    @property
    def waves(self) -> int:
        return ceil(min(self.partitions, self.records) / self.slots)

    @property
    def fetch_s(self) -> float:
        """Expected wait of a reading task for the next record."""
        return next_record_s(self.rate / self.partitions, self.wait_s)


_TERMS: dict[str, Callable[[Point], float]] = {
    "record": lambda point: point.waves * point.records / point.partitions,
    "fixed": lambda _: 1.0,
    "task": lambda point: float(point.waves),
    "serial": lambda point: float(point.records),
}
"""The unknowns and their factors; the last ones are given up first, the first one never."""


@dataclass(frozen=True, slots=True)
class Fit:
    """The costs of a batch, s.

    Attributes:
        values: of the terms that could be told apart; of the term ``fetch`` its factor, 1, where tasks wait.
        intervals: their 95 % intervals.
        given_up: the other terms, and why.
        condition: of the matrix with columns of length 1, for the terms that were kept.
        noise: median absolute residual ÷ measured time, × 1.4826: the coefficient of variation without outliers.
        points: number of batches.
    """

    values: dict[str, float]
    intervals: dict[str, Interval]
    given_up: dict[str, str]
    condition: float
    noise: float
    points: int

    def excess_s(self, run: RealRun, batch: RealBatch) -> float:
        """How much longer the jobs of a batch took than expected."""
        point = Point.of(run, batch)
        waited_s = point.waves * point.fetch_s if "fetch" in self.values else 0.0
        terms = [self.values[name] * factor(point) for name, factor in _TERMS.items() if name in self.values]
        return batch.tasks_s - waited_s - sum(terms)

    def tasks(self, point: Point) -> tuple[float, float, int]:
        """Time of a reading task, time of what comes after them, and how many there are."""
        values, count = self.values, min(point.partitions, point.records)
        wait_s = point.fetch_s if "fetch" in values else 0.0
        task_s = values.get("task", 0.0) + wait_s + values["record"] * point.records / count
        return task_s, values.get("fixed", 0.0) + values.get("serial", 0.0) * point.records, count


def fit_batches(points: Sequence[Point]) -> Fit | None:
    """Fit the terms; None with fewer than 8 batches.

    A term is given up when the batches do not distinguish it from the others (its column makes the matrix
    ill-conditioned), or when they are explained as well without it; then the others are fitted again.
    """
    if len(points) < _LEAST_POINTS:
        return None
    times = np.array([point.jobs_s for point in points])
    matrix = np.array([[factor(point) for factor in _TERMS.values()] for point in points])
    waited, interval, why = _fit_waiting(points, matrix, times)
    kept, given_up = list(_TERMS), {} if interval else {"fetch": why}
    while True:
        condition = _condition(matrix)
        if condition > _WORST_CONDITION and len(kept) > 1:
            column = _find_collinear(matrix)
            reason = f"these batches do not distinguish it from the other terms (condition {condition:.3g})"
        else:
            spare = _find_spare(matrix, times, waited)
            if spare is None:
                break
            column, reason = spare, "the batches are explained as well without it"
        given_up[kept.pop(column)] = reason
        matrix = np.delete(matrix, column, axis=1)
    values = _fit_robustly(matrix, times, waited)
    found = dict(zip(kept, zip(values.tolist(), _intervals(matrix, times, waited), strict=True), strict=True))
    found |= {"fetch": (1.0, interval)} if interval else {}
    return Fit(
        values={name: value for name, (value, _) in found.items()},
        intervals={name: interval for name, (_, interval) in found.items()},
        given_up=given_up,
        condition=condition,
        noise=1.4826 * float(np.median(np.abs(times - waited - matrix @ values) / times)),
        points=len(points),
    )


def _fit_waiting(points: Sequence[Point], matrix: Array, times: Array) -> tuple[Array, Interval | None, str]:
    """The wait for the next record in each batch, the interval of its factor, and why it is left out (then it is 0).

    A source that may wait is taken to wait unless the batches are explained better without it.
    """
    none = np.zeros(len(points))
    fetch = np.array([point.waves * point.fetch_s for point in points])
    if float(np.max(fetch / times)) < _LEAST_SHARE:
        return none, None, "tasks cannot have waited long for the next record"
    spread = _spread(matrix, times, fetch)
    gain = _loss(matrix, times, fetch, spread) - _loss(matrix, times, none, spread)
    if 2 * gain > np.log(len(points)):
        return none, None, "the batches are explained better without it"
    return fetch, _intervals(np.column_stack([fetch, matrix]), times, none)[0], ""


def _condition(matrix: Array) -> float:
    lengths = np.linalg.norm(matrix, axis=0)
    return float(np.linalg.cond(matrix / np.where(lengths > 0, lengths, 1.0)))


def _find_collinear(matrix: Array) -> int:
    """The column, not the first, without which the matrix is conditioned best; of about equals the last one."""
    without = {column: _condition(np.delete(matrix, column, axis=1)) for column in range(1, matrix.shape[1])}
    return max(column for column, condition in without.items() if condition <= 1.1 * min(without.values()))


def _find_spare(matrix: Array, times: Array, waited: Array) -> int | None:
    """The column, not the first, whose removal raises the loss least; None if each is worth its term.

    A term is worth it by the criterion of G. Schwarz, "Estimating the Dimension of a Model", 1978: where
    2 · Δloss < ln(batches) it is not. The scale of the residuals is that with all the terms.
    """
    spread = _spread(matrix, times, waited)
    losses = {
        column: _loss(np.delete(matrix, column, axis=1), times, waited, spread) for column in range(1, matrix.shape[1])
    }
    least = min(losses, key=losses.__getitem__, default=None)
    rise = np.inf if least is None else losses[least] - _loss(matrix, times, waited, spread)
    return least if 2 * rise < np.log(len(times)) else None


def _residuals(matrix: Array, times: Array, waited: Array) -> Array:
    """Of a robust fit, as shares of ``times``."""
    residuals: Array = (times - waited - matrix @ _fit_robustly(matrix, times, waited)) / times
    return residuals


def _spread(matrix: Array, times: Array, waited: Array) -> float:
    return _scale_of(_residuals(matrix, times, waited))


def _scale_of(residuals: Array) -> float:
    return max(1e-6, 1.4826 * float(np.median(np.abs(residuals))))


def _loss(matrix: Array, times: Array, waited: Array, spread: float) -> float:
    """Sum of soft-L1 losses, √(1 + r²) − 1, of the residuals ÷ ``spread``."""
    return float(np.sum(np.hypot(1.0, _residuals(matrix, times, waited) / spread) - 1))


def _intervals(matrix: Array, times: Array, waited: Array) -> list[Interval]:
    random = np.random.default_rng(1)
    draws = [random.integers(0, len(times), len(times)) for _ in range(_FIT_RESAMPLES)]
    found = np.array([_fit_robustly(matrix[rows], times[rows], waited[rows]) for rows in draws])
    low, high = np.percentile(found, [2.5, 97.5], axis=0)
    return [(float(a), float(b)) for a, b in zip(low, high, strict=True)]


def _fit_robustly(matrix: Array, times: Array, waited: Array) -> Array:
    """Values ≥ 0 with the least soft-L1 loss of the residuals ÷ ``times``, by iteratively reweighted least squares."""
    rows, wanted = matrix / times[:, None], 1 - waited / times
    lengths = np.linalg.norm(rows, axis=0)
    lengths = np.where(lengths > 0, lengths, 1.0)
    scaled = rows / lengths
    unbounded = np.linalg.lstsq(scaled, wanted, rcond=None)[0]
    spread = _scale_of(wanted - scaled @ np.maximum(unbounded, 1e-6))
    values = fit_nonnegative(scaled, wanted)
    for _ in range(100):
        weights = np.hypot(1.0, (wanted - scaled @ values) / spread) ** -0.5
        before, values = values, fit_nonnegative(scaled * weights[:, None], wanted * weights, values)
        if np.abs(values - before).max() <= 1e-9 * values.max():
            break
    found: Array = values / lengths
    return found


def fit_nonnegative(matrix: Array, wanted: Array, start: Array | None = None) -> Array:
    """Least squares with values ≥ 0, for a few columns of about the same length; ``start``: values to begin with.

    The active-set method of C. L. Lawson and R. J. Hanson, "Solving Least Squares Problems", 1974, chapter 23.
    """
    count = matrix.shape[1]
    values = np.ones(count) if start is None else start
    free = values > 0
    for _ in range(3 * count):
        while free.any():
            tried = np.zeros(count)
            tried[free] = np.linalg.lstsq(matrix[:, free], wanted, rcond=None)[0]
            below = free & (tried <= 0)
            if not below.any():
                values = tried
                break
            values = values + np.min(values[below] / (values[below] - tried[below])) * (tried - values)
            free &= values > 1e-12
        gain = np.where(free, -np.inf, matrix.T @ (wanted - matrix @ values))
        if gain.max() <= 1e-12:
            break
        free[gain.argmax()] = True
    return np.where(free, values, 0.0)
