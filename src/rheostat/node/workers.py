"""The Workers of one machine: asked for, started, watched, told to leave, ended; found again after a crash."""

from __future__ import annotations

import contextlib
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


class Workers:
    """The Workers of one machine. Safe to use from threads; one thread of its own does the work.

    Args:
        spark: how they are started and told to leave.
        folder: where they are kept on disk.
        rules: what the node is.
        now: the time, seconds of the epoch.

    Raises:
        InputError: what is on disk cannot be read.
    """

    def __init__(self, spark: Spark, folder: Folder, rules: Rules, now: Callable[[], float] = time.time) -> None:
        self._spark, self._folder, self._rules, self._now = spark, folder, rules, now
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._closing = False
        self._stopped = False
        self._last_error: tuple[float, str] | None = None
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._workers: dict[int, Worker] = {}
        for record in folder.load():
            self._adopt(record)
        self._thread = threading.Thread(target=self._run, name="rheostat-node", daemon=True)

    # ------------------------------------------------------------------------------------------ requests

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    @property
    def known(self) -> list[Worker]:
        """The Workers by id, without asking the master."""
        with self._lock:
            return self._ordered()

    def create(self, target: int) -> tuple[int, ...]:
        """Take on ``target`` more Workers, clipped to the free ids; returns their ids. They start later."""
        with self._lock:
            ids = () if self._closing else to_create(target, self._workers, self._rules.n_max)
            for number in ids:
                self._workers[number] = Worker(self._fresh(number), State.QUEUED, self._now())
        self._wake.set()
        return ids

    def remove(self, used: Collection[str], free: int) -> Removal:
        """Let all idle Workers go but ``free`` of them. They leave later.

        Args:
            used: who hosts an executor: addresses, names, or web addresses (``host:port``) of Workers, also of others.
            free: idle ones to keep.

        Raises:
            UnavailableError: the master does not answer, so that nobody knows which are used.
            DisagreementError: the master says that one is used which the request does not name.
        """
        view = self._spark.view()
        with self._lock:
            staying = {number: worker for number, worker in self._workers.items() if worker.state in STAYING}
            busy = {number for number, worker in staying.items() if _used(worker, view)}
            named = {number for number, worker in staying.items() if _names(worker, view) & set(used)}
            if busy - named:
                raise DisagreementError([_disagreement(staying[number], used) for number in sorted(busy - named)])
            going = to_remove(staying, named | busy, free)
            for number in going:
                self._dismiss(self._workers[number])
        self._wake.set()
        return Removal(going, tuple(sorted(named | busy)), len(staying) - len(going) - len(named | busy))

    def situation(self) -> Situation:
        """How it stands now, by the master's fresh word."""
        view = self._asked()
        with self._lock:
            free = to_create(self._rules.n_max, self._workers, self._rules.n_max)
            return Situation(tuple(self._ordered()), view, free, self._last_error)

    def close(self, *, keep: bool, grace_s: float) -> list[Worker]:
        """End; returns the Workers that are left, which are none unless they are kept. May be called more than once.

        Args:
            keep: leave the Workers as they are; a server that is started again on the folder finds them.
            grace_s: how long those that leave may take, until they are killed.
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
            self.look()
            time.sleep(self._rules.patience.look_s)
        for worker in self._ordered():
            self._kill(worker)

    # ---------------------------------------------------------------------------------------------- work

    def _run(self) -> None:
        while not self._stopped:
            try:
                moving = self.look()
            except Exception as error:  # the thread's last line: the next look may do better
                self._failed(f"{type(error).__name__}: {error}")
                moving = True
            patience = self._rules.patience
            self._wake.wait(patience.look_s if moving else patience.idle_s)
            self._wake.clear()

    def look(self) -> bool:
        """Take every Worker one step on; whether one is still in motion."""
        with self._lock:
            moving = any(worker.state is not State.READY for worker in self._workers.values())
        view = self._asked() if moving else None
        busy = self._still_working(view)
        with self._lock:
            for worker in self._ordered():
                try:
                    self._step(worker, view, busy)
                except OSError as error:  # a full disk, say, must not keep the others from going on
                    self._failed(f"{worker.record.name}: {error.strerror or error}")
            return any(worker.state is not State.READY for worker in self._workers.values())

    def _still_working(self, view: MasterView | None) -> set[int]:
        """Ids of leaving Workers on which executors still run, or may."""
        with self._lock:
            leaving = [worker for worker in self._ordered() if worker.state is State.LEAVING]
        found = set()
        for worker in leaving:
            standing = None if view is None else view.workers.get(worker.record.name)
            gone = standing is None or standing.state == ALIVE or not standing.used
            if standing is not None and not gone and self._spark.executors_on(standing.web) != 0:
                found.add(worker.record.id)
        return found

    def _step(self, worker: Worker, view: MasterView | None, busy: set[int]) -> None:
        if worker.state is State.QUEUED:
            self._begin(worker, view)
        elif not self._runs(worker.record):
            self._gone(worker)
        elif worker.state is State.STARTING:
            self._register(worker, view)
        elif worker.state is State.LEAVING:
            self._leave(worker, view, still_working=worker.record.id in busy)
        elif worker.state is State.ENDING and self._since(worker) > self._rules.patience.end_s:
            self._signal(worker, SIGKILL)

    def _begin(self, worker: Worker, view: MasterView | None) -> None:
        """Start a Worker that was asked for. Its mark is on disk before its process is there."""
        if view is None:
            if self._since(worker) > self._rules.patience.start_s:
                self._forget(worker)
            return
        self._folder.save(worker.record)
        launch = self._spark.launch(worker.record, view.url)
        try:
            with self._folder.log(worker.record).open("wb") as output:
                process = launch.start(output)
        except OSError as error:
            self._failed(f"{worker.record.name} cannot be started: {error.strerror or error}")
            self._forget(worker)
            return
        self._children[worker.record.id] = process
        identity = Identity.of(process.pid) or Identity(process.pid, 0.0)
        record = replace(worker.record, pid=identity.pid, created=identity.created)
        self._folder.save(record)
        self._put(Worker(record, State.STARTING, self._now()))

    def _register(self, worker: Worker, view: MasterView | None) -> None:
        standing = None if view is None else view.workers.get(worker.record.name)
        if standing is not None and standing.state == ALIVE:
            self._put(Worker(worker.record, State.READY, self._now()))
        elif self._since(worker) > self._rules.patience.start_s:
            self._failed(f"{worker.record.name} did not register within {self._rules.patience.start_s:g} s")
            self._end(worker)

    def _leave(self, worker: Worker, view: MasterView | None, *, still_working: bool) -> None:
        """Tell it until the master knows; end its process once no executor is left on it."""
        standing = None if view is None else view.workers.get(worker.record.name)
        patience, waited_s = self._rules.patience, self._since(worker)
        if standing is None:
            lost = view is not None and waited_s > patience.start_s
            if lost or self._closing:
                self._end(worker)
        elif standing.state == ALIVE:
            if standing.used and worker.told_at is None and not self._closing:
                self._retain(worker)
            elif worker.told_at is None or self._now() - worker.told_at > patience.again_s:
                self._spark.decommission(worker.record)
                self._put(replace(worker, told_at=self._now()))
        elif not still_working or waited_s > patience.leave_s:
            self._end(worker)

    def _retain(self, worker: Worker) -> None:
        """An executor was placed on it before it could be told to leave: it stays."""
        self._failed(f"{worker.record.name} stays: an executor was placed on it before it could leave")
        record = replace(worker.record, leaving=False)
        with contextlib.suppress(OSError):  # as above
            self._folder.save(record)
        self._put(Worker(record, State.READY, self._now()))

    def _dismiss(self, worker: Worker) -> None:
        if worker.state is State.QUEUED:
            self._forget(worker)
        elif worker.state in STAYING:
            record = replace(worker.record, leaving=True)
            with contextlib.suppress(OSError):  # only a server after a crash would want it
                self._folder.save(record)
            self._put(Worker(record, State.LEAVING, self._now()))

    def _end(self, worker: Worker) -> None:
        self._signal(worker, SIGTERM)
        self._put(Worker(worker.record, State.ENDING, self._now()))

    def _gone(self, worker: Worker) -> None:
        """Its process has ended. What may be left below it, executors and their Python, has nobody any more."""
        if worker.state in STAYING:
            self._failed(f"{worker.record.name} ended by itself; its log: {self._folder.log(worker.record)}")
        kill_by_token(worker.record.mark, MARK)
        self._forget(worker)

    def _kill(self, worker: Worker) -> None:
        self._signal(worker, SIGKILL)
        kill_by_token(worker.record.mark, MARK)
        self._forget(worker)

    # ------------------------------------------------------------------------------------------- records

    def _adopt(self, record: Record) -> None:
        """A Worker of the server before: found by pid and start, or by its mark if it was just being started."""
        process = record.process
        if process is None:
            leader = next((pid for pid in find_by_token(record.mark, MARK) if _leads(pid)), None)
            process = None if leader is None else Identity.of(leader)
        if process is None or not process.running():
            kill_by_token(record.mark, MARK)
            self._folder.forget(record)
            return
        record = replace(record, pid=process.pid, created=process.created)
        self._folder.save(record)
        state = State.LEAVING if record.leaving else State.STARTING
        self._workers[record.id] = Worker(record, state, self._now())

    def _fresh(self, number: int) -> Record:
        now = self._now()
        name = f"{self._rules.name}-{number}-{int(now * 1000)}"
        return Record(number, name, address_of(number, self._rules.addresses), uuid.uuid4().hex, now)

    def _ordered(self) -> list[Worker]:
        return [self._workers[number] for number in sorted(self._workers)]

    def _put(self, worker: Worker) -> None:
        self._workers[worker.record.id] = worker

    def _forget(self, worker: Worker) -> None:
        self._workers.pop(worker.record.id, None)
        child = self._children.pop(worker.record.id, None)
        if child is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(self._rules.patience.end_s)
        self._folder.forget(worker.record)

    def _runs(self, record: Record) -> bool:
        child = self._children.get(record.id)
        process = record.process
        return child.poll() is None if child is not None else process is not None and process.running()

    def _signal(self, worker: Worker, number: int) -> None:
        if worker.record.process is not None:
            worker.record.process.signal_group(number)

    def _since(self, worker: Worker) -> float:
        return self._now() - worker.since

    def _asked(self) -> MasterView | None:
        try:
            return self._spark.view()
        except UnavailableError as error:
            self._failed(str(error))
            return None

    def _failed(self, text: str) -> None:
        self._last_error = (self._now(), text)


def _used(worker: Worker, view: MasterView) -> bool:
    standing = view.workers.get(worker.record.name)
    return standing is not None and standing.used


def _names(worker: Worker, view: MasterView) -> set[str]:
    """Everything by which a request may call a Worker."""
    standing = view.workers.get(worker.record.name)
    return {worker.record.host, worker.record.name} | ({standing.web} if standing else set())


def _disagreement(worker: Worker, used: Collection[str]) -> Fault:
    message = f"the master says that {worker.record.name} has an executor: read again which are used, and ask again"
    return Fault("used", ", ".join(used) or "nobody", f"with {worker.record.host}", message)


def _leads(pid: int) -> bool:
    try:
        return os.getpgid(pid) == pid
    except ProcessLookupError:
        return False


# What the Spark master says of its Workers: the authority on which of them have executors.


ALIVE, DECOMMISSIONED = "ALIVE", "DECOMMISSIONED"


@dataclass(frozen=True, slots=True)
class Standing:
    """How one Worker stands with the master.

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
    """The master's word at one time: its URL, and its Workers by their names."""

    url: str
    workers: Mapping[str, Standing]


