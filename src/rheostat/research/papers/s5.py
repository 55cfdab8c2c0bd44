"""The experiments of S5's talk on a simulated job whose metrics are two minutes old, and incidents.

The talk names a sine wave, linear with spikes, a production router and the resource usage of a fleet, and gives no
figures; the statements are ours, in the talk's words where it has some. Figures are means over the seeds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, NamedTuple

from rheostat.journal.records import DecisionRecord, OutcomeRecord
from rheostat.journal.store import States
from rheostat.judge.cases import PolicySpec, load_job, settings_for
from rheostat.judge.scoring import Points, TimeSeries, cost_parts, end_of, scoring_case, thin, time_series
from rheostat.judge.simulate import Recorder, simulate
from rheostat.load.curves import Pieces, staircase
from rheostat.load.prepare import Prepared, peak_mean, prepare
from rheostat.load.shapes import parse_shape
from rheostat.loop.loop import Loop
from rheostat.model import ReasonCode
from rheostat.report.html import COLORS, GREY, line
from rheostat.research.papers.results import (
    Experiment,
    Figures,
    Part,
    Plot,
    Result,
    Statement,
    by_seed,
    columns,
    run_tasks,
)
from rheostat.sim.capacity import capacity, capacity_curve
from rheostat.sim.history import Lag
from rheostat.sim.jobfile import JobFile

PARTS = ("sine", "spikes", "day", "fleet", "incidents")

SEEDS = "1,2,3,4,5"
"""Default seeds."""

POLICIES = ("router", "router:faithful", "reactive", "hpa", "flink")
_FLEET_POLICIES = ("router", "hpa")

FLEET = 16
"""Number of jobs of the fleet."""

INCIDENTS = ("slow", "sink", "failover", "failover untold", "17", "31", "97")
"""A number is that of the partitions."""

_POINTS = 600

# ------------------------------------------------------------------------------------------- a run of one policy


class Failover(NamedTuple):
    """When a region's traffic is away, s; the switch ``failover`` is on from ``begin`` to ``end``."""

    begin: float
    end: float


class Change(NamedTuple):
    """One decision: executors before and after it, and its reason."""

    at: float
    before: int
    after: int
    code: ReasonCode
    text: str


@dataclass(frozen=True)
class PolicyRun:
    """A finished run; ``lines``: thinned, for plots.

    Attributes:
        decisions: all with a known number of executors, in order.
        executor_hours: paid for until all records are committed.
        violation_s: time with the lag over the objective.
        cost: executor-hours, as in ``rheostat compare``.
        static, static_hours: the fewest executors that carry the peak, and their executor-hours.
        cooldown_s: of decreases, by the guard.
        faults: why the run does not count; empty if it does.
    """

    decisions: tuple[Change, ...]
    executor_hours: float
    changes: int
    violation_s: float
    lag_max: float
    cost: float
    static: int
    static_hours: float
    cooldown_s: float
    faults: tuple[str, ...]
    lines: TimeSeries
    seed: int = 0

    @property
    def acts(self) -> tuple[Change, ...]:
        return tuple(each for each in self.decisions if each.after != each.before)

    @property
    def round_trips(self) -> int:
        """Decreases within two cooldowns after an increase."""
        return count_round_trips(self.acts, 2 * self.cooldown_s)

    def between(self, begin: float, end: float) -> tuple[Change, ...]:
        """Decisions in [begin, end)."""
        return tuple(each for each in self.decisions if begin <= each.at < end)

    def with_code(self, code: ReasonCode) -> tuple[Change, ...]:
        return tuple(each for each in self.decisions if each.code is code)


def count_round_trips(acts: Sequence[Change], within_s: float) -> int:
    """Decreases that follow an increase within this time.

    >>> up, down = Change(0.0, 2, 3, ReasonCode.UNDERSIZED, ""), Change(90.0, 3, 2, ReasonCode.OVERSIZED, "")
    >>> count_round_trips([up, down], 120.0), count_round_trips([up, down], 60.0)
    (1, 0)
    """
    raised_at, count = -within_s, 0
    for act in acts:
        if act.after > act.before:
            raised_at = act.at
        elif act.at - raised_at < within_s:
            count += 1
    return count


