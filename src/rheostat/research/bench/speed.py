"""``rheostat bench decision`` and ``bench simulate``: the time of one decision, and of a simulated day of them."""

from __future__ import annotations

import gc
import importlib
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from rheostat.analyze.assess import analysis_settings, analyze
from rheostat.analyze.state import AnalysisState
from rheostat.config.loading import load_settings
from rheostat.decide.decide import decide
from rheostat.decide.policy import policy_names
from rheostat.judge.cases import Case, LoadSpec, PolicySpec, Ready, load_job, ready
from rheostat.judge.compare import follow_parent
from rheostat.judge.simulate import simulate
from rheostat.loop.build import build_decision_settings
from rheostat.model import Batch, Cluster, Observation, Offsets, QueryReading, Roster, RunningBatch, SourceInfo
from rheostat.policies.rheostat import RheostatPolicy
from rheostat.research.bench.harness import Bench, Metric, Watch, ignore_progress, metric

# ------------------------------------------------------------------------------------------------- bench decision

_WARM_UP, _CYCLES = 500, 5000
_TARGET_MS = 1.0
_STEPS = "shift:1..6@28800,every=1800"
_ALL_ON = {
    "tolerance": 0.05,
    "align_to": "waves",
    "most_partitions": 100.0,
    "largest_step_up": 4,
    "scale_down_hold_s": 300.0,
    "cooldown_up_s": 15.0,
    "warm_up_s": 60.0,
    "quota_cores": 64,
}
"""The guard steps that are off by default, without ``failover`` and ``hold_both``, which would end most others."""


