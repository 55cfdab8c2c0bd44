"""The Workers of one machine: requested, started, decommissioned, ended, and recovered after a crash."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Any, Protocol

from rheostat.config.loading import TOKEN_VARIABLE
from rheostat.errors import Fault, InputError, UnavailableError
from rheostat.files import lock_file, replace_text
from rheostat.host.guardian import find_by_token, kill_by_token
from rheostat.host.processes import Identity, Launch
from rheostat.host.spark_daemons import Daemons, WorkerSize, ask_daemon
from rheostat.node.cpu import CpuReading, kept_on, read_cpu

MARK = "RHEOSTAT_NODE_WORKER"
"""Environment variable of a Worker and its descendants (executors, their Python); its value identifies the Worker."""

ALIVE, DECOMMISSIONED = "ALIVE", "DECOMMISSIONED"
_BROADCAST = ip_address("127.255.255.255")
_DECOMMISSION_SIGNAL = "PWR" if sys.platform == "linux" else "INFO"
"""On which a Worker decommissions itself: Spark's default on Linux; other systems have no SIGPWR."""


class DisagreementError(InputError):
    """Request and master disagree about which Workers are used: nothing is removed."""


class State(StrEnum):
    """Where a Worker is in its life."""

    QUEUED = "queued"
    STARTING = "starting"
    READY = "ready"
    LEAVING = "leaving"
    ENDING = "ending"


STAYING = (State.QUEUED, State.STARTING, State.READY)
"""States of the Workers that a removal may choose from."""


@dataclass(frozen=True, slots=True)
class Record:
    """One Worker as its file describes it. Written before the process is started.

    Attributes:
        id: 1 … n_max.
        name: the master's name for it; never used twice.
        host: address that it is bound to.
        mark: value of the environment variable ``MARK`` in its process and in all below it.
        asked_at: time of the request, epoch seconds.
        pid, created: of its process; None: it had not been started when this was written.
    """

    id: int
    name: str
    host: str
    mark: str
    asked_at: float
    pid: int | None = None
    created: float | None = None
    leaving: bool = False

    @property
    def process(self) -> Identity | None:
        return None if self.pid is None or self.created is None else Identity(self.pid, self.created)


@dataclass(frozen=True, slots=True)
class Worker:
    """One Worker, in its state since ``since``; ``decommissioned_at``: when it was last told to leave.

    Both are of the clock of :class:`Workers`.
    """

    record: Record
    state: State
    since: float
    decommissioned_at: float | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """What the master, the authority on which Workers have executors, says of one Worker.

    Attributes:
        state: the master's word: ``ALIVE``, ``DECOMMISSIONED``, ``DEAD``, ``UNKNOWN``.
        used: whether executors or drivers have been placed on it.
        web: address of its web page, ``host:port``.
    """

    state: str
    used: bool
    host: str
    web: str