class _ChangeRecorder(Recorder):
    def __init__(self) -> None:
        super().__init__()
        self.decisions: list[Change] = []

    def record(self, record: DecisionRecord | OutcomeRecord, states: States) -> None:
        super().record(record, states)
        if not isinstance(record, DecisionRecord):
            return
        decision, reason = record.decision, record.decision.reason
        if decision.current is not None and decision.target is not None:
            self.decisions.append(Change(record.at, decision.current, decision.target, reason.code, reason.text))


class Scene(NamedTuple):
    """What a policy is run on."""

    job: JobFile
    load: Prepared


def play(scene: Scene, policy: PolicySpec, seed: int, failover: Failover | None = None) -> PolicyRun:
    """Run a policy over the whole load and until all records are committed.

    ``policy``: ``static`` gets the fewest executors that carry the peak. ``failover``: when the switch is on; it is set
    in time for the next cycle.

    Raises:
        InputError: the policy is unknown, or its options or settings are wrong.
    """
    (job, load), recorder = scene, _ChangeRecorder()

    def set_failover(loop: Loop, later: float) -> None:
        loop.failover(failover is not None and failover.begin <= later < failover.end)

    run = simulate(job, load, policy, seed=seed, recorder=recorder, before_each=set_failover if failover else None)
    case = scoring_case(job, load)
    weight, end = round(case.weight), end_of(case, run.history)
    parts = cost_parts(case, run.history, end)
    return PolicyRun(
        decisions=tuple(recorder.decisions),
        executor_hours=parts.executor_hours,
        changes=parts.changes,
        violation_s=3600 * parts.violation_hours,
        lag_max=Lag.of(run.history, 0.0, end).greatest,
        cost=parts.cost(weight),
        static=weight,
        static_hours=weight * end / 3600,
        cooldown_s=settings_for(job, policy.at_size(weight)).guard.cooldown_down_s,
        faults=tuple(run.faults),
        lines=time_series(run, capacity_curve(job), end, _POINTS),
        seed=seed,
    )


def value_at(steps: Points, at: float) -> float:
    """The last value until a time; 0 before the first.

    >>> [value_at([(10.0, 3.0), (20.0, 5.0)], at) for at in (5.0, 10.0, 19.0, 99.0)]
    [0.0, 3.0, 3.0, 5.0]
    """
    place = bisect_right(steps, at, key=lambda step: step[0])
    return steps[place - 1][1] if place else 0.0


# ---------------------------------------------------------------------------------- jobs, loads and policies

_MINUTE_S, _HOUR_S, _DAY_S = 60.0, 3600.0, 86_400.0
_DELAY_S = 120.0
_TALK: Mapping[str, Any] = {"objective": "lag < 5m", "decide_every_s": 60.0, "metrics.delay_s": _DELAY_S}
_SETTINGS: Mapping[str, Any] = {"guard": {"metrics_delay_s": _DELAY_S}}
_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "router": {"samples_to_shrink": 1, "ride_out": True},
    "reactive": {"samples_to_shrink": 3},
}
_PEAK = 0.8
"""Peak of a load ÷ what the greatest number of executors carries, as in ``rheostat compare``."""

LASTING_S = 3.4 * _HOUR_S
"""From then on the load of the spikes is 1.4 times as high for good."""

_SPIKES_S, _HIGHER = 4 * _HOUR_S, 1.4

SLOW = SICK = (1800.0, 3600.0)
"""When an executor is slow, and when the sink is sick, s."""

FAILOVER = Failover(3600.0, 7200.0)


def policy_spec(policy: str) -> PolicySpec:
    """One of :data:`POLICIES` as it runs in the talk's experiments."""
    name, _, preset = policy.partition(":")
    return PolicySpec(name, preset or None, {} if preset else _OPTIONS.get(name, {}), _SETTINGS)


