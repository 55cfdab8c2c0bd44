"""The live scenarios of Stream Economics on a real Kafka and a real Spark [S3, chapter 5].

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
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from rheostat.config.shedding import join_graphs
from rheostat.demo.run import JournalWatch
from rheostat.errors import Fault, InputError
from rheostat.host.processes import Launch, Part, module_command, module_environment
from rheostat.host.spark_daemons import free_ports
from rheostat.lab.lab import Lab, LabSpec
from rheostat.load.kafka_sink import ensure_topic
from rheostat.node.options import StartedNode
from rheostat.pipelines import knn, taxi_drives
from rheostat.pipelines.running import base_conf, finish, open_session
from rheostat.research.bench.harness import Watch, ignore_progress, until
from rheostat.research.papers.results import Experiment
from rheostat.research.papers.results import Part as ReportPart
from rheostat.research.papers.s3_accounts import account_for, read_draws, write_draws
from rheostat.research.papers.s3_live import (
    EXECUTORS,
    KINDS,
    OBJECTIVE_S,
    PLANS,
    SAMPLE_S,
    LivePlan,
    LiveRun,
    live_results,
)
from rheostat.spark.kafka_options import FORMAT

_SLOTS, _MEMORY_MB = 2, 600
_HOSTS = {"tm1": "127.0.1.1", "tm2": "127.0.2.1"}
_CPUS = {"tm1": "0", "tm2": "1"}
_LONGEST_S, _LOOK_S = 180.0, 0.1
_FIRST_FAILURE_S, _QUIET_END_S, _AWAY_S = 60.0, 45.0, 5.0


def run_live(folder: Path, watch: Watch = ignore_progress, plans: Mapping[str, LivePlan] = PLANS) -> Experiment:
    """Run all plans, about 25 minutes; ``folder`` gets the journal of each.

    Raises:
        InputError: ``folder`` holds an earlier run, whose journal and checkpoints would go on.
        PartFailedError: a part died; with its name and the end of its log.
        UnavailableError: a step took too long.
    """
    places = {name: folder / name.replace(" ", "-") for name in plans}
    if held := [place for place in places.values() if place.exists()]:
        allowed, message = "a folder without an earlier run", "its journal and its checkpoints would go on"
        raise InputError([Fault("out", str(place), allowed, message) for place in held])
    runs = dict[str, LiveRun]()
    for number, (name, plan) in enumerate(plans.items()):
        watch(number, len(plans), name)
        place = places[name]
        place.mkdir(parents=True)
        with Lab(LabSpec(workers=0)) as lab:
            runs[name] = _Stage(lab, place, plan).play()
    return Experiment("s3", [ReportPart("Shortened, on a real cluster", live_results(runs))], (1,))


class _Stage:
    """Everything that runs, from start to end."""

    def __init__(self, lab: Lab, folder: Path, plan: LivePlan) -> None:
        self._lab, self._folder, self._plan = lab, folder, plan
        self._journal = JournalWatch(folder / "journal")
        self._ports = dict(zip(_HOSTS, free_ports(len(_HOSTS)), strict=True))
        self._nodes = dict[str, StartedNode]()
        self._failures = list[tuple[float, str]]()
        self._random = Random("failures")

    def play(self) -> LiveRun:
        for topic in self._plan.topics:
            ensure_topic(self._lab.broker.bootstrap, topic, 2, create=True)
        self._start_node("tm1")
        if self._plan.joins_s == 0:
            self._start_node("tm2")
        self._driver = self._start_driver()
        until(lambda: self._tend() and self._executors() >= EXECUTORS, "executors", _LONGEST_S)
        began = time.time()
        load = self._start_load()
        if self._plan.joins_s:
            joins = began + self._plan.joins_s
            until(lambda: self._tend() and time.time() >= joins, "the load", _LONGEST_S)
            self._start_node("tm2")
        if self._plan.fails_every_s is not None:
            self._fail(began + _FIRST_FAILURE_S, began + self._plan.seconds - _QUIET_END_S, self._plan.fails_every_s)
        load.expect_end()
        until(lambda: self._tend() and not load.alive(), "the end of the load", self._plan.seconds + _LONGEST_S)
        load.wait_exit(_LONGEST_S)
        self._driver.expect_end()
        os.kill(self._driver.pid, signal.SIGTERM)
        self._driver.wait_exit(_LONGEST_S)
        draws = read_draws(self._folder / "draws")
        sinks = {sink.name: sink.parent for sink in (self._folder / "checkpoint").glob("*/*")}
        accounts = {
            sink: account_for(sink, folder / sink, self._folder / "out" / sink, draws) for sink, folder in sinks.items()
        }
        return LiveRun(self._plan, began, self._journal.cycles(), accounts, tuple(self._failures))

    def _tend(self) -> bool:
        """Start a driver again that has ended, if failures are what is tried; any other part must not end."""
        if self._plan.fails_every_s is not None and not self._driver.alive():
            self._failures.append((time.time(), "driver by itself"))
            self._driver.expect_end()
            self._driver = self._start_driver()
        self._lab.check()
        return True

    def _fail(self, first: float, end: float, every_s: tuple[float, float]) -> None:
        """Kill one kind after the other, in random order, and start again what was killed."""
        queue, due = list[str](), first
        while (now := time.time()) < end:
            self._tend()
            if now >= due:
                queue = queue or self._random.sample(KINDS, len(KINDS))
                if self._kill(queue[-1]):  # else there is none at the moment
                    self._failures.append((now, queue.pop()))
                    due = time.time() + self._random.uniform(*every_s)
            time.sleep(_LOOK_S)

    def _kill(self, kind: str) -> bool:
        if kind == "driver":
            self._end(self._driver)
            self._driver = self._start_driver()
            return True
        if kind == "executor":
            executors = self._lab.executor_pids()
            if executors:
                os.kill(self._random.choice(executors), signal.SIGKILL)
            return bool(executors)
        away_s = self._random.uniform(0.0, _AWAY_S)
        if kind == "broker":
            self._lab.broker.kill()
            time.sleep(away_s)
            self._lab.broker.start()
            return True
        name = self._random.choice(sorted(self._nodes))
        self._end(self._nodes[name].part)
        time.sleep(away_s)
        self._start_node(name)
        return True

    @staticmethod
    def _end(part: Part) -> None:
        part.expect_end()
        part.signal(signal.SIGKILL)
        part.wait(time.monotonic() + _LONGEST_S)

    def _executors(self) -> int:
        cycles = self._journal.cycles()
        seen = cycles[-1].assessment if cycles else None
        return 0 if seen is None else seen.executors or 0

    def _start_node(self, name: str) -> None:
        host, port = _HOSTS[name], str(self._ports[name])
        options = ["--name", name, "--host", host, "--port", port, "--address", host, "--cpus", _CPUS[name]]
        options += ["--cores", str(_SLOTS), "--memory", str(_MEMORY_MB), "--json"]
        folder = self._folder / name
        self._nodes[name] = StartedNode.start(self._lab, folder, n_max=self._plan.workers, options=options)

    def _start_driver(self) -> Part:
        cluster, bootstrap = self._lab.cluster, self._lab.broker.bootstrap
        orders = str(self._folder / "orders.json")
        nodes = [f"{name}=http://{_HOSTS[name]}:{port}" for name, port in self._ports.items()]
        job = {
            "conf": {
                **base_conf(),
                **cluster.driver_conf(executor_cores=_SLOTS, executor_memory_mb=_MEMORY_MB),
                "spark.sql.shuffle.partitions": "2",
                "spark.scheduler.mode": "FAIR",
                "spark.sql.streaming.minBatchesToRetain": "1000000",
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
            "bootstrap": bootstrap,
            "topics": self._plan.topics,
            "draws": str(self._folder / "draws"),
            "settings": {
                "objective": f"lag < {OBJECTIVE_S:g}s",
                "executors": [EXECUTORS, EXECUTORS],
                "profile": "demo",
                "sample_s": SAMPLE_S,
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


# The driver


def main(argv: list[str]) -> int:
    """Run the pipelines of the job in the file ``argv[0]`` in one session, attached, until SIGTERM.

    Then the draws of all records are written, by which they are accounted for.
    """
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
        write_draws(spark, job["bootstrap"], job["topics"], job["orders"], Path(job["draws"]))
    return 0


_PIPELINES: Mapping[str, Any] = {"taxi": taxi_drives.PIPELINE, "knn": knn.PIPELINE}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
