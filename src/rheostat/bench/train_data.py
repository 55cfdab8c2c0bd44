"""Samples to train on: of a fluid job with known costs, of simulated and of recorded runs; clean or spoiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, exp, sin
from pathlib import Path

import numpy as np

from rheostat.journal import DecisionRecord, OutcomeRecord, States
from rheostat.judge.cases import Case, LoadSpec, ready
from rheostat.judge.contenders import Contender, settings_for
from rheostat.judge.recorded import Recording, read_recordings
from rheostat.judge.recorder import Recorder
from rheostat.judge.simulate import start_executors
from rheostat.judge.simulated_time import SimulatedTime
from rheostat.learn import Sample
from rheostat.loop import Loop, build_planner
from rheostat.model import Assessment
from rheostat.sim.job import SimulatedJob
from rheostat.sim.loading import load_job

__all__ = ["FluidJob", "bell", "explored", "recorded", "simulated", "spoiled", "two_waves"]

_INTERVAL_S = 15.0
_HOLD = 16
"""Samples that are dropped after each change: 240 s of 15 s."""
_SLA = 0.1
_SETTLES = 4
"""Samples that are dropped after each change in a simulated run: a minute."""
_SURPLUS_SAMPLES = 10
_MOST_SLOW = 1.0
_WHOLE = 0.02


@dataclass(frozen=True, slots=True)
class FluidJob:
    """A job that works off Σ costs · records at a rate that is proportional to its executors.

    Attributes:
        costs: of a record of each topic.
        capacity: cost/s of one executor.
        most: executors.
        noise: coefficient of variation of rates and capacity, from sample to sample.
        reading: standard deviation of what is read too much of slow records.
    """

    costs: tuple[float, ...] = (1.0,)
    capacity: float = 1000.0
    most: int = 12
    noise: float = 0.03
    reading: float = 0.02


def bell(sample: int) -> tuple[float, ...]:
    """S1, 5.2: from 0 to 4500 records/s and back in 5 h, again and again."""
    return (4500 * exp(-(((sample % 1200 - 600) / 220) ** 2) / 2),)


def two_waves(sample: int) -> tuple[float, ...]:
    """Two topics, about 2000 and 200 records/s, each with a period of its own."""
    return 2000 * (1 + 0.8 * sin(sample / 97)), 200 * (1 + 0.8 * sin(sample / 61 + 1))


def explored(job: FluidJob, rates: Callable[[int], tuple[float, ...]], rows: int, seed: int) -> list[Sample]:
    """What S1's exploration collects from the job: one executor more at a violation, one less after ten surpluses.

    Args:
        job: the job.
        rates: records/s of each topic in an interval, by its number.
        rows: how many samples.
        seed: of the noise.
    """
    random = np.random.default_rng(seed)
    found: list[Sample] = []
    executors, backlog, streak, hold, sample = 1, 0.0, 0, 0, 0
    while len(found) < rows:
        workload = tuple(max(0.0, rate * _about_one(random, job)) for rate in rates(sample))
        work = sum(cost * rate for cost, rate in zip(job.costs, workload, strict=True))
        backlog = max(0.0, backlog + (work - executors * job.capacity * _about_one(random, job)) * _INTERVAL_S)
        slow = backlog / max(1.0, work * _INTERVAL_S) + max(0.0, job.reading * random.standard_normal())
        sample, hold = sample + 1, hold - 1
        if hold >= 0:
            backlog = 0.0 if hold >= _HOLD // 2 else backlog
            continue
        found.append(Sample(sample * _INTERVAL_S, workload, executors, float(min(slow, _MOST_SLOW))))
        surplus = executors > max(1, ceil(work / (0.9 * job.capacity)))
        streak = streak + 1 if surplus and slow < _SLA else 0
        if slow >= _SLA and executors < job.most:
            executors, hold = executors + 1, _HOLD
        elif streak == _SURPLUS_SAMPLES:
            executors, hold, streak = executors - 1, _HOLD, 0
    return found


def _about_one(random: np.random.Generator, job: FluidJob) -> float:
    return 1 + job.noise * float(random.standard_normal())


def spoiled(samples: Sequence[Sample], seed: int) -> tuple[list[Sample], set[int]]:
    """The same with stalls (about one sample in twenty, one to three in a row) and wrong rates (one in a hundred).

    Returns:
        The samples, and which of them were spoiled.
    """
    random, found, wrong = np.random.default_rng(seed), list(samples), set()
    for row in range(len(found)):
        draw = random.random()
        if draw < 0.025:
            for other in range(row, min(len(found), row + int(random.integers(1, 4)))):
                found[other] = found[other]._replace(slow=found[other].slow + float(random.uniform(0.2, 1.0)))
                wrong.add(other)
        elif draw < 0.035:
            factor = float(random.choice([0.0, 0.1, 10.0]))
            found[row] = found[row]._replace(workload=tuple(factor * rate for rate in found[row].workload))
            wrong.add(row)
    return found, wrong


# --------------------------------------------------------------------------------------------- runs of the loop


class _Seen(Recorder):
    """A journal that keeps the assessments."""

    def __init__(self) -> None:
        super().__init__()
        self.assessments: list[Assessment] = []

    def record(self, record: DecisionRecord | OutcomeRecord, states: States) -> None:
        super().record(record, states)
        if isinstance(record, DecisionRecord) and record.assessment is not None:
            self.assessments.append(record.assessment)


def simulated(shape: str, seed: int) -> list[Sample]:
    """What the production loop collects under ``reactive:faithful`` from the simulated job ``base``."""
    job = load_job("base")
    load = ready(Case(job, "base", LoadSpec(shape, shape=shape), seed=seed)).load
    settings = settings_for(job, Contender("reactive", "faithful"))
    source = SimulatedJob(job, load.curve, seed, start_executors(job, load))
    seen, time = _Seen(), SimulatedTime(lambda _, later: later >= load.curve.duration)
    Loop(source, build_planner(settings), source, seen, time, settings, job=job.name).run()
    source.close()
    return list(_samples(seen.assessments))


def _samples(seen: Sequence[Assessment]) -> Iterator[Sample]:
    executors, hold = None, 0
    for each in seen:
        hold = _SETTLES if each.executors != executors else hold - 1
        executors = each.executors
        if hold > 0 or executors is None or not each.arrival_rate or each.backlog_excess is None:
            continue
        slow = min(each.backlog_excess / (each.arrival_rate * _INTERVAL_S), _MOST_SLOW)
        yield Sample(each.at, (each.arrival_rate,), executors, slow)


# ------------------------------------------------------------------------------------------------ recorded runs


def recorded(path: Path) -> dict[str, list[Sample]]:
    """The runs of a file with columns run, second, throughput, consumer_lag, task_managers; by name.

    Slow records are the backlog ÷ what arrives in an interval; what arrives is what is processed and what the backlog
    grows by. Rows at which the number of workers changes are left out.

    Raises:
        InputError: the file cannot be read, or a row is wrong.
    """
    return {run.name: list(_recorded_samples(run)) for run in read_recordings(path)}


def _recorded_samples(run: Recording) -> Iterator[Sample]:
    steps = np.diff(run.seconds)
    arrived = run.throughput[:-1] + np.diff(run.backlog) / steps
    for row in range(1, arrived.size):
        workers, rate = run.workers[row], float(arrived[row])
        steady = abs(workers - np.round(workers)) <= _WHOLE and abs(run.workers[row - 1] - workers) <= _WHOLE
        if not steady or workers < 1 or not rate > 0 or not run.backlog[row] >= 0:
            continue
        slow = min(float(run.backlog[row] / (rate * steps[row])), _MOST_SLOW)
        yield Sample(float(run.seconds[row]), (rate,), round(float(workers)), slow)
