"""The Workers of one machine: asked for, started, watched, told to leave, ended; found again after a crash."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Collection
from dataclasses import replace
from signal import SIGKILL, SIGTERM

from rheostat.errors import Fault, UnavailableError
from rheostat.lab.guardian import carrying, kill_carrying
from rheostat.lab.process import Identity
from rheostat.node.algorithms import to_create, to_remove
from rheostat.node.folder import Folder, Record
from rheostat.node.master import ALIVE, MasterView
from rheostat.node.spark import MARK, Spark, address_of
from rheostat.node.values import STAYING, DisagreementError, Removal, Rules, Situation, State, Worker

__all__ = ["Workers"]


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
        kill_carrying(worker.record.mark, MARK)
        self._forget(worker)

    def _kill(self, worker: Worker) -> None:
        self._signal(worker, SIGKILL)
        kill_carrying(worker.record.mark, MARK)
        self._forget(worker)

    # ------------------------------------------------------------------------------------------- records

    def _adopt(self, record: Record) -> None:
        """A Worker of the server before: found by pid and start, or by its mark if it was just being started."""
        process = record.process
        if process is None:
            leader = next((pid for pid in carrying(record.mark, MARK) if _leads(pid)), None)
            process = None if leader is None else Identity.of(leader)
        if process is None or not process.running():
            kill_carrying(record.mark, MARK)
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
