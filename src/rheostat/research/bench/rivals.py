"""``rheostat bench rivals``: the same loads on the same real Kafka and Spark, under each way of scaling by turns.

Each run has a lab of its own: a broker, a cluster, a driver with the demo's pipeline. The load is sized once to the
machine and is then the same for all runs. Rheostat is attached to every one of them; to Spark's dynamic allocation it
only watches, so that all figures come from the same observations.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from rheostat.demo import sizing
from rheostat.demo.run import DemoPlan, DemoRun, Progress, run_demo
from rheostat.errors import Fault, InputError, RheostatError
from rheostat.host.java import cache_folder
from rheostat.journal.store import read_journal
from rheostat.load.curves import RateCurve
from rheostat.load.shapes import parse_shape
from rheostat.report.html import require_folder
from rheostat.research.bench.harness import Bench, Watch, ignore_progress, update_page, write_json
from rheostat.research.bench.rivals_figures import Figures, Finished, figures_of, rivals_bench, simulate_loads

LOADS: Mapping[str, str] = {
    "demo": "ramp:{low:g}..{peak:g}@{rise:g}+constant:{peak:g}@30+ramp:{peak:g}..{low:g}@60+constant:{low:g}@20",
    "bursts": "constant:{low:g}@15+bursts:{low:g}..{burst:g}@105,on=20,off=25,seed=3+constant:{low:g}@25",
    "day": "ramp:{low:g}..{level:g}@{morning:g}+constant:{level:g}@25+ramp:{level:g}..{peak:g}@20"
    "+ramp:{peak:g}..{low:g}@45+constant:{low:g}@20",
}
"""Loads by name, with the rates of the machine.

That of the demo; bursts to half of the peak; a day in three minutes, from its low at four in the morning on: the
morning, as steep as the demo's rise, a level at three quarters of the peak, the peak of the evening, the night.
"""

BURST_SHARE, LEVEL_SHARE = 0.5, 0.75
EXECUTORS = (1, 6)
IDLE_S, BACKLOG_S = 10, 2

DYNAMIC: Mapping[str, str] = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": str(EXECUTORS[0]),
    "spark.dynamicAllocation.initialExecutors": str(EXECUTORS[0]),
    "spark.dynamicAllocation.maxExecutors": str(EXECUTORS[1]),
}
"""Spark's dynamic allocation with its defaults, within our bounds, on a cluster without a shuffle service."""

DYNAMIC_TUNED: Mapping[str, str] = {
    **DYNAMIC,
    "spark.dynamicAllocation.executorIdleTimeout": f"{IDLE_S}s",
    "spark.dynamicAllocation.shuffleTracking.timeout": f"{IDLE_S}s",
    "spark.dynamicAllocation.cachedExecutorIdleTimeout": f"{IDLE_S}s",
    "spark.dynamicAllocation.schedulerBacklogTimeout": f"{BACKLOG_S}s",
}
"""With the time-outs for a query with a trigger of two seconds; docs/judging.md says why these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """A way of scaling: a policy of Rheostat's, or settings of the session (``conf``), which Rheostat only watches.

    The simulator has the policy in both cases, with these options.
    """

    policy: str
    conf: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


RIVALS: Mapping[str, Rival] = {
    "static": Rival(policy="static"),
    "dynamic-allocation": Rival(
        policy="dynamic-allocation",
        conf=DYNAMIC_TUNED,
        options={"backlog_timeout_s": float(BACKLOG_S), "idle_timeout_s": float(IDLE_S)},
    ),
    "reactive": Rival(policy="reactive"),
    "rheostat": Rival(policy="rheostat"),
}
"""In the order of the first half of a round."""

BESIDE: Mapping[str, Rival] = {
    "dynamic-allocation-defaults": Rival(
        policy="dynamic-allocation", conf=DYNAMIC, options={"idle_timeout_s": 86_400.0}
    ),
    "mst": Rival(policy="mst"),
    "router": Rival(policy="router"),
}
"""Run beside once a round, in its middle, under the load :data:`BESIDE_LOAD`."""

BESIDE_LOAD = "demo"
PAGE = "rivals.md"
"""In the folder of the runs: the section of the page, written again after each run."""
ALL: Mapping[str, Rival] = {**RIVALS, **BESIDE}


@dataclass(frozen=True, slots=True, kw_only=True)
class RivalPlan(DemoPlan):
    """The demo under one rival and any load, as the demo runs it after its warm-up.

    ``load``: a shape. ``rival``: a key of :data:`ALL`. ``load_before``: load average by which the starts of executors
    are limited, the same for all runs.
    """

    load: str
    rival: str
    load_before: float | None = None
    executors: tuple[int, int] = EXECUTORS
    measures: bool = False
    waits_until_warm: bool = True

    def curve(self) -> RateCurve:
        return parse_shape(self.load)

    def phase(self, second: float | None) -> str:
        """Name of the phase at a second of the load; None: before it."""
        if second is None:
            return "warm-up"
        return "load" if second < self.seconds else "drain"

    def settings(self, folder: Path) -> Mapping[str, Any]:
        """The autoscaler's settings: those of the demo; it only watches what Spark scales itself."""
        limits = {"guard": sizing.start_limits(self.load_before)}
        watches = {"mode": "watch"} if ALL[self.rival].conf else {}
        return {**DemoPlan.settings(self, folder), **limits, **watches}

    def session_conf(self) -> Mapping[str, str]:
        """Settings of the Spark session: those of dynamic allocation."""
        return ALL[self.rival].conf


