"""``rheostat bench train`` and ``bench fleet-train``: what it costs to train models, and what their parts are good for.

Training samples are those of a fluid job with known costs, of simulated and of recorded runs; clean or spoiled.
"""

from __future__ import annotations

import gc
import math
import os
import random
import tempfile
import time
import timeit
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rheostat.calibrate.recorded import Recording, read_recordings
from rheostat.errors import RheostatError
from rheostat.fleet.history import Row, jobs_in, write_rows
from rheostat.fleet.train import JobModel, session, train_fleet, train_job
from rheostat.host.java import find_java
from rheostat.journal.records import DecisionRecord
from rheostat.journal.store import MemoryJournal
from rheostat.judge.cases import Case, LoadSpec, PolicySpec, load_job, ready, settings_for
from rheostat.judge.simulate import run_loop, start_executors
from rheostat.learn.slow_records import (
    Array,
    Blocks,
    Sample,
    SlowModel,
    TrainingOptions,
    columns,
    orthonormal,
    refit_resamples,
    stability,
    train,
)
from rheostat.loop.build import build_decision_settings
from rheostat.model import Assessment
from rheostat.research.bench.harness import Bench, Metric, Watch, ignore_progress, load_note, metric
from rheostat.sim.job import SimulatedJob

# ------------------------------------------------------------------------------------------------ training samples

_INTERVAL_S = 15.0
_HOLD = 16
"""Samples dropped after each change: 240 s of 15 s."""
_SETTLES = 4
"""Samples dropped after each change in a simulated run: a minute."""
_SLA = 0.1
_SURPLUS_SAMPLES = 10
_MAX_SLOW = 1.0


@dataclass(frozen=True, slots=True)
class FluidJob:
    """A job that processes Σ costs · records at a rate proportional to its executors.

    ``costs``: of a record of each topic. ``capacity``: cost/s of one executor. ``most``: executors. ``noise``:
    coefficient of variation of rates and capacity. ``reading``: standard deviation of the error of slow records.
    """

    costs: tuple[float, ...] = (1.0,)
    capacity: float = 1000.0
    most: int = 12
    noise: float = 0.03
    reading: float = 0.02


def bell(sample: int) -> tuple[float, ...]:
    """S1, 5.2: from 0 to 4500 records/s and back in 5 h, again and again."""
    return (4500 * math.exp(-(((sample % 1200 - 600) / 220) ** 2) / 2),)


def two_waves(sample: int) -> tuple[float, ...]:
    """Two topics, about 2000 and 200 records/s, each with a period of its own."""
    return 2000 * (1 + 0.8 * math.sin(sample / 97)), 200 * (1 + 0.8 * math.sin(sample / 61 + 1))


def explore(job: FluidJob, rates: Callable[[int], tuple[float, ...]], rows: int, seed: int) -> list[Sample]:
    """Samples of S1's exploration of the job: one executor more at a violation, one less after ten surpluses.

    ``rates``: records/s of each topic in an interval, by its number; ``rows``: number of samples.
    """
    random = np.random.default_rng(seed)

    def about_one() -> float:
        return 1 + job.noise * float(random.standard_normal())

    samples: list[Sample] = []
    executors, backlog, streak, hold, sample = 1, 0.0, 0, 0, 0
    while len(samples) < rows:
        workload = tuple(max(0.0, rate * about_one()) for rate in rates(sample))
        work = sum(cost * rate for cost, rate in zip(job.costs, workload, strict=True))
        backlog = max(0.0, backlog + (work - executors * job.capacity * about_one()) * _INTERVAL_S)
        slow = backlog / max(1.0, work * _INTERVAL_S) + max(0.0, job.reading * random.standard_normal())
        sample, hold = sample + 1, hold - 1
        if hold >= 0:
            backlog = 0.0 if hold >= _HOLD // 2 else backlog
            continue
        samples.append(Sample(sample * _INTERVAL_S, workload, executors, float(min(slow, _MAX_SLOW))))
        surplus = executors > max(1, math.ceil(work / (0.9 * job.capacity)))
        streak = streak + 1 if surplus and slow < _SLA else 0
        if slow >= _SLA and executors < job.most:
            executors, hold = executors + 1, _HOLD
        elif streak == _SURPLUS_SAMPLES:
            executors, hold, streak = executors - 1, _HOLD, 0
    return samples


