"""How a Spark master or Worker from the PySpark package is started, and what one says of itself."""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rheostat.errors import Fault, InputError, UnavailableError
from rheostat.host.java import SCALA_VERSION, Java
from rheostat.host.processes import Launch, clean_environment

MOST_CORES, MOST_MEMORY_MB = 1000, 4_000_000
"""What a Worker may offer at most; a larger number is a slip of the keyboard."""

_DAEMON_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xss512k")
_REQUEST_TIMEOUT_S = 2.0


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


@dataclass(frozen=True, slots=True)
class Daemons:
    """Masters and Workers that share a folder.

    Attributes:
        folder: work folders, scratch space and an empty ``conf`` are in it.
        java: what they, and the executors, run on.
        home: the PySpark package.
    """

    folder: Path
    java: Java
    home: Path

    def make_folders(self) -> None:
        """Make what the daemons expect to find."""
        for name in ("conf", "work", "scratch", "tmp"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)

    def master(self, host: str, port: int, web_port: int) -> Launch:
        """A master that listens there, or ends if it cannot."""
        arguments = ("--host", host, "--port", str(port), "--webui-port", str(web_port))
        options = ("-Dspark.master.rest.enabled=false", "-Dspark.port.maxRetries=0")
        return self._launch("org.apache.spark.deploy.master.Master", host, options, arguments)

    def worker(self, name: str, host: str, size: WorkerSize, master: str, options: Sequence[str] = ()) -> Launch:
        """A Worker for a master (``spark://…``), which knows it by ``name``. It chooses its ports.

        Args:
            name: unique among the Workers that the master still remembers.
            host: address that it, and its executors, listen at.
            size: what it offers.
            master: where it registers.
            options: for its JVM.
        """
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
    """What a master or a Worker says of itself (``GET /json/``).

    Raises:
        UnavailableError: it does not answer.
    """
    from rheostat.http_client import Http

    try:
        with Http(_REQUEST_TIMEOUT_S) as http:
            said: dict[str, Any] = http.ask("GET", f"{web_url}/json/").accepted().json()
    except UnavailableError as error:
        message = f"{web_url} does not answer: {error}"
        raise UnavailableError(message) from error
    return said


# Ports of this machine.


HOST = "127.0.0.1"
"""Everything of a lab is bound here."""

_TAKEN = ("Address already in use", "BindException")


def free_ports(count: int) -> list[int]:
    """That many different ports which nobody listens on now. Another program may be quicker: be ready to ask again."""
    with ExitStack() as held:
        sockets = [held.enter_context(closing(socket.socket())) for _ in range(count)]
        for one in sockets:
            one.bind((HOST, 0))
        return [int(one.getsockname()[1]) for one in sockets]


def is_free(port: int) -> bool:
    """Whether we could listen on the port now."""
    with closing(socket.socket()) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((HOST, port))
        except OSError:
            return False
    return True


def answers(port: int) -> bool:
    """Whether somebody accepts a connection on the port."""
    with closing(socket.socket()) as one:
        one.settimeout(1.0)
        return one.connect_ex((HOST, port)) == 0


def port_faults(port: int, field: str) -> list[Fault]:
    """What is wrong with a port, wherever it is used."""
    if 1024 <= port <= 65535:
        return []
    return [Fault(field, str(port), "1024 to 65535", "this is not a port that a program may take")]


def require_free(port: int, field: str) -> None:
    """Check a port that was asked for.

    Raises:
        InputError: it is no port that a user may take, or in use.
    """
    if faults := port_faults(port, field):
        raise InputError(faults)
    if not is_free(port):
        message = f"port {port} is in use: stop the program that listens there, or leave the choice to us"
        raise InputError([Fault(field, str(port), "a free port", message)])


def port_was_taken(log_tail: str) -> bool:
    """Whether a Java process ended because its port was taken.

    >>> port_was_taken("java.net.BindException: Address already in use")
    True
    """
    return any(mark in log_tail for mark in _TAKEN)