def sine(seed: int, seconds: float = 4 * _HOUR_S) -> Scene:
    """Two waves of two hours, the crest four times the trough."""
    job = load_job("base", _TALK)
    return _scene(job, parse_shape(f"sine:1..4@{seconds:g},period=7200").pieces(), "sine", seed)


def spike_times(seed: int) -> tuple[float, ...]:
    """When a minute of the load is a spike, s: one in each half hour from the second to the sixth."""
    random = Random(f"spikes {seed}")
    return tuple(1800.0 * number + _MINUTE_S * random.randrange(5, 20) for number in range(1, 6))


def spikes(seed: int, *, among: bool = True) -> Scene:
    """A line from 1 to 3 within four hours with minutes of 1.4 times as much; from 3.4 hours on that for good.

    ``among``: whether the spikes are there; the load is the same without them.
    """
    times = spike_times(seed) if among else ()

    def rate(at: float) -> float:
        return (_HIGHER if at in times or at >= LASTING_S else 1.0) * (1 + 2 * at / _SPIKES_S)

    return _scene(load_job("base", _TALK), _by_minutes(_SPIKES_S, rate), "spikes", seed)


def day(seed: int) -> Scene:
    """A day with noise of 10 %, three campaigns of 20 minutes (a quarter more), and a dip of 15 minutes to a half."""
    random, whole = Random(f"day {seed}"), parse_shape(f"daily:1..4@{_DAY_S:g}")
    campaigns = [_MINUTE_S * random.randrange(480 * number, 480 * number + 460) for number in range(3)]
    dip_at = _MINUTE_S * random.randrange(600, 1200)

    def rate(at: float) -> float:
        factor = 1.25 if any(0 <= at - begin < 1200 for begin in campaigns) else 1.0
        return factor * (0.5 if 0 <= at - dip_at < 900 else 1.0) * whole.rate(at + _MINUTE_S / 2)

    return _scene(load_job("base", _TALK), _by_minutes(_DAY_S, rate), "day", seed, noise_cv=0.10)


def _by_minutes(seconds: float, rate: Callable[[float], float]) -> Pieces:
    return staircase([(_MINUTE_S, rate(number * _MINUTE_S)) for number in range(int(seconds / _MINUTE_S))])


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
    return _scene(job, whole, f"fleet {number}", seed, random.uniform(0.4, 0.8))


def incident(name: str, seed: int) -> Scene:
    """One of :data:`INCIDENTS`."""
    load, share, changes = parse_shape("constant:1@7200").pieces(), 0.5, dict[str, Any]()
    if name == "slow":
        event = {"kind": "slow", "at_s": SLOW[0], "for_s": SLOW[1] - SLOW[0], "executor": 0, "factor": 4.0}
        changes = {"events": [event]}
    elif name == "sink":
        rate = round(0.4 * share * capacity(load_job("base"), 20))
        event = {"kind": "sink", "at_s": SICK[0], "for_s": SICK[1] - SICK[0], "records_per_s": rate}
        changes = {"events": [event]}
    elif name.startswith("failover"):
        load = staircase([(FAILOVER.begin, 1.0), (FAILOVER.end - FAILOVER.begin, 0.4), (3600.0, 1.0)])
    else:
        load, share, changes = parse_shape("sine:1..4@14400,period=7200").pieces(), _PEAK, {"partitions": int(name)}
    return _scene(load_job("base", changes), load, name, seed, share)


def _scene(job: JobFile, curve: Pieces, name: str, seed: int, share: float = _PEAK, noise_cv: float = 0.05) -> Scene:
    """The load with noise between steps of 10 s; ``share``: its peak ÷ what all executors carry."""
    scale = share * capacity(job, job.n_max) / peak_mean(curve)
    scaled = Pieces([(at, rate * scale) for at, rate in curve.points])
    load = prepare(
        scaled, name=name, seed=seed, peak_rate=None, noise_cv=noise_cv, bin_s=60.0, step_s=10.0, longest_s=None
    )
    return Scene(job, load)


# ------------------------------------------------------------------------------------------------ the experiment


