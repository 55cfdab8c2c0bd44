"""A Spark standalone cluster from the PySpark package: a master and Workers, each a JVM of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from rheostat.errors import Fault, InputError, UnavailableError
from rheostat.host.java import Java, pyspark_home
from rheostat.host.processes import Launch, Part, Processes
from rheostat.host.spark_daemons import HOST, Daemons, WorkerSize, ask_daemon, free_ports, start_on_free_ports

EXECUTOR_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData -Xms32m -Xss512k"
"""For executors that start quickly: 1.8 s from the request to a running executor on 2 cores (Java 17, Spark 4.2.0, idle
cluster), about 190 MB resident before its first task."""

SCHEDULING = {"spark.locality.wait": "200ms", "spark.scheduler.revive.interval": "200ms"}
"""Lets a new executor take waiting tasks of the running batch, not only those of the next one.

Kafka's tasks prefer the executors that existed when their batch was planned, by default for 3 s, longer than a short
batch; and the scheduler checks only each second by default whether that wait is over. Not 0: state would move to
whichever executor is free."""

_START_TIMEOUT_S = 60.0


class Cluster:
    """A master, and Workers that come and go. ``size``: default size of a Worker."""

    def __init__(
        self, folder: Path, logs: Path, *, java: Java, processes: Processes, size: WorkerSize | None = None
    ) -> None:
        self._folder = folder
        self._logs = logs
        self._java = java
        self._processes = processes
        self._size = size or WorkerSize()
        self._daemons = Daemons(folder, java, pyspark_home())
        self._ports: tuple[int, int] | None = None
        self._master: Part | None = None
        self._workers: dict[str, Part] = {}
        self._names = (f"worker-{number}" for number in count(1))

    @property
    def url(self) -> str:
        """Master URL (``spark://host:port``). Raises UnavailableError before the start."""
        return f"spark://{HOST}:{self._require_ports()[0]}"

    @property
    def web_url(self) -> str:
        """The master's web page, whose ``/json/`` describes the cluster."""
        return f"http://{HOST}:{self._require_ports()[1]}"

    @property
    def workers(self) -> Mapping[str, Part]:
        return dict(self._workers)

    def start(self) -> None:
        """Start the master and wait until it answers."""
        self._daemons.make_folders()
        start_on_free_ports(self._start_master)

    def _start_master(self) -> None:
        port, web_port = free_ports(2)
        self._ports = (port, web_port)
        master = self._run("master", self._daemons.master(HOST, port, web_port))
        self._wait_ready(master, self.answers)
        self._master = master

    def _wait_ready(self, part: Part, is_ready: Callable[[], bool]) -> None:
        """Wait for a part, and end it if it does not become ready."""
        try:
            part.wait_ready(is_ready, _START_TIMEOUT_S)
        except BaseException:
            self._processes.release(part, grace_s=0.0)
            raise

    def add_worker(self, size: WorkerSize | None = None, host: str = HOST) -> str:
        """Start a Worker and wait until it has registered with the master; returns its name."""
        name = next(self._names)
        worker = self._run(name, self._daemons.worker(name, host, size or self._size, self.url))
        self._wait_ready(worker, lambda: name in self.registered())
        self._workers[name] = worker
        return name

    def remove_worker(self, name: str) -> None:
        """Kill a Worker with its executors, at once, and wait until the master has noticed.

        A graceful stop is worse: the master keeps starting executors on a Worker that is shutting down.

        Raises:
            InputError: there is no such Worker.
            PartFailedError: the master died or did not notice.
        """
        worker = self._workers.pop(name, None)
        if worker is None:
            allowed = ", ".join(self._workers) or "none"
            raise InputError([Fault("worker", name, allowed, "there is no Worker of this name")])
        self._processes.release(worker, grace_s=0.0)
        if self._master is not None:
            self._master.wait_ready(lambda: name not in self.registered(), _START_TIMEOUT_S)

    def answers(self) -> bool:
        try:
            return bool(self.describe()["status"] == "ALIVE")
        except UnavailableError:
            return False

    def registered(self) -> tuple[str, ...]:
        """Names of the Workers that the master counts as alive; empty if it does not answer."""
        try:
            workers = self.describe()["workers"]
        except UnavailableError:
            return ()
        return tuple(str(worker["id"]) for worker in workers if worker["state"] == "ALIVE")

    def describe(self) -> dict[str, Any]:
        """The master's description of itself, its Workers and applications; see :func:`ask_daemon`."""
        return ask_daemon(self.web_url)

    def driver_conf(
        self, *, executor_cores: int = 1, executor_memory_mb: int = 512, jars: Sequence[Path] = ()
    ) -> dict[str, str]:
        """Spark settings for a driver that uses this cluster.

        An application takes every free core unless ``spark.cores.max`` is set, and that cannot be changed later. To
        scale one: start it without Workers, request the number of executors, then add Workers. An executor's heap is
        at least 450 MB.
        """
        conf = {
            "spark.master": self.url,
            "spark.submit.deployMode": "client",
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.executor.cores": str(executor_cores),
            "spark.executor.memory": f"{executor_memory_mb}m",
            "spark.executor.extraJavaOptions": EXECUTOR_JAVA_OPTIONS,
            **SCHEDULING,
            "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:-UsePerfData",
            "spark.pyspark.python": sys.executable,
            "spark.pyspark.driver.python": sys.executable,
            "spark.local.dir": str(self._folder / "scratch"),
            "spark.sql.warehouse.dir": str(self._folder / "warehouse"),
            "spark.dynamicAllocation.enabled": "false",
            "spark.ui.port": "0",
            "spark.ui.showConsoleProgress": "false",
        }
        return conf | ({"spark.jars": ",".join(str(jar) for jar in jars)} if jars else {})

    def driver_environment(self) -> dict[str, str]:
        """Environment variables for a driver, before its JVM starts."""
        return {
            "JAVA_HOME": str(self._java.home),
            "SPARK_HOME": str(self._daemons.home),
            "SPARK_LOCAL_IP": HOST,
            "PYSPARK_PYTHON": sys.executable,
        }

    def _require_ports(self) -> tuple[int, int]:
        if self._ports is None:
            raise UnavailableError("the master has not been started")
        return self._ports

    def _run(self, name: str, launch: Launch) -> Part:
        return self._processes.start(name, launch, self._logs / f"{name}.log")
