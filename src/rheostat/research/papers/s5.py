"""The experiments of S5's talk on a simulated job, with figures that are two minutes old, and incidents.

The talk names a sine wave, linear with spikes, a production router and the resource usage of a fleet, and gives no
figure; the statements are ours, in the talk's words where it has some. What is set, and why, stands in
:mod:`rheostat.research.papers.s5`. A figure is the mean over the seeds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple

from rheostat.journal.records import DecisionRecord, OutcomeRecord
from rheostat.journal.store import States
from rheostat.judge.cases import PolicySpec, settings_for
from rheostat.judge.compare import crew
from rheostat.judge.scoring import Points, ScoringCase, cost_parts, end_of, lag_line, thinned
from rheostat.judge.simulate import Recorder, simulate, start_executors
from rheostat.load.curves import Pieces, staircase
from rheostat.load.prepare import Prepared, peak_mean, prepare
from rheostat.load.shapes import parse_shape
from rheostat.loop.loop import Loop
from rheostat.model import ReasonCode
from rheostat.report.html import COLORS, GREY, PlotFigure, heading, line, note_list, table
from rheostat.research.papers.page import by_seed, columns, write_found
from rheostat.research.papers.results import Experiment, Part, Result, Seen, over_seeds
from rheostat.sim.capacity import capacity, capacity_curve, violation_weight
from rheostat.sim.history import History, Lag
from rheostat.sim.jobfile import JobFile, load_job

# A run of one policy for S5's experiments: the production loop on the simulated job, and what is kept of it.


_RUN_POINTS = 600


class Failover(NamedTuple):
    """When a region's traffic is away, s; the switch ``failover`` is on from ``begin`` to ``end``."""

    begin: float
    end: float


class Decided(NamedTuple):
    """One decision.

    Attributes:
        at: s from the start of the load.
        before, after: executors in force, and decided.
        code: its reason.
        text: the reason in words, with figures.
    """

    at: float
    before: int
    after: int
    code: ReasonCode
    text: str


@dataclass(frozen=True)
class Played:
    """A finished run.

    Attributes:
        decided: every decision that knew the number in force, in order.
        executor_hours: paid for until all is committed.
        changes: of the number asked for.
        violation_s: time in which the lag was over the objective.
        lag_max: s.
        cost: in executor-hours, as ``rheostat compare`` has it.
        static: the fewest executors that carry the peak.
        static_hours: of so many.
        cooldown_s: of decreases, by the guard.
        faults: why the run does not count; none should.
        capacity, paid, lag: for plots, thinned.
        seed: of the job's chance.
    """

    decided: tuple[Decided, ...]
    executor_hours: float
    changes: int
    violation_s: float
    lag_max: float
    cost: float
    static: int
    static_hours: float
    cooldown_s: float
    faults: tuple[str, ...]
    capacity: Points
    paid: Points
    lag: Points
    seed: int = 0

    @property
    def acts(self) -> tuple[Decided, ...]:
        """Decisions that change the number."""
        return tuple(each for each in self.decided if each.after != each.before)

    @property
    def round_trips(self) -> int:
        """Decreases within two cooldowns after an increase."""
        return round_trips(self.acts, 2 * self.cooldown_s)

    def between(self, begin: float, end: float) -> tuple[Decided, ...]:
        """Decisions from one time until before another."""
        return tuple(each for each in self.decided if begin <= each.at < end)

    def said(self, code: ReasonCode) -> tuple[Decided, ...]:
        """Decisions with this reason."""
        return tuple(each for each in self.decided if each.code is code)


def round_trips(acts: Sequence[Decided], within_s: float) -> int:
    """How many decreases come so soon after an increase.

    >>> up, down = Decided(0.0, 2, 3, ReasonCode.UNDERSIZED, ""), Decided(90.0, 3, 2, ReasonCode.OVERSIZED, "")
    >>> round_trips([up, down], 120.0), round_trips([up, down], 60.0)
    (1, 0)
    """
    raised_at, found = -within_s, 0
    for act in acts:
        if act.after > act.before:
            raised_at = act.at
        elif act.at - raised_at < within_s:
            found += 1
    return found