class Task(NamedTuple):
    """The runs of one process: of a part with a seed; of the fleet those of one job."""

    part: str
    seed: int
    number: int = 0


Runs = Mapping[str, tuple[PolicyRun, ...]]
"""Runs of one seed, by name; of a fleet one for each job."""


_TITLES: Mapping[str, str] = {
    "sine": "Sine wave",
    "spikes": "Linear with spikes",
    "day": "A production-like day",
    "fleet": f"Resource usage of a fleet of {FLEET} jobs",
    "incidents": "Incidents",
}


def experiment(
    names: Sequence[str], seeds: Sequence[int], watch: Callable[[int, int, str], None], jobs: int = 1
) -> Experiment:
    """Run parts of the experiment, some of :data:`PARTS`, in ``jobs`` processes.

    ``seeds``: of the loads and of the job's random draws; at least one. ``watch``: called with the number of tasks
    done, of how many, and what is being run.
    """
    counts = {name: FLEET if name == "fleet" else 1 for name in names}
    tasks = [Task(name, seed, number) for name in names for seed in seeds for number in range(counts[name])]
    done = dict(zip(tasks, run_tasks(run_task, tasks, jobs, watch), strict=True))
    parts = list[Part]()
    for name in names:
        runs: dict[int, Runs] = {}
        for seed in seeds:
            each_job = [done[Task(name, seed, number)] for number in range(counts[name])]
            runs[seed] = {label: tuple(job[label] for job in each_job) for label in each_job[0]}
        results = [statement.judge(runs) for statement in STATEMENTS[name]]
        parts.append(part_of(name, results, runs))
    return Experiment("s5", parts, tuple(seeds))


def part_of(name: str, results: Sequence[Result], runs: Mapping[int, Runs]) -> Part:
    """A part with the figures of all runs, and plots of those with the first seed."""
    seed = next(iter(runs))
    note = f"Means over the seeds, of the fleet summed over its jobs; the largest lag of all. Plotted: seed {seed}."
    plot = _plot_fleet(runs[seed]) if name == "fleet" else _plot_runs(name, seed, runs[seed])
    return Part(_TITLES[name], results, [table_rows(runs), *by_seed(results)], [plot], [note])


def run_task(task: Task) -> dict[str, PolicyRun]:
    name, seed = task.part, task.seed
    if name == "incidents":
        failovers = {"failover": FAILOVER}
        return {each: play(incident(each, seed), PolicySpec("router"), seed, failovers.get(each)) for each in INCIDENTS}
    scene = fleet_job(seed, task.number) if name == "fleet" else _SCENES[name](seed)
    runs = {each: play(scene, policy_spec(each), seed) for each in (_FLEET_POLICIES if name == "fleet" else POLICIES)}
    if name == "spikes":
        calm = spikes(seed, among=False)
        runs |= {f"{each}, no spikes": play(calm, policy_spec(each), seed) for each in ("router", "hpa")}
    return runs


_SCENES: Mapping[str, Callable[[int], Scene]] = {"sine": sine, "spikes": spikes, "day": day}


def table_rows(runs: Mapping[int, Runs]) -> list[list[str]]:
    """Figures of each run: summed over the fleet, means over the seeds; header first."""
    rows = [["", "cost", "executor-hours", "of static", "changes", "over the objective, s", "largest lag, s"]]
    for label in next(iter(runs.values())):
        played = [run for seed in runs.values() for run in seed[label]]
        names = ("cost", "executor_hours", "static_hours", "changes", "violation_s")
        cost, hours, static, changes, over_s = (sum(getattr(run, name) for run in played) / len(runs) for name in names)
        figures = [f"{cost:.1f}", f"{hours:.1f}", f"{hours / static:.0%}", f"{changes:.0f}", f"{over_s:.0f}"]
        rows.append([label, *figures, f"{max(run.lag_max for run in played):.0f}"])
    return rows


def _plot_runs(name: str, seed: int, runs: Runs) -> Plot:
    load = thin(_SCENES[name](seed).load.curve.points, _POINTS) if name in _SCENES else []
    return _plot(load, {label: run.lines for label, (run,) in runs.items()})


