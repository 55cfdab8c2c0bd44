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
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares  # type: ignore[import-untyped]

from rheostat.calibrate.measured import RealBatch, RealRun
from rheostat.errors import Fault, InputError
from rheostat.model import Objective
from rheostat.sim.jobfile import JobFile, job_of
from rheostat.sim.micro_batch import next_record_s
from rheostat.text import several

Array = npt.NDArray[np.float64]
Pairs = Sequence[tuple[RealRun, RealBatch]]
Interval = tuple[float, float] | None

WARM_UP_S = 30.0
"""Batches that begin sooner after the first one of a run are left out: the driver is compiling its own code."""

SETTLED = 1
"""Batches after a change from which on the executors count as warm."""

_AFTER = 2
"""Batches after the one that executors join that are checked for slots that are still cold."""

_LONGEST_COLD_S = 60.0
_FIT_RESAMPLES, _RESAMPLES = 200, 500
_LEAST_POINTS = 8
_WORST_CONDITION = 60.0
_LEAST_SHARE = 0.03


@dataclass(frozen=True, slots=True)
class Calibration:
    """A job file, and how sure its figures are.

    Attributes:
        values: the content of the file.
        batches: number in all runs; ``fit.points`` of them were warm and undisturbed.
    """

    job: JobFile
    values: dict[str, Any]
    estimates: tuple[Estimate, ...]
    fit: Fit
    batches: int

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
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
    """Fit a micro-batch job to runs of one pipeline.

    Args:
        runs: they must agree in trigger, partitions, batch cap and cores of an executor.
        name: of the job.
        warm_up_s: see :data:`WARM_UP_S`.

    Raises:
        InputError: they do not agree, or there are fewer than 8 warm batches.
    """
    _check_same_job(runs)
    pairs = [(run, batch) for run in runs for batch in run.batches if batch.start >= run.batches[0].end + warm_up_s]
    warm = [(run, batch) for run, batch in pairs if _undisturbed(batch)]
    fit = fit_batches([Point.of(run, batch) for run, batch in warm])
    if fit is None:
        message = f"only {several(len(warm), 'batch was', 'batches were')} warm and undisturbed"
        raise InputError([Fault("journal", f"{len(runs)} journals", "at least 8 warm batches", message)])
    why = "median of the warm batches"
    estimates = [
        *_batch_costs(fit),
        _fetch_wait(runs[0], fit),
        _median("driver.planning_s", [batch.planning_s for _, batch in warm], "s", why),
        _median(
            "driver.commit_s", [batch.rest_s for _, batch in warm], "s", f"{why}: what is neither planning nor jobs"
        ),
        *_executor_costs(runs, pairs, fit),
        _reload_cost(pairs, fit),
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


def _undisturbed(batch: RealBatch) -> bool:
    steady = not batch.joined and not batch.cold and not batch.shrunk and batch.starting_s == 0
    return batch.executors is not None and batch.executors > 0 and batch.age >= SETTLED and steady


# The figures of warm batches

_COSTS = (
    ("record", "stages.0.cost_ms", "ms", 1000.0),
    ("task", "stages.0.task_ms", "ms", 1000.0),
    ("fixed", "stages.1.task_ms", "ms", 1000.0),
    ("serial", "stages.1.cost_ms", "ms", 1000.0),
)


def _batch_costs(fit: Fit) -> list[Estimate]:
    found = []
    for term, key, unit, scale in _COSTS:
        if term in fit.values:
            low, high = fit.intervals[term]
            why, interval = "regression over the warm batches", (scale * low, scale * high)
            found.append(Estimate(key, scale * fit.values[term], unit, fit.points, why, interval))
        else:
            found.append(_unidentified(key, 0.0, unit, fit.points, fit.given_up[term]))
    return found


def _fetch_wait(run: RealRun, fit: Fit) -> Estimate:
    """The longest wait for the next record is a setting of the source; the batches show whether tasks wait."""
    key, longest_s = "stages.0.fetch_wait_s", run.setup.longest_wait_s
    if "fetch" not in fit.values:
        return _unidentified(key, 0.0, "s", fit.points, fit.given_up["fetch"])
    low, high = fit.intervals["fetch"]
    why = "fetch.max.wait.ms of the source; the batches do not speak against it"
    return Estimate(key, longest_s, "s", fit.points, why, (longest_s * low, longest_s * high))


def _job_values(run: RealRun, name: str, found: dict[str, float]) -> dict[str, Any]:
    setup, settings = run.setup, run.setup.settings
    bounds = settings.get("executors") or [1, max(1, max(len(run.executors), 1))]
    used = {key: float(f"{value:.6g}") for key, value in found.items()}
    period = max(setup.trigger_s, Objective.parse(settings["objective"]).lag_s / 2)
    return {
        "schema": "rheostat.job/1",
        "name": name,
        "model": "micro-batch",
        "objective": settings["objective"],
        "executors": list(bounds),
        "decide_every_s": min(float(settings["sample_s"]), ceil(period)),
        "trigger_s": setup.trigger_s,
        "partitions": setup.partitions,
        "batch_cap": setup.batch_cap,
        "stages": [
            {
                "name": "read",
                "cost_ms": used["stages.0.cost_ms"],
                "task_ms": used["stages.0.task_ms"],
                "fetch_wait_s": used["stages.0.fetch_wait_s"],
            },
            {
                "name": "rest",
                "tasks": 1,
                "cost_ms": used["stages.1.cost_ms"],
                "task_ms": used["stages.1.task_ms"],
                "stateful": True,
            },
        ],
        "driver": {"planning_s": used["driver.planning_s"], "commit_s": used["driver.commit_s"]},
        "executor": {
            "cores": setup.cores,
            "start_up": {
                "median_s": used["executor.start_up.median_s"],
                "p95_s": used["executor.start_up.p95_s"],
            },
            "crowding": used["executor.crowding"],
            "slows_neighbours": used["executor.slows_neighbours"],
            "cold_task_s": used["executor.cold_task_s"],
        },
        "state": {"reload_s": used["state.reload_s"]},
        "batch_noise_cv": min(2.0, used["batch_noise_cv"]),
    }


# A figure with its interval


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure of the job file.

    Attributes:
        key: dotted, as in the file.
        n: measurements behind it.
        why: how it was found, or why it could not be.
        interval: 95 %; None: none.
        identified: False: the runs do not identify it; it is the default, or 0 where the file has none.
    """

    key: str
    value: float
    unit: str
    n: int
    why: str
    interval: Interval = None
    identified: bool = True

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        interval = None if self.interval is None else list(self.interval)
        figures = {"key": self.key, "value": self.value, "unit": self.unit, "interval": interval, "n": self.n}
        return {**figures, "identified": self.identified, "why": self.why}


def _unidentified(key: str, value: float, unit: str, n: int, why: str, interval: Interval = None) -> Estimate:
    return Estimate(key, value, unit, n, why, interval, identified=False)


def _median(key: str, samples: Sequence[float], unit: str, why: str) -> Estimate:
    return Estimate(key, float(np.median(samples)), unit, len(samples), why, _median_interval(samples))


def _median_interval(samples: Sequence[float]) -> Interval:
    """The 95 % percentile interval of the median, by seeded resampling; None under three samples."""
    if len(samples) < 3:
        return None
    random = np.random.default_rng(1)
    found = np.median(random.choice(np.array(samples), (_RESAMPLES, len(samples))), axis=1)
    low, high = np.percentile(found, [2.5, 97.5])
    return float(low), float(high)


# Executors: their start-up, their cold first tasks, and what they take from their neighbours


def _executor_costs(runs: Sequence[RealRun], pairs: Pairs, fit: Fit) -> list[Estimate]:
    """Start-ups, crowding, the slow-down of neighbours, and cold slots. ``pairs``: the batches after the warm-up."""
    start_ups = [each for run in runs for each in run.start_ups]
    crowding = _crowding(start_ups)
    slows = _neighbour_slow_down(pairs, fit)
    share = slows.value if slows.identified else 0.0
    return [*_start_up(start_ups), crowding, slows, _cold_task(pairs, fit, share, crowding.value)]


def _start_up(start_ups: Sequence[tuple[float, int]]) -> list[Estimate]:
    singles = [took for took, together in start_ups if together == 1]
    used = singles or [took for took, _ in start_ups]
    median_key, p95_key, n = "executor.start_up.median_s", "executor.start_up.p95_s", len(used)
    if n < 3:
        why = f"too few start-ups ({n} seen)"
        default = JobFile.model_fields["executor"].default.start_up
        return [
            _unidentified(median_key, default.median_s, "s", n, why),
            _unidentified(p95_key, default.p95_s, "s", n, why),
        ]
    logs = np.log(used)
    p95 = float(np.exp(np.mean(logs) + 1.645 * np.std(logs, ddof=1)))
    why = "from the request to the registration, one executor requested" if singles else "all start-ups"
    median = _median(median_key, used, "s", why)
    return [median, Estimate(p95_key, max(median.value, p95), "s", n, f"{why}; log-normal")]


def _crowding(start_ups: Sequence[tuple[float, int]]) -> Estimate:
    singles = [took for took, together in start_ups if together == 1]
    several = [(took, together) for took, together in start_ups if together > 1]
    key = "executor.crowding"
    if not singles or not several:
        why = "executors were never requested both singly and together"
        return _unidentified(key, 0.0, "", len(several), why)
    alone = float(np.median(singles))
    shares = [(took / alone - 1) / (together - 1) for took, together in several]
    value, why = max(0.0, float(np.median(shares))), "start-ups together ÷ start-ups alone"
    return Estimate(key, value, "", len(shares), why, _median_interval(shares))


def _neighbour_slow_down(pairs: Pairs, fit: Fit) -> Estimate:
    """Slow-down of a batch by executors that start meanwhile and register after it."""
    key, shares = "executor.slows_neighbours", []
    for run, batch in pairs:
        if batch.starting_s > 0.5 and not batch.joined and not batch.cold and batch.executors and not batch.shrunk:
            excess = fit.excess_s(run, batch)
            shares.append(excess / max(0.1, batch.starting_s - max(0.0, excess)))
    return _median_above_zero(key, shares, "", "batches with a start-up in them", "batches with a start-up in them")


def _reload_cost(pairs: Pairs, fit: Fit) -> Estimate:
    """What a batch takes longer after executors were removed."""
    found = [fit.excess_s(run, batch) for run, batch in pairs if batch.shrunk and batch.executors and not batch.joined]
    return _median_above_zero("state.reload_s", found, "s", "after decreases", "batches after a decrease")


def _median_above_zero(key: str, samples: Sequence[float], unit: str, why: str, which: str) -> Estimate:
    """The median if its interval is above 0, else 0."""
    interval = _median_interval(samples)
    if interval is None or interval[0] <= 0:
        return _unidentified(key, 0.0, unit, len(samples), f"{which} do not show it ({len(samples)} seen)", interval)
    return Estimate(key, float(np.median(samples)), unit, len(samples), why, interval)


def _cold_task(pairs: Pairs, fit: Fit, share: float, crowding: float) -> Estimate:
    """The extra time of a slot's first task that explains the batches after executors have come."""
    key = "executor.cold_task_s"
    found = [cold for episode in _episodes(pairs) if (cold := _cold_of(episode, fit, share, crowding)) is not None]
    if not found:
        default = JobFile.model_fields["executor"].default.cold_task_s
        return _unidentified(key, default, "s", 0, "no executor was seen to join a running query")
    why = "the batch that executors join, and the two after it, against warm ones"
    return _median(key, found, "s", why)


def _episodes(pairs: Pairs) -> list[list[tuple[RealRun, RealBatch]]]:
    """Batches that executors joined or began cold in, each with the next two if nothing happened in them."""
    found: list[list[tuple[RealRun, RealBatch]]] = []
    for run, batch in pairs:
        if (batch.joined or batch.cold) and batch.executors is not None and not batch.shrunk:
            found.append([(run, batch)])
        elif (
            found and len(found[-1]) <= _AFTER and found[-1][0][0] is run and not batch.starting_s and not batch.shrunk
        ):
            found[-1].append((run, batch))
    return found


def _cold_of(episode: Pairs, fit: Fit, share: float, crowding: float) -> float | None:
    """The extra time with which the batches of an episode together take as long as measured; None: no effect."""
    if any(not batch.executors for _, batch in episode):
        return None
    measured = sum(batch.tasks_s - batch.starting_s * share / (1 + share) for _, batch in episode)

    def predicted(cold_s: float) -> float:
        cores = episode[0][0].setup.cores
        total, fresh = 0.0, episode[0][1].cold * cores
        for run, batch in episode:
            task_s, after_s, count = fit.tasks(Point.of(run, batch))
            ready = [0.0] * fresh + [max(0.0, at - batch.planning_s) for at in batch.joined for _ in range(cores)]
            warm = [0.0] * ((batch.executors or 0) * cores - fresh)
            # like the simulator: executors that are cold at about the same time slow one another down
            beside = [max(0, sum(abs(at - other) < cold_s for other in ready) // cores - 1) for at in ready]
            crowded = [cold_s * (1 + crowding * number) for number in beside]
            end, fresh = _place_tasks(warm, list(zip(ready, crowded, strict=True)), [task_s] * count)
            total += end + after_s
        return total

    if predicted(_LONGEST_COLD_S) - predicted(0.0) < 1.0:
        return None
    return _find_root(predicted, measured, _LONGEST_COLD_S)


def _place_tasks(
    warm: Sequence[float], fresh: Sequence[tuple[float, float]], tasks: Sequence[float]
) -> tuple[float, int]:
    """When the last task ends, and how many fresh slots ran none.

    Each task in turn goes to the slot that is free first.

    Args:
        warm: when each warm slot is free.
        fresh: the same for cold ones, and how much longer the first task there takes.
        tasks: seconds of each.
    """
    free = [(at, 0.0) for at in warm] + list(fresh)
    last = 0.0
    for seconds in tasks:
        at, cold_s = slot = min(free)
        free.remove(slot)
        end = at + seconds + cold_s
        free.append((end, 0.0))
        last = max(last, end)
    return last, sum(cold_s > 0 for _, cold_s in free)


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
    """A warm batch.

    Attributes:
        rate: records/s that arrived meanwhile, in all partitions.
        jobs_s: what was measured.
        wait_s: how long a task may wait for the next record; 0: not at all.
    """

    records: int
    slots: int
    partitions: int
    rate: float
    jobs_s: float
    wait_s: float = 0.0

    @classmethod
    def of(cls, run: RealRun, batch: RealBatch) -> Point:
        """A batch of a run; one slot where its executors are not known."""
        slots = max(1, (batch.executors or 0) * run.setup.cores)
        rate = run.arrival_rate(batch.start, batch.end)
        return cls(
            records=batch.records,
            slots=slots,
            partitions=run.setup.partitions,
            rate=rate,
            jobs_s=batch.tasks_s,
            wait_s=run.setup.longest_wait_s,
        )

    @property
    def waves(self) -> int:
        """Rounds of reading tasks."""
        return ceil(min(self.partitions, self.records) / self.slots)


@dataclass(frozen=True, slots=True)
class Term:
    """One unknown and its factor; ``needed``: a fit without it makes no sense."""

    name: str
    of: Callable[[Point], float]
    needed: bool = False


_FETCH = Term("fetch", lambda p: p.waves * next_record_s(p.rate / p.partitions, p.wait_s))

TERMS = (
    Term("record", lambda p: p.waves * p.records / p.partitions, needed=True),
    Term("fixed", lambda _: 1.0),
    _FETCH,
    Term("task", lambda p: float(p.waves)),
    Term("serial", lambda p: float(p.records)),
)
"""The unknowns; the last ones are given up first."""


@dataclass(frozen=True, slots=True)
class Fit:
    """The costs of a batch.

    Attributes:
        values: of the terms that could be told apart; seconds.
        intervals: their 95 % intervals.
        given_up: the other terms, and why.
        condition: of the matrix with columns of length 1, for the terms that were kept.
        noise: median absolute residual ÷ measured time, × 1.4826: the coefficient of variation without outliers.
        points: batches.
    """

    values: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    given_up: dict[str, str]
    condition: float
    noise: float
    points: int

    def jobs_s(self, point: Point) -> float:
        """The expected time of a batch's jobs."""
        return sum(self.values[term.name] * term.of(point) for term in TERMS if term.name in self.values)

    def excess_s(self, run: RealRun, batch: RealBatch) -> float:
        """How much longer a batch took."""
        return batch.tasks_s - self.jobs_s(Point.of(run, batch))

    def tasks(self, point: Point) -> tuple[float, float, int]:
        """Time of a reading task, time of what comes after them, and how many there are."""
        values, count = self.values, min(point.partitions, point.records)
        wait = next_record_s(point.rate / point.partitions, point.wait_s) if "fetch" in values else 0.0
        task_s = values.get("task", 0.0) + wait + values["record"] * point.records / count
        return task_s, values.get("fixed", 0.0) + values.get("serial", 0.0) * point.records, count


def fit_batches(points: Sequence[Point]) -> Fit | None:
    """Fit the terms; None with fewer than 8 batches.

    A term is given up when the batches do not distinguish it from the others (its column makes the matrix
    ill-conditioned), or when they are explained as well without it; then the others are fitted again.
    """
    if len(points) < _LEAST_POINTS:
        return None
    times = np.array([point.jobs_s for point in points])
    known, factor, why = _fit_waiting(points, times)
    kept, given_up = [term for term in TERMS if term is not _FETCH], {} if factor else {_FETCH.name: why}
    while True:
        matrix = np.array([[term.of(point) for term in kept] for point in points])
        condition = _condition(matrix)
        if condition > _WORST_CONDITION and len(kept) > 1:
            worst = _most_collinear(kept, matrix)
            given_up[worst.name] = (
                f"these batches do not distinguish it from the other terms (condition {condition:.3g})"
            )
        else:
            spare = _find_spare(kept, matrix, times, known)
            if spare is None:
                break
            worst = spare
            given_up[worst.name] = "the batches are explained as well without it"
        kept.remove(worst)
    values, intervals = _fit_robustly(matrix, times, known), _intervals(matrix, times, known)
    names = [term.name for term in kept]
    relative = np.abs(times - known - matrix @ values) / times
    return Fit(
        values=dict(zip(names, values.tolist(), strict=True)) | ({_FETCH.name: 1.0} if factor else {}),
        intervals=dict(zip(names, intervals, strict=True)) | ({_FETCH.name: factor} if factor else {}),
        given_up=given_up,
        condition=condition,
        noise=1.4826 * float(np.median(relative)),
        points=len(points),
    )


def _fit_waiting(points: Sequence[Point], times: Array) -> tuple[Array, tuple[float, float] | None, str]:
    """The wait for the next record in each batch, the interval of its factor, and why it is left out (then it is 0).

    A source that may wait is taken to wait unless the batches are explained better without it.
    """
    none = np.zeros(len(points))
    fetch = np.array([_FETCH.of(point) for point in points])
    if float(np.max(fetch / times)) < _LEAST_SHARE:
        return none, None, "tasks cannot have waited long for the next record"
    others = np.array([[term.of(point) for term in TERMS if term is not _FETCH] for point in points])
    spread = _spread(others, times, fetch, _fit_robustly(others, times, fetch))
    gain = _loss(others, times, fetch, spread) - _loss(others, times, none, spread)
    if 2 * gain > np.log(len(points)):
        return none, None, "the batches are explained better without it"
    return fetch, _intervals(np.column_stack([fetch, others]), times)[0], ""


def _condition(matrix: Array) -> float:
    lengths = np.linalg.norm(matrix, axis=0)
    return float(np.linalg.cond(matrix / np.where(lengths > 0, lengths, 1.0)))


def _most_collinear(kept: Sequence[Term], matrix: Array) -> Term:
    """The term without which the matrix is conditioned best; of about equals the last one."""
    without = {
        term.name: _condition(np.delete(matrix, column, axis=1)) for column, term in enumerate(kept) if not term.needed
    }
    best = 1.1 * min(without.values())
    return next(term for term in reversed(kept) if without.get(term.name, np.inf) <= best)


def _find_spare(kept: Sequence[Term], matrix: Array, times: Array, known: Array) -> Term | None:
    """The term whose removal raises the loss least, if that is less than a term is worth: 2 · Δloss < ln(batches).

    The criterion of G. Schwarz, "Estimating the Dimension of a Model", 1978; the scale of the residuals is that with
    all the terms.
    """
    spread = _spread(matrix, times, known, _fit_robustly(matrix, times, known))
    with_all = _loss(matrix, times, known, spread)
    rises = {
        term.name: _loss(np.delete(matrix, column, axis=1), times, known, spread) - with_all
        for column, term in enumerate(kept)
        if not term.needed
    }
    least = min(kept, key=lambda term: rises.get(term.name, np.inf))
    return least if 2 * rises.get(least.name, np.inf) < np.log(len(times)) else None


def _spread(matrix: Array, times: Array, known: Array, values: Array) -> float:
    residuals = (times - known - matrix @ values) / times
    return max(1e-6, 1.4826 * float(np.median(np.abs(residuals))))


def _loss(matrix: Array, times: Array, known: Array, spread: float) -> float:
    """Sum of soft-L1 losses, √(1 + r²) − 1, of the residuals ÷ ``times`` ÷ ``spread``."""
    residuals = (times - known - matrix @ _fit_robustly(matrix, times, known)) / times / spread
    return float(np.sum(np.sqrt(1 + residuals**2) - 1))


def _fit_robustly(matrix: Array, times: Array, known: Array | float = 0.0) -> Array:
    """Values ≥ 0 with soft-L1 loss of the residuals ÷ ``times``; columns are scaled to length 1 meanwhile.

    ``known``: what is known of each time already.
    """
    weighted, wanted = matrix / times[:, None], 1 - known / times
    lengths = np.linalg.norm(weighted, axis=0)
    scaled = weighted / np.where(lengths > 0, lengths, 1.0)
    start = np.maximum(np.linalg.lstsq(scaled, wanted, rcond=None)[0], 1e-6)
    spread = max(1e-6, 1.4826 * float(np.median(np.abs(wanted - scaled @ start))))
    found = least_squares(
        lambda x: scaled @ x - wanted,
        start,
        jac=lambda _: scaled,
        bounds=(0.0, np.inf),
        loss="soft_l1",
        f_scale=spread,
    )
    values: Array = found.x / np.where(lengths > 0, lengths, 1.0)
    return values


def _intervals(matrix: Array, times: Array, known: Array | None = None) -> list[tuple[float, float]]:
    random = np.random.default_rng(1)
    draws = [random.integers(0, len(times), len(times)) for _ in range(_FIT_RESAMPLES)]
    ahead = np.zeros(len(times)) if known is None else known
    found = np.array([_fit_robustly(matrix[rows], times[rows], ahead[rows]) for rows in draws])
    low, high = np.percentile(found, [2.5, 97.5], axis=0)
    return [(float(a), float(b)) for a, b in zip(low, high, strict=True)]
