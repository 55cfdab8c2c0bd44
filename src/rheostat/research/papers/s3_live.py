"""Scenarios of Stream Economics, shortened, on a real Kafka and a real Spark [S3, chapter 5].

Two node servers keep their Workers on one CPU each, which makes two nodes of one core of this machine; a Worker offers
two cores. Every record costs processor time in a Python worker. Broker, driver and producer run on both CPUs.
Each sink has a query; executors are as many as allowed all the time, so shedding is what is left. This module is also
the program of the driver.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import correlation, fmean
from typing import Any, NamedTuple

from rheostat.analyze.batches import list_ended
from rheostat.analyze.processors import estimate_error
from rheostat.config.shedding import WHOLE, join_graphs, parse_edge
from rheostat.demo.run import JournalWatch
from rheostat.host.processes import Launch, Part, module_command, module_environment
from rheostat.host.spark_daemons import free_ports
from rheostat.journal.records import DecisionRecord
from rheostat.lab.lab import Lab, LabSpec
from rheostat.load.kafka_sink import ensure_topic
from rheostat.model import Batch, Offsets, ReasonCode
from rheostat.node.options import StartedNode
from rheostat.pipelines import knn, taxi_drives
from rheostat.pipelines.running import base_conf, finish, open_session
from rheostat.pipelines.sink import find_batches
from rheostat.research.bench.harness import Watch, ignore_progress, until
from rheostat.research.papers.results import Experiment, Result
from rheostat.research.papers.results import Part as ReportPart
from rheostat.spark.kafka_options import FORMAT

OBJECTIVE_S, _SAMPLE_S = 20.0, 2.0
_EXECUTORS, _SLOTS, _MEMORY_MB = 2, 2, 600
_CPUS = {"tm1": "0", "tm2": "1"}
_LONGEST_S = 180.0
_WITH, _WITHOUT, _PRIORITIES, _RATES = "taxi", "taxi without shedding", "taxi and knn", "knn"


@dataclass(frozen=True, slots=True)
class LivePlan:
    """One run.

    Attributes:
        rates: for each application, when its load begins, and steps (seconds, records/s of each of its topics).
        settings: of the pipelines, by application.
        workers: on each node, at most.
        joins_s: when the second node server starts; 0: with the first.
        sheds: whether records may be dropped.
    """

    rates: Mapping[str, tuple[float, Sequence[tuple[float, float]]]]
    settings: Mapping[str, Mapping[str, Any]]
    workers: int = _EXECUTORS
    joins_s: float | None = 0.0
    sheds: bool = True

    @property
    def seconds(self) -> float:
        return max(begin + sum(length for length, _ in steps) for begin, steps in self.rates.values())

    def scenario(self) -> dict[str, Any]:
        """As ``rheostat load --scenario`` takes it."""
        found = []
        for name, (begin, steps) in self.rates.items():
            rates, at = [], 0.0
            for length, rate in steps:
                rates.append({"at_s": at, "rate": rate})
                at += length
            payload = "points" if name == "knn" else "trips"
            topics = {topic: {"partitions": 2, "payload": payload, "rates": rates} for topic in _TOPICS[name]}
            found.append({"name": name, "start_s": begin, "stop_s": begin + at, "topics": topics})
        return {"applications": found}


_TOPICS = {"taxi": ("drives-1", "drives-2"), "knn": ("points",)}
_TAXI: Mapping[str, Any] = {"light_us": 1500.0, "work_us": 3000.0}
_RISING = ((60.0, 30.0), (80.0, 100.0), (120.0, 200.0))

PLANS: Mapping[str, LivePlan] = {
    _WITH: LivePlan({"taxi": (0.0, _RISING)}, {"taxi": _TAXI}, joins_s=110.0),
    _WITHOUT: LivePlan({"taxi": (0.0, _RISING[:2])}, {"taxi": _TAXI}, joins_s=None, sheds=False),
    _PRIORITIES: LivePlan(
        {"taxi": (0.0, ((140.0, 30.0), (80.0, 70.0))), "knn": (60.0, ((160.0, 90.0),))},
        {
            "taxi": {**_TAXI, "priority_1": 1, "priority_2": 2, "accuracy_1": 0.2, "accuracy_2": 0.3},
            "knn": {"work_us": 6000.0, "accuracy": 0.2},
        },
        joins_s=None,
    ),
    _RATES: LivePlan(
        {"knn": (0.0, tuple((35.0, rate) for rate in (250.0, 400.0, 550.0, 400.0, 250.0, 500.0)))},
        {"knn": {"work_us": 6000.0, "accuracy": 0.1}},
        workers=1,
    ),
}


class LiveRun(NamedTuple):
    """A run.

    Attributes:
        began: when its load did, epoch seconds.
        cycles: what was decided.
        rows: of the sink of KNN, by batch.
    """

    plan: LivePlan
    began: float
    cycles: Sequence[DecisionRecord]
    rows: Mapping[int, int]

    def batches(self) -> dict[str, list[Batch]]:
        """Every batch that was seen, by query, oldest first."""
        found: dict[str, dict[int, Batch]] = {}
        for query in (query for cycle in self.cycles if cycle.observation for query in cycle.observation.queries):
            mine = found.setdefault(query.name or query.query_id, {})
            mine.update({batch.batch_id: batch for batch in list_ended(query, None)})
        return {name: [mine[number] for number in sorted(mine)] for name, mine in found.items()}

    def first_shed(self, sink: str) -> float:
        """When a sink is first to get less than everything, s of the load."""
        for cycle in self.cycles:
            plan = cycle.decision.shedding
            if plan is not None and any(each.sink == sink and each.wanted < _SHEDS for each in plan.sinks):
                return cycle.at - self.began
        return float("inf")

    @property
    def moved(self) -> list[float]:
        """When an executor was told to move."""
        codes = [(cycle.at - self.began, cycle.decision) for cycle in self.cycles]
        return [at for at, decision in codes if decision.reason.code is ReasonCode.NODE_OVERLOADED and decision.acts]

    @property
    def lags(self) -> list[tuple[float, float]]:
        """Time of the load and the lag, s, without the first minute, in which executors are cold."""
        known = [(cycle.at - self.began, cycle.assessment) for cycle in self.cycles]
        found = [(at, seen.lag_s) for at, seen in known if seen is not None and seen.lag_s is not None]
        return [(at, lag) for at, lag in found if at >= _COLD_S]


_SHEDS, _COLD_S = 0.99, 60.0


def run_live(folder: Path, watch: Watch = ignore_progress, plans: Mapping[str, LivePlan] = PLANS) -> Experiment:
    """Run all plans, about twenty minutes; ``folder`` gets the journal of each.

    Raises:
        PartFailedError: a part died; with its name and the end of its log.
        UnavailableError: a step took too long.
    """
    runs = dict[str, LiveRun]()
    for number, (name, plan) in enumerate(plans.items()):
        watch(number, len(plans), name)
        place = folder / name.replace(" ", "-")
        place.mkdir(parents=True, exist_ok=True)
        with Lab(LabSpec(workers=0)) as lab:
            runs[name] = _Stage(lab, place, plan).play()
    return Experiment("s3", [ReportPart("Shortened, on a real cluster", live_results(runs))], (1,))


class _Stage:
    """Everything that runs, from start to end."""

    def __init__(self, lab: Lab, folder: Path, plan: LivePlan) -> None:
        self._lab, self._folder, self._plan = lab, folder, plan
        self._journal = JournalWatch(folder / "journal")

    def play(self) -> LiveRun:
        for topic in (topic for app in self._plan.rates for topic in _TOPICS[app]):
            ensure_topic(self._lab.broker.bootstrap, topic, 2, create=True)
        ports = dict(zip(_CPUS, free_ports(len(_CPUS)), strict=True))
        self._start_node("tm1", ports["tm1"])
        if self._plan.joins_s == 0:
            self._start_node("tm2", ports["tm2"])
        driver = self._start_driver(ports)
        until(lambda: self._alive() and self._executors() >= _EXECUTORS, "executors", _LONGEST_S)
        began = time.time()
        load = self._start_load()
        if self._plan.joins_s:
            until(lambda: self._alive() and time.time() - began >= (self._plan.joins_s or 0.0), "the load", _LONGEST_S)
            self._start_node("tm2", ports["tm2"])
        load.wait_exit(self._plan.seconds + _LONGEST_S)
        os.kill(driver.pid, signal.SIGTERM)
        driver.wait_exit(_LONGEST_S)
        return LiveRun(self._plan, began, self._journal.cycles(), _count_rows(self._folder / "out" / "knn"))

    def _alive(self) -> bool:
        self._lab.check()
        return True

    def _executors(self) -> int:
        cycles = self._journal.cycles()
        seen = cycles[-1].assessment if cycles else None
        return 0 if seen is None else seen.executors or 0

    def _start_node(self, name: str, port: int) -> None:
        host = _HOSTS[name]
        options = ["--name", name, "--host", host, "--port", str(port), "--address", host, "--cpus", _CPUS[name]]
        options += ["--cores", str(_SLOTS), "--memory", str(_MEMORY_MB), "--json"]
        StartedNode.start(self._lab, self._folder / name, n_max=self._plan.workers, options=options)

    def _start_driver(self, ports: Mapping[str, int]) -> Part:
        cluster, bootstrap = self._lab.cluster, self._lab.broker.bootstrap
        orders = str(self._folder / "orders.json")
        nodes = [f"{name}=http://{_HOSTS[name]}:{port}" for name, port in ports.items()]
        job = {
            "conf": {
                **base_conf(),
                **cluster.driver_conf(executor_cores=_SLOTS, executor_memory_mb=_MEMORY_MB),
                "spark.sql.shuffle.partitions": "2",
                "spark.scheduler.mode": "FAIR",
            },
            "pipelines": {
                name: {
                    "source": FORMAT,
                    "bootstrap": bootstrap,
                    "topic": "points" if name == "knn" else "drives",
                    "checkpoint": str(self._folder / "checkpoint" / name),
                    "out": str(self._folder / "out"),
                    "orders": orders,
                    "lookup_ms": 0.0,
                    **settings,
                }
                for name, settings in self._plan.settings.items()
            },
            "orders": orders,
            "sheds": self._plan.sheds,
            "settings": {
                "objective": f"lag < {OBJECTIVE_S:g}s",
                "executors": [_EXECUTORS, _EXECUTORS],
                "profile": "demo",
                "sample_s": _SAMPLE_S,
                "journal": str(self._folder / "journal"),
                "actuator": "workers",
                "workers": {"nodes": nodes, "backup": 0, "round_trips_ms": {"tm1": {"tm2": 1.0}}},
            },
        }
        path = self._folder / "job.json"
        path.write_text(json.dumps(job), encoding="utf-8")
        environment = module_environment() | cluster.driver_environment()
        return self._lab.run_part("driver", Launch(module_command(__name__, str(path)), environment, self._folder))

    def _start_load(self) -> Part:
        path = self._folder / "scenario.json"
        path.write_text(json.dumps(self._plan.scenario()), encoding="utf-8")
        options = ["--scenario", str(path), "--bootstrap", self._lab.broker.bootstrap]
        launch = Launch(module_command("rheostat", "load", *options), module_environment(), self._folder)
        return self._lab.run_part("load", launch)


_HOSTS = {"tm1": "127.0.1.1", "tm2": "127.0.2.1"}


def _count_rows(out: Path) -> dict[int, int]:
    """Rows of each batch of a sink."""
    from pyarrow import parquet

    if not out.is_dir():
        return {}
    complete, _ = find_batches(out)
    found = dict[int, int]()
    for batch in complete:
        rows = sum(parquet.read_metadata(each).num_rows for each in batch.glob("*.parquet"))
        found[int(batch.name.removeprefix("batch="))] = rows
    return found


_ORDER, _ROUNDING = ("knn", "sink-1", "sink-2"), 1e-6


# What the runs show


def live_results(runs: Mapping[str, LiveRun]) -> list[Result]:
    """The statements for which there is a run."""
    found = list[Result]()
    if _WITH in runs:
        found += _judge_taxi(runs[_WITH], runs.get(_WITHOUT))
    if _PRIORITIES in runs:
        found += _judge_priorities(runs[_PRIORITIES])
    if _RATES in runs:
        found += _judge_rates(runs[_RATES])
    return found


def _judge_taxi(run: LiveRun, without: LiveRun | None) -> list[Result]:
    shed_at, moved_at = min(run.first_shed(sink) for sink in ("sink-1", "sink-2")), (run.moved or [float("inf")])[0]
    errors = [100 * each for each in _source_errors(run)]
    below, looks = _longest_below(run)
    nodes = [cycle.assessment.nodes for cycle in run.cycles if cycle.assessment and cycle.assessment.nodes]
    on = nodes[-1].in_use if nodes else ()
    found = [
        Result(
            "1 order, live",
            "first records are dropped, then an executor moves to the second node",
            f"dropped from {shed_at:.0f} s on, moved at {moved_at:.0f} s; executors on {', '.join(on)} at the end",
            "shedding first, then moves",
            shed_at < moved_at < float("inf") and "tm2" in on,
            "moves are tried only while records are dropped; a part of every query moves, as Spark pins no tasks",
        ),
        Result(
            "1 accuracy, live",
            "what edges of sources keep differs from what was ordered by 2 points at most",
            f"{fmean(errors):.2f} points in {len(errors)} batches" if errors else "nothing was dropped",
            "0.6 and 0.5 points",
            bool(errors) and fmean(errors) <= _MOST_ERROR,
            "mean over the batches that dropped; in a micro-batch a source does not lag behind its own shedder",
        ),
        Result(
            "1 promises, live",
            "no sink is below 95 % of what it was promised for longer than a minute",
            f"{below:.0f} s at most, in {looks} looks with batches",
            "the minimum accuracy of every sink is met where resources allow",
            below <= _MINUTE_S and looks >= _LEAST_LOOKS,
            "minima of 0.4 and 0.6",
        ),
    ]
    if without is not None:
        grown = [lag for _, lag in without.lags]
        lags = [lag for at, lag in run.lags if at <= without.plan.seconds]
        found.append(
            Result(
                "4 lag, live",
                "lag stays within the objective, and grows to the end without shedding",
                f"{max(lags):.1f} s at most, too late {_over(lags):.0%} of the time; "
                f"without {max(grown):.0f} s, {_over(grown):.0%}",
                "almost none; without shedding it grows on",
                _over(lags) <= _MOST_OVER and max(grown) > OBJECTIVE_S and grown[-1] > max(lags),
                f"one node, while it can keep its promises; the objective of {OBJECTIVE_S:g} s may be broken for 5 % "
                "of the time; shedding begins at half of it",
            )
        )
    return found


_MOST_ERROR, _MINUTE_S, _MOST_OVER, _LEAST_LOOKS = 2.0, 60.0, 0.05, 3


def _over(lags: Sequence[float]) -> float:
    return sum(lag > OBJECTIVE_S for lag in lags) / max(1, len(lags))


def _source_errors(run: LiveRun) -> list[float]:
    """|currAc − ac| of each batch that dropped at an edge that leaves a source."""
    edges = [edge for batches in run.batches().values() for batch in batches for edge in batch.edges]
    ends = {parse_edge(edge.edge).end for edge in edges}
    return [
        abs(edge.kept / edge.offered - edge.keep / WHOLE)
        for edge in edges
        if edge.offered and edge.keep < WHOLE and parse_edge(edge.edge).start not in ends
    ]


def _longest_below(run: LiveRun) -> tuple[float, int]:
    """The longest time for which a sink got less than it was promised, s, and in how many looks it was measured."""
    longest, since, looks = 0.0, dict[str, float](), 0
    for cycle in run.cycles:
        for sink in cycle.decision.shedding.sinks if cycle.decision.shedding is not None else ():
            if sink.measured is None:
                continue
            looks += 1
            if sink.measured >= _KEPT * sink.minimum:
                since.pop(sink.sink, None)
            else:
                longest = max(longest, cycle.at - since.setdefault(sink.sink, cycle.at))
    return longest, looks


_KEPT = 0.95


def _judge_priorities(run: LiveRun) -> list[Result]:
    plans = [cycle.decision.shedding for cycle in run.cycles if cycle.decision.shedding is not None]
    looks = [{sink.sink: sink for sink in plan.sinks} for plan in plans]
    shed = {name: [look for look in looks if name in look and look[name].wanted < _SHEDS] for name in _ORDER}
    early = sum(
        look[lower].wanted > look[lower].minimum + _ROUNDING
        for lower, higher in pairwise(_ORDER)
        for look in shed[higher]
    )
    counts = ", ".join(f"{name} in {len(shed[name])}" for name in _ORDER)
    return [
        Result(
            "2 order, live",
            "Snk1 sheds only while KNN is at its minimum, and Snk2 only while Snk1 is",
            f"of {len(looks)} looks {counts} shed; {early} times too early",
            "KNN sheds while Snk1 is unchanged, Snk1 before Snk2",
            not early and bool(shed["knn"]) and bool(shed["sink-1"]),
            "priorities 0, 1 and 2",
        ),
        _judge_rows("2 records, live", run),
    ]


def _judge_rows(name: str, run: LiveRun) -> Result:
    """Whether each batch of KNN wrote as many rows as its edge kept."""
    kept = {batch.batch_id: sum(edge.kept for edge in batch.edges) for batch in run.batches().get("knn", [])}
    complete = sorted(kept)[:-2]  # the last may have been under way when the run ended
    wrong = [number for number in complete if run.rows.get(number) != kept[number]]
    return Result(
        name,
        "each batch of KNN writes what its edge kept",
        f"{len(wrong)} of {len(complete)} batches are wrong; {sum(kept[number] for number in complete):,} records",
        None,
        bool(complete) and not wrong,
        "rows of the sink against the counts of the edge",
    )


def _judge_rates(run: LiveRun) -> list[Result]:
    pairs, errors = list[tuple[float, float]](), list[float]()
    for before, after in pairwise(run.cycles):
        plan, estimate = before.decision.shedding, _estimate(before, after)
        if plan is None or estimate is None or after.at < run.began + _SETTLE_S:
            continue
        pairs.append((plan.sinks[0].wanted, estimate[0]))
        errors.append(100 * estimate[1])
    windows = [pairs[begin : begin + _LOOKS] for begin in range(0, len(pairs) - _LOOKS + 1, _LOOKS)]
    means = [
        (fmean(accuracy for accuracy, _ in window), fmean(rate for _, rate in window))
        for window in windows
        if max(accuracy for accuracy, _ in window) < _SHEDS
    ]
    varies = len({accuracy for accuracy, _ in means}) > 1
    found = correlation([accuracy for accuracy, _ in means], [rate for _, rate in means]) if varies else 0.0
    lags = [lag for _, lag in run.lags]
    return [
        Result(
            "3 correlation, live",
            "while records are dropped, accuracy falls as the estimated input rate rises",
            f"correlation {found:.2f} over {len(means)} means of {_LOOKS * _SAMPLE_S:g} s",
            "0.95 in absolute value",
            found <= _LEAST_CORRELATION,
            "a batch takes up to ten seconds; shedding begins by the lag, so it follows a rise by some seconds",
        ),
        Result(
            "3 estimate, live",
            "the mean error of the estimated rate is at most 2 %",
            f"{fmean(errors):+.2f} % over {len(errors)} looks" if errors else "not estimated",
            "0.4 % ± 6.2 %",
            bool(errors) and abs(fmean(errors)) <= _MOST_ERROR,
            "the largest lag of a partition stands for all, as in 4.6; exact: the latest offsets",
        ),
        Result(
            "3 lag, live",
            "lag stays within the objective",
            f"{max(lags):.1f} s at most, over it {_over(lags):.0%} of the time",
            "near zero",
            _over(lags) <= _MOST_OVER,
            f"objective {OBJECTIVE_S:g} s; a batch each 2 s, and shedding begins at half of the objective",
        ),
        _judge_rows("3 records, live", run),
    ]


_LEAST_CORRELATION, _SETTLE_S, _LOOKS = -0.9, 30.0, 5


def _estimate(before: DecisionRecord, after: DecisionRecord) -> tuple[float, float] | None:
    """Estimated records/s of KNN's topic, and its relative error; None: unknown."""
    seen = [_offsets(each) for each in (before, after)]
    if seen[0] is None or seen[1] is None:
        return None
    error, took_s = estimate_error(seen[0], seen[1]), seen[1].at - seen[0].at
    arrived = sum(n or 0 for n in seen[1].latest) - sum(n or 0 for n in seen[0].latest)
    return None if error is None else ((1 + error) * arrived / took_s, error)


