"""Processes that we run: each in its own group, with a log, asked whether it is ready, stopped by pid, guarded."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from rheostat.errors import PartFailedError
from rheostat.host.guardian import TOKEN_VARIABLE, carrying, is_running, kill_carrying

_POLL_S = 0.05
_TAIL_BYTES = 65536
_REASON_LINES = 200
_DISK_FULL = "No space left on device"
"""What Java and Python say of a full disk."""

_STRIPPED = ("SPARK_", "PYSPARK_", "KAFKA_", "CLASSPATH", "LOG_DIR")


@dataclass(frozen=True, slots=True)
class Identity:
    """A process that cannot be mistaken for a later one of the same pid. ``created`` in seconds of the epoch."""

    pid: int
    created: float

    @classmethod
    def of(cls, pid: int) -> Identity | None:
        """Identity of a running process; None if it has gone."""
        import psutil

        try:
            return cls(pid, psutil.Process(pid).create_time())
        except psutil.NoSuchProcess:
            return None

    def running(self) -> bool:
        """Whether it still runs."""
        return is_running(self.pid, self.created)

    def signal_group(self, number: int) -> None:
        """Send a signal to the process group that it leads, if it runs."""
        if self.running():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)


@dataclass(frozen=True, slots=True)
class Launch:
    """What to start: the command, its whole environment, the folder to start in."""

    command: Sequence[str]
    environment: Mapping[str, str]
    folder: Path

    def start(self, output: BinaryIO) -> subprocess.Popen[bytes]:
        """Start it, in a session of its own, so that a signal to our terminal does not reach it.

        Raises:
            OSError: it cannot be started.
        """
        return subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
            env=dict(self.environment),
            start_new_session=True,
        )


def clean_environment(java_home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without what would redirect Spark or Kafka, with ``JAVA_HOME`` set."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_STRIPPED)}
    return {**kept, "JAVA_HOME": str(java_home), **(extra or {})}


def module_command(module: str, *arguments: str) -> list[str]:
    """Command that runs one of our modules with this Python, whatever lies in the current folder."""
    return [sys.executable, "-P", "-m", module, *arguments]


def module_environment() -> dict[str, str]:
    """Environment in which that Python finds the package that runs now."""
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path}


class Guardian:
    """The helper process that kills what it watches when this process dies. See :mod:`rheostat.host.guardian`."""

    def __init__(self, token: str) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            module_command("rheostat.host.guardian", str(os.getpid())),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=module_environment(),
            start_new_session=True,
        )
        self._tell(f"token {token}")

    @property
    def pid(self) -> int:
        """Pid of the helper."""
        return self._process.pid

    def watch(self, identity: Identity) -> None:
        """Kill this group when we die."""
        self._tell(f"watch {identity.pid} {identity.created!r}")

    def forget(self, pid: int) -> None:
        """It has ended."""
        self._tell(f"forget {pid}")

    def remove_at_death(self, folder: Path) -> None:
        """Remove this folder when we die."""
        self._tell(f"folder {folder}")

    def close(self) -> None:
        """End the helper; what it still watches is killed. May be called more than once."""
        with self._lock:
            if self._process.stdin is not None and not self._process.stdin.closed:
                self._process.stdin.close()
        self._process.wait()

    def _tell(self, line: str) -> None:
        with self._lock:
            if self._process.stdin is None or self._process.stdin.closed:
                return
            try:
                self._process.stdin.write(line.encode() + b"\n")
                self._process.stdin.flush()
            except BrokenPipeError as error:
                raise PartFailedError("guardian", "the helper that cleans up after a crash has died") from error


class Part:
    """One process of a lab. Made by :meth:`Processes.start`.

    Attributes:
        name: as shown to people (``"broker"``).
        log: file with its output and errors.
        identity: pid and start.
    """

    def __init__(self, name: str, launch: Launch, log: Path) -> None:
        self.name = name
        self.log = log
        self._ending = False
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            try:
                self._process = launch.start(output)
            except OSError as error:
                raise PartFailedError(name, f"cannot be started: {error.strerror or error}") from error
        self.identity = Identity.of(self._process.pid) or Identity(self._process.pid, 0.0)

    @property
    def pid(self) -> int:
        """Its pid, which is also the id of its process group."""
        return self._process.pid

    def alive(self) -> bool:
        """Whether it runs (a stopped one, SIGSTOP, does)."""
        return self._process.poll() is None

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of its log."""
        try:
            with self.log.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _TAIL_BYTES))
                text = file.read().decode(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def wait_ready(self, ask: Callable[[], bool], timeout_s: float) -> None:
        """Ask until the answer is yes.

        Raises:
            PartFailedError: it ended, or did not say yes in time; with the end of its log.
        """
        deadline = time.monotonic() + timeout_s
        while not ask():
            if not self.alive():
                raise self.failure("ended while it was starting")
            if time.monotonic() > deadline:
                what = f"did not answer within {timeout_s:.0f} s"
                raise self.failure(what)
            time.sleep(_POLL_S)

    def wait_exit(self, timeout_s: float) -> None:
        """Wait for a process that has an end of its own.

        Raises:
            PartFailedError: it ended with an error, or not in time.
        """
        self._ending = True
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            what = f"did not end within {timeout_s:.0f} s"
            raise self.failure(what) from error
        if code != 0:
            raise self.failure("failed")

    def check(self) -> None:
        """Raise if it has died although nobody stopped it.

        Raises:
            PartFailedError: with the end of its log.
        """
        if not self._ending and not self.alive():
            raise self.failure("died")

    def failure(self, what: str) -> PartFailedError:
        """The error for this part, with exit code, the end of its log, and a full disk that the log tells of."""
        code = self._process.poll()
        ending = "" if code is None else f" (exit code {code})" if code >= 0 else f" (signal {-code})"
        full = f": {_DISK_FULL}" if _DISK_FULL in self.log_tail(_REASON_LINES) else ""
        return PartFailedError(self.name, f"{what}{ending}{full}; its log: {self.log}", self.log_tail())

    def signal(self, number: int) -> None:
        """Send a signal to its process group, if it runs."""
        if self.alive():
            os.killpg(self._process.pid, number)

    def stop(self, grace_s: float = 10.0) -> None:
        """End it and its children: SIGTERM, then SIGKILL after the grace. May be called more than once."""
        stop_all([self], grace_s)

    def descendants(self) -> list[Identity]:
        """The processes below it. A child may have left the group, as Spark's Python daemons do."""
        import psutil

        if not self.alive():
            return []
        try:
            children = psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [identity for identity in (Identity.of(child.pid) for child in children) if identity]

    def expect_end(self) -> None:
        """From now on its end is no failure."""
        self._ending = True

    def wait(self, deadline: float) -> None:
        """Wait until it has ended, at most until ``deadline`` on the monotonic clock, then kill its group."""
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            self._process.wait()


def stop_all(parts: Sequence[Part], grace_s: float) -> None:
    """Stop several parts in one grace period, and whatever is left below them."""
    below = [child for part in parts for child in part.descendants()]
    for part in parts:
        part.expect_end()
        part.signal(signal.SIGTERM)
        part.signal(signal.SIGCONT)
    deadline = time.monotonic() + grace_s
    for part in parts:
        part.wait(deadline)
    _kill(below)


def _kill(identities: Sequence[Identity]) -> None:
    for identity in identities:
        if identity.running():
            try:
                os.kill(identity.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


class Processes:
    """All processes of one lab: starts them under a guardian, checks them, ends them. Safe to use from threads."""

    def __init__(self) -> None:
        self._token = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._parts: list[Part] = []
        self._closed = False
        self.guardian = Guardian(self._token)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts that were started and not released, in order."""
        return tuple(self._parts)

    def start(self, name: str, launch: Launch, log: Path) -> Part:
        """Start a process.

        Raises:
            PartFailedError: it cannot be started, or the lab has been closed.
        """
        marked = Launch(launch.command, {**launch.environment, TOKEN_VARIABLE: self._token}, launch.folder)
        with self._lock:
            if self._closed:
                raise PartFailedError(name, "not started: the lab is closed")
            part = Part(name, marked, log)
            self._parts.append(part)
            self.guardian.watch(part.identity)
        return part

    def release(self, part: Part, grace_s: float = 10.0) -> None:
        """Stop a part and forget it."""
        part.stop(grace_s)
        with self._lock:
            if part in self._parts:
                self._parts.remove(part)
        self.guardian.forget(part.pid)

    def check(self) -> None:
        """Raise for the first part that died although nobody stopped it.

        Raises:
            PartFailedError: with its name and the end of its log.
        """
        for part in self.parts:
            part.check()

    def running(self) -> list[int]:
        """Pids of everything that belongs to this lab and runs, wherever it hangs in the process tree."""
        return carrying(self._token)

    def close(self, grace_s: float = 5.0) -> None:
        """Stop everything, kill what is left, end the guardian. May be called more than once."""
        with self._lock:
            self._closed = True
        stop_all(self.parts, grace_s)
        kill_carrying(self._token)
        self.guardian.close()
