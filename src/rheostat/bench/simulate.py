"""``rheostat bench simulate``: what it takes to simulate a day of decisions under each policy."""

from __future__ import annotations

import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

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


def run(watch: Watch = unwatched) -> Bench:
    """Each policy in a process of its own, one after the other: the times of several runs, and the peak of memory."""
    metrics: list[Metric] = []
    peaks: list[float] = []
    policies = [name for name in policy_names() if name not in _LEFT_OUT]
    for number, policy in enumerate(policies):
        watch(number, len(policies), f"{_RUNS} days under {policy}")
        with ProcessPoolExecutor(1, get_context("spawn"), initializer=follow_parent) as process:
            times, peak_mb = process.submit(measure, policy).result()
        metrics.append(metric(f"a day, {policy}", times, "s", target=_TARGET_S))
        peaks.append(peak_mb)
    metrics.append(Metric("peak memory, the largest of them", max(peaks), "MB", len(peaks), target=_TARGET_MB))
    decisions = round(86_400 / load_job("base").decide_every_s)
    notes = (
        f"The job `base` under `{_DAY}`, its peak scaled to 80 % of what 20 executors carry: {decisions:,} decisions, "
        f"24 partitions, 1 to 20 executors. Median of {_RUNS} runs, wall time, after a warm-up of an hour.",
        "The whole production loop is in it: observation, analysis, policy, guards, journal (in memory), execution, "
        "and the simulated job itself. Reading the load, the score and the optimum are not.",
        "Peak memory is the resident set of the process that did it, with Python and all that is imported.",
    )
    return Bench("simulate", metrics, notes)


def measure(policy: str) -> tuple[list[float], float]:
    """Seconds of each run, and the peak of the resident set in MB; for a process of its own."""
    day, hour = _case(_DAY), _case(_WARM_UP)
    _seconds(policy, *hour)
    times = [_seconds(policy, *day) for _ in range(_RUNS)]
    scale = 2**20 if sys.platform == "darwin" else 2**10
    return times, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale


def _case(shape: str) -> tuple[Case, Ready]:
    case = Case(load_job("base"), "base", LoadSpec(shape, shape=shape), seed=1)
    return case, ready(case)


def _seconds(policy: str, case: Case, this: Ready) -> float:
    begun = time.perf_counter()
    simulate(case.job, this.load, Contender(policy), seed=case.seed)
    return time.perf_counter() - begun