def spoil(samples: Sequence[Sample], seed: int) -> tuple[list[Sample], set[int]]:
    """The samples with stalls (about one in twenty, one to three in a row) and wrong rates (one in a hundred).

    With the numbers of those that were spoiled.
    """
    random, spoiled, wrong = np.random.default_rng(seed), list(samples), set()
    for row in range(len(spoiled)):
        draw = random.random()
        if draw < 0.025:
            for other in range(row, min(len(spoiled), row + int(random.integers(1, 4)))):
                spoiled[other] = spoiled[other]._replace(slow=spoiled[other].slow + float(random.uniform(0.2, 1.0)))
                wrong.add(other)
        elif draw < 0.035:
            factor = float(random.choice([0.0, 0.1, 10.0]))
            spoiled[row] = spoiled[row]._replace(workload=tuple(factor * rate for rate in spoiled[row].workload))
            wrong.add(row)
    return spoiled, wrong


def simulate_samples(shape: str, seed: int) -> list[Sample]:
    """Samples of the simulated job ``base`` under ``reactive:faithful``."""
    job = load_job("base")
    load = ready(Case(job, "base", LoadSpec(shape, shape=shape), seed=seed)).load
    settings, journal = settings_for(job, PolicySpec("reactive", "faithful")), MemoryJournal()
    simulated = SimulatedJob(job, load.curve, seed, start_executors(job, load))
    lasts = load.curve.duration
    decision_settings = build_decision_settings(settings)
    run_loop(simulated, settings, decision_settings, journal, lambda _, later: later >= lasts, job=job.name)
    return list(_samples(each.assessment for each in journal.records if isinstance(each, DecisionRecord)))


def _samples(assessments: Iterable[Assessment | None]) -> Iterator[Sample]:
    executors, hold = None, 0
    for each in assessments:
        if each is None:
            continue
        hold = _SETTLES if each.executors != executors else hold - 1
        executors = each.executors
        if hold > 0 or executors is None or not each.arrival_rate or each.backlog_excess is None:
            continue
        slow = min(each.backlog_excess / (each.arrival_rate * _INTERVAL_S), _MAX_SLOW)
        yield Sample(each.at, (each.arrival_rate,), executors, slow)


def read_recorded(path: Path) -> dict[str, list[Sample]]:
    """Samples of the runs of a CSV file (run, second, throughput, consumer_lag, task_managers), by name.

    Slow records are the backlog ÷ the arrivals of an interval; arrivals are the records processed plus the growth of
    the backlog. Rows at which the number of workers changes are left out.

    Raises:
        InputError: the file cannot be read, or a row is wrong.
    """
    return {run.name: list(_recorded_samples(run)) for run in read_recordings(path)}


def _recorded_samples(run: Recording) -> Iterator[Sample]:
    steps = np.diff(run.seconds)
    arrived = run.throughput[:-1] + np.diff(run.backlog) / steps
    for row in range(1, arrived.size):
        workers, rate = run.workers[row], float(arrived[row])
        steady = abs(workers - np.round(workers)) <= 0.02 and abs(run.workers[row - 1] - workers) <= 0.02
        if not steady or workers < 1 or not rate > 0 or not run.backlog[row] >= 0:
            continue
        slow = min(float(run.backlog[row] / (rate * steps[row])), _MAX_SLOW)
        yield Sample(float(run.seconds[row]), (rate,), round(float(workers)), slow)


# ------------------------------------------------------------------------- bench train: the model of slow records

_TRAIN_ROWS, _RUNS = 450, 60
_TARGET_S = 0.1
_CAPACITY = 1000.0
_DEGREES = TrainingOptions().degrees
_LIMITS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1)
_LITERAL_LIMIT = 0.05
_MUCH = 0.03
_SPOILT_SHARE = 0.05
_SHAPES = ("gaussian:0..4500@18000", "bursts:1..6@14400,on=300,off=900", "shift:1..6@14400,every=1800")
_SEEDS = range(1, 11)
_TWO_TOPICS = FluidJob(costs=(1.0, 10.0), capacity=1000.0)
_MEAN_COST = 20 / 11
"""Of a record, over both topics: 2000 records/s of the first, 200 of the second."""


