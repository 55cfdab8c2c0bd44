"""A broker, a master and Workers as one thing that starts, is watched and ends together."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from rheostat.errors import Fault, InputError, PartFailedError, UnavailableError
from rheostat.host.java import (
    Java,
    Say,
    bash_faults,
    broker_jars,
    find_java,
    pyspark_home,
    quiet,
    require_room,
    require_writable,
)
from rheostat.host.processes import Launch, Part, Processes
from rheostat.host.spark_daemons import WorkerSize, port_faults, require_free
from rheostat.lab.broker import Broker
from rheostat.lab.cluster import Cluster

Made = TypeVar("Made")

DISK_MB = 500
"""Free disk space below which no lab is started: data, logs and scratch space of a run of some minutes."""

MOST_WORKERS = 1000
"""A larger number is a slip of the keyboard."""

BROKER_MB = 400
DAEMON_MB = 250
"""Resident memory to allow for. Measured: a broker 225–242 MB fresh, 271 MB after a million records of 200 bytes, and
its heap may grow to 512 MB; a master or a Worker 218–241 MB."""


@dataclass(frozen=True, slots=True)
class LabSpec:
    """What a lab consists of.

    Attributes:
        broker: whether there is a Kafka broker.
        spark: whether there is a Spark master.
        workers: number of Workers at the start; 0 is how an application is held to few executors.
        size: of each Worker.
        kafka_port: for the broker; None: one is chosen.
        folder: where the lab makes its own folder; None: the system's temporary folder.
        keep: keep logs and data at the end.
    """

    broker: bool = True
    spark: bool = True
    workers: int = 1
    size: WorkerSize = field(default_factory=WorkerSize)
    kafka_port: int | None = None
    folder: Path | None = None
    keep: bool = False

    def __post_init__(self) -> None:
        if faults := self.faults(self.workers, self.broker or self.spark, self.kafka_port):
            raise InputError(faults)

    @staticmethod
    def faults(workers: int, anything: bool, kafka_port: int | None = None) -> list[Fault]:
        """Everything that is wrong with so many Workers, with nothing to start, and with a port."""
        faults = []
        if not 0 <= workers <= MOST_WORKERS:
            few, many = "there cannot be fewer than no Workers", "each is a process of 250 MB"
            faults.append(Fault("workers", str(workers), f"0 to {MOST_WORKERS}", few if workers < 0 else many))
        if kafka_port is not None:
            faults += port_faults(kafka_port, "kafka_port")
        if not anything:
            faults.append(Fault("lab", "neither broker nor Spark", "at least one", "nothing to start"))
        return faults

    @property
    def memory_mb(self) -> int:
        """Memory for the parts themselves, MB; executors and drivers come on top."""
        return self.broker * BROKER_MB + (self.spark * (1 + self.workers)) * DAEMON_MB


class Lab:
    """A real Kafka and a real Spark on this machine, as a context manager.

    Nothing is left when it ends, however it ends: parts run under a guardian process that survives ``kill -9`` of this
    one. Data is removed; logs are kept if something failed. Several labs live side by side.

    Args:
        spec: what to start.
        say: told what happens, in sentences.

    Example::

        @pytest.fixture(scope="session")
        def lab():
            with Lab() as lab:
                yield lab
    """

    def __init__(self, spec: LabSpec | None = None, *, say: Say = quiet) -> None:
        self.spec = spec or LabSpec()
        self._say = say
        self._folder: Path | None = None
        self._processes: Processes | None = None
        self._broker: Broker | None = None
        self._cluster: Cluster | None = None

    @property
    def broker(self) -> Broker:
        """The broker.

        Raises:
            UnavailableError: this lab has none.
        """
        return _there(self._broker, "broker")

    @property
    def cluster(self) -> Cluster:
        """The Spark cluster.

        Raises:
            UnavailableError: this lab has none.
        """
        return _there(self._cluster, "Spark cluster")

    @property
    def folder(self) -> Path:
        """The lab's own folder; ``logs`` and ``data`` are in it."""
        return _there(self._folder, "folder")

    def scratch(self, name: str) -> Path:
        """A new folder for data of the caller's, which goes with the lab's own even if this process is killed."""
        folder = self.folder / "data" / name
        folder.mkdir(parents=True)
        return folder

    @property
    def parts(self) -> tuple[Part, ...]:
        """Its processes, in the order of their start."""
        return self._processes.parts if self._processes else ()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(failed=isinstance(error, Exception))

    def start(self) -> None:
        """Check what is needed, start everything, wait until each part answers.

        Raises:
            InputError: no Java, no PySpark, no room, a port in use: all that was found at once.
            UnavailableError: jars could not be downloaded.
            PartFailedError: a part did not come up; nothing is left running.
        """
        java, jars = self.prepare()
        self._folder = Path(tempfile.mkdtemp(prefix="rheostat-lab-", dir=self.spec.folder))
        try:
            data, logs = self._folder / "data", self._folder / "logs"
            self._processes = Processes()
            self._processes.guardian.remove_at_death(data)
            if self.spec.broker:
                where = data / "broker"
                self._broker = Broker(
                    where,
                    logs / "broker.log",
                    java=java,
                    jars=jars,
                    processes=self._processes,
                    port=self.spec.kafka_port,
                )
            if self.spec.spark:
                self._cluster = Cluster(data / "spark", logs, java=java, processes=self._processes, size=self.spec.size)
            self._start_parts()
        except OSError as error:
            self.close(failed=True)
            message = f"cannot write to {error.filename or self.spec.folder}: {error.strerror or error}"
            raise PartFailedError("lab", message) from error
        except BaseException as error:
            self.close(failed=isinstance(error, Exception))
            raise

    def prepare(self) -> tuple[Java, list[Path]]:
        """Check what is needed and fetch the broker's jars; starts nothing. Errors as :meth:`start`."""
        java = self._check()
        return java, broker_jars(self._say, java) if self.spec.broker else []

    def run_part(self, name: str, launch: Launch) -> Part:
        """Start a process of the caller's that ends with the lab; its log is kept beside the others.

        Raises:
            PartFailedError: it cannot be started.
            UnavailableError: the lab does not run.
        """
        return _there(self._processes, "processes").start(name, launch, self.folder / "logs" / f"{name}.log")

    def check(self) -> None:
        """Raise for the first part that died although nobody stopped it.

        Raises:
            PartFailedError: with its name and the end of its log.
        """
        if self._processes is not None:
            self._processes.check()

    def running(self) -> list[int]:
        """Pids of everything that belongs to this lab and runs, executors and their Python included."""
        return self._processes.running() if self._processes else []

    def close(self, *, failed: bool = False) -> None:
        """Stop everything and remove what it made. May be called more than once.

        Args:
            failed: keep the logs.
        """
        if self._folder is None:
            return
        if self._processes is not None:
            failed = failed or self._has_died()
            self._processes.close()
        self._tidy(self._folder, failed)
        self._folder = self._processes = self._broker = self._cluster = None

    def _has_died(self) -> bool:
        try:
            self.check()
        except PartFailedError:
            return True
        return False

    def _tidy(self, folder: Path, failed: bool) -> None:
        if self.spec.keep:
            self._say(f"Logs and data are kept in {folder}")
        elif failed:
            shutil.rmtree(folder / "data", ignore_errors=True)
            self._say(f"Logs are kept in {folder / 'logs'}")
        else:
            shutil.rmtree(folder, ignore_errors=True)

    def _check(self) -> Java:
        """Everything that can be wrong before anything is started, gathered."""
        faults = bash_faults() if self.spec.spark else []
        java: list[Java] = []
        place = self.spec.folder or Path(tempfile.gettempdir())
        checks: list[Callable[[], object]] = [lambda: java.append(find_java())]
        checks.append(lambda: require_writable(place, "folder"))
        checks.append(lambda: require_room(_existing(place), disk_mb=DISK_MB, memory_mb=self.spec.memory_mb))
        if self.spec.spark or self.spec.broker:
            checks.append(pyspark_home)
        if self.spec.kafka_port is not None:
            port = self.spec.kafka_port
            checks.append(lambda: require_free(port, "kafka_port"))
        for check in checks:
            try:
                check()
            except InputError as error:
                faults += error.faults
        if faults:
            raise InputError(faults)
        return java[0]

    def _start_parts(self) -> None:
        """Broker and cluster at the same time; the first failure ends the other one's wait."""
        starts = ([self._broker.start] if self._broker else []) + ([self._start_spark] if self._cluster else [])
        with ThreadPoolExecutor(max_workers=2, thread_name_prefix="rheostat-lab") as pool:
            futures = [pool.submit(start) for start in starts]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                if self._processes is not None:
                    self._processes.close()
                raise

    def _start_spark(self) -> None:
        self.cluster.start()
        for _ in range(self.spec.workers):
            self.cluster.add_worker()


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    return next((one for one in (folder, *folder.absolute().parents) if one.exists()), Path("/"))


def _there(value: Made | None, what: str) -> Made:
    if value is None:
        message = f"this lab has no {what}, or does not run"
        raise UnavailableError(message)
    return value