class _Witness(Recorder):
    """Keeps every decision that knew the number in force."""

    def __init__(self) -> None:
        super().__init__()
        self.decided: list[Decided] = []

    def record(self, record: DecisionRecord | OutcomeRecord, states: States) -> None:
        """Keep a decision."""
        super().record(record, states)
        if not isinstance(record, DecisionRecord):
            return
        decision = record.decision
        if decision.current is not None and decision.target is not None:
            reason = decision.reason
            self.decided.append(Decided(record.at, decision.current, decision.target, reason.code, reason.text))


def play(job: JobFile, load: Prepared, contender: PolicySpec, seed: int, failover: Failover | None = None) -> Played:
    """Run a policy over the whole load and until all is committed.

    Args:
        job: what is scaled.
        load: what it has to do.
        contender: who decides; ``static`` gets the fewest executors that carry the peak.
        seed: of the job's chance.
        failover: when the switch is on.

    Raises:
        InputError: the policy is unknown, or its options or settings are wrong.
    """
    witness = _Witness()
    thrown = None if failover is None else _thrown(failover)
    run = simulate(job, load, contender, seed=seed, recorder=witness, before_each=thrown)
    weight = violation_weight(job, load.peak)
    case = ScoringCase(job, load.curve, start_executors(job, load), weight)
    cooldown_s = settings_for(job, contender.at_size(weight)).guard.cooldown_down_s
    return replace(_played(case, run.history, witness.decided, cooldown_s, run.faults), seed=seed)


def _thrown(failover: Failover) -> Callable[[Loop, float], None]:
    """Throws the switch in time for the next cycle."""
    return lambda loop, later: loop.failover(failover.begin <= later < failover.end)


def _played(
    case: ScoringCase, history: History, decided: Sequence[Decided], cooldown_s: float, faults: Sequence[str]
) -> Played:
    end, carried = end_of(case, history), capacity_curve(case.job)
    lag, parts = Lag.of(history, 0.0, end), cost_parts(case, history, end)
    capacity = [(at, carried[count]) for at, count in history.ready]
    return Played(
        decided=tuple(decided),
        executor_hours=parts.executor_hours,
        changes=parts.changes,
        violation_s=3600 * parts.violation_hours,
        lag_max=lag.greatest,
        cost=parts.cost(case.weight),
        static=round(case.weight),
        static_hours=case.weight * end / 3600,
        cooldown_s=cooldown_s,
        faults=tuple(faults),
        capacity=thinned(_to(end, capacity), _RUN_POINTS),
        paid=thinned(_to(end, [(at, float(count)) for at, count in history.paid]), _RUN_POINTS),
        lag=thinned(lag_line(history.lag_spans(0.0, end)), _RUN_POINTS),
    )


def _to(end: float, steps: Points) -> Points:
    """The steps with their last value at the end."""
    return [*steps, (end, steps[-1][1])] if steps and steps[-1][0] < end else steps


def value_at(steps: Points, at: float) -> float:
    """The last value until a time; 0 before the first.

    >>> [value_at([(10.0, 3.0), (20.0, 5.0)], at) for at in (5.0, 10.0, 19.0, 99.0)]
    [0.0, 3.0, 3.0, 5.0]
    """
    place = bisect_right(steps, at, key=lambda step: step[0])
    return steps[place - 1][1] if place else 0.0


# The jobs, the loads and the contenders of S5's experiments; the talk gives their titles and no figure.


_MINUTE_S, _HOUR_S, _DAY_S = 60.0, 3600.0, 86_400.0
_TALK: Mapping[str, Any] = MappingProxyType({"objective": "lag < 5m", "decide_every_s": 60.0, "metrics.delay_s": 120.0})
_KNOWN: Mapping[str, Any] = MappingProxyType({"guard": {"metrics_delay_s": 120.0}})
_OPTIONS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {"router": {"samples_to_shrink": 1, "ride_out": True}, "reactive": {"samples_to_shrink": 3}}
)
_PEAK = 0.8
"""Of a load ÷ what the greatest number of executors carries, as in ``rheostat compare``."""

POLICIES = ("router", "router:faithful", "reactive", "hpa", "flink")

LASTING_S = 3.4 * _HOUR_S
"""From when on the load of the spikes is another one."""

_SPIKES_S, _HIGHER = 4 * _HOUR_S, 1.4

FLEET = 16
"""Jobs of the fleet."""

INCIDENTS = ("slow", "sink", "failover", "failover untold", "17", "31", "97")