def run_train(watch: Watch = ignore_progress, runs: Mapping[str, Sequence[Sample]] | None = None) -> Bench:
    """Time training and the stability check; calibrate λ; try outliers and two topics.

    ``runs``: recorded samples, by name, that λ is checked on too.
    """
    load = os.getloadavg()
    steps: list[tuple[str, Callable[[], list[Metric]]]] = [
        ("training and stability check", _times),
        ("deviation of each degree", _degrees),
        ("the limit of stability", lambda: _limits(_sets(), "")),
        ("the capacity that the model believes", _measure_capacity),
        ("outliers", _outliers),
        ("two topics", _topics),
    ]
    if runs is not None:
        recorded_sets = (each for run in runs.values() for each in _beginnings(run, (450, 1000, 2500)))
        steps.append(("the limit of stability, recorded runs", lambda: _limits(recorded_sets, "recorded: ")))
    metrics: list[Metric] = []
    for number, (words, step) in enumerate(steps):
        watch(number, len(steps), words)
        metrics += step()
    return Bench("train", metrics, (*_NOTES, load_note(load)))


def _times() -> list[Metric]:
    samples = explore(FluidJob(), bell, _TRAIN_ROWS, seed=1)
    everywhere, line = _points(samples), [((3000.0 + 100 * step,), 4) for step in range(11)]
    worst = TrainingOptions(degrees=(_DEGREES[-1],))
    highest = train(samples, _CAPACITY, worst)
    trained = train(samples, _CAPACITY)
    two = explore(_TWO_TOPICS, two_waves, _TRAIN_ROWS, seed=1)

    def whole() -> None:
        trained = train(samples, _CAPACITY)
        refits = refit_resamples(samples, trained)
        refits.deviation(everywhere)
        refits.deviation(line)
        trained.model.predict((3000.0,), 4)

    return [
        metric("training, both phases of the check, a prediction", _seconds(whole), "s", target=_TARGET_S),
        metric("of it training", _seconds(lambda: train(samples, _CAPACITY)), "s"),
        metric("of it one phase of the check", _seconds(lambda: stability(samples, trained, everywhere)), "s"),
        metric("one phase, degree 8", _seconds(lambda: stability(samples, highest, everywhere, worst)), "s"),
        metric("training, two topics", _seconds(lambda: train(two, None)), "s"),
        metric("a prediction", [_prediction_s(trained.model) * 1e6 for _ in range(_RUNS)], "µs"),
    ]


def _seconds(work: Callable[[], object]) -> list[float]:
    work()
    gc.collect()
    return timeit.repeat(work, "gc.enable()", number=1, repeat=_RUNS)


def _prediction_s(model: SlowModel) -> float:
    points = [((100.0 * load,), executors) for load, executors in product(range(50), range(1, 8))]
    begin = time.perf_counter()
    for workload, executors in points:
        model.predict(workload, executors)
    return (time.perf_counter() - begin) / len(points)


def _points(samples: Sequence[Sample]) -> list[tuple[Sequence[float], int]]:
    return [(sample.workload, sample.executors) for sample in samples]


class _DegreeFit(NamedTuple):
    """One degree on one set of samples: root mean square error on the blocks left out, and deviations.

    ``literal``: Algorithm 4 as printed: the model predicts resampled rows, mean of their deviations. ``blocks``: mean
    standard deviation of refits to resampled blocks.
    """

    error: float
    literal: float
    blocks: float


def _fit_degree(samples: Sequence[Sample], degree: int) -> _DegreeFit:
    options = TrainingOptions(degrees=(degree,), outliers=False)
    trained = train(samples, None, options)
    predicted = trained.model.polynomial.values(_rows(samples))
    drawn = np.random.default_rng(0).integers(0, len(samples), (options.resamples, len(samples)))
    literal = float(predicted[drawn].std(axis=1).mean())
    return _DegreeFit(trained.cv_errors[0][1], literal, stability(samples, trained, _points(samples), options))