@dataclass(frozen=True, slots=True, kw_only=True)
class SizingPlan(DemoPlan):
    """The warm-up of the demo, in which the machine is measured, and one second of its load."""

    def sized(self, machine: sizing.Machine) -> DemoPlan:
        """The demo's plan for this machine, with a load of a second."""
        plan = DemoPlan.sized(self, machine)
        return DemoPlan(
            shape=f"constant:{plan.base_rate:g}@1",
            base_rate=plan.base_rate,
            peak_rate=plan.peak_rate,
            rise_s=plan.rise_s,
            measures=False,
        )


@dataclass(frozen=True, slots=True)
class Rates:
    """The load of this machine: records/s, seconds, and the load average of a minute before it was measured."""

    low: float
    peak: float
    rise_s: float
    load_before: float | None

    def shape(self, load: str) -> str:
        """A load of :data:`LOADS` at these rates."""
        burst, level = (round(self.low + share * (self.peak - self.low)) for share in (BURST_SHARE, LEVEL_SHARE))
        morning = round(LEVEL_SHARE * self.rise_s)
        rates = {"low": self.low, "peak": self.peak, "burst": burst, "level": level}
        return LOADS[load].format(**rates, rise=self.rise_s, morning=morning)


@dataclass(frozen=True, slots=True)
class Turn:
    """A run of the order: which load, which round from 1 on, its half (1: there, 2: back), which rival."""

    load: str
    round: int
    half: int
    rival: str

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"{self.load}-{self.round}-{self.half}-{self.rival}"


def order_turns(loads: Iterable[str], rounds: int) -> list[Turn]:
    """Every run in its order: a round goes there and back, ABCDDCBA; those beside are in its middle.

    >>> [turn.rival for turn in order_turns(["day"], 1)][2:6]
    ['reactive', 'rheostat', 'rheostat', 'reactive']
    """
    turns = []
    for load in loads:
        beside = list(BESIDE) if load == BESIDE_LOAD else []
        for number in range(1, rounds + 1):
            turns += [Turn(load, number, 1, rival) for rival in [*RIVALS, *beside]]
            turns += [Turn(load, number, 2, rival) for rival in reversed(list(RIVALS))]
    return turns


Result = TypeVar("Result")
Play = Callable[[DemoPlan, Path, Callable[[str], None], Callable[[Progress], None]], DemoRun]