def run_decision(watch: Watch = ignore_progress) -> Bench:
    """Time ``analyze`` and ``plan`` with all guard steps, for several numbers of partitions; and ``rheostat``."""
    metrics: list[Metric] = []
    for number, (partitions, target) in enumerate(sizes := ((16, _TARGET_MS), (97, None), (300, None))):
        watch(number, len(sizes) + 1, f"decisions over {partitions} partitions")
        times = _times_ms(partitions, _CYCLES if partitions == 16 else _CYCLES // 5)
        name = f"decision_p{{}}_{partitions}_partitions"
        metrics.append(metric(name.format(50), times, "ms"))
        metrics.append(metric(name.format(99), times, "ms", _percentile_99, target))
    watch(len(sizes), len(sizes) + 1, "a run under rheostat")
    times = recommend_times_ms(*case_of(_STEPS))
    metrics.append(metric("recommend_p50_rheostat", times, "ms"))
    metrics.append(metric("recommend_p99_rheostat", times, "ms", _percentile_99, _TARGET_MS))
    notes = (
        "One decision: analyze one observation (one query, 4 executors) and plan with the policy reactive and all "
        "guard steps. Journal, observation and execution are not in it. Garbage collection stays on.",
        f"recommend: processor time of the policy `rheostat` alone, in a run of the job `base` under `{_STEPS}`.",
    )
    return Bench("decision", metrics, notes)


def recommend_times_ms(case: Case, this: Ready) -> list[float]:
    """Processor time of each decision of ``rheostat`` in a simulated run, measured from outside."""
    spent = list[float]()
    with patch.object(RheostatPolicy, "recommend", _timed(RheostatPolicy.recommend, time.process_time, spent)):
        simulate(case.job, this.load, PolicySpec("rheostat"), seed=case.seed)
    return [each_s * 1000 for each_s in spent]


def _timed(call: Callable[..., Any], clock: Callable[[], float], spent: list[float]) -> Callable[..., Any]:
    """The same call, which adds to ``spent`` how long it took, s."""

    def time_call(*args: Any, **named: Any) -> Any:
        begin = clock()
        try:
            return call(*args, **named)
        finally:
            spent.append(clock() - begin)

    return time_call


def _percentile_99(values: np.ndarray) -> float:
    return float(np.percentile(values, 99))


def _times_ms(partitions: int, count: int) -> list[float]:
    settings = load_settings({"objective": "lag < 30s", "executors": [1, 20], "guard": _ALL_ON})
    decision_settings, analysis = build_decision_settings(settings), analysis_settings(settings)
    prepared = list(observations(_WARM_UP + count, Shape(partitions=partitions)))
    gc.collect()
    gc.freeze()  # collections must not walk over the prepared observations
    analyzed, state = AnalysisState(), decision_settings.initial()
    times = []
    for observation in prepared:
        begin = time.perf_counter()
        assessment, analyzed = analyze(observation, analyzed, analysis)
        _, state = decide(assessment, state, decision_settings)
        times.append((time.perf_counter() - begin) * 1000)
    gc.unfreeze()
    return times[_WARM_UP:]


# ------------------------------------------------------------------------------------------------- bench simulate

_DAY, _DAY_WARM_UP = "daily:1..5@86400", "daily:1..5@3600"
_RUNS = 5
_TARGET_S, _TARGET_MB = 2.0, 200.0
_LEFT_OUT = ("schedule",)
"""Policies without decisions of their own."""
_TRAINING = (("rheostat.policies.proactive", "check"), ("rheostat.policies.mst", "fit"))
"""Functions that train a model: the module that calls, and the name of the function there."""


class Day(NamedTuple):
    """Wall time of a simulated run without the training of its policy's models, and of the training, s."""

    seconds: float
    training_s: float


def run_simulate(watch: Watch = ignore_progress) -> Bench:
    """Time of several runs and peak memory of each policy, in a process of its own."""
    metrics: list[Metric] = []
    peaks: list[float] = []
    policies = [name for name in policy_names() if name not in _LEFT_OUT]
    for number, policy in enumerate(policies):
        watch(number, len(policies), f"{_RUNS} days under {policy}")
        with ProcessPoolExecutor(1, get_context("spawn"), initializer=follow_parent) as process:
            days, peak_mb = process.submit(measure_days, policy).result()
        metrics.append(metric(f"a day, {policy}", [day.seconds for day in days], "s", target=_TARGET_S))
        if any(day.training_s for day in days):
            metrics.append(metric(f"its training, {policy}", [day.training_s for day in days], "s"))
        peaks.append(peak_mb)
    metrics.append(Metric("peak memory, the largest of them", max(peaks), "MB", len(peaks), target=_TARGET_MB))
    decisions = round(86_400 / load_job("base").decide_every_s)
    notes = (
        f"The job `base` under `{_DAY}`, its peak scaled to 80 % of what 20 executors carry: {decisions:,} decisions, "
        f"24 partitions, 1 to 20 executors. Median of {_RUNS} runs, wall time, after a warm-up of an hour.",
        "The whole production loop is in it, with the journal in memory, and the simulated job itself. Reading the "
        "load, the score and the optimum are not.",
        "The time in which a policy trains its model is measured within the same runs, and is not in the day's figure.",
        "Peak memory is the resident set of the process, with Python and all that is imported.",
    )
    return Bench("simulate", metrics, notes)


def measure_days(policy: str) -> tuple[list[Day], float]:
    """Time of each run, and the peak of the resident set of this process in MB."""
    day, hour = case_of(_DAY), case_of(_DAY_WARM_UP)
    measure_run(policy, *hour)
    days = [measure_run(policy, *day) for _ in range(_RUNS)]
    scale = 2**20 if sys.platform == "darwin" else 2**10
    return days, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale


def case_of(shape: str) -> tuple[Case, Ready]:
    """The job ``base`` under a load, ready to run."""
    case = Case(load_job("base"), "base", LoadSpec(shape, shape=shape), seed=1)
    return case, ready(case)


def measure_run(policy: str, case: Case, this: Ready) -> Day:
    with _timed_training() as spent:
        begin = time.perf_counter()
        simulate(case.job, this.load, PolicySpec(policy), seed=case.seed)
        whole_s = time.perf_counter() - begin
    return Day(whole_s - sum(spent), sum(spent))


@contextmanager
def _timed_training() -> Iterator[list[float]]:
    """Time each call that trains a model, from outside: policies have no clock."""
    spent: list[float] = []

    with ExitStack() as patches:
        for module, name in _TRAINING:
            train = getattr(importlib.import_module(module), name)
            patches.enter_context(patch(f"{module}.{name}", _timed(train, time.perf_counter, spent)))
        yield spent


# ----------------------------------------------------------------- synthetic observations of a busy application

START = 1_764_280_800.0


@dataclass(frozen=True, slots=True)
class Shape:
    """Size of the application. ``rate``: records/s a partition; ``every_s``: between observations."""

    partitions: int = 16
    executors: int = 4
    rate: float = 150.0
    every_s: float = 15.0


def observations(count: int, shape: Shape = Shape()) -> Iterator[Observation]:
    """``count`` observations of one query whose batches take two samples each; always the same."""
    chance = random.Random(2)
    latest = [chance.randrange(10**9, 2 * 10**9) for _ in range(shape.partitions)]
    planned, committed = list(latest), list(latest)
    busy = [0] * shape.executors
    for number in range(count):
        at = START + number * shape.every_s + chance.random() / 10
        latest = [value + round(shape.every_s * shape.rate * chance.uniform(0.9, 1.1)) for value in latest]
        if number % 2:
            planned, committed = list(latest), planned
        busy = [value + chance.randrange(9000, 15000) for value in busy]
        yield _observation(at, number, (latest, planned, committed), busy)


def _observation(at: float, number: int, positions: tuple[list[int], ...], busy: list[int]) -> Observation:
    latest, planned, committed = map(tuple, positions)
    query = QueryReading(
        query_id="6d1f0b1e-8d5e-4c4b-9a53-0d0a3e2f7c11",
        run_id="0b8ad3f6-51f5-4d6a-8a5b-56d51c1f1f6d",
        name="click_fraud",
        trigger_s=5.0,
        sources=(
            SourceInfo(
                kind="kafka", name="clicks", partitions=len(latest), batch_cap=60_000, options={"subscribe": "clicks"}
            ),
        ),
        offsets=Offsets(
            at=at - 0.0312,
            topics=("clicks",) * len(latest),
            numbers=tuple(range(len(latest))),
            latest=latest,
            planned=planned,
            committed=committed,
        ),
        batch=Batch(
            at=at - 2.417,
            batch_id=number // 2,
            duration_s=4.212,
            planning_s=0.31,
            add_batch_s=3.612,
            commit_s=0.29,
            records=36_412,
            state_rows=120_331,
            dropped_late=3,
        ),
        running=RunningBatch(at - 0.01, active=True, batch_id=number // 2 + 1, since=at - 2.2),
    )
    places, count = range(len(busy)), len(busy)
    cluster = Cluster(
        at=at - 0.02,
        roster=Roster(
            ids=tuple([str(place) for place in places]),
            hosts=tuple([f"10.0.0.{place}" for place in places]),
            cores=(1,) * count,
            added_at=(START - 60,) * count,
            nodes=(None,) * count,
        ),
        active_tasks=(number % 2,) * count,
        failed_tasks=(0,) * count,
        finished_tasks=tuple([number * 8 + place for place in places]),
        busy_s=tuple([value / 1000 for value in busy]),
        requested=count,
        gc_s=tuple([value // 40 / 1000 for value in busy]),
    )
    return Observation(at, (query,), cluster)