SLOW = SICK = (1800.0, 3600.0)
"""When an executor is slow, and when the sink is sick, s."""

FAILOVER = Failover(3600.0, 7200.0)


class Scene(NamedTuple):
    """What a policy is run on."""

    job: JobFile
    load: Prepared


def contender(policy: str) -> PolicySpec:
    """One of :data:`POLICIES` as it runs in the talk's experiments."""
    name, _, preset = policy.partition(":")
    return PolicySpec(name, preset or None, {} if preset else _OPTIONS.get(name, {}), _KNOWN)


def sine(seed: int, seconds: float = 4 * _HOUR_S) -> Scene:
    """Two waves of two hours, the crest four times the trough."""
    job = load_job("base", _TALK)
    return Scene(job, _ready(job, parse_shape(f"sine:1..4@{seconds:g},period=7200").pieces(), "sine", seed, _PEAK))


def spike_times(seed: int) -> tuple[float, ...]:
    """When a minute of the load is a spike, s: one in each half hour from the second to the sixth."""
    random = Random(f"spikes {seed}")
    return tuple(1800.0 * number + _MINUTE_S * random.randrange(5, 20) for number in range(1, 6))


def spikes(seed: int, *, among: bool = True) -> Scene:
    """A line from 1 to 3 within four hours with minutes of 1.4 times as much; from 3.4 hours on that for good.

    Args:
        seed: of the moments of the spikes and of the noise.
        among: whether the spikes are there; the load is the same without them.
    """
    job, there = load_job("base", _TALK), spike_times(seed) if among else ()
    levels = []
    for number in range(int(_SPIKES_S / _MINUTE_S)):
        at = number * _MINUTE_S
        factor = _HIGHER if at in there or at >= LASTING_S else 1.0
        levels.append((_MINUTE_S, factor * (1 + 2 * at / _SPIKES_S)))
    return Scene(job, _ready(job, staircase(levels), "spikes", seed, _PEAK))


def day(seed: int) -> Scene:
    """A day with noise of 10 %, three campaigns of 20 minutes (a quarter more), and a dip of 15 minutes to a half."""
    job, random = load_job("base", _TALK), Random(f"day {seed}")
    whole = parse_shape(f"daily:1..4@{_DAY_S:g}")
    campaigns = [_MINUTE_S * random.randrange(480 * number, 480 * number + 460) for number in range(3)]
    dip_at = _MINUTE_S * random.randrange(600, 1200)
    levels = []
    for number in range(int(_DAY_S / _MINUTE_S)):
        at = number * _MINUTE_S
        factor = 1.25 if any(0 <= at - begin < 1200 for begin in campaigns) else 1.0
        factor *= 0.5 if 0 <= at - dip_at < 900 else 1.0
        levels.append((_MINUTE_S, factor * whole.rate(at + _MINUTE_S / 2)))
    return Scene(job, _ready(job, staircase(levels), "day", seed, _PEAK, 0.10))


def fleet_job(seed: int, number: int) -> Scene:
    """A job of the fleet, with its day: size, peak, time of the peak, trough, partitions and cost of a record vary."""
    random = Random(f"fleet {seed} {number}")
    most, trough = random.randrange(4, 25), random.uniform(0.15, 0.5)
    own = {
        "executors": [1, most],
        "partitions": random.choice((12, 17, 24, 31, 48, 97)),
        "stages.1.cost_ms": round(random.uniform(0.25, 1.0), 3),
    }
    job, phase_s = load_job("base", {**_TALK, **own}), random.uniform(0.0, _DAY_S)
    whole = parse_shape(f"daily:{trough:.3f}..1@{2 * _DAY_S:g}").pieces().between(phase_s, phase_s + _DAY_S)
    return Scene(job, _ready(job, whole, f"fleet {number}", seed, random.uniform(0.4, 0.8)))