def _plot_fleet(runs: Runs) -> Plot:
    """On a grid: total capacity and executors of the fleet, total of the static sizes, and the largest lag of all."""
    grid, lines = [300.0 * place for place in range(int(_DAY_S / 300.0) + 1)], {}
    for label, jobs in runs.items():
        carried = [(at, sum(value_at(run.lines.capacity, at) for run in jobs)) for at in grid]
        paid = [(at, sum(value_at(run.lines.paid, at) for run in jobs)) for at in grid]
        lags = [(at, max(value_at(run.lines.lag, at) for run in jobs)) for at in grid]
        lines[label] = TimeSeries(carried, paid, lags)
    static = float(sum(run.static for run in runs["router"]))
    return _plot([], {**lines, "static": TimeSeries([], [(grid[0], static), (grid[-1], static)], [])})


def _plot(load: Points, runs: Mapping[str, TimeSeries]) -> Plot:
    lines = [(1, line("load", *columns(load), GREY))] if load else []
    for (name, own), color in zip(runs.items(), COLORS, strict=False):
        lines += [
            (1, line(name, *columns(own.capacity), color, shape="hv", showlegend=False, legendgroup=name)),
            (2, line(name, *columns(own.paid), color, shape="hv", legendgroup=name)),
            (3, line(name, *columns(own.lag), color, showlegend=False, legendgroup=name)),
        ]
    return Plot(("Load and what the executors carry, records/s", "Executors paid for", "Lag, s"), lines, 820)


# ------------------------------------------------------------------------------------- what is checked in the runs

_Checked = tuple[bool, Figures]

_RIVALS = ("reactive", "hpa", "flink")
_AFTER_S = 600.0
_ENOUGH = 0.95
"""Share of a rate that must be carried: router goes up from 5 % beyond."""
_RETURN_S = 285.0
"""The guard's 300 s count from the last cycle with the switch on."""


def _check_lag(runs: Runs) -> _Checked:
    (run,) = runs["router"]
    return run.violation_s == 0 and run.lag_max < 300 and not run.faults, (run.lag_max,)


def _check_cheapest(runs: Runs, rivals: Sequence[str] = _RIVALS) -> _Checked:
    costs = [runs[name][0].cost for name in ("router", *rivals)]
    return costs[0] < min(costs[1:]), tuple(costs)


def _check_reactive(runs: Runs) -> _Checked:
    ours, other = runs["router"][0], runs["reactive"][0]
    cheap = ours.cost <= 1.05 * other.cost
    return cheap and ours.lag_max < other.lag_max, (ours.cost, other.cost, ours.lag_max, other.lag_max)


def _check_round_trips(runs: Runs) -> _Checked:
    ours = [run for name, each in runs.items() if name not in _RIVALS and name[:3] != "hpa" for run in each]
    trips, changes = sum(run.round_trips for run in ours), sum(run.changes for run in ours)
    return trips == 0, (float(trips), float(changes))


def count_answered(spiked: PolicyRun, calm: PolicyRun, spikes: Sequence[float]) -> int:
    """Spikes that are answered by an increase, while the metrics show them, that is not there without spikes."""
    windows = [(at + _DELAY_S, at + _DELAY_S + 3 * _MINUTE_S) for at in spikes]
    return sum(_increases(spiked, *each) > 0 and _increases(calm, *each) == 0 for each in windows)


def _increases(run: PolicyRun, begin: float, end: float) -> int:
    return sum(each.after > each.before for each in run.between(begin, end))


def _check_outliers(runs: Runs) -> _Checked:
    figures = list[float]()
    for name in ("router", "hpa"):
        (spiked,), (calm,) = runs[name], runs[f"{name}, no spikes"]
        answered = count_answered(spiked, calm, spike_times(spiked.seed))
        figures += [float(answered), 100 * (spiked.executor_hours / calm.executor_hours - 1)]
    return figures[0] <= 1 and figures[0] < figures[2], tuple(figures)


