"""The experiments of S5's talk on a simulated job, with figures that are two minutes old, and incidents.

The talk names a sine wave, linear with spikes, a production router and the resource usage of a fleet, and gives no
figure; the statements are ours, in the talk's words where it has some. What is set, and why, stands in
:mod:`rheostat.judge.experiments.s5_setting`. A figure is the mean over the seeds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rheostat.judge.contenders import Contender
from rheostat.judge.experiments import s5_setting as setting
from rheostat.judge.experiments.results import Experiment, Part, Result
from rheostat.judge.experiments.s5_runs import Played, play, value_at
from rheostat.judge.experiments.s5_statements import STATEMENTS, Runs
from rheostat.judge.processes import crew
from rheostat.judge.tracks import Points, thinned

__all__ = ["PARTS", "SEEDS", "Drawn", "Lines", "Routers", "Task", "experiment", "ran", "table_rows"]

PARTS = ("sine", "spikes", "day", "fleet", "incidents")

SEEDS = "1,2,3,4,5"
"""Unless others are named."""

_TITLES: Mapping[str, str] = {
    "sine": "Sine wave",
    "spikes": "Linear with spikes",
    "day": "A production-like day",
    "fleet": f"Resource usage of a fleet of {setting.FLEET} jobs",
    "incidents": "Incidents",
}
_FLEET_POLICIES = ("router", "hpa")
_POINTS = 600
_GRID_S = 300.0


class Task(NamedTuple):
    """What one process does: the runs of a part with a seed; of the fleet those of one job."""

    part: str
    seed: int
    number: int = 0


class Lines(NamedTuple):
    """A run as lines: records/s that its executors carry, executors paid for, lag in s; over s."""

    capacity: Points
    paid: Points
    lag: Points


@dataclass(frozen=True)
class Drawn:
    """What is plotted of a part: the load, empty where each run has its own, and the runs by name."""

    load: Points
    runs: Mapping[str, Lines]


@dataclass(frozen=True)
class Routers(Experiment):
    """What was found, with its tables.

    Attributes:
        tables: of each part its runs by name, summed over the fleet, means over the seeds; header first.
        drawn: of the first seed, by part.
    """

    tables: Mapping[str, list[list[str]]] = field(default_factory=dict)
    drawn: Mapping[str, Drawn] = field(default_factory=dict)


def experiment(
    names: Sequence[str], seeds: Sequence[int], watch: Callable[[int, int, str], None], jobs: int = 1
) -> Routers:
    """Run the parts of that name.

    Args:
        names: some of :data:`PARTS`.
        seeds: of the loads and of the job's chance; at least one.
        watch: is told how many tasks are done, of how many, and what is being run.
        jobs: how many processes.
    """
    tasks = [Task(name, seed, number) for name in names for seed in seeds for number in range(_tasks_of(name))]
    found: dict[Task, Mapping[str, Played]] = {}
    with crew(ran, jobs, len(tasks)) as workers:
        for place, runs in workers.results(tasks):
            found[tasks[place]] = runs
            watch(len(found), len(tasks), "runs")
    by_part = {name: _gathered(found, name, seeds) for name in names}
    parts = [Part(_TITLES[name], _results(name, by_part[name])) for name in names]
    tables = {_TITLES[name]: table_rows(by_part[name]) for name in names}
    drawn = {_TITLES[name]: _drawn(name, seeds[0], found) for name in names}
    return Routers("s5", parts, tuple(seeds), tables, drawn)


def _tasks_of(name: str) -> int:
    return setting.FLEET if name == "fleet" else 1


def _gathered(found: Mapping[Task, Mapping[str, Played]], name: str, seeds: Sequence[int]) -> dict[int, Runs]:
    """By seed and name of the run: of the fleet all jobs, else the one."""
    gathered: dict[int, Runs] = {}
    for seed in seeds:
        runs: dict[str, list[Played]] = defaultdict(list)
        for number in range(_tasks_of(name)):
            for label, run in found[Task(name, seed, number)].items():
                runs[label].append(run)
        gathered[seed] = {label: tuple(several) for label, several in runs.items()}
    return gathered


def _results(name: str, runs: Mapping[int, Runs]) -> list[Result]:
    return [statement.over(runs) for statement in STATEMENTS[name]]


# ------------------------------------------------------------------------------------------------------ runs


def ran(task: Task) -> dict[str, Played]:
    """The runs, by name."""
    if task.part == "incidents":
        return {name: _incident(name, task.seed) for name in setting.INCIDENTS}
    scene = _scene(task)
    names = _FLEET_POLICIES if task.part == "fleet" else setting.POLICIES
    runs = {name: _talk(scene, name, task.seed) for name in names}
    if task.part == "spikes":
        calm = setting.spikes(task.seed, among=False)
        runs |= {f"{name}, no spikes": _talk(calm, name, task.seed) for name in ("router", "hpa")}
    return runs


def _scene(task: Task) -> setting.Scene:
    match task.part:
        case "sine":
            return setting.sine(task.seed)
        case "spikes":
            return setting.spikes(task.seed)
        case "day":
            return setting.day(task.seed)
        case _:
            return setting.fleet_job(task.seed, task.number)


def _talk(scene: setting.Scene, name: str, seed: int) -> Played:
    return play(scene.job, scene.load, setting.contender(name), seed)


def _incident(name: str, seed: int) -> Played:
    scene = setting.incident(name, seed)
    return play(scene.job, scene.load, Contender("router"), seed, setting.FAILOVER if name == "failover" else None)


# ----------------------------------------------------------------------------------------------------- shown


def table_rows(runs: Mapping[int, Runs]) -> list[list[str]]:
    """Of each run its figures, means over the seeds; header first."""
    head = ["", "cost", "executor-hours", "of static", "changes", "over the objective, s", "largest lag, s"]
    rows, labels = [head], list(next(iter(runs.values())))
    for label in labels:
        several = [each[label] for each in runs.values()]
        hours, static = _mean(several, "executor_hours"), _mean(several, "static_hours")
        figures = [f"{_mean(several, 'cost'):.1f}", f"{hours:.1f}", f"{hours / static:.0%}"]
        figures += [f"{_mean(several, 'changes'):.0f}", f"{_mean(several, 'violation_s'):.0f}"]
        rows.append([label, *figures, f"{max(run.lag_max for jobs in several for run in jobs):.0f}"])
    return rows


def _mean(several: Sequence[Sequence[Played]], figure: str) -> float:
    """Summed over the jobs, the mean over the seeds."""
    return float(sum(getattr(run, figure) for jobs in several for run in jobs)) / len(several)


def _drawn(name: str, seed: int, found: Mapping[Task, Mapping[str, Played]]) -> Drawn:
    runs = found[Task(name, seed)]
    if name == "fleet":
        return _fleet([found[Task(name, seed, number)] for number in range(setting.FLEET)])
    load = [] if name == "incidents" else thinned(_scene(Task(name, seed)).load.curve.points, _POINTS)
    return Drawn(load, {label: Lines(run.capacity, run.paid, run.lag) for label, run in runs.items()})


def _fleet(jobs: Sequence[Mapping[str, Played]]) -> Drawn:
    """The totals of the executors, and of the static sizes; the largest lag of all, on a grid."""
    grid, runs = [_GRID_S * place for place in range(int(86_400 / _GRID_S) + 1)], {}
    for label in _FLEET_POLICIES:
        several = [job[label] for job in jobs]
        capacity = [(at, sum(value_at(run.capacity, at) for run in several)) for at in grid]
        paid = [(at, sum(value_at(run.paid, at) for run in several)) for at in grid]
        runs[label] = Lines(capacity, paid, [(at, max(value_at(run.lag, at) for run in several)) for at in grid])
    static = float(sum(job["router"].static for job in jobs))
    runs["static"] = Lines([], [(grid[0], static), (grid[-1], static)], [])
    return Drawn([], runs)
