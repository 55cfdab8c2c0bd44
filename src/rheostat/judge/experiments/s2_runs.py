"""One algorithm under one day of trips, with S2's seven metrics; one process can do one run while others do the rest.

With s the supply and d the ideal number of nodes (the fewest, nearest first, that carry the arrival rate), over the T
seconds of the load: accuracy_O = (1/T) ∫ max(s − d, 0) dt, accuracy_U = (1/T) ∫ max(d − s, 0) dt, timeshare_O and _U =
share of the time with s > d and with d > s, excess = (P − T) ÷ T where P also has the time until every record is done,
reconfigurations, and cost = ∫ s dt over P. s is 0 while the job is stopped. Source: S2, section V.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from rheostat.judge.experiments.s2_setting import OUTAGE_S, contender, prepared, the_job, trips
from rheostat.judge.simulate import Run, simulate, start_executors
from rheostat.judge.tracks import Points, thinned
from rheostat.load.curves import Pieces
from rheostat.load.prepare import Prepared
from rheostat.sim.capacity import capacity_curve
from rheostat.sim.elasticity import Steps, changes, demand_steps, elasticity, integral
from rheostat.sim.jobfile import JobFile

__all__ = ["Drawn", "Found", "Measures", "Task", "measured", "measures", "ran", "supplied"]

_POINTS = 1500
_THROUGHPUT_S = 60.0


class Measures(NamedTuple):
    """The metrics of a run; replicas, %, a share of T, a number, replica-minutes. And mean s and d while it lasts."""

    accuracy_o: float
    accuracy_u: float
    timeshare_o: float
    timeshare_u: float
    excess: float
    reconfigurations: float
    cost: float
    mean_s: float
    mean_d: float


class Drawn(NamedTuple):
    """What is plotted of a run: records/s that arrive and that are processed, and nodes."""

    load: Points
    throughput: Points
    supply: Points
    demand: Points


class Task(NamedTuple):
    """What one process does.

    Attributes:
        name: of the algorithm.
        live: whether nodes come and go while the job works.
        drawn: whether it is plotted.
    """

    name: str
    seed: int
    live: bool = False
    drawn: bool = False


class Found(NamedTuple):
    """A run: its metrics, why it does not count (empty if it does), and what is plotted."""

    measures: Measures
    faults: tuple[str, ...]
    drawn: Drawn | None = None


def ran(task: Task) -> Found:
    """Do a run."""
    job, load = the_job(live=task.live), prepared(trips(task.seed), task.seed)
    run = simulate(job, load, contender(task.name, live=task.live), seed=task.seed)
    outage_s = 0.0 if task.live else OUTAGE_S
    drawn = _drawn(job, load.curve, run, outage_s) if task.drawn else None
    return Found(measured(job, load, run, outage_s), run.faults, drawn)


def supplied(ready: Steps, asked: Steps, outage_s: float) -> list[tuple[float, float]]:
    """s(t): the nodes that are there; none for ``outage_s`` from each change of the number asked for.

    >>> supplied([(0, 1), (60, 2)], [(0, 1), (60, 2)], 120.0)
    [(0, 1), (60, 0.0), (180.0, 2)]
    """
    stops = [(at, at + outage_s) for (_, before), (at, after) in pairwise(asked) if before != after and outage_s > 0]
    marks = sorted({at for at, _ in ready} | {edge for stop in stops for edge in stop})
    steps: list[tuple[float, float]] = []
    for at in marks:
        value = 0.0 if any(begin <= at < end for begin, end in stops) else _at(ready, at)
        if not steps or steps[-1][1] != value:
            steps.append((at, value))
    return steps


def measured(job: JobFile, load: Prepared, run: Run, outage_s: float) -> Measures:
    """The metrics of a finished run."""
    history, lasts = run.history, load.curve.duration
    asked = [(0.0, start_executors(job, load)), *history.target]
    end = max(lasts, history.commits[-1][0])
    return measures(supplied(history.ready, asked, outage_s), _demand(job, load.curve), asked, (lasts, end))


def measures(supply: Steps, demand: Steps, asked: Steps, ends: tuple[float, float]) -> Measures:
    """The metrics of what was supplied, demanded and asked for; ``ends``: of the load, and of its last record."""
    lasts, end = ends
    fit = elasticity(supply, demand, 0.0, lasts)
    return Measures(
        accuracy_o=fit.accuracy_o,
        accuracy_u=fit.accuracy_u,
        timeshare_o=100 * fit.timeshare_o,
        timeshare_u=100 * fit.timeshare_u,
        excess=(end - lasts) / lasts,
        reconfigurations=changes(asked, 0.0, end),
        cost=integral(supply, 0.0, end) / 60,
        mean_s=integral(supply, 0.0, lasts) / lasts,
        mean_d=integral(demand, 0.0, lasts) / lasts,
    )


def _at(steps: Steps, at: float) -> float:
    return next((value for when, value in reversed(steps) if when <= at), steps[0][1])


def _demand(job: JobFile, load: Pieces) -> list[tuple[float, float]]:
    return demand_steps(load, capacity_curve(job), job.n_min, job.n_max)


def _drawn(job: JobFile, load: Pieces, run: Run, outage_s: float) -> Drawn:
    history, end = run.history, run.seconds
    asked = [(0.0, history.ready[0][1]), *history.target]
    return Drawn(
        thinned(load.points, _POINTS),
        _throughput(history.commits, end),
        supplied(history.ready, asked, outage_s),
        _demand(job, load),
    )


def _throughput(commits: Sequence[tuple[float, int, float, float]], end: float) -> Points:
    """Records/s, a mean of each minute."""
    points: Points = []
    done, place, at = 0, 0, 0.0
    while at < end:
        at += _THROUGHPUT_S
        before = done
        while place < len(commits) and commits[place][0] <= at:
            done, place = commits[place][1], place + 1
        points.append((at - _THROUGHPUT_S / 2, (done - before) / _THROUGHPUT_S))
    return points
