"""Our side of a benchmark on a real cluster: a driver in a process of its own, waited for while every part lives.

A process of its own, so that neither the load nor what this process has imported is in the figures.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rheostat.bench.inside import ASKED, PROGRESS, RESULT, tell
from rheostat.bench.measure import Watch, unwatched
from rheostat.lab.lab import Lab
from rheostat.lab.process import Launch, Part, module_command, module_environment

__all__ = ["TOPIC", "Driver", "load_note", "quick_conf"]

TOPIC = "clicks"
_END_S = 60.0


@dataclass(frozen=True, slots=True)
class Driver:
    """A driver that runs. Made by :meth:`start`; ends with the lab. ``watch`` is told how far it says that it is."""

    lab: Lab
    part: Part
    folder: Path
    watch: Watch = unwatched

    @classmethod
    def start(cls, lab: Lab, module: str, job: Mapping[str, Any], folder: Path, watch: Watch = unwatched) -> Driver:
        """Run ``python -m MODULE FOLDER`` with the job in ``job.json`` there."""
        folder.mkdir(parents=True)
        tell(folder / "job.json", job)
        environment = module_environment() | lab.cluster.driver_environment()
        part = lab.run_part("driver", Launch(module_command(module, str(folder)), environment, folder))
        return cls(lab, part, folder, watch)

    def wait_asked(self, timeout_s: float) -> None:
        """Wait until it has asked for its executors.

        Raises:
            PartFailedError: a part died, or it took too long.
        """
        self._wait(ASKED, timeout_s)

    def result(self, timeout_s: float) -> dict[str, Any]:
        """Wait for what it measured, and for its end.

        Raises:
            PartFailedError: a part died, or it took too long.
        """
        self._wait(RESULT, timeout_s)
        self.part.wait_exit(_END_S)
        found: dict[str, Any] = json.loads((self.folder / RESULT).read_text(encoding="utf-8"))
        return found

    def _wait(self, name: str, timeout_s: float) -> None:
        deadline, pause, told = time.monotonic() + timeout_s, threading.Event(), ""
        while not (self.folder / name).exists():
            self.lab.check()
            told = self._pass_on(told)
            if time.monotonic() > deadline:
                what = f"{name} was not there within {timeout_s:.0f} s"
                raise self.part.failure(what)
            pause.wait(0.1)

    def _pass_on(self, told: str) -> str:
        """What the driver says of its progress, passed on unless it was already."""
        try:
            said = (self.folder / PROGRESS).read_text(encoding="utf-8")
        except FileNotFoundError:
            return told
        if said != told:
            self.watch(*json.loads(said))
        return said


def quick_conf(progress_kept: int) -> dict[str, str]:
    """Session settings for short batches with little noise: no web UI, short histories, no helper processes."""
    kept = ("spark.ui.retainedJobs", "spark.ui.retainedStages", "spark.sql.ui.retainedExecutions")
    return {
        "spark.ui.enabled": "false",
        "spark.ui.retainedTasks": "1000",
        "spark.sql.streaming.numRecentProgressUpdates": str(progress_kept),
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        **dict.fromkeys(kept, "20"),
    }


def load_note(before: tuple[float, float, float]) -> str:
    """What else the machine did: the load average before the run and at its end (which includes the run itself)."""
    now = os.getloadavg()
    return f"Load average (1 min) before the run {before[0]:.1f}, at its end {now[0]:.1f} (the run itself included)."
