"""Spark masters and Workers from the PySpark package: how they are started and queried; ports of this machine."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rheostat.errors import Fault, InputError, PartFailedError, UnavailableError
from rheostat.host.java import SCALA_VERSION, Java
from rheostat.host.processes import Launch, clean_environment

MOST_CORES, MOST_MEMORY_MB = 1000, 4_000_000
"""Largest size of a Worker; a larger number is a typing error."""

_DAEMON_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xss512k")
_REQUEST_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class WorkerSize:
    """Resources that a Worker offers to executors.

    Attributes:
        cores: task slots; may exceed the cores of the machine if tasks wait rather than compute.
        memory_mb: for the heaps of all executors.
    """

    cores: int = 4
    memory_mb: int = 4096

    def __post_init__(self) -> None:
        if faults := self.faults(self.cores, self.memory_mb):
            raise InputError(faults)

    @staticmethod
    def faults(cores: int, memory_mb: int) -> list[Fault]:
        faults = []
        if not 1 <= cores <= MOST_CORES:
            message = "a Worker needs a core" if cores < 1 else "no machine runs so many tasks"
            faults.append(Fault("cores", str(cores), f"1 to {MOST_CORES}", message))
        if not 512 <= memory_mb <= MOST_MEMORY_MB:
            too_small = "the smallest heap that Spark accepts for an executor is about 450 MB"
            message = too_small if memory_mb < 512 else "no machine has so much memory"
            faults.append(Fault("memory_mb", str(memory_mb), f"512 to {MOST_MEMORY_MB}", message))
        return faults


@dataclass(frozen=True, slots=True)
class Daemons:
    """Starts masters and Workers that share a folder, with the PySpark package in ``home``."""

    folder: Path
    java: Java
    home: Path

    def make_folders(self) -> None:
        for name in ("conf", "work", "scratch", "tmp"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)

    def master(self, host: str, port: int, web_port: int) -> Launch:
        """A master that ends if it cannot listen on these ports."""
        arguments = ("--host", host, "--port", str(port), "--webui-port", str(web_port))
        options = ("-Dspark.master.rest.enabled=false", "-Dspark.port.maxRetries=0")
        return self._launch("org.apache.spark.deploy.master.Master", host, options, arguments)

    def worker(self, name: str, host: str, size: WorkerSize, master: str, options: Sequence[str] = ()) -> Launch:
        """A Worker that chooses its ports. Its name must be unique among those that the master still remembers."""
        own = (f"-Dspark.worker.idPattern={name}", "-Dspark.port.maxRetries=0", *options)
        arguments = ["--host", host, "--port", "0", "--webui-port", "0", "--cores", str(size.cores)]
        arguments += ["--memory", f"{size.memory_mb}m", "--work-dir", str(self.folder / "work" / name), master]
        return self._launch("org.apache.spark.deploy.worker.Worker", host, own, arguments)

    def _launch(self, main: str, host: str, options: Sequence[str], arguments: Sequence[str]) -> Launch:
        scratch = f"-Djava.io.tmpdir={self.folder / 'tmp'}"
        command = [str(self.java.executable), *_DAEMON_OPTIONS, scratch, *options]
        command += ["-cp", f"{self.folder / 'conf'}:{self.home / 'jars'}/*", main, *arguments]
        environment = clean_environment(
            self.java.home,
            {
                "SPARK_HOME": str(self.home),
                "SPARK_SCALA_VERSION": SCALA_VERSION,
                "SPARK_CONF_DIR": str(self.folder / "conf"),
                "SPARK_LOCAL_DIRS": str(self.folder / "scratch"),
                "SPARK_LOCAL_IP": host,
                "PYSPARK_PYTHON": sys.executable,
            },
        )
        return Launch(command, environment, self.folder)


def ask_daemon(web_url: str) -> dict[str, Any]:
    """State of a master or a Worker (``GET /json/``). Raises UnavailableError if it does not answer."""
    from rheostat.http_client import Http

    try:
        with Http(_REQUEST_TIMEOUT_S) as http:
            state: dict[str, Any] = http.ask("GET", f"{web_url}/json/").accepted().json()
    except UnavailableError as error:
        message = f"{web_url} does not answer: {error}"
        raise UnavailableError(message) from error
    return state


# Ports of this machine

HOST = "127.0.0.1"
"""Address of all parts of a lab."""

_TAKEN = ("Address already in use", "BindException")


def free_ports(count: int) -> list[int]:
    """Different ports that are free now. Another program may take one first: be ready to retry."""
    with ExitStack() as held:
        sockets = [held.enter_context(closing(socket.socket())) for _ in range(count)]
        for one in sockets:
            one.bind((HOST, 0))
        return [int(one.getsockname()[1]) for one in sockets]


def is_free(port: int) -> bool:
    with closing(socket.socket()) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((HOST, port))
        except OSError:
            return False
    return True


def answers(port: int) -> bool:
    """Whether a connection to the port is accepted."""
    with closing(socket.socket()) as one:
        one.settimeout(1.0)
        return one.connect_ex((HOST, port)) == 0


def port_faults(port: int, field: str) -> list[Fault]:
    if 1024 <= port <= 65535:
        return []
    return [Fault(field, str(port), "1024 to 65535", "programs cannot use this port")]


def require_free(port: int, field: str) -> None:
    """Raise InputError if the port is in use or cannot be used by programs."""
    if faults := port_faults(port, field):
        raise InputError(faults)
    if not is_free(port):
        message = f"port {port} is in use: stop the program that listens there, or give no port"
        raise InputError([Fault(field, str(port), "a free port", message)])


def start_on_free_ports(start: Callable[[], None]) -> None:
    """Call ``start``, which chooses its ports, up to three times if another program takes one of them first."""
    for attempt in range(3):
        try:
            start()
        except PartFailedError as error:
            if attempt == 2 or not port_was_taken(error.log_tail):
                raise
        else:
            return


def port_was_taken(log_tail: str) -> bool:
    """Whether a Java process ended because its port was taken.

    >>> port_was_taken("java.net.BindException: Address already in use")
    True
    """
    return any(mark in log_tail for mark in _TAKEN)