def parse_master(answer: Any) -> MasterView:
    """What ``GET /json/`` of a master says.

    Raises:
        UnavailableError: it is not what a master that leads says.
    """
    try:
        if answer["status"] != ALIVE:
            message = f"the master does not lead: it is {answer['status']}"
            raise UnavailableError(message)
        return MasterView(str(answer["url"]), {str(one["id"]): _standing(one) for one in answer["workers"]})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        message = f"this is not what a Spark master says of itself: {error!r}"
        raise UnavailableError(message) from error


def _standing(one: Mapping[str, Any]) -> Standing:
    used = int(one["coresused"]) > 0 or int(one["memoryused"]) > 0
    return Standing(str(one["state"]), used, str(one["host"]), str(one["webuiaddress"]).rpartition("//")[2])


class Master:
    """A master behind its web page."""

    def __init__(self, web_url: str) -> None:
        self.web_url = web_url

    def ask(self) -> MasterView:
        """Its word now.

        Raises:
            UnavailableError: it does not answer, or does not lead.
        """
        return parse_master(ask_daemon(self.web_url))

    def executors_on(self, web: str) -> int | None:
        """Executors that run on a Worker, by its own word; None: it does not answer.

        The master itself forgets those of a decommissioned one.
        """
        try:
            return len(ask_daemon(f"http://{web}")["executors"])
        except (UnavailableError, KeyError, TypeError):
            return None