def _offsets(record: DecisionRecord) -> Offsets | None:
    queries = record.observation.queries if record.observation is not None else ()
    return next((query.offsets for query in queries if query.name == "knn"), None)


# The driver


def main(argv: list[str]) -> int:
    """Run the pipelines of the job in the file ``argv[0]`` in one session, attached, until SIGTERM."""
    from rheostat.attachment import attach
    from rheostat.spark.shedding import Shedding

    job, stop = json.loads(Path(argv[0]).read_text(encoding="utf-8")), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    apps = {name: (_PIPELINES[name], _PIPELINES[name].settings(**given)) for name, given in job["pipelines"].items()}
    shedding = Shedding(
        join_graphs([pipeline.graph(settings) for pipeline, settings in apps.values()]), Path(job["orders"])
    )
    with open_session("s3", job["conf"]["spark.master"], job["conf"]) as spark:
        attached = attach(spark, config=job["settings"], shedding=shedding if job["sheds"] else None)
        queries = [
            each for pipeline, settings in apps.values() for each in pipeline.start_all(settings, spark, shedding)
        ]
        while all(query.isActive for query in queries) and not stop.wait(0.2):
            pass
        attached.stop()
        for query in queries:
            finish(query)
    return 0


_PIPELINES: Mapping[str, Any] = {"taxi": taxi_drives.PIPELINE, "knn": knn.PIPELINE}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