@dataclass(frozen=True, slots=True)
class MasterView:
    """The master's URL for Workers, and what it says of its Workers, by name."""

    url: str
    workers: Mapping[str, Standing]


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything at one time, ``at`` of the clock of the Workers. ``view`` None: the master does not answer.

    ``last_error``: epoch seconds, and text.
    """

    at: float
    workers: tuple[Worker, ...]
    view: MasterView | None
    free_ids: tuple[int, ...]
    last_error: tuple[float, str] | None
    cpu: CpuReading


@dataclass(frozen=True, slots=True)
class Removal:
    """Result of a removal: ids that leave, ids that stay because they are used, number of idle ones left."""

    removing: tuple[int, ...]
    used: tuple[int, ...]
    free: int


@dataclass(frozen=True, slots=True)
class Patience:
    """Time limits, s.

    Attributes:
        look_s: between two polls while a Worker changes its state.
        idle_s: between two polls otherwise.
        start_s: until a Worker must have registered.
        again_s: until a Worker is told again to leave.
        leave_s: for executors on a leaving Worker to end.
        end_s: from SIGTERM to SIGKILL.
    """

    look_s: float = 0.1
    idle_s: float = 1.0
    start_s: float = 60.0
    again_s: float = 5.0
    leave_s: float = 60.0
    end_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Rules:
    """Properties of a node.

    Attributes:
        name: prefix of its Workers' names.
        n_max: largest number of Workers, standby included.
        addresses: see :func:`address_of`.
        cpus: on which the Workers run; empty: on all.
        speed: of a CPU, relative to other nodes.
    """

    name: str
    n_max: int
    addresses: Sequence[str]
    patience: Patience = Patience()
    cpus: frozenset[int] = frozenset()
    speed: float = 1.0


# Which Workers a request creates or removes: S1, section 4.3.3, Algorithms 8 and 9.


def to_create(target: int, allocated: Collection[int], n_max: int) -> tuple[int, ...]:
    """Ids for ``target`` more Workers (Algorithm 8): the lowest free ones of 1 … ``n_max``, as many as there are.

    ``allocated`` are the ids in use: also standby Workers, and those whose process has not ended yet.

    >>> to_create(2, {1, 3}, 5), to_create(9, {1, 3}, 5), to_create(1, {1, 2}, 2)
    ((2, 4), (2, 4, 5), ())
    """
    free = [number for number in range(1, n_max + 1) if number not in allocated]
    return tuple(free[:target])


def to_remove(allocated: Collection[int], used: Collection[int], free: int) -> tuple[int, ...]:
    """Ids to remove so that ``free`` idle Workers are left (Algorithm 9), the lowest first; never a used one.

    >>> to_remove({1, 2, 3, 4, 5}, {1, 4}, 2), to_remove({1, 2, 3}, {1}, 7)
    ((2,), ())
    """
    idle = sorted(set(allocated) - set(used))
    return tuple(idle[: max(0, len(idle) - free)])


def address_of(number: int, addresses: Sequence[str]) -> str:
    """Address of the Worker with this id (from 1): an address each, or one for all.

    One loopback address is the first of a series, so that each Worker has its own.

    >>> address_of(3, ["127.0.0.1"]), address_of(3, ["10.0.0.5"]), address_of(2, ["10.0.0.5", "10.0.0.6"])
    ('127.0.0.4', '10.0.0.5', '10.0.0.6')

    Raises:
        ValueError: the series has no such address.
    """
    if len(addresses) > 1:
        return addresses[number - 1]
    (first,) = addresses
    if not first.startswith("127."):
        return first
    found = ip_address(first) + number
    if not found.is_loopback or found == _BROADCAST:
        raise ValueError(first)
    return str(found)


class Spark(Protocol):
    """How a node starts its Workers and tells them to leave."""

    def view(self) -> MasterView:
        """What the master says now. Raises UnavailableError if it does not answer."""
        ...

    def launch(self, record: Record, master: str) -> Launch: ...

    def decommission(self, record: Record) -> None:
        """Tell a Worker to leave: it takes no more executors, and tells the master. May be repeated."""
        ...

    def executors_on(self, web: str) -> int | None:
        """Executors that run on a Worker, by its own web page; None: it does not answer."""
        ...


class StandaloneSpark:
    """Workers from the PySpark package, of the master with this web page.

    A signal tells a Worker to leave. It then refuses executors itself and tells the master, which marks it
    ``DECOMMISSIONED``. ``POST /workers/kill/`` to the master does the same, but names a host instead of a Worker, and
    is accepted only from the master's own machine. After a plain SIGTERM the master starts executors on a dying Worker.
    """

    def __init__(self, daemons: Daemons, size: WorkerSize, master_web_url: str) -> None:
        self._daemons = daemons
        self._size = size
        self._master_web_url = master_web_url
        daemons.make_folders()

    def view(self) -> MasterView:
        return parse_master(ask_daemon(self._master_web_url))

    def launch(self, record: Record, master: str) -> Launch:
        """Start without the node's token, since others' code runs in executors; scratch space is the Worker's own."""
        options = ("-Dspark.decommission.enabled=true", f"-Dspark.worker.decommission.signal={_DECOMMISSION_SIGNAL}")
        launch = self._daemons.worker(record.name, record.host, self._size, master, options)
        environment = {name: value for name, value in launch.environment.items() if name != TOKEN_VARIABLE}
        scratch = self._daemons.folder / "work" / record.name / "scratch"
        own = {MARK: record.mark, "SPARK_LOCAL_DIRS": str(scratch)}
        return Launch(launch.command, {**environment, **own}, launch.folder)

    def decommission(self, record: Record) -> None:
        process = record.process
        if process is not None and process.running():
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.Signals[f"SIG{_DECOMMISSION_SIGNAL}"])

    def executors_on(self, web: str) -> int | None:
        """See :meth:`Spark.executors_on`. The master itself forgets the executors of a decommissioned Worker."""
        try:
            return len(ask_daemon(f"http://{web}")["executors"])
        except (UnavailableError, KeyError, TypeError):
            return None