# What a node keeps on disk: one file for each Worker, so that a server started again finds them.


@dataclass(frozen=True, slots=True)
class Record:
    """One Worker, as it stands in its file. Written before the process is started.

    Attributes:
        id: 1 … n_max.
        name: what the master calls it; never used twice.
        host: address that it is bound to.
        mark: stands in the environment of its process and of all below it, and nowhere else.
        asked_at: when it was asked for, seconds of the epoch.
        pid, created: of its process; None: it was not started when this was written.
        leaving: it is on its way out.
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
        """Its process; None: it has none that is known."""
        return None if self.pid is None or self.created is None else Identity(self.pid, self.created)


class Folder:
    """The folder of one node. One server at a time.

    Args:
        path: ``workers`` has the files, ``logs`` the logs; ``spark`` is for the Workers. Made if it is not there.

    Raises:
        InputError: another server has it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._records = path / "workers"
        self.logs = path / "logs"
        for each in (self._records, self.logs):
            each.mkdir(parents=True, exist_ok=True)
        try:
            self._lock = lock_file(path / ".lock")
        except BlockingIOError:
            message = "another node server has it: end that one, or give this one a --name or --folder of its own"
            raise InputError([Fault("--folder", str(path), "a folder of its own", message)]) from None

    @property
    def spark(self) -> Path:
        """Where the Workers have their folders."""
        return self.path / "spark"

    def log(self, record: Record) -> Path:
        """The log of a Worker; the next one of the same id takes its place."""
        return self.logs / f"worker-{record.id}.log"

    def load(self) -> list[Record]:
        """Every Worker of before, by id.

        Raises:
            InputError: the files that cannot be read, all of them.
        """
        found, faults = [], []
        for file in sorted(self._records.glob("*.json")):
            try:
                found.append(Record(**json.loads(file.read_text(encoding="utf-8"))))
            except (OSError, ValueError, TypeError) as error:
                message = f"it is damaged ({error}): end what it may have left running, and remove it"
                faults.append(Fault("--folder", str(file), "a file that a node server has written", message))
        if faults:
            raise InputError(faults)
        return sorted(found, key=lambda record: record.id)

    def save(self, record: Record) -> None:
        """Keep a Worker; on disk when this returns."""
        replace_text(self._records / f"{record.id}.json", json.dumps(asdict(record)))

    def forget(self, record: Record) -> None:
        """It has ended: its file and its folder go, its log stays."""
        (self._records / f"{record.id}.json").unlink(missing_ok=True)
        shutil.rmtree(self.spark / "work" / record.name, ignore_errors=True)

    def announce(self, server: dict[str, Any]) -> None:
        """Write where the server listens, for people and scripts: ``server.json``."""
        replace_text(self.path / "server.json", json.dumps(server))

    def close(self) -> None:
        """Let another server have it."""
        (self.path / "server.json").unlink(missing_ok=True)
        self._lock.close()