def _check_reset(runs: Runs) -> _Checked:
    (run,), since = runs["router"], LASTING_S
    load = spikes(run.seed).load.curve
    rate = (load.cumulative(since + _AFTER_S) - load.cumulative(since)) / _AFTER_S
    carries = run.lines.capacity
    enough = [at for at, carried in carries if at >= since and carried >= _ENOUGH * rate]
    late_s = enough[0] - since if enough else carries[-1][0]
    return late_s <= _AFTER_S, (late_s / 60, 100 * value_at(carries, since) / rate)


def _check_fleet_static(runs: Runs) -> _Checked:
    ours = sum(run.executor_hours for run in runs["router"])
    static = sum(run.static_hours for run in runs["router"])
    return ours <= 0.75 * static, (ours, static, 100 * (1 - ours / static))


def _check_fleet_hpa(runs: Runs) -> _Checked:
    ours, rival = (sum(run.executor_hours for run in runs[name]) for name in _FLEET_POLICIES)
    return ours <= 0.95 * rival, (ours, rival, 100 * (1 - ours / rival))


def _check_fleet_lag(runs: Runs) -> _Checked:
    ours, rival = (sum(run.violation_s for run in runs[name]) for name in _FLEET_POLICIES)
    return ours <= rival and not any(run.faults for run in runs["router"]), (ours, rival)


def _check_slow_node(runs: Runs) -> _Checked:
    (run,), (begin, end) = runs["slow"], SLOW
    during = run.between(begin, end)
    named = [each.at for each in during if "slow: executor 0" in each.text]
    first_s = named[0] - begin if named else -1.0
    early = [each for each in run.between(0.0, begin) if "slow: " in each.text]
    return 0 <= first_s <= _AFTER_S and not early, (first_s, float(len(named)), float(len(during)))


def _check_sick_sink(runs: Runs) -> _Checked:
    (run,) = runs["sink"]
    during, ups = run.between(*SICK), _increases(run, *SICK)
    advised = sum(each.code is ReasonCode.SICK_SINK for each in during)
    return advised > 0 and ups == 0, (float(advised), float(len(during)), float(ups))


def _check_failover(runs: Runs) -> _Checked:
    (run,), (untold,) = runs["failover"], runs["failover untold"]
    downs, untold_downs = (
        sum(each.after < each.before for each in each_run.between(FAILOVER.begin, FAILOVER.end + _RETURN_S))
        for each_run in (run, untold)
    )
    blocked = len(run.with_code(ReasonCode.FAILOVER))
    return downs == 0 and blocked > 0 and untold_downs > 0, (float(downs), float(blocked), float(untold_downs))


def _check_return(runs: Runs) -> _Checked:
    (run,), (untold,), end = runs["failover"], runs["failover untold"], FAILOVER.end
    ups, untold_ups = (_increases(each, end, end + 1800.0) for each in (run, untold))
    last = run.with_code(ReasonCode.FAILOVER)[-1:]
    over = bool(last) and last[0].at < end + _RETURN_S
    return over and run.violation_s == 0 and ups < untold_ups, (float(ups), float(untold_ups), run.violation_s)


def _check_partitions(runs: Runs) -> _Checked:
    each_run = [runs[name][0] for name in ("17", "31", "97")]
    trips, over_s = sum(run.round_trips for run in each_run), sum(run.violation_s for run in each_run)
    return trips == 0 and over_s == 0, (float(trips), float(sum(run.changes for run in each_run)), over_s)


_HEALTHY = "healthy: lag under 5 minutes"


def _round_trips(part: str, who: str) -> Statement:
    return Statement(
        f"{part} round trips",
        who,
        None,
        "up and down again within two cooldowns (the guard's, 120 s) is for nothing",
        "{:.1f} round trips in {:.0f} changes",
        _check_round_trips,
    )


def _common(part: str) -> tuple[Statement, Statement]:
    lag = Statement(
        f"{part} lag",
        "lag is healthy all the time",
        _HEALTHY,
        "a decision each minute, on metrics that are two minutes old",
        "largest lag {:.0f} s",
        _check_lag,
    )
    return lag, _round_trips(part, "router, and as published, make no round trip")


