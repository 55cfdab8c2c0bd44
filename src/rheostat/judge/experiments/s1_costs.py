"""Experiment 5.5 of S1: what the controller takes, each mode measured in a process of its own.

The whole loop runs at its real period in simulated time, with journal, state and archive on disk. The processor time is
that of the process without what the simulated job itself takes: the look at a real job is not in it. The memory is the
most that the process had, with the interpreter, numpy and the simulated job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeVar

from rheostat.config import Settings
from rheostat.judge.experiments.results import Result
from rheostat.judge.experiments.s1_runs import OPTIONS, OURS, long_bell, short_bell
from rheostat.judge.experiments.s1_setting import settings, the_job
from rheostat.judge.experiments.trial import begun
from rheostat.judge.processes import Crew
from rheostat.judge.simulated_time import SimulatedTime
from rheostat.learn.samples import Sample
from rheostat.learn.training import resampled, train
from rheostat.load.curves import Pieces
from rheostat.loop import Loop, build_planner
from rheostat.loop.building import open_archive, open_journal, open_store
from rheostat.model import Decision, Observation, Outcome
from rheostat.plan.proactive import ProactiveState
from rheostat.sim.job import SimulatedJob

__all__ = ["Cost", "Learning", "Taken", "Watched", "costs", "looped", "results"]

Given = TypeVar("Given")
Got = TypeVar("Got")

_FIRST_S, _LENGTH_S = 3600.0, 3600.0
"""Of the loop that explores: the second hour of 5.2, in which the load rises."""
_TIMES = 50
_DISK_S = 2580.0
_STATUS = Path("/proc/self/status")


class Cost(NamedTuple):
    """What one activity takes.

    Attributes:
        seconds: how long it lasts, of wall time.
        share: processor time ÷ wall time; of a loop at its real period.
        memory_mb: the most memory of the process.
        bytes_s: written to journal and archive in a second of the job's time.
    """

    seconds: float
    share: float
    memory_mb: float
    bytes_s: float = 0.0


class Learning(NamedTuple):
    """What a model is made of."""

    rows: tuple[Sample, ...]
    w_max: float | None


class Taken(NamedTuple):
    """What was measured."""

    exploration: Cost
    training: Cost
    check: Cost
    control: Cost


class Watched(NamedTuple):
    """A loop that is to be measured.

    Attributes:
        begin: the policy's state to begin with; None: its initial one.
    """

    settings: Settings
    load: Pieces
    seed: int
    begin: ProactiveState | None


def costs(rows: tuple[Sample, ...], begin: ProactiveState, seed: int) -> Taken:
    """Measure all of it, one after the other.

    Args:
        rows: what a model is made of.
        begin: a state in control.
        seed: of the loads and of the job's chance.
    """
    exploring = Watched(settings("proactive:faithful", 15.0), _rising(seed), seed, None)
    controlling = Watched(settings("proactive:faithful", 5.0, **OURS), short_bell(seed), seed, begin)
    learning = Learning(rows, begin.reactive.learned.w_max)
    training, check = _apart(_learned, learning)
    return Taken(_apart(looped, exploring), training, check, _apart(looped, controlling))


def _apart(work: Callable[[Any], Any], task: Any) -> Any:
    """Do it in a new process."""
    with Crew(work, 2) as crew:
        return next(iter(crew.results([task])))[1]


def _rising(seed: int) -> Pieces:
    return long_bell(seed).between(_FIRST_S, _FIRST_S + _LENGTH_S)


@dataclass
class _Outside:
    """The simulated job, with the processor time that it takes."""

    job: SimulatedJob
    spent_s: float = 0.0

    def observe(self, at: float) -> Observation:
        return self._timed(self.job.observe, at)

    def apply(self, decision: Decision) -> None:
        self._timed(self.job.apply, decision)

    def poll(self, at: float) -> Outcome | None:
        return self._timed(self.job.poll, at)

    def close(self) -> None:
        self.job.close()

    def _timed(self, work: Callable[[Given], Got], value: Given) -> Got:
        begun_at = time.process_time()
        try:
            return work(value)
        finally:
            self.spent_s += time.process_time() - begun_at


def looped(task: Watched) -> Cost:
    """What a cycle of this loop takes in this process; ``seconds`` is processor time."""
    with TemporaryDirectory(prefix="rheostat-s1-") as folder:
        chosen = task.settings.model_copy(update={"journal": folder})
        archive, store = open_archive(chosen), open_store(chosen)
        planner = build_planner(chosen, archive)
        if store is not None and task.begin is not None:
            store.save(begun(planner, task.begin))
        outside = _Outside(SimulatedJob(the_job(), task.load, task.seed, 1))
        clock = SimulatedTime(lambda _, later: later > task.load.duration)
        loop = Loop(outside, planner, outside, open_journal(chosen), clock, chosen, store=store, job="s1")
        began_at = time.process_time()
        loop.run()
        spent_s = time.process_time() - began_at - outside.spent_s
        written = sum(_sizes(Path(folder)).values())
    cycles = loop.status().cycles
    return Cost(spent_s / cycles, spent_s / task.load.duration, _memory_mb(), written / task.load.duration)


def _sizes(folder: Path) -> Mapping[Path, int]:
    """Of the files of journal and archive; the state is one file that is written again and again."""
    return {file: file.stat().st_size for file in folder.rglob("*") if file.is_file() and file.name != "state.json"}


def _learned(task: Learning) -> tuple[Cost, Cost]:
    trained = train(task.rows, task.w_max, OPTIONS)
    points = sorted({(row.workload, row.executors) for row in task.rows})
    return (
        _repeated(lambda: train(task.rows, task.w_max, OPTIONS)),
        _repeated(lambda: resampled(task.rows, trained, OPTIONS).deviation(points)),
    )


def _repeated(work: Callable[[], object]) -> Cost:
    work()
    began_at, processor_at = time.perf_counter(), time.process_time()
    for _ in range(_TIMES):
        work()
    took_s = time.perf_counter() - began_at
    return Cost(took_s / _TIMES, (time.process_time() - processor_at) / took_s, _memory_mb())


def _memory_mb() -> float:
    """The most that this process had. ``ru_maxrss`` would begin with what its parent had."""
    for line in _STATUS.read_text(encoding="ascii").splitlines() if _STATUS.exists() else ():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def results(taken: Taken) -> list[Result]:
    """The rows of 5.5."""
    return [
        _cost("exploration", taken.exploration, "141 MB, 0 to 2 % CPU", _steady(taken.exploration, 0.02, 141), _LOOP),
        _cost("training", taken.training, "5 s at 118 % CPU, 144 MB", _once(taken.training, 5.0, 144), _FITS),
        _cost("stability", taken.check, "60 s at 104 % CPU, 144 MB", _once(taken.check, 60.0, 144), _REFITS),
        _cost("control", taken.control, "143 MB, 0 to 3 % CPU", _steady(taken.control, 0.03, 143), _LOOP),
        Result(
            "5.5 disk",
            "what is written to disk in a second, in exploration and in control",
            f"{taken.exploration.bytes_s / 1000:.2f} and {taken.control.bytes_s / 1000:.2f} KB/s",
            "2.58 KB/s",
            max(taken.exploration.bytes_s, taken.control.bytes_s) <= _DISK_S,
            "journal and archive, in the size of their files; the state, one file that is replaced, is not in it",
        ),
    ]


_LOOP = (
    "processor time of a cycle ÷ its period, without the look at a real job (bench controller has it); the memory is "
    "that of a process with the interpreter, numpy and the simulated job"
)
_FITS = "degrees 1 to 8, 450 samples: fits from Gram matrices, cross-validation by blocks"
_REFITS = "k = 250, each with a choice of its degree: a resample of blocks is a weighted sum of their Gram matrices"


def _cost(name: str, cost: Cost, document: str, holds: bool, why: str) -> Result:
    ours = f"{cost.seconds:.3f} s at {100 * cost.share:.3g} % CPU, {cost.memory_mb:.0f} MB"
    return Result(f"5.5 {name}", f"{name} takes no more than in the document", ours, document, holds, why)


def _steady(cost: Cost, share: float, memory_mb: float) -> bool:
    return cost.share <= share and cost.memory_mb <= memory_mb


def _once(cost: Cost, seconds: float, memory_mb: float) -> bool:
    return cost.seconds <= seconds and cost.memory_mb <= memory_mb