def run_rivals(
    watch: Watch = ignore_progress,
    loads: Sequence[str] = tuple(LOADS),
    rounds: int = 1,
    out: Path | None = None,
    play: Play = run_demo,
) -> Bench:
    """All runs, then the same loads simulated with the job that was fitted to them.

    ``out``: folder of the runs, and of a page with their figures; those that it holds are not run again. Without it
    they are in the user's cache, and are all new. ``play`` runs a plan.

    Raises:
        InputError: ``out`` cannot be written, or holds runs of other loads.
        PartFailedError: a part died twice in the same run; with its name and the end of its log.
        RheostatError: a run lost records, or took too long, twice.
    """
    folder = _folder(out)
    turns, runs = order_turns(loads, rounds), list[Finished]()
    rates = _with_repeat(watch, 0, len(turns), "sizing", lambda: _size(folder, watch, len(turns), play))
    _require_same_loads(folder, turns, rates)
    shapes, notes = {load: rates.shape(load) for load in loads}, _notes(rates, folder)
    for number, turn in enumerate(turns):
        runs.append(_finished(folder, turn) or _run(folder, turn, rates, _Telling(watch, number, len(turns)), play))
        update_page(folder / PAGE, rivals_bench(runs, f"{number + 1} of {len(turns)} runs are there", shapes, notes))
    watch(len(turns), len(turns), "simulating the same loads")
    result = rivals_bench(runs, simulate_loads(runs, shapes, EXECUTORS), shapes, notes)
    update_page(folder / PAGE, result)
    return result


def _folder(out: Path | None) -> Path:
    if out is None:
        folder = cache_folder() / "bench" / "rivals"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder
    require_folder("out", out)
    return out.absolute()


@dataclass(frozen=True, slots=True)
class _Telling:
    """Tells the progress of one run; of a run's phases each once."""

    watch: Watch
    number: int
    total: int
    told: list[str] = field(default_factory=list)

    def say(self, words: str) -> None:
        self.watch(self.number, self.total, words)

    def phase(self, name: str) -> Callable[[Progress], None]:
        def show(progress: Progress) -> None:
            if self.told[-1:] != [progress.phase]:
                self.told.append(progress.phase)
                self.say(f"{name}: {progress.phase}")

        return show


def _with_repeat(watch: Watch, number: int, total: int, name: str, run: Callable[[], Result]) -> Result:
    """Run; if it fails, say so and run once more."""
    try:
        return run()
    except InputError:
        raise
    except RheostatError as error:
        watch(number, total, f"{name} failed and is repeated: {error}")
        return run()


def _size(folder: Path, watch: Watch, total: int, play: Play) -> Rates:
    """The rates in the folder, else those of the machine, measured now."""
    path = folder / "rates.json"
    if path.exists():
        return Rates(**json.loads(path.read_text(encoding="utf-8")))
    before, place = sizing.read_load(), folder / "sizing"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    telling = _Telling(watch, 0, total)
    plan = play(SizingPlan(), place, lambda _: None, telling.phase("sizing the load to this machine")).plan
    if plan.peak_rate is None:
        message = "the machine was not measured"
        raise RheostatError(message)
    rates = Rates(plan.base_rate, plan.peak_rate, plan.rise_s, before)
    write_json(path, asdict(rates))
    return rates


def _require_same_loads(folder: Path, turns: Iterable[Turn], rates: Rates) -> None:
    for turn in turns:
        path = folder / turn.name / "run.json"
        if path.exists() and json.loads(path.read_text(encoding="utf-8"))["shape"] != rates.shape(turn.load):
            allowed = "a new folder, or one with runs under the same loads"
            raise InputError([Fault("out", str(folder), allowed, f"{turn.name} was run under another load")])


def _finished(folder: Path, turn: Turn) -> Finished | None:
    """The run, if the folder holds it with its end."""
    place = folder / turn.name
    if not (place / "run.json").exists():
        return None
    kept = json.loads((place / "run.json").read_text(encoding="utf-8"))
    return Finished(
        load=turn.load,
        pair=(turn.load, turn.round, turn.half),
        rival=turn.rival,
        figures=Figures(**kept["figures"]),
        began=kept["go_at"],
        journal=place / "journal",
        busy=kept["load_average"],
        drained=kept["drained"],
    )