def _rows(samples: Sequence[Sample]) -> Array:
    """Rates and executors, a row for each sample."""
    return np.array([[*sample.workload, sample.executors] for sample in samples], dtype=np.float64)


def _slow(samples: Sequence[Sample]) -> Array:
    return np.array([sample.slow for sample in samples])


def _degrees() -> list[Metric]:
    samples = explore(FluidJob(), bell, _TRAIN_ROWS, seed=1)
    metrics = []
    for degree in _DEGREES:
        fit = _fit_degree(samples, degree)
        rows = TrainingOptions(degrees=(degree,), outliers=False, block=1)
        by_rows = stability(samples, train(samples, None, rows), _points(samples), rows)
        metrics += [
            Metric(f"degree {degree}: {words}", value, "", _TRAIN_ROWS)
            for words, value in (
                ("deviation, as printed", fit.literal),
                ("deviation, rows resampled", by_rows),
                ("deviation, blocks resampled", fit.blocks),
                ("error on blocks left out", fit.error),
            )
        ]
    return metrics


def _sets() -> Iterator[list[Sample]]:
    """The first 300, 450 and 900 samples of runs of the fluid and of the simulated job."""
    for seed in _SEEDS:
        yield from _beginnings(explore(FluidJob(), bell, 900, seed), (300, 450, 900))
    for shape, seed in product(_SHAPES, range(1, 4)):
        yield from _beginnings(simulate_samples(shape, seed), (300, 450, 900))


def _beginnings(samples: Sequence[Sample], lengths: Sequence[int]) -> Iterator[list[Sample]]:
    yield from (list(samples[:length]) for length in dict.fromkeys(min(length, len(samples)) for length in lengths))


def _limits(sets: Iterator[list[Sample]], title: str) -> list[Metric]:
    """For each rule: the share of models that pass, and of these the share that lose much on blocks left out."""
    models: list[_DegreeFit] = []
    losses: list[float] = []
    for samples in sets:
        fits = [_fit_degree(samples, degree) for degree in _DEGREES]
        best = min(fit.error for fit in fits)
        models += fits
        losses += [fit.error - best for fit in fits]
    lost = np.array(losses)
    metrics = _rule(f"{title}as printed ≤ {_LITERAL_LIMIT}", [fit.literal <= _LITERAL_LIMIT for fit in models], lost)
    well = None
    for limit in _LIMITS:
        passed = [fit.blocks <= limit for fit in models]
        metrics += _rule(f"{title}blocks ≤ {limit}", passed, lost)
        well = limit if (metrics[-2].value or 0.0) <= _SPOILT_SHARE else well
    return [*metrics, Metric(f"{title}largest λ with at most one in twenty too wrong", well, "", len(models))]


def _rule(name: str, passes: Sequence[bool], lost: Array) -> list[Metric]:
    passed, wrong = np.array(passes), lost > _MUCH
    return [
        Metric(f"{name}: of those that pass, too wrong", _share(wrong[passed]), "", int(passed.sum())),
        Metric(f"{name}: of those not too wrong, pass", _share(passed[~wrong]), "", int((~wrong).sum())),
    ]


def _share(flags: npt.NDArray[np.bool_]) -> float | None:
    return float(flags.mean()) if flags.size else None


def _measure_capacity() -> list[Metric]:
    """Load that the model lets pass as a share of the true capacity, at the executors in its samples."""
    ratios = []
    for seed in _SEEDS:
        model = train(explore(FluidJob(), bell, _TRAIN_ROWS, seed), _CAPACITY).model
        for executors in {span.executors for span in model.seen}:
            loads = np.arange(0.5, 1.5, 0.005) * executors * _CAPACITY
            passes = [load for load in loads if model.predict((load,), executors) < model.objective]
            ratios.append(max(passes) / (executors * _CAPACITY))
    return [
        metric("load below the objective ÷ true capacity, median", ratios, "×"),
        metric("the same, smallest", ratios, "×", lambda values: float(values.min())),
        metric("the same, largest", ratios, "×", lambda values: float(values.max())),
    ]