# What is known of a node and of its Workers: frozen values.


class State(StrEnum):
    """Where a Worker is in its life."""

    QUEUED = "queued"
    STARTING = "starting"
    READY = "ready"
    LEAVING = "leaving"
    ENDING = "ending"


STAYING = (State.QUEUED, State.STARTING, State.READY)
"""Those that a removal may choose from."""


@dataclass(frozen=True, slots=True)
class Worker:
    """One Worker. ``since``: when it came into its state; ``told_at``: when it was last told to leave."""

    record: Record
    state: State
    since: float
    told_at: float | None = None


@dataclass(frozen=True, slots=True)
class Patience:
    """How long things may take, in seconds.

    Attributes:
        look_s: between two looks while something is in motion.
        idle_s: between two looks otherwise.
        start_s: until a Worker must be registered.
        again_s: after that a Worker is told to leave again.
        leave_s: an executor that came to a leaving Worker has so long to end.
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
    """What a node is.

    Attributes:
        name: stands at the beginning of its Workers' names.
        n_max: Workers that there can be, standby included.
        addresses: see :func:`~rheostat.node.workers.address_of`.
    """

    name: str
    n_max: int
    addresses: Sequence[str]
    patience: Patience = Patience()


@dataclass(frozen=True, slots=True)
class Removal:
    """What became of a request to remove: ids that go, ids that stay because they are used, idle ones left."""

    removing: tuple[int, ...]
    used: tuple[int, ...]
    free: int


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything at one time. ``view`` None: the master does not answer."""

    workers: tuple[Worker, ...]
    view: MasterView | None
    free_ids: tuple[int, ...]
    last_error: tuple[float, str] | None

    def standing(self, worker: Worker) -> Standing | None:
        """The master's word on a Worker; None: it does not know it, or does not answer."""
        return None if self.view is None else self.view.workers.get(worker.record.name)