def _run(folder: Path, turn: Turn, rates: Rates, telling: _Telling, play: Play) -> Finished:
    def run() -> Finished:
        place, plan, before = folder / turn.name, _plan(turn, rates), os.getloadavg()[0]
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        _keep(place, plan, before, play(plan, place, lambda _: None, telling.phase(turn.name)))
        done = _finished(folder, turn)
        if done is None:
            message = f"{place}/run.json is gone"
            raise RheostatError(message)
        return done

    try:
        return _with_repeat(telling.watch, telling.number, telling.total, turn.name, run)
    except RheostatError:
        telling.say(f"{turn.name} failed twice; finished runs stay, and --out {folder} goes on with the others")
        raise


def _plan(turn: Turn, rates: Rates) -> RivalPlan:
    rival = ALL[turn.rival]
    least, most = EXECUTORS
    return RivalPlan(
        load=rates.shape(turn.load),
        rival=turn.rival,
        policy=rival.policy,
        policy_options=rival.options,
        base_rate=rates.low,
        peak_rate=rates.peak,
        load_before=rates.load_before,
        executors=(most, most) if rival.policy == "static" else (least, most),
    )


def _keep(place: Path, plan: RivalPlan, load_average: float, done: DemoRun) -> None:
    """Write what the run's figures are made of; this ends it. Records still on their way at its end are not lost."""
    if done.load.go_at is None or (done.drained and not done.score["valid"]):
        message = f"{place.name}: the sink does not hold what was produced"
        raise RheostatError(message)
    begin, end = done.load.go_at, done.load.go_at + done.load.seconds
    figures = figures_of(read_journal(place / "journal"), begin, end, plan.objective_s)
    kept = {
        "shape": plan.load,
        "figures": asdict(figures),
        "go_at": begin,
        "load_average": load_average,
        "drained": done.drained,
        "conf": dict(plan.session_conf()),
    }
    write_json(place / "run.json", kept)


def _notes(rates: Rates, folder: Path) -> tuple[str, ...]:
    plan = DemoPlan()
    tuned = ", ".join(
        f"{key.removeprefix('spark.dynamicAllocation.')} {value}"
        for key, value in DYNAMIC_TUNED.items()
        if key not in DYNAMIC
    )
    return (
        f"Spark standalone and Kafka on this machine, a new lab for each run, the demo's pipeline click_fraud: trigger "
        f"{plan.trigger_s:g} s, {plan.partitions} partitions, look-up {plan.lookup_ms:g} ms a record, at most "
        f"{plan.cap} records a batch, {EXECUTORS[0]} to {EXECUTORS[1]} executors of 1 core, {plan.objective}.",
        f"Sized once to the machine: {rates.low:g} to {rates.peak:g} records/s, a rise of {rates.rise_s:g} s. A load "
        "begins after two warm batches, until which the policies are paused; dynamic allocation cannot be paused. "
        "Figures count from its begin until all was committed.",
        "Order of a round: static, dynamic-allocation, reactive, rheostat, those beside, and back. Pairs are runs of "
        "the same half of a round under one load; the interval is that of the geometric mean of their ratios, by "
        "bootstrap over the pairs. With six pairs it is rather too narrow; under three there is none, and no target is "
        "met.",
        "Executor-seconds: registered executors over time, as Rheostat observes them each 2 s; changes: how often that "
        "number differs from the look before. The same for all, dynamic allocation included, to which Rheostat only "
        "watches. A removed executor counts until Spark forgets it, 5 s later.",
        f"dynamic-allocation: {tuned}; dynamic-allocation-defaults: nothing but shuffle tracking and "
        "the bounds. See docs/judging.md. reactive, rheostat, mst, router: the demo profile, as the demo runs them.",
        f"Journals and figures of every run: {folder.name}, which --out takes up again.",
    )