def _outliers() -> list[Metric]:
    without = TrainingOptions(outliers=False)
    errors: dict[str, list[float]] = {name: [] for name in ("clean", "clean, searched", "spoiled", "spoiled, searched")}
    counts = Counter[str]()
    for seed in _SEEDS:
        clean, unseen = (explore(FluidJob(), bell, _TRAIN_ROWS, s) for s in (seed, 100 + seed))
        dirty, bad = spoil(clean, seed)
        searched, dirty_searched = train(clean, _CAPACITY), train(dirty, _CAPACITY)
        models = (train(clean, _CAPACITY, without), searched, train(dirty, _CAPACITY, without), dirty_searched)
        for values, trained in zip(errors.values(), models, strict=True):
            values.append(_error(trained.model, unseen))
        late = {row for row, sample in enumerate(clean) if sample.slow >= without.objective}
        left_out = set(dirty_searched.left_out)
        counts.update(wrong=len(bad), found=len(bad & left_out), falsely=len(left_out - bad), late=len(late))
        counts.update(ours=len(late.intersection(searched.left_out)), theirs=len(late & _far_out(clean)))
    rows, late_n = _TRAIN_ROWS * len(_SEEDS), counts["late"]
    return [
        *(metric(f"outliers: error, {name}", values, "") for name, values in errors.items()),
        *(
            metric(
                f"outliers: {kind}, error with the search ÷ without",
                _ratios(errors[f"{kind}, searched"], errors[kind]),
                "×",
                fmean,
                target=target,
            )
            for kind, target in (("spoiled", 1.0), ("clean", 1.02))
        ),
        Metric("outliers: spoiled samples that are found", counts["found"] / counts["wrong"], "", counts["wrong"]),
        Metric("outliers: others that are left out with them", float(counts["falsely"]), "samples", rows),
        Metric("outliers: violations in clean samples that are left out", float(counts["ours"]), "samples", late_n),
        Metric("outliers: the same by residuals beyond 5 deviations", float(counts["theirs"]), "samples", late_n),
    ]


def _ratios(ones: Sequence[float], others: Sequence[float]) -> list[float]:
    return [one / other for one, other in zip(ones, others, strict=True)]


def _far_out(samples: Sequence[Sample]) -> set[int]:
    """The usual way: residuals of a fit beyond five robust standard deviations."""
    slow = _slow(samples)
    _, basis = orthonormal(_rows(samples), 3)
    rest = np.abs(slow - basis @ (basis.T @ slow))
    scale = max(1.4826 * float(np.median(rest)), 0.01)
    return set(np.flatnonzero(rest > 5.0 * scale).tolist())


def _topics() -> list[Metric]:
    errors: dict[str, list[float]] = defaultdict(list)
    ratios, w_max = [], _TWO_TOPICS.capacity / _MEAN_COST
    for seed in _SEEDS:
        known, unseen = (explore(_TWO_TOPICS, two_waves, _TRAIN_ROWS, s) for s in (seed, 100 + seed))
        summed, by_sum = _sum_topics(unseen), train(_sum_topics(known), w_max).model
        by_vector = train(known, w_max).model
        errors["the sum"].append(_error(by_sum, summed))
        errors["the vector"].append(_error(by_vector, unseen))
        errors["the sum, polynomial alone"].append(_raw_error(by_sum, summed))
        errors["the vector, polynomial alone"].append(_raw_error(by_vector, unseen))
        errors["one of all rates"].append(_error_of_all_rates(known, unseen))
        ratios.append(by_vector.costs[1] / by_vector.costs[0])
    gain = _ratios(errors["the vector"], errors["the sum"])
    return [
        *(metric(f"two topics: error by {name}", values, "") for name, values in errors.items()),
        metric("two topics: error by the vector ÷ by the sum", gain, "×", fmean, target=1.0),
        metric("two topics: cost of a record, second ÷ first; in truth 10", ratios, "×"),
    ]


def _sum_topics(samples: Sequence[Sample]) -> list[Sample]:
    return [sample._replace(workload=(sum(sample.workload),)) for sample in samples]


def _error(model: SlowModel, unseen: Sequence[Sample]) -> float:
    """Root mean square error of predictions."""
    predicted = np.array([model.predict(sample.workload, sample.executors) for sample in unseen])
    return _rms(np.minimum(predicted, 1.0), unseen)