def incident(name: str, seed: int) -> Scene:
    """One of :data:`INCIDENTS`: a number is that of the partitions."""
    events: list[dict[str, Any]] = []
    load = parse_shape("constant:1@7200").pieces()
    share, more = 0.5, {}
    if name == "slow":
        events = [{"kind": "slow", "at_s": SLOW[0], "for_s": SLOW[1] - SLOW[0], "executor": 0, "factor": 4.0}]
    elif name == "sink":
        rate = 0.4 * share * capacity(load_job("base"), 20)
        events = [{"kind": "sink", "at_s": SICK[0], "for_s": SICK[1] - SICK[0], "records_per_s": round(rate)}]
    elif name.startswith("failover"):
        away = FAILOVER.end - FAILOVER.begin
        load = staircase([(FAILOVER.begin, 1.0), (away, 0.4), (3600.0, 1.0)])
    else:
        load, share, more = parse_shape("sine:1..4@14400,period=7200").pieces(), _PEAK, {"partitions": int(name)}
    job = load_job("base", {"events": events, **more})
    return Scene(job, _ready(job, load, name, seed, share))


def _ready(job: JobFile, curve: Pieces, name: str, seed: int, share: float, noise_cv: float = 0.05) -> Prepared:
    """The load with noise between steps of 10 s; its peak is that share of what all executors carry."""
    scaled = share * capacity(job, job.n_max) / peak_mean(curve)
    points = [(at, rate * scaled) for at, rate in curve.points]
    return prepare(
        Pieces(points), name=name, seed=seed, peak_rate=None, noise_cv=noise_cv, bin_s=60.0, step_s=10.0, longest_s=None
    )


PARTS = ("sine", "spikes", "day", "fleet", "incidents")

SEEDS = "1,2,3,4,5"
"""Unless others are named."""

