"""A broker, a master and Workers that are started, watched and ended together."""

from __future__ import annotations

import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TypeVar

from rheostat.errors import Fault, InputError, PartFailedError, UnavailableError, attempt
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
from rheostat.lab.broker import Broker, BrokerOptions
from rheostat.lab.cluster import Cluster

Made = TypeVar("Made")

DISK_MB = 500
"""Free disk space needed to start a lab: data, logs and scratch space of a run of some minutes."""

MOST_WORKERS = 1000
"""A larger number is a typing error."""

BROKER_MB = 400
DAEMON_MB = 250
"""Resident memory needed. Measured: a broker 225–242 MB fresh, 271 MB after a million records of 200 bytes, and
its heap may grow to 512 MB; a master or a Worker 218–241 MB."""


@dataclass(frozen=True, slots=True)
class LabSpec:
    """Parts of a lab.

    Attributes:
        workers: number of Workers at the start.
        kafka_port: of the broker; None: a free port.
        folder: in which the lab creates its own folder; None: the system's temporary folder.
        keep: keep logs and data at the end.
        broker_options: listeners and properties of the broker beside the usual.
    """

    broker: bool = True
    spark: bool = True
    workers: int = 1
    size: WorkerSize = field(default_factory=WorkerSize)
    kafka_port: int | None = None
    folder: Path | None = None
    keep: bool = False
    broker_options: BrokerOptions = field(default_factory=BrokerOptions)

    def __post_init__(self) -> None:
        if faults := self.faults(self.workers, self.broker or self.spark, self.kafka_port):
            raise InputError(faults)

    @staticmethod
    def faults(workers: int, anything: bool, kafka_port: int | None = None) -> list[Fault]:
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
    one. Data is removed; logs are kept after a failure. Several labs can run at the same time.

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
        return _require(self._broker, "broker")

    @property
    def cluster(self) -> Cluster:
        return _require(self._cluster, "Spark cluster")

    @property
    def folder(self) -> Path:
        """The lab's own folder; ``logs`` and ``data`` are in it."""
        return _require(self._folder, "folder")

    def scratch(self, name: str) -> Path:
        """A new folder for data of the caller, removed with the lab's own even if this process is killed."""
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

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self.close(failed=isinstance(error, Exception))

    def start(self) -> None:
        """Check the requirements, start everything, wait until each part answers.

        Raises:
            InputError: no Java, no PySpark, no room, a port in use: with every fault.
            UnavailableError: jars could not be downloaded.
            PartFailedError: a part did not start; nothing is left running.
        """
        java, jars = self.prepare()
        self._folder = Path(tempfile.mkdtemp(prefix="rheostat-lab-", dir=self.spec.folder))
        try:
            data, logs = self._folder / "data", self._folder / "logs"
            self._processes = Processes()
            self._processes.guardian.remove_at_death(data)
            if self.spec.broker:
                self._broker = Broker(
                    data / "broker",
                    logs / "broker.log",
                    java=java,
                    jars=jars,
                    processes=self._processes,
                    port=self.spec.kafka_port,
                    options=self.spec.broker_options,
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
        """Check the requirements and fetch the broker's jars, without starting anything. Raises as :meth:`start`."""
        java = self._check_requirements()
        return java, broker_jars(self._say, java) if self.spec.broker else []

    def run_part(self, name: str, launch: Launch) -> Part:
        """Start a process of the caller that ends with the lab; its log is kept with the others."""
        return _require(self._processes, "processes").start(name, launch, self.folder / "logs" / f"{name}.log")

    def check(self) -> None:
        """Raise PartFailedError for the first part that died although nobody stopped it."""
        if self._processes is not None:
            self._processes.check()

    def running(self) -> list[int]:
        """Pids of all running processes of this lab, with executors and their Python."""
        return self._processes.running() if self._processes else []

    def executor_pids(self) -> list[int]:
        """Pids of the executors' JVMs, oldest first."""
        return sorted(pid for pid in self.running() if _is_executor(pid))

    def close(self, *, failed: bool = False) -> None:
        """Stop everything and remove its files; ``failed`` keeps the logs. May be called more than once."""
        if self._folder is None:
            return
        if self._processes is not None:
            failed = failed or self._has_died()
            self._processes.close()
        self._remove_files(self._folder, failed)
        self._folder = self._processes = self._broker = self._cluster = None

    def _has_died(self) -> bool:
        try:
            self.check()
        except PartFailedError:
            return True
        return False

    def _remove_files(self, folder: Path, failed: bool) -> None:
        if self.spec.keep:
            self._say(f"Logs and data are kept in {folder}")
        elif failed:
            shutil.rmtree(folder / "data", ignore_errors=True)
            self._say(f"Logs are kept in {folder / 'logs'}")
        else:
            shutil.rmtree(folder, ignore_errors=True)

    def _check_requirements(self) -> Java:
        """Check everything that can be checked before the start, and report all faults at once."""
        faults = bash_faults() if self.spec.spark else []
        place = self.spec.folder or Path(tempfile.gettempdir())
        java = attempt(find_java, None, faults)
        attempt(require_writable, None, faults, place, "folder")
        memory_mb = self.spec.memory_mb
        attempt(lambda: require_room(_nearest_existing(place), disk_mb=DISK_MB, memory_mb=memory_mb), None, faults)
        attempt(pyspark_home, None, faults)
        if self.spec.kafka_port is not None:
            attempt(require_free, None, faults, self.spec.kafka_port, "kafka_port")
        if faults or java is None:
            raise InputError(faults)
        return java

    def _start_parts(self) -> None:
        """Start broker and cluster at the same time; the failure of one ends the wait for the other."""
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


def _is_executor(pid: int) -> bool:
    import psutil

    try:
        return "CoarseGrainedExecutorBackend" in " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return False


def _nearest_existing(folder: Path) -> Path:
    return next((one for one in (folder, *folder.absolute().parents) if one.exists()), Path("/"))


def _require(value: Made | None, what: str) -> Made:
    if value is None:
        message = f"this lab has no {what}, or does not run"
        raise UnavailableError(message)
    return value