def _raw_error(model: SlowModel, unseen: Sequence[Sample]) -> float:
    """Error of the polynomial alone, cut off at 0 and 1."""
    rows = _rows(unseen)
    points = np.column_stack([rows[:, :-1] @ np.array(model.costs), rows[:, -1]])
    return _rms(np.clip(model.polynomial.values(points), 0.0, 1.0), unseen)


def _error_of_all_rates(known: Sequence[Sample], unseen: Sequence[Sample]) -> float:
    """Error of a polynomial of all rates and the executors."""
    points, others, slow = _rows(known), _rows(unseen), _slow(known)
    variables = points.shape[1]
    degrees = [degree for degree in _DEGREES if 2 * columns(variables, degree) <= len(known)]
    basis, values = orthonormal(points, degrees[-1])
    options = TrainingOptions()
    blocks = Blocks.of(values, slow, options.block)
    errors = blocks.errors(values, slow, [columns(variables, degree) for degree in degrees], options.folds)
    degree = min(zip(errors, degrees, strict=True))[1]
    weights = values[:, : columns(variables, degree)].T @ slow
    return _rms(np.clip(basis.at(others, degree) @ weights, 0.0, 1.0), unseen)


def _rms(predicted: Array, unseen: Sequence[Sample]) -> float:
    return float(np.sqrt(np.mean((predicted - _slow(unseen)) ** 2)))


_NOTES = (
    "450 samples of a fluid job of 1000 records/s an executor, explored as in 5.2 of [S1](policies.md#sources) (a bell "
    "of 4500 records/s in 5 h, each 15 s, 240 s of hold); degrees 1 to 8, k = 250, blocks of 30. Wall time, median of "
    "60 runs. The thesis (5.5): 5 s for training, 60 s for the check.",
    "Deviation: as printed, Algorithm 4 takes the spread of one model's predictions over resampled rows; the others "
    "are the mean standard deviation of refits. Error: root mean square over five folds of blocks.",
    f"Limits: 30 sets of the fluid job, 27 of the simulated job base under reactive:faithful, all degrees. Too wrong: "
    f"on blocks left out, the error is more than {_MUCH} above that of the set's best degree.",
    "Outliers: ten runs of 450 samples, with stalls (one to three samples of 0.2 to 1 slow records more, about one "
    "sample in twenty) and wrong rates (0, a tenth or ten times, one in a hundred); errors on ten other, clean runs.",
    "Two topics: a record of the second costs ten times one of the first; ten runs of 450 samples, errors on ten other "
    "runs. Polynomial alone: without what makes it monotone. One of all rates: of both rates and the executors, "
    "without costs.",
)


# ------------------ bench fleet-train: models for a thousand jobs, in one PySpark pipeline and one after the other

_JOBS, _ROWS = 1000, 450
_WARM_UP = 20
_ROUNDING = 1e-9
_FLEET_OPTIONS, _TASKS = TrainingOptions(), os.cpu_count() or 1


def run_fleet_train(watch: Watch = ignore_progress) -> Bench:
    """Train 1000 jobs of 450 samples both ways, and compare the models. Raises RheostatError: a job has no model."""
    load = os.getloadavg()
    os.environ.setdefault("JAVA_HOME", str(find_java().home))
    with tempfile.TemporaryDirectory(prefix="rheostat-fleet-") as folder:
        history = Path(folder)
        for number in range(_JOBS):
            watch(number, _JOBS, "writing the history")
            write_rows(history, f"job-{number:04}", "synthetic", synthetic_rows(number, _ROWS))
        return Bench("fleet-train", _train_both_ways(jobs_in(history), watch), (*_FLEET_NOTES, load_note(load)))