_TITLES: Mapping[str, str] = {
    "sine": "Sine wave",
    "spikes": "Linear with spikes",
    "day": "A production-like day",
    "fleet": f"Resource usage of a fleet of {FLEET} jobs",
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
    return FLEET if name == "fleet" else 1


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
        return {name: _incident(name, task.seed) for name in INCIDENTS}
    scene = _scene(task)
    names = _FLEET_POLICIES if task.part == "fleet" else POLICIES
    runs = {name: _talk(scene, name, task.seed) for name in names}
    if task.part == "spikes":
        calm = spikes(task.seed, among=False)
        runs |= {f"{name}, no spikes": _talk(calm, name, task.seed) for name in ("router", "hpa")}
    return runs


def _scene(task: Task) -> Scene:
    match task.part:
        case "sine":
            return sine(task.seed)
        case "spikes":
            return spikes(task.seed)
        case "day":
            return day(task.seed)
        case _:
            return fleet_job(task.seed, task.number)


def _talk(scene: Scene, name: str, seed: int) -> Played:
    return play(scene.job, scene.load, contender(name), seed)


def _incident(name: str, seed: int) -> Played:
    scene = incident(name, seed)
    return play(scene.job, scene.load, PolicySpec("router"), seed, FAILOVER if name == "failover" else None)


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
        return _fleet([found[Task(name, seed, number)] for number in range(FLEET)])
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


# The report of S5's experiments: the statements, a table and plots of each part, and what each seed showed.


_NOTE = "Means over the seeds, of the fleet summed over its jobs; the largest lag of all. Plotted: seed {}."
_PAGE_TITLES = ("Load and what the executors carry, records/s", "Executors paid for", "Lag, s")


def write_routers(path: Path, found: Routers) -> Path:
    """Write the page and return its path.

    Raises:
        InputError: plotly is not installed, or the file cannot be written.
    """
    parts, first = list[str](), True
    for part in found.parts:
        parts += [heading(part.title), note_list([_NOTE.format(found.seeds[0])]), table(found.tables[part.title])]
        parts.append(_plots(found.drawn[part.title], with_script=first))
        first = False
    if len(found.seeds) > 1:
        parts += [heading("By seed"), table(by_seed(found.results))]
    return write_found(path, found, "statements hold", parts)


def _plots(drawn: Drawn, *, with_script: bool) -> str:
    figure = PlotFigure(_PAGE_TITLES, "seconds since the start of the load", height=820)
    if drawn.load:
        figure.add(1, line("load", *columns(drawn.load), GREY))
    for (name, run), color in zip(drawn.runs.items(), COLORS, strict=False):
        same: dict[str, Any] = {"legendgroup": name}
        figure.add(1, line(name, *columns(run.capacity), color, shape="hv", showlegend=False, **same))
        figure.add(2, line(name, *columns(run.paid), color, shape="hv", **same))
        figure.add(3, line(name, *columns(run.lag), color, showlegend=False, **same))
    return figure.html(with_script=with_script)


# What is looked for in the runs of S5's experiments.


Runs = Mapping[str, tuple[Played, ...]]
"""Of one seed, by name; several of a fleet."""

_Found = tuple[bool, tuple[float, ...]]

_RIVALS = ("reactive", "hpa", "flink")
_DELAY_S, _MINUTES_S = 120.0, 60.0
_AFTER_S = 600.0
_ALL_BUT = 0.95
"""Share of a rate that is carried where nothing more is done: router goes up from 5 % beyond."""
_RETURN_S = 285.0
"""The guard's 300 s count from the last look at the switch while it was on."""
_HALF_HOUR_S = 1800.0
_HEALTHY = "healthy: lag under 5 minutes"
_NO_TRIP = "up and down again within two cooldowns (the guard's, 120 s) is for nothing"


class Statement(NamedTuple):
    """One statement.

    Attributes:
        id, statement, document, why: as in :class:`Result`.
        words: with a place for each figure.
        look: whether it holds in the runs of one seed, and the figures.
    """

    id: str
    statement: str
    document: str | None
    why: str
    words: str
    look: Callable[[Runs], _Found]

    def over(self, runs: Mapping[int, Runs]) -> Result:
        """Judged over all seeds."""
        looked = {seed: self.look(each) for seed, each in runs.items()}
        seen = [Seen(seed, self.words.format(*figures), holds) for seed, (holds, figures) in looked.items()]
        columns = zip(*(figures for _, figures in looked.values()), strict=True)
        means = self.words.format(*(sum(column) / len(column) for column in columns))
        once = Result(self.id, self.statement, means, self.document, False, self.why)  # noqa: FBT003
        return over_seeds(once, seen)


def _one(runs: Runs, name: str) -> Played:
    return runs[name][0]


# ------------------------------------------------------------------------------------- what is looked for


def _healthy(runs: Runs) -> _Found:
    run = _one(runs, "router")
    return run.violation_s == 0 and run.lag_max < 300 and not run.faults, (run.lag_max,)


def _cheapest(runs: Runs) -> _Found:
    costs = [_one(runs, name).cost for name in ("router", *_RIVALS)]
    return costs[0] < min(costs[1:]), tuple(costs)


def _cheaper_than_hpa_and_flink(runs: Runs) -> _Found:
    costs = [_one(runs, name).cost for name in ("router", "hpa", "flink")]
    return costs[0] < min(costs[1:]), tuple(costs)


def _as_reactive_with_less_lag(runs: Runs) -> _Found:
    ours, other = _one(runs, "router"), _one(runs, "reactive")
    cheap = ours.cost <= 1.05 * other.cost
    return cheap and ours.lag_max < other.lag_max, (ours.cost, other.cost, ours.lag_max, other.lag_max)


def _no_round_trip(runs: Runs) -> _Found:
    ours = [run for name, several in runs.items() if name not in _RIVALS for run in several if name[:3] != "hpa"]
    trips, changes = sum(run.round_trips for run in ours), sum(run.changes for run in ours)
    return trips == 0, (float(trips), float(changes))


def answered(spiked: Played, calm: Played, spikes: Sequence[float]) -> int:
    """How many spikes are answered: by an increase, while the figures show them, that is not there without spikes."""
    return sum(_raised(spiked, at) and not _raised(calm, at) for at in spikes)


def _raised(run: Played, at: float) -> bool:
    """Whether the number is raised while a spike that began then is in the figures."""
    return any(each.after > each.before for each in run.between(at + _DELAY_S, at + _DELAY_S + 3 * _MINUTES_S))


def _unmoved(runs: Runs) -> _Found:
    spikes, counts, shares = _spikes(runs), list[float](), list[float]()
    for name in ("router", "hpa"):
        spiked, calm = _one(runs, name), _one(runs, f"{name}, no spikes")
        counts.append(float(answered(spiked, calm, spikes)))
        shares.append(100 * (spiked.executor_hours / calm.executor_hours - 1))
    return counts[0] <= 1 and counts[0] < counts[1], (counts[0], shares[0], counts[1], shares[1])


def _spikes(runs: Runs) -> tuple[float, ...]:
    """When the spikes of these runs were."""
    return spike_times(_one(runs, "router").seed)


def _reset(runs: Runs) -> _Found:
    run, since = _one(runs, "router"), LASTING_S
    load = spikes(run.seed).load.curve
    rate = (load.cumulative(since + _AFTER_S) - load.cumulative(since)) / _AFTER_S
    enough = [at for at, carried in run.capacity if at >= since and carried >= _ALL_BUT * rate]
    late_s = enough[0] - since if enough else run.capacity[-1][0]
    return late_s <= _AFTER_S, (late_s / 60, 100 * value_at(run.capacity, since) / rate)


def _fleet_static(runs: Runs) -> _Found:
    ours = sum(run.executor_hours for run in runs["router"])
    static = sum(run.static_hours for run in runs["router"])
    return ours <= 0.75 * static, (ours, static, 100 * (1 - ours / static))


def _fleet_hpa(runs: Runs) -> _Found:
    ours, rival = (sum(run.executor_hours for run in runs[name]) for name in ("router", "hpa"))
    return ours <= 0.95 * rival, (ours, rival, 100 * (1 - ours / rival))


def _fleet_healthy(runs: Runs) -> _Found:
    ours, rival = (sum(run.violation_s for run in runs[name]) for name in ("router", "hpa"))
    return ours <= rival and not any(run.faults for run in runs["router"]), (ours, rival)


def _slow_named(runs: Runs) -> _Found:
    begin, end = SLOW
    during = _one(runs, "slow").between(begin, end)
    named = [each.at for each in during if "slow: executor 0" in each.text]
    first_s = named[0] - begin if named else -1.0
    early = [each for each in _one(runs, "slow").between(0.0, begin) if "slow: " in each.text]
    return 0 <= first_s <= _AFTER_S and not early, (first_s, float(len(named)), float(len(during)))


def _sink_advice(runs: Runs) -> _Found:
    during = _one(runs, "sink").between(*SICK)
    told = sum(each.code is ReasonCode.SICK_SINK for each in during)
    ups = sum(each.after > each.before for each in during)
    return told > 0 and ups == 0, (float(told), float(len(during)), float(ups))


def _failover(runs: Runs) -> _Found:
    begin, end = FAILOVER
    kept, untold = (
        sum(each.after < each.before for each in _one(runs, name).between(begin, end + _RETURN_S))
        for name in ("failover", "failover untold")
    )
    blocked = len(_one(runs, "failover").said(ReasonCode.FAILOVER))
    return kept == 0 and blocked > 0 and untold > 0, (float(kept), float(blocked), float(untold))


def _returned(runs: Runs) -> _Found:
    end, run = FAILOVER.end, _one(runs, "failover")
    ups, untold = (
        sum(each.after > each.before for each in _one(runs, name).between(end, end + _HALF_HOUR_S))
        for name in ("failover", "failover untold")
    )
    last = run.said(ReasonCode.FAILOVER)[-1:]
    over = bool(last) and last[0].at < end + _RETURN_S
    return over and run.violation_s == 0 and ups < untold, (float(ups), float(untold), run.violation_s)


def _partitions(runs: Runs) -> _Found:
    several = [_one(runs, name) for name in ("17", "31", "97")]
    trips, over = sum(run.round_trips for run in several), sum(run.violation_s for run in several)
    return trips == 0 and over == 0, (float(trips), float(sum(run.changes for run in several)), over)


# --------------------------------------------------------------------------------------------- statements

_FOUR = "cost: router {:.1f}, reactive {:.1f}, hpa {:.1f}, flink {:.1f}"
_TRIPS = "{:.1f} round trips in {:.0f} changes"


def _common(part: str) -> tuple[Statement, Statement]:
    return (
        Statement(
            f"{part} lag",
            "lag is healthy all the time",
            _HEALTHY,
            "decided once a minute, on figures that are two minutes old",
            "largest lag {:.0f} s",
            _healthy,
        ),
        Statement(
            f"{part} round trips",
            "router, and as published, make no round trip",
            None,
            _NO_TRIP,
            _TRIPS,
            _no_round_trip,
        ),
    )


STATEMENTS: Mapping[str, tuple[Statement, ...]] = {
    "sine": (
        *_common("sine"),
        Statement(
            "sine cost",
            "router follows the wave at less cost than reactive, hpa and flink",
            None,
            "waves of two hours. Each decrease waits for figures of after the one before, three minutes or so, so on "
            "waves of one hour it costs as much as hpa, which does not wait",
            _FOUR,
            _cheapest,
        ),
    ),
    "spikes": (
        *_common("spikes"),
        Statement(
            "spikes outliers",
            "single outliers do not move it: of five at most one is answered, and fewer than hpa answers",
            "an error beyond 3 σ is an outlier",
            "a minute of 1.4 times the line, against the same load without. One that would break the objective if it "
            "stayed is answered at once. Hours differ by a few per cent between two runs by chance alone",
            "router {:.1f} answered, {:+.1f} % executor-hours; hpa {:.1f}, {:+.1f} %",
            _unmoved,
        ),
        Statement(
            "spikes reset",
            "outliers in a row are another load, and become the baseline",
            "k outliers in a row reset the baseline",
            "from 3.4 hours on the load is 1.4 times the line; k is 3 minutes here, and two are the delay",
            "carried after {:.1f} minutes, {:.0f} % of it before",
            _reset,
        ),
    ),
    "day": (
        *_common("day"),
        Statement(
            "day cost",
            "router costs less than hpa and flink",
            None,
            "noise of 10 %, three campaigns, a dip",
            "cost: router {:.1f}, hpa {:.1f}, flink {:.1f}",
            _cheaper_than_hpa_and_flink,
        ),
        Statement(
            "day reactive",
            "it costs no more than 5 % above reactive, with a smaller largest lag",
            "over-allocating is better than under-allocating",
            "reactive waits for the lag, which five minutes allow; router is there before it",
            "cost {:.1f} and {:.1f}, largest lag {:.0f} and {:.0f} s",
            _as_reactive_with_less_lag,
        ),
    ),
    "fleet": (
        Statement(
            "fleet static",
            "the executor-hours of all jobs fall by a quarter at least against a static size for each peak",
            None,
            "a day of each job; sizes, peaks, phases, partitions and costs of a record vary",
            "{:.0f} for {:.0f} executor-hours: {:.1f} % less",
            _fleet_static,
        ),
        Statement(
            "fleet hpa",
            "they fall by 5 % at least against hpa",
            None,
            "the table tells what a number carries, so no headroom is needed",
            "{:.0f} for {:.0f} executor-hours: {:.1f} % less",
            _fleet_hpa,
        ),
        Statement(
            "fleet lag",
            "lag is over five minutes no longer than with hpa",
            _HEALTHY,
            "all jobs together",
            "{:.0f} s and {:.0f} s",
            _fleet_healthy,
        ),
        Statement("fleet round trips", "router makes no round trip", None, _NO_TRIP, _TRIPS, _no_round_trip),
    ),
    "incidents": (
        Statement(
            "slow node",
            "a slow executor is named within ten minutes, and none before there is one",
            "outlier containers: a sick machine",
            "its work takes four times as long for half an hour; two windows of task times in a row tell it",
            "named after {:.0f} s, in {:.0f} of {:.0f} reasons",
            _slow_named,
        ),
        Statement(
            "sick sink",
            "a sick sink gets advice, not executors",
            "up iff the sink is healthy",
            "the sink takes 40 % of the load for half an hour",
            "SICK_SINK in {:.0f} of {:.0f} decisions, {:.1f} increases",
            _sink_advice,
        ),
        Statement(
            "failover",
            "no decrease while a region's traffic is away, nor while it comes back",
            "region failover blocks scale-down only",
            "60 % of the load are away for an hour; untold, the same run goes down",
            "{:.1f} decreases, FAILOVER {:.0f} times; untold {:.1f} decreases",
            _failover,
        ),
        Statement(
            "failover return",
            "a clean return: the executors are there, and the switch leaves nothing behind",
            "until traffic is back",
            "increases in the half hour after it, and time over the objective",
            "{:.1f} increases, untold {:.1f}; {:.0f} s over the objective",
            _returned,
        ),
        Statement(
            "partitions",
            "with 17, 31 and 97 partitions there is no round trip, and no violation",
            None,
            "a wave of two hours each; nothing is divisible by the slots",
            "{:.1f} round trips in {:.0f} changes, {:.0f} s over the objective",
            _partitions,
        ),
        Statement("incidents round trips", "no round trip in any incident", None, _NO_TRIP, _TRIPS, _no_round_trip),
    ),
}
"""By part."""