STATEMENTS: Mapping[str, tuple[Statement, ...]] = {
    "sine": (
        *_common("sine"),
        Statement(
            "sine cost",
            "router follows the wave at less cost than reactive, hpa and flink",
            None,
            "waves of two hours. Each decrease waits for metrics from after the one before, about three minutes, so on "
            "waves of one hour it costs as much as hpa, which does not wait",
            "cost: router {:.1f}, reactive {:.1f}, hpa {:.1f}, flink {:.1f}",
            _check_cheapest,
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
            _check_outliers,
        ),
        Statement(
            "spikes reset",
            "outliers in a row are another load, and become the baseline",
            "k outliers in a row reset the baseline",
            "from 3.4 hours on the load is 1.4 times the line; k is 3 minutes here, and two are the delay",
            "carried after {:.1f} minutes, {:.0f} % of it before",
            _check_reset,
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
            partial(_check_cheapest, rivals=("hpa", "flink")),
        ),
        Statement(
            "day reactive",
            "it costs no more than 5 % above reactive, with a smaller largest lag",
            "over-allocating is better than under-allocating",
            "reactive waits for the lag, which five minutes allow; router is there before it",
            "cost {:.1f} and {:.1f}, largest lag {:.0f} and {:.0f} s",
            _check_reactive,
        ),
    ),
    "fleet": (
        Statement(
            "fleet static",
            "the executor-hours of all jobs fall by at least a quarter against a static size for each peak",
            None,
            "a day of each job; sizes, peaks, phases, partitions and costs of a record vary",
            "{:.0f} for {:.0f} executor-hours: {:.1f} % less",
            _check_fleet_static,
        ),
        Statement(
            "fleet hpa",
            "they fall by at least 5 % against hpa",
            None,
            "the table knows what a number of executors carries, so no headroom is needed",
            "{:.0f} for {:.0f} executor-hours: {:.1f} % less",
            _check_fleet_hpa,
        ),
        Statement(
            "fleet lag",
            "lag is over five minutes no longer than with hpa",
            _HEALTHY,
            "all jobs together",
            "{:.0f} s and {:.0f} s",
            _check_fleet_lag,
        ),
        _round_trips("fleet", "router makes no round trip"),
    ),
    "incidents": (
        Statement(
            "slow node",
            "a slow executor is named within ten minutes, and none before there is one",
            "outlier containers: a sick machine",
            "its tasks take four times as long for half an hour; two windows of task times in a row show it",
            "named after {:.0f} s, in {:.0f} of {:.0f} reasons",
            _check_slow_node,
        ),
        Statement(
            "sick sink",
            "a sick sink gets advice, not executors",
            "up iff the sink is healthy",
            "the sink takes 40 % of the load for half an hour",
            "SICK_SINK in {:.0f} of {:.0f} decisions, {:.1f} increases",
            _check_sick_sink,
        ),
        Statement(
            "failover",
            "no decrease while a region's traffic is away, nor while it comes back",
            "region failover blocks scale-down only",
            "60 % of the load are away for an hour; without the switch (untold) the same run scales down",
            "{:.1f} decreases, FAILOVER {:.0f} times; untold {:.1f} decreases",
            _check_failover,
        ),
        Statement(
            "failover return",
            "a clean return: the executors are there, and the switch has no later effect",
            "until traffic is back",
            "increases in the half hour after it, and time over the objective",
            "{:.1f} increases, untold {:.1f}; {:.0f} s over the objective",
            _check_return,
        ),
        Statement(
            "partitions",
            "with 17, 31 and 97 partitions there is no round trip, and no violation",
            None,
            "a wave of two hours each; nothing is divisible by the slots",
            "{:.1f} round trips in {:.0f} changes, {:.0f} s over the objective",
            _check_partitions,
        ),
        _round_trips("incidents", "no round trip in any incident"),
    ),
}
"""By part."""
