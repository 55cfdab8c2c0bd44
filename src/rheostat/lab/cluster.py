"""A Spark standalone cluster from the PySpark package: a master and Workers, each a JVM of its own."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from rheostat.errors import Fault, InputError, PartFailedError, UnavailableError
from rheostat.lab.jars import SCALA_VERSION, pyspark_home
from rheostat.lab.java import Java
from rheostat.lab.network import HOST, free_ports, port_was_taken
from rheostat.lab.process import Launch, Part, Processes, clean_environment

__all__ = ["EXECUTOR_JAVA_OPTIONS", "MOST_CORES", "MOST_MEMORY_MB", "SCHEDULING", "Cluster", "WorkerSize", "ask_daemon"]

EXECUTOR_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData -Xms32m -Xss512k"
"""For executors that start quickly: on 2 cores one more is there 1.8 s after it was asked for (Java 17, Spark 4.2.0,
idle cluster), at about 190 MB resident before it has worked."""

SCHEDULING = {"spark.locality.wait": "200ms", "spark.scheduler.revive.interval": "200ms"}
"""So that a new executor takes waiting tasks of the batch in flight, and not only those of the next one.

Kafka's tasks prefer the executors that were there when their batch was planned, by default for 3 s, longer than a short
batch; and only at the scheduler's next look, each second by default, is the wait found to be over. Not 0: state would
move to whichever executor is free."""

MOST_CORES, MOST_MEMORY_MB = 1000, 4_000_000
"""What a Worker may offer at most; a larger number is a slip of the keyboard."""

_DAEMON_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xss512k")
_READY_TIMEOUT_S = 60.0
_REQUEST_TIMEOUT_S = 2.0
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class WorkerSize:
    """What a Worker offers to executors.

    Attributes:
        cores: task slots; may be more than the machine has when tasks wait rather than compute.
        memory_mb: sum of the executors' heaps that fit, MB.
    """

    cores: int = 4
    memory_mb: int = 4096

    def __post_init__(self) -> None:
        if faults := self.faults(self.cores, self.memory_mb):
            raise InputError(faults)

    @staticmethod
    def faults(cores: int, memory_mb: int) -> list[Fault]:
        """Everything that is wrong with such a size."""
        faults = []
        if not 1 <= cores <= MOST_CORES:
            message = "a Worker needs a core" if cores < 1 else "no machine keeps so many tasks apart"
            faults.append(Fault("cores", str(cores), f"1 to {MOST_CORES}", message))
        if not 512 <= memory_mb <= MOST_MEMORY_MB:
            small = "the smallest heap that Spark takes for an executor is about 450 MB"
            message = small if memory_mb < 512 else "no machine has so much memory"
            faults.append(Fault("memory_mb", str(memory_mb), f"512 to {MOST_MEMORY_MB}", message))
        return faults


def ask_daemon(web_url: str) -> dict[str, Any]:
    """What a master or a Worker says of itself (``GET /json/``).

    Raises:
        UnavailableError: it does not answer.
    """
    import httpx

    try:
        with httpx.Client(timeout=_REQUEST_TIMEOUT_S, trust_env=False) as client:
            answer: dict[str, Any] = client.get(f"{web_url}/json/").raise_for_status().json()
    except (httpx.HTTPError, ValueError) as error:
        message = f"{web_url} does not answer: {error}"
        raise UnavailableError(message) from error
    return answer


class Cluster:
    """A master, and Workers that come and go.

    Args:
        folder: its own; work folders and scratch space go there.
        logs: folder for the logs.
        java: what master, Workers and executors run on.
        processes: who starts and ends them.
        size: of a Worker unless said otherwise.
    """

    def __init__(
        self, folder: Path, logs: Path, *, java: Java, processes: Processes, size: WorkerSize | None = None
    ) -> None:
        self._folder = folder
        self._logs = logs
        self._java = java
        self._processes = processes
        self._size = size or WorkerSize()
        self._home = pyspark_home()
        self._ports: tuple[int, int] | None = None
        self._master: Part | None = None
        self._workers: dict[str, Part] = {}
        self._names = (f"worker-{number}" for number in count(1))

    @property
    def url(self) -> str:
        """Master URL (``spark://host:port``).

        Raises:
            UnavailableError: the master has not been started.
        """
        return f"spark://{HOST}:{self._started()[0]}"

    @property
    def web_url(self) -> str:
        """The master's web page, whose ``/json/`` describes the cluster."""
        return f"http://{HOST}:{self._started()[1]}"

    @property
    def workers(self) -> Mapping[str, Part]:
        """The Workers' processes by name."""
        return dict(self._workers)

    def start(self) -> None:
        """Start the master and wait until it answers.

        Raises:
            PartFailedError: it did not come up.
        """
        for name in ("conf", "work", "scratch", "tmp"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        for attempt in range(1, _ATTEMPTS + 1):
            port, web_port = free_ports(2)
            self._ports = (port, web_port)
            try:
                self._start_master(port, web_port)
            except PartFailedError as error:
                if attempt == _ATTEMPTS or not port_was_taken(error.log_tail):
                    raise
            else:
                return

    def _start_master(self, port: int, web_port: int) -> None:
        arguments = ("--host", HOST, "--port", str(port), "--webui-port", str(web_port))
        options = ("-Dspark.master.rest.enabled=false", "-Dspark.port.maxRetries=0")
        master = self._run("master", "org.apache.spark.deploy.master.Master", options, arguments)
        try:
            master.wait_ready(self.answers, _READY_TIMEOUT_S)
        except BaseException:
            self._processes.release(master, grace_s=0.0)
            raise
        self._master = master

    def add_worker(self, size: WorkerSize | None = None) -> str:
        """Start a Worker and wait until the master has it; returns its name.

        Raises:
            PartFailedError: it did not register.
        """
        wanted = size or self._size
        name = next(self._names)
        options = (f"-Dspark.worker.idPattern={name}", "-Dspark.port.maxRetries=0")
        arguments = [*("--host", HOST, "--port", "0", "--webui-port", "0", "--cores", str(wanted.cores))]
        arguments += ["--memory", f"{wanted.memory_mb}m", "--work-dir", str(self._folder / "work" / name), self.url]
        worker = self._run(name, "org.apache.spark.deploy.worker.Worker", options, arguments)
        try:
            worker.wait_ready(lambda: name in self.registered(), _READY_TIMEOUT_S)
        except BaseException:
            self._processes.release(worker, grace_s=0.0)
            raise
        self._workers[name] = worker
        return name

    def remove_worker(self, name: str) -> None:
        """Kill a Worker with its executors, at once, and wait until the master knows.

        A polite end is worse: the master keeps starting executors on a Worker that is shutting down.

        Raises:
            InputError: there is no such Worker.
            PartFailedError: the master died or does not notice.
        """
        worker = self._workers.pop(name, None)
        if worker is None:
            allowed = ", ".join(self._workers) or "none"
            raise InputError([Fault("worker", name, allowed, "there is no Worker of this name")])
        self._processes.release(worker, grace_s=0.0)
        if self._master is not None:
            self._master.wait_ready(lambda: name not in self.registered(), _READY_TIMEOUT_S)

    def answers(self) -> bool:
        """Whether the master answers now."""
        try:
            return bool(self.describe()["status"] == "ALIVE")
        except UnavailableError:
            return False

    def registered(self) -> tuple[str, ...]:
        """Names of the Workers that the master counts as alive; empty if it does not answer."""
        try:
            found = self.describe()["workers"]
        except UnavailableError:
            return ()
        return tuple(str(worker["id"]) for worker in found if worker["state"] == "ALIVE")

    def describe(self) -> dict[str, Any]:
        """What the master says of itself, its Workers and applications; see :func:`ask_daemon`."""
        return ask_daemon(self.web_url)

    def driver_conf(
        self, *, executor_cores: int = 1, executor_memory_mb: int = 512, jars: Sequence[Path] = ()
    ) -> dict[str, str]:
        """Spark settings for a driver that uses this cluster.

        An application takes every free core unless ``spark.cores.max`` is set, and that cannot be changed later. For
        one that is to be scaled: start it while there is no Worker, ask for the number of executors, then add Workers.

        Args:
            executor_cores: slots of each executor.
            executor_memory_mb: heap of each executor; under 450 Spark refuses.
            jars: for driver and executors, such as :func:`~rheostat.lab.jars.kafka_connector_jars`.
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
        """Environment variables that a driver should have before its JVM starts."""
        return {
            "JAVA_HOME": str(self._java.home),
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": HOST,
            "PYSPARK_PYTHON": sys.executable,
        }

    def _started(self) -> tuple[int, int]:
        if self._ports is None:
            raise UnavailableError("the master has not been started")
        return self._ports

    def _run(self, name: str, main: str, options: Sequence[str], arguments: Sequence[str]) -> Part:
        scratch = f"-Djava.io.tmpdir={self._folder / 'tmp'}"
        command = [str(self._java.executable), *_DAEMON_OPTIONS, scratch, *options]
        command += ["-cp", f"{self._folder / 'conf'}:{self._home / 'jars'}/*", main, *arguments]
        environment = clean_environment(
            self._java.home,
            {
                "SPARK_HOME": str(self._home),
                "SPARK_SCALA_VERSION": SCALA_VERSION,
                "SPARK_CONF_DIR": str(self._folder / "conf"),
                "SPARK_LOCAL_DIRS": str(self._folder / "scratch"),
                "SPARK_LOCAL_IP": HOST,
                "PYSPARK_PYTHON": sys.executable,
            },
        )
        return self._processes.start(name, Launch(command, environment, self._folder), self._logs / f"{name}.log")