class DisagreementError(InputError):
    """The request and the master say different things of which Workers are used: nothing is removed."""


# Which Workers a request creates or removes. Pure. S1, section 4.3.3, Algorithms 8 and 9.


def to_create(target: int, allocated: Collection[int], n_max: int) -> tuple[int, ...]:
    """Ids of the Workers that a request for ``target`` more creates (Algorithm 8), the least free ones first.

    Beyond the free ids it is clipped; with none free it is ignored. Ids are always in 1 … ``n_max``.

    Args:
        target: how many more are asked for, ≥ 0.
        allocated: ids in use, standby included, and those whose process has not ended yet.
        n_max: how many there can be.

    >>> to_create(2, {1, 3}, 5), to_create(9, {1, 3}, 5), to_create(1, {1, 2}, 2)
    ((2, 4), (2, 4, 5), ())
    """
    free = [number for number in range(1, n_max + 1) if number not in allocated]
    return tuple(free[:target])


def to_remove(allocated: Collection[int], used: Collection[int], free: int) -> tuple[int, ...]:
    """Ids of the Workers that go so that ``free`` idle ones are left (Algorithm 9), the least first; never a used one.

    Args:
        allocated: ids of the Workers that are there and stay unless said otherwise.
        used: ids of those that host an executor.
        free: idle ones to keep, ≥ 0; clipped to the idle ones.

    >>> to_remove({1, 2, 3, 4, 5}, {1, 4}, 2), to_remove({1, 2, 3}, {1}, 7)
    ((2,), ())
    """
    idle = sorted(set(allocated) - set(used))
    return tuple(idle[: max(0, len(idle) - free)])


# Spark's side of a node: how a Worker is started, and how it is told to leave.


MARK = "RHEOSTAT_NODE_WORKER"
"""Environment variable of a Worker and of all below it, executors and their Python; its value tells Workers apart."""

_BROADCAST = ip_address("127.255.255.255")
_LEAVE = "PWR" if sys.platform == "linux" else "INFO"
"""The signal on which a Worker decommissions itself: Spark's default on Linux; elsewhere there is no such signal."""


class Spark(Protocol):
    """What a node does with Spark."""

    def view(self) -> MasterView:
        """The master's word now.

        Raises:
            UnavailableError: it does not answer.
        """
        ...

    def launch(self, record: Record, master: str) -> Launch:
        """How the process of a Worker is started."""
        ...

    def decommission(self, record: Record) -> None:
        """Ask a Worker to leave: from now on it takes no executor, and tells the master so. May be repeated."""
        ...

    def executors_on(self, web: str) -> int | None:
        """Executors that run on a Worker, by its own word; None: it does not answer."""
        ...


class StandaloneSpark:
    """Workers from the PySpark package.

    A Worker is told to leave by a signal. It then refuses executors itself and tells the master, which marks it
    ``DECOMMISSIONED``. ``POST /workers/kill/`` to the master comes to the same, but names a host, not a Worker, and is
    taken from the master's own machine only. On a plain SIGTERM the master starts executors on a dying Worker.
    """

    def __init__(self, daemons: Daemons, size: WorkerSize, master: Master) -> None:
        self._daemons = daemons
        self._size = size
        self._master = master
        daemons.make_folders()

    def view(self) -> MasterView:
        """See :meth:`Spark.view`."""
        return self._master.ask()

    def launch(self, record: Record, master: str) -> Launch:
        """See :meth:`Spark.launch`.

        The node's token stays here, as an executor's code is another's. Scratch space goes when the Worker is gone.
        """
        options = ("-Dspark.decommission.enabled=true", f"-Dspark.worker.decommission.signal={_LEAVE}")
        launch = self._daemons.worker(record.name, record.host, self._size, master, options)
        environment = {name: value for name, value in launch.environment.items() if name != TOKEN_VARIABLE}
        scratch = self._daemons.folder / "work" / record.name / "scratch"
        own = {MARK: record.mark, "SPARK_LOCAL_DIRS": str(scratch)}
        return Launch(launch.command, {**environment, **own}, launch.folder)

    def decommission(self, record: Record) -> None:
        """See :meth:`Spark.decommission`."""
        process = record.process
        if process is not None and process.running():
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.Signals[f"SIG{_LEAVE}"])

    def executors_on(self, web: str) -> int | None:
        """See :meth:`Spark.executors_on`."""
        return self._master.executors_on(web)


def address_of(number: int, addresses: Sequence[str]) -> str:
    """Where the Worker with this id (from 1) listens: an address each, or one for all.

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