def synthetic_rows(seed: int, count: int) -> list[Row]:
    """Rows of a job under a wave of load: executors follow it late, and records are slow beyond their capacity.

    n executors carry ``each · n^scaling`` records/s; both, the wave and the noise come from the seed.
    """
    chance = random.Random(seed)
    each, scaling = chance.uniform(200, 2000), chance.uniform(0.8, 1.0)
    mean, length, phase = chance.uniform(2, 6), chance.uniform(80, 400), chance.uniform(0, math.tau)
    rows, executors = [], 2
    for number in range(count):
        wave = 1 + 0.5 * math.sin(math.tau * number / length + phase)
        load = mean * each * wave * chance.lognormvariate(0.0, 0.05)
        carried = each * executors**scaling
        late = max(0.0, load / carried - 0.95) * chance.uniform(0.8, 1.2)
        rows.append(Row(Sample(_INTERVAL_S * number, (load,), executors, min(1.0, late)), min(load, carried)))
        if number % 8 == 7:
            executors = max(1, math.ceil((load / each / 0.9) ** (1 / scaling)) - (number % 24 == 7))
    return rows


def compare_models(first: Sequence[JobModel], second: Sequence[JobModel]) -> tuple[int, float]:
    """Number of jobs with another degree; of the others the largest difference ÷ largest coefficient of the job."""
    others, largest = 0, 0.0
    for one, two in zip(first, second, strict=True):
        if one.job != two.job or one.degree != two.degree or one.coefficients is None or two.coefficients is None:
            others += 1
            continue
        most = max(map(abs, one.coefficients)) or 1.0
        difference = max(abs(a - b) for a, b in zip(one.coefficients, two.coefficients, strict=True))
        largest = max(largest, difference / most)
    return others, largest


def _train_both_ways(jobs: Mapping[str, Sequence[Path]], watch: Watch) -> list[Metric]:
    for job, files in list(jobs.items())[:_WARM_UP]:
        train_job(job, files, _FLEET_OPTIONS)
    begin, alone = time.perf_counter(), []
    for number, (job, files) in enumerate(jobs.items()):
        watch(number, len(jobs), "one after the other")
        alone.append(train_job(job, files, _FLEET_OPTIONS))
    alone_s = time.perf_counter() - begin
    watch(0, 0, f"in one pipeline on local[{_TASKS}]")
    begin = time.perf_counter()
    with session(f"local[{_TASKS}]") as spark:
        started_s = time.perf_counter() - begin
        together = train_fleet(spark, jobs, _FLEET_OPTIONS)
        together_s = time.perf_counter() - begin - started_s
        watch(0, 0, "and once more in the same session")
        again = time.perf_counter()
        train_fleet(spark, jobs, _FLEET_OPTIONS)
        again_s = time.perf_counter() - again
    faults = [f"{each.job}: {each.fault}" for each in [*alone, *together] if each.fault is not None]
    if faults:
        message = f"{len(faults)} jobs have no model, the first: {faults[0]}"
        raise RheostatError(message)
    others, largest = compare_models(alone, together)
    metrics = list[Metric]()
    for name, wall_s in (("one_after_the_other", alone_s), ("pipeline", together_s), ("pipeline_again", again_s)):
        metrics += [
            Metric(f"{name}_wall", wall_s, "s", 1),
            Metric(f"{name}_jobs", len(jobs) / wall_s, "jobs/s", len(jobs)),
            Metric(f"{name}_rows", len(jobs) * _ROWS / wall_s, "rows/s", len(jobs) * _ROWS),
        ]
    return [
        *metrics,
        Metric("session_start", started_s, "s", 1),
        Metric("speed_up_by_the_pipeline", alone_s / together_s, "times", 1),
        Metric("speed_up_by_the_pipeline_again", alone_s / again_s, "times", 1),
        Metric("jobs_with_another_degree", float(others), "jobs", len(alone), target=0.0),
        Metric("largest_difference_of_a_coefficient", largest, "of the largest", len(alone), target=_ROUNDING),
    ]


_FLEET_NOTES = (
    f"{_JOBS} synthetic jobs of {_ROWS} samples, a Parquet file each in a temporary folder: a wave of load with noise, "
    "executors that follow it late; seeded.",
    f"Each job: read, train (degrees {_FLEET_OPTIONS.degrees[0]} to {_FLEET_OPTIONS.degrees[-1]}), stability at its "
    f"samples (k = {_FLEET_OPTIONS.resamples}).",
    f"One after the other: in this process, warm. The pipeline: on local[{_TASKS}] in a fresh session, with the start "
    "of its Python workers. Again: in the same session.",
)
