"""Child processes: each in its own group, with a log, a readiness check and a guardian, stopped by pid."""

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
from rheostat.host.guardian import TOKEN_VARIABLE, find_by_token, is_running, kill_by_token

_POLL_S = 0.05
_DISK_FULL = "No space left on device"
"""Message of Java and Python."""

_STRIPPED = ("SPARK_", "PYSPARK_", "KAFKA_", "CLASSPATH", "LOG_DIR")


@dataclass(frozen=True, slots=True)
class Identity:
    """Identifies a process even if its pid is reused. ``created`` in epoch seconds."""

    pid: int
    created: float

    @classmethod
    def of(cls, pid: int) -> Identity | None:
        """None if there is no such process."""
        import psutil

        try:
            return cls(pid, psutil.Process(pid).create_time())
        except psutil.NoSuchProcess:
            return None

    def running(self) -> bool:
        return is_running(self.pid, self.created)

    def signal_group(self, number: int) -> None:
        """Send a signal to the process group of this leader, if it runs."""
        if self.running():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)


@dataclass(frozen=True, slots=True)
class Launch:
    """A process to start: its command, its whole environment, its working folder."""

    command: Sequence[str]
    environment: Mapping[str, str]
    folder: Path

    def start(self, output: BinaryIO) -> subprocess.Popen[bytes]:
        """Start it in a session of its own, so that signals to our terminal do not reach it."""
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
    """This process's environment with ``JAVA_HOME``, without variables that would redirect Spark or Kafka."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_STRIPPED)}
    return {**kept, "JAVA_HOME": str(java_home), **(extra or {})}


def module_command(module: str, *arguments: str) -> list[str]:
    """Command that runs one of our modules with this Python, ignoring modules in the current folder."""
    return [sys.executable, "-P", "-m", module, *arguments]


def module_environment() -> dict[str, str]:
    """Environment in which that Python imports the running version of this package."""
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path}


class Guardian:
    """The helper process that cleans up when this process dies. See :mod:`rheostat.host.guardian`."""

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
        self._write(f"token {token}")

    @property
    def pid(self) -> int:
        return self._process.pid

    def watch(self, identity: Identity) -> None:
        self._write(f"watch {identity.pid} {identity.created!r}")

    def forget(self, pid: int) -> None:
        self._write(f"forget {pid}")

    def remove_at_death(self, folder: Path) -> None:
        self._write(f"folder {folder}")

    def close(self) -> None:
        """End the helper, which kills the processes that it still watches. May be called more than once."""
        with self._lock:
            if self._process.stdin is not None and not self._process.stdin.closed:
                self._process.stdin.close()
        self._process.wait()

    def _write(self, line: str) -> None:
        with self._lock:
            if self._process.stdin is None or self._process.stdin.closed:
                return
            try:
                self._process.stdin.write(line.encode() + b"\n")
                self._process.stdin.flush()
            except BrokenPipeError as error:
                raise PartFailedError("guardian", "the helper that cleans up after a crash has died") from error


class Part:
    """One process of a lab, started by :meth:`Processes.start`.

    Attributes:
        name: shown in messages (``"broker"``).
        log: file with its output and errors.
        identity: pid and time of start.
    """

    def __init__(self, name: str, launch: Launch, log: Path) -> None:
        self.name = name
        self.log = log
        self._end_expected = False
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            try:
                self._process = launch.start(output)
            except OSError as error:
                raise PartFailedError(name, f"cannot be started: {error.strerror or error}") from error
        self.identity = Identity.of(self._process.pid) or Identity(self._process.pid, 0.0)

    @property
    def pid(self) -> int:
        """Also the id of its process group."""
        return self._process.pid

    def alive(self) -> bool:
        """Whether it runs; a process stopped by SIGSTOP does."""
        return self._process.poll() is None

    def log_tail(self, lines: int = 20) -> str:
        try:
            with self.log.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - 65536))
                text = file.read().decode(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def wait_ready(self, is_ready: Callable[[], bool], timeout_s: float) -> None:
        """Wait until ``is_ready``; raise PartFailedError with the end of the log if it ends first, or takes longer."""
        deadline = time.monotonic() + timeout_s
        while not is_ready():
            if not self.alive():
                raise self.failure("ended while it was starting")
            if time.monotonic() > deadline:
                event = f"did not answer within {timeout_s:.0f} s"
                raise self.failure(event)
            time.sleep(_POLL_S)

    def wait_exit(self, timeout_s: float) -> None:
        """Wait for a process that ends by itself; raise PartFailedError if it fails, or takes longer."""
        self._end_expected = True
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            event = f"did not end within {timeout_s:.0f} s"
            raise self.failure(event) from error
        if code != 0:
            raise self.failure("failed")

    def check(self) -> None:
        """Raise PartFailedError, with the end of its log, if it died although nobody stopped it."""
        if not self._end_expected and not self.alive():
            raise self.failure("died")

    def failure(self, event: str) -> PartFailedError:
        """The error for this part, with its exit code, the end of its log, and a full disk found in the log."""
        code = self._process.poll()
        ending = "" if code is None else f" (exit code {code})" if code >= 0 else f" (signal {-code})"
        full = f": {_DISK_FULL}" if _DISK_FULL in self.log_tail(200) else ""
        return PartFailedError(self.name, f"{event}{ending}{full}; its log: {self.log}", self.log_tail())

    def signal(self, number: int) -> None:
        """Send a signal to its process group, if it runs."""
        if self.alive():
            os.killpg(self._process.pid, number)

    def stop(self, grace_s: float = 10.0) -> None:
        """End it and its children: SIGTERM, then SIGKILL after ``grace_s``. May be called more than once."""
        stop_all([self], grace_s)

    def descendants(self) -> list[Identity]:
        """Its child processes, also those that have left the group, as Spark's Python daemons do."""
        import psutil

        if not self.alive():
            return []
        try:
            children = psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [identity for identity in (Identity.of(child.pid) for child in children) if identity]

    def expect_end(self) -> None:
        """From now on :meth:`check` does not raise."""
        self._end_expected = True

    def wait(self, deadline: float) -> None:
        """Wait for its end until ``deadline`` on the monotonic clock, then kill its group."""
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            self._process.wait()


def stop_all(parts: Sequence[Part], grace_s: float) -> None:
    """Stop several parts within one grace period, and all their children."""
    children = [child for part in parts for child in part.descendants()]
    for part in parts:
        part.expect_end()
        part.signal(signal.SIGTERM)
        part.signal(signal.SIGCONT)
    deadline = time.monotonic() + grace_s
    for part in parts:
        part.wait(deadline)
    for child in children:
        if child.running():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)


class Processes:
    """All processes of one lab, under a guardian. Thread-safe."""

    def __init__(self) -> None:
        self._token = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._parts: list[Part] = []
        self._closed = False
        self.guardian = Guardian(self._token)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Parts that were started and not released, in order."""
        return tuple(self._parts)

    def start(self, name: str, launch: Launch, log: Path) -> Part:
        """Start a process; raise PartFailedError if it cannot be started, or the lab has been closed."""
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
        """Raise PartFailedError for the first part that died although nobody stopped it."""
        for part in self.parts:
            part.check()

    def running(self) -> list[int]:
        """Pids of all running processes of this lab, wherever they are in the process tree."""
        return find_by_token(self._token)

    def close(self, grace_s: float = 5.0) -> None:
        """Stop all parts, kill remaining processes, end the guardian. May be called more than once."""
        with self._lock:
            self._closed = True
        stop_all(self.parts, grace_s)
        kill_by_token(self._token)
        self.guardian.close()
