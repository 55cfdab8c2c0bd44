"""``rheostat bench simulate``: what it takes to simulate a day of decisions under each policy."""

from __future__ import annotations

import importlib
import resource
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, NamedTuple

from rheostat.bench.measure import Bench, Metric, Watch, metric, unwatched
from rheostat.judge.cases import Case, LoadSpec, Ready, ready
from rheostat.judge.contenders import Contender
from rheostat.judge.processes import follow_parent
from rheostat.judge.simulate import simulate
from rheostat.plan import policy_names
from rheostat.sim.loading import load_job

__all__ = ["run"]

_DAY, _WARM_UP = "daily:1..5@86400", "daily:1..5@3600"
_RUNS = 5
_TARGET_S, _TARGET_MB = 1.0, 200.0
_LEFT_OUT = ("schedule",)
"""A timetable decides nothing."""
_TRAINING = (("rheostat.plan.proactive", "check"), ("rheostat.plan.mst_learning", "fit"))
"""Where policies have a model made: the module that calls, and what it calls."""


class Day(NamedTuple):
    """What a simulated run took, s: all but the training, and the training of its policy's models."""

    seconds: float
    training_s: float


def run(watch: Watch = unwatched) -> Bench:
    """Each policy in a process of its own, one after the other: the times of several runs, and the peak of memory."""
    metrics: list[Metric] = []
    peaks: list[float] = []
    policies = [name for name in policy_names() if name not in _LEFT_OUT]
    for number, policy in enumerate(policies):
        watch(number, len(policies), f"{_RUNS} days under {policy}")
        with ProcessPoolExecutor(1, get_context("spawn"), initializer=follow_parent) as process:
            days, peak_mb = process.submit(measure, policy).result()
        metrics.append(metric(f"a day, {policy}", [day.seconds for day in days], "s", target=_TARGET_S))
        if any(day.training_s for day in days):
            metrics.append(metric(f"its training, {policy}", [day.training_s for day in days], "s"))
        peaks.append(peak_mb)
    metrics.append(Metric("peak memory, the largest of them", max(peaks), "MB", len(peaks), target=_TARGET_MB))
    decisions = round(86_400 / load_job("base").decide_every_s)
    notes = (
        f"The job `base` under `{_DAY}`, its peak scaled to 80 % of what 20 executors carry: {decisions:,} decisions, "
        f"24 partitions, 1 to 20 executors. Median of {_RUNS} runs, wall time, after a warm-up of an hour.",
        "The whole production loop is in it: observation, analysis, policy, guards, journal (in memory), execution, "
        "and the simulated job itself. Reading the load, the score and the optimum are not.",
        "Training is apart: the time in which a policy has its model made (polynomials and the check of their "
        "stability, fits of the greatest throughput) is taken within the same runs, and is not in the figure of the "
        "day.",
        "Peak memory is the resident set of the process that did it, with Python and all that is imported.",
    )
    return Bench("simulate", metrics, notes)


def measure(policy: str) -> tuple[list[Day], float]:
    """What each run took, and the peak of the resident set in MB; for a process of its own."""
    day, hour = case_of(_DAY), case_of(_WARM_UP)
    simulated(policy, *hour)
    days = [simulated(policy, *day) for _ in range(_RUNS)]
    scale = 2**20 if sys.platform == "darwin" else 2**10
    return days, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale


def case_of(shape: str) -> tuple[Case, Ready]:
    """The job ``base`` under a load, ready to run."""
    case = Case(load_job("base"), "base", LoadSpec(shape, shape=shape), seed=1)
    return case, ready(case)


def simulated(policy: str, case: Case, this: Ready) -> Day:
    """Run it once."""
    with _training_timed() as spent:
        begun = time.perf_counter()
        simulate(case.job, this.load, Contender(policy), seed=case.seed)
        whole_s = time.perf_counter() - begun
    return Day(whole_s - sum(spent), sum(spent))


@contextmanager
def _training_timed() -> Iterator[list[float]]:
    """Meanwhile each call that makes a model is timed; the core itself has no clock."""
    spent: list[float] = []
    callers = [(importlib.import_module(module), name) for module, name in _TRAINING]
    untimed = [(caller, name, getattr(caller, name)) for caller, name in callers]
    for caller, name, makes in untimed:
        setattr(caller, name, _timed(makes, spent))
    try:
        yield spent
    finally:
        for caller, name, makes in untimed:
            setattr(caller, name, makes)


def _timed(makes: Callable[..., Any], spent: list[float]) -> Callable[..., Any]:
    def timed(*args: Any, **named: Any) -> Any:
        begun = time.perf_counter()
        try:
            return makes(*args, **named)
        finally:
            spent.append(time.perf_counter() - begun)

    return timed