def parse_master(answer: Any) -> MasterView:
    """Parse a master's ``GET /json/``. Raises UnavailableError unless it is the answer of a master that leads."""
    try:
        if answer["status"] != ALIVE:
            message = f"the master does not lead: it is {answer['status']}"
            raise UnavailableError(message)
        return MasterView(str(answer["url"]), {str(one["id"]): _parse_standing(one) for one in answer["workers"]})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        message = f"this is not what a Spark master says of itself: {error!r}"
        raise UnavailableError(message) from error


def _parse_standing(one: Mapping[str, Any]) -> Standing:
    used = int(one["coresused"]) > 0 or int(one["memoryused"]) > 0
    return Standing(str(one["state"]), used, str(one["host"]), str(one["webuiaddress"]).rpartition("//")[2])


class Folder:
    """The folder of one node, for one server at a time: a file for each Worker, logs, and folders of the Workers.

    Raises:
        InputError: another server has it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.logs = path / "logs"
        self.spark = path / "spark"
        self._records = path / "workers"
        for each in (self._records, self.logs):
            each.mkdir(parents=True, exist_ok=True)
        try:
            self._lock = lock_file(path / ".lock")
        except BlockingIOError:
            message = "another node server has it: end that one, or give this one a --name or --folder of its own"
            raise InputError([Fault("--folder", str(path), "a folder of its own", message)]) from None

    def log(self, record: Record) -> Path:
        """The log of a Worker; the next Worker with this id overwrites it."""
        return self.logs / f"worker-{record.id}.log"

    def load(self) -> list[Record]:
        """The Workers of the server before, by id. Raises InputError with all files that cannot be read."""
        records, faults = [], []
        for file in sorted(self._records.glob("*.json")):
            try:
                records.append(Record(**json.loads(file.read_text(encoding="utf-8"))))
            except (OSError, ValueError, TypeError) as error:
                message = f"it is damaged ({error}): end what it may have left running, and remove it"
                faults.append(Fault("--folder", str(file), "a file that a node server has written", message))
        if faults:
            raise InputError(faults)
        return sorted(records, key=lambda record: record.id)

    def save(self, record: Record) -> None:
        replace_text(self._records / f"{record.id}.json", json.dumps(asdict(record)))

    def forget(self, record: Record) -> None:
        """Remove the file and the folder of a Worker that has ended; keep its log."""
        (self._records / f"{record.id}.json").unlink(missing_ok=True)
        shutil.rmtree(self.spark / "work" / record.name, ignore_errors=True)

    def announce(self, server: dict[str, Any]) -> None:
        """Write where the server listens to ``server.json``, for people and scripts."""
        replace_text(self.path / "server.json", json.dumps(server))

    def close(self) -> None:
        (self.path / "server.json").unlink(missing_ok=True)
        self._lock.close()


class Workers:
    """The Workers of one machine. Thread-safe; one thread of its own carries out what was requested.

    Args:
        clock: seconds, for durations: setting the time of the machine does not move it.
        now: epoch seconds, for names and what people read.

    Raises:
        InputError: a file in the folder cannot be read.
    """

    def __init__(
        self,
        spark: Spark,
        folder: Folder,
        rules: Rules,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._spark, self._folder, self._rules, self._clock, self._now = spark, folder, rules, clock, now
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._closing = False
        self._stopped = False
        self._last_error: tuple[float, str] | None = None
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._workers: dict[int, Worker] = {}
        for record in folder.load():
            self._recover(record)
        self._thread = threading.Thread(target=self._run, name="rheostat-node", daemon=True)

    # Requests

    def start(self) -> None:
        self._thread.start()

    @property
    def known(self) -> list[Worker]:
        """The Workers by id, without asking the master."""
        with self._lock:
            return self._ordered()

    def create(self, target: int) -> tuple[int, ...]:
        """Queue ``target`` more Workers, at most as many as there are free ids; returns their ids."""
        with self._lock:
            ids = () if self._closing else to_create(target, self._workers, self._rules.n_max)
            for number in ids:
                self._set_state(self._new_record(number), State.QUEUED)
        self._wake.set()
        return ids

    def remove(self, used: Collection[str], free: int) -> Removal:
        """Let all idle Workers leave except ``free`` of them. They leave later.

        Args:
            used: hosts of executors: addresses, names, or web addresses (``host:port``) of Workers, also of others.
            free: number of idle ones to keep.

        Raises:
            UnavailableError: the master does not answer, so it is unknown which Workers are used.
            DisagreementError: the master says that a Worker is used which the request does not name.
        """
        view = self._spark.view()
        with self._lock:
            staying = {number: worker for number, worker in self._workers.items() if worker.state in STAYING}
            busy = {number for number, worker in staying.items() if _is_used(worker, view)}
            named = {number for number, worker in staying.items() if _names(worker, view) & set(used)}
            if busy - named:
                raise DisagreementError([_disagreement(staying[number], used) for number in sorted(busy - named)])
            leaving = to_remove(staying, named | busy, free)
            for number in leaving:
                self._dismiss(self._workers[number])
        self._wake.set()
        return Removal(leaving, tuple(sorted(named | busy)), len(staying) - len(leaving) - len(named | busy))

    def situation(self) -> Situation:
        """The Workers, what the master says now, and the processor time."""
        view, records = self._ask_master(), [worker.record for worker in self.known]
        pids = {each.pid: each.name for each in records if each.pid is not None}
        cpu = read_cpu(self._rules.cpus, pids, self._rules.speed)
        with self._lock:
            free = to_create(self._rules.n_max, self._workers, self._rules.n_max)
            return Situation(self._clock(), tuple(self._ordered()), view, free, self._last_error, cpu)

    def close(self, *, keep: bool, grace_s: float) -> list[Worker]:
        """End; returns the Workers that are left: none unless they are kept. May be called more than once.

        Args:
            keep: leave the Workers running; the next server on this folder recovers them.
            grace_s: time for the Workers to leave before they are killed.
        """
        self._stopped = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        if not keep:
            self._clear(time.monotonic() + grace_s)
        self._folder.close()
        return [worker for worker in self._ordered() if worker.record.process is not None]

    def _clear(self, deadline: float) -> None:
        with self._lock:
            self._closing = True
            for worker in self._ordered():
                self._dismiss(worker)
        while self._workers and time.monotonic() < deadline:
            self.poll()
            time.sleep(self._rules.patience.look_s)
        for worker in self._ordered():
            self._kill(worker)

    def _kill(self, worker: Worker) -> None:
        self._signal(worker, SIGKILL)
        self._forget(worker)

    # The life of a Worker

    def _run(self) -> None:
        patience = self._rules.patience
        while not self._stopped:
            try:
                moving = self.poll()
            except Exception as error:  # the thread must survive: the next poll may succeed
                self._report(f"{type(error).__name__}: {error}")
                moving = True
            self._wake.wait(patience.look_s if moving else patience.idle_s)
            self._wake.clear()

    def poll(self) -> bool:
        """Advance every Worker by one step; returns whether one is still changing its state."""
        view = self._ask_master() if self._moving() else None
        busy = self._still_working(view)
        with self._lock:
            for worker in self._ordered():
                try:
                    self._advance(worker, view, busy)
                except OSError as error:  # a full disk, say, must not keep the others from going on
                    self._report(f"{worker.record.name}: {error.strerror or error}")
            return self._moving()

    def _moving(self) -> bool:
        with self._lock:
            return any(worker.state is not State.READY for worker in self._workers.values())

    def _still_working(self, view: MasterView | None) -> set[int]:
        """Ids of leaving Workers on which executors still run, or may."""
        with self._lock:
            leaving = [worker for worker in self._ordered() if worker.state is State.LEAVING]
        busy = set()
        for worker in leaving:
            standing = None if view is None else view.workers.get(worker.record.name)
            if standing is None or standing.state == ALIVE or not standing.used:
                continue
            if self._spark.executors_on(standing.web) != 0:
                busy.add(worker.record.id)
        return busy

    def _advance(self, worker: Worker, view: MasterView | None, busy: set[int]) -> None:
        if worker.state is State.QUEUED:
            self._launch(worker, view)
        elif not self._runs(worker.record):
            if worker.state in STAYING:
                self._report(f"{worker.record.name} ended by itself; its log: {self._folder.log(worker.record)}")
            self._forget(worker)
        elif worker.state is State.STARTING:
            self._await_registration(worker, view)
        elif worker.state is State.LEAVING:
            self._leave(worker, view, still_working=worker.record.id in busy)
        elif worker.state is State.ENDING and self._waited_s(worker) > self._rules.patience.end_s:
            self._signal(worker, SIGKILL)

    def _launch(self, worker: Worker, view: MasterView | None) -> None:
        """Start a queued Worker. Its mark is on disk before its process exists."""
        if view is None:
            if self._waited_s(worker) > self._rules.patience.start_s:
                self._forget(worker)
            return
        self._folder.save(worker.record)
        launch = self._spark.launch(worker.record, view.url)
        try:
            with self._folder.log(worker.record).open("wb") as output, kept_on(self._rules.cpus):
                process = launch.start(output)
        except OSError as error:
            self._report(f"{worker.record.name} cannot be started: {error.strerror or error}")
            self._forget(worker)
            return
        self._children[worker.record.id] = process
        identity = Identity.of(process.pid) or Identity(process.pid, 0.0)
        record = replace(worker.record, pid=identity.pid, created=identity.created)
        self._folder.save(record)
        self._set_state(record, State.STARTING)

    def _await_registration(self, worker: Worker, view: MasterView | None) -> None:
        standing = None if view is None else view.workers.get(worker.record.name)
        if standing is not None and standing.state == ALIVE:
            self._set_state(worker.record, State.READY)
        elif self._waited_s(worker) > self._rules.patience.start_s:
            self._report(f"{worker.record.name} did not register within {self._rules.patience.start_s:g} s")
            self._end(worker)

    def _leave(self, worker: Worker, view: MasterView | None, *, still_working: bool) -> None:
        """Decommission until the master knows; end the process once it has no executor."""
        standing = None if view is None else view.workers.get(worker.record.name)
        patience, waited_s = self._rules.patience, self._waited_s(worker)
        if standing is None:
            lost = view is not None and waited_s > patience.start_s
            if lost or self._closing:
                self._end(worker)
        elif standing.state == ALIVE:
            if standing.used and worker.decommissioned_at is None and not self._closing:
                self._report(f"{worker.record.name} stays: an executor was placed on it before it could leave")
                self._set_leaving(worker, leaving=False)
            elif worker.decommissioned_at is None or self._clock() - worker.decommissioned_at > patience.again_s:
                self._spark.decommission(worker.record)
                self._workers[worker.record.id] = replace(worker, decommissioned_at=self._clock())
        elif not still_working or waited_s > patience.leave_s:
            self._end(worker)

    def _dismiss(self, worker: Worker) -> None:
        if worker.state is State.QUEUED:
            self._forget(worker)
        elif worker.state in STAYING:
            self._set_leaving(worker, leaving=True)

    def _set_leaving(self, worker: Worker, *, leaving: bool) -> None:
        record = replace(worker.record, leaving=leaving)
        with suppress(OSError):  # only a server after a crash would read it
            self._folder.save(record)
        self._set_state(record, State.LEAVING if leaving else State.READY)

    def _end(self, worker: Worker) -> None:
        self._signal(worker, SIGTERM)
        self._set_state(worker.record, State.ENDING)

    # Records and processes

    def _recover(self, record: Record) -> None:
        """Take over a Worker of the server before: by pid and start time, or by its mark if it was being started."""
        process = record.process
        if process is None:
            leader = next((pid for pid in find_by_token(record.mark, MARK) if _leads_group(pid)), None)
            process = None if leader is None else Identity.of(leader)
        if process is None or not process.running():
            kill_by_token(record.mark, MARK)
            self._folder.forget(record)
            return
        record = replace(record, pid=process.pid, created=process.created)
        self._folder.save(record)
        self._set_state(record, State.LEAVING if record.leaving else State.STARTING)

    def _new_record(self, number: int) -> Record:
        now = self._now()
        name = f"{self._rules.name}-{number}-{int(now * 1000)}"
        return Record(number, name, address_of(number, self._rules.addresses), uuid.uuid4().hex, now)

    def _ordered(self) -> list[Worker]:
        return [self._workers[number] for number in sorted(self._workers)]

    def _set_state(self, record: Record, state: State) -> None:
        self._workers[record.id] = Worker(record, state, self._clock())

    def _forget(self, worker: Worker) -> None:
        """Remove a Worker whose process has ended, with any executors and Python processes left below it."""
        if worker.state is not State.QUEUED:
            kill_by_token(worker.record.mark, MARK)
        self._workers.pop(worker.record.id, None)
        child = self._children.pop(worker.record.id, None)
        if child is not None:
            with suppress(subprocess.TimeoutExpired):
                child.wait(self._rules.patience.end_s)
        self._folder.forget(worker.record)

    def _runs(self, record: Record) -> bool:
        child = self._children.get(record.id)
        process = record.process
        return child.poll() is None if child is not None else process is not None and process.running()

    def _signal(self, worker: Worker, number: int) -> None:
        if worker.record.process is not None:
            worker.record.process.signal_group(number)

    def _waited_s(self, worker: Worker) -> float:
        return self._clock() - worker.since

    def _ask_master(self) -> MasterView | None:
        try:
            return self._spark.view()
        except UnavailableError as error:
            self._report(str(error))
            return None

    def _report(self, text: str) -> None:
        self._last_error = (self._now(), text)


def _is_used(worker: Worker, view: MasterView) -> bool:
    standing = view.workers.get(worker.record.name)
    return standing is not None and standing.used


def _names(worker: Worker, view: MasterView) -> set[str]:
    """All names by which a request may refer to a Worker."""
    standing = view.workers.get(worker.record.name)
    return {worker.record.host, worker.record.name} | ({standing.web} if standing else set())


def _disagreement(worker: Worker, used: Collection[str]) -> Fault:
    message = f"the master says that {worker.record.name} has an executor: read again which are used, and ask again"
    return Fault("used", ", ".join(used) or "nobody", f"with {worker.record.host}", message)


def _leads_group(pid: int) -> bool:
    try:
        return os.getpgid(pid) == pid
    except ProcessLookupError:
        return False
