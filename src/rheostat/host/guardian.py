"""A tiny process that kills the parts of a lab when their owner is gone, even by ``kill -9``.

Runs as ``python -m rheostat.host.guardian`` in a session of its own and reads lines from standard input:
``token T``, ``watch PID CREATED``, ``forget PID``, ``folder PATH``. When the input ends or the parent changes, it kills
the process groups that are still watched and every process with the token in its environment, and removes the folders.
Imports nothing beyond the standard library until then.
"""

from __future__ import annotations

import os
import select
import signal
import sys

TOKEN_VARIABLE = "RHEOSTAT_LAB_TOKEN"  # noqa: S105
"""Environment variable that every process of a lab inherits; its value identifies the lab."""

_POLL_S = 1.0
_SAME_START_S = 0.05


def is_running(pid: int, created: float) -> bool:
    """Whether the process that was started at ``created`` (epoch seconds) still runs; zombies do not."""
    import psutil

    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - created) <= _SAME_START_S
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def kill_group(pid: int, created: float) -> None:
    """Kill the process group of this leader, unless the pid has been reused."""
    if is_running(pid, created):
        try:
            os.killpg(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return


def find_by_token(token: str, variable: str = TOKEN_VARIABLE) -> list[int]:
    """Pids of the other processes whose environment has the token in that variable."""
    import psutil

    pids = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(variable) == token:
                pids.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return pids


def kill_by_token(token: str, variable: str = TOKEN_VARIABLE) -> None:
    """Kill the processes with the token, until no new ones turn up."""
    for _ in range(5):
        pids = find_by_token(token, variable)
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue


class _Guard:
    def __init__(self) -> None:
        self.token = ""
        self.watched: dict[int, float] = {}
        self.folders: list[str] = []

    def handle(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "token":
            self.token = rest
        elif word == "watch":
            pid, created = rest.split()
            self.watched[int(pid)] = float(created)
        elif word == "forget":
            self.watched.pop(int(rest), None)
        elif word == "folder":
            self.folders.append(rest)

    def listen(self, parent: int) -> None:
        """Handle lines until the input ends or the parent changes (a forked sibling may hold the pipe open).

        Lines written before the parent died are always read, even if it died before this process started to listen.
        """
        pending = b""
        while True:
            orphaned = os.getppid() != parent
            if select.select([0], [], [], 0.0 if orphaned else _POLL_S)[0]:
                chunk = os.read(0, 65536)
                if not chunk:
                    return
                *lines, pending = (pending + chunk).split(b"\n")
                for line in lines:
                    self.handle(line.decode())
            elif orphaned:
                return

    def clean_up(self) -> None:
        for pid, created in self.watched.items():
            kill_group(pid, created)
        if self.token:
            kill_by_token(self.token)
        if self.folders:
            import shutil

            for folder in self.folders:
                shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    guard = _Guard()
    guard.listen(int(sys.argv[1]))
    guard.clean_up()
    return 0


if __name__ == "__main__":
    sys.exit(main())
