"""One policy on one job under one load: the production loop on the simulated job, with a clock that does not wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from rheostat.archive import MemoryArchive
from rheostat.judge.contenders import Contender, settings_for
from rheostat.judge.recorder import Act, Held, Recorder
from rheostat.judge.simulated_time import SimulatedTime
from rheostat.load.prepare import Prepared
from rheostat.loop import Loop, build_planner
from rheostat.model import Code
from rheostat.plan.words import several
from rheostat.ports import Archive
from rheostat.sim.capacity import demand
from rheostat.sim.cost import violation_weight
from rheostat.sim.history import History
from rheostat.sim.job import SimulatedJob
from rheostat.sim.jobfile import JobFile

__all__ = ["Run", "drain_limit_s", "simulate", "start_executors", "unready_at_end"]

_LEAST_DRAIN_S = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run.

    Attributes:
        seconds: from the start of the load until all records are committed, or until it was given up.
        drained: whether all records were committed in time.
        acts, dropped: decisions that acted; how many more there were than are kept.
        holds: decisions that held, by reason code.
        failures: cycles that failed somewhere; of a sound policy none does.
        last_failure: the last of them in words.
        unready: what the policy never did in it, and what it would have needed, in a sentence; None: it was ready.
    """

    label: str
    seed: int
    history: History
    seconds: float
    drained: bool
    acts: tuple[Act, ...]
    holds: Mapping[str, Held]
    dropped: int = 0
    failures: int = 0
    last_failure: str | None = None
    unready: str | None = None

    @property
    def faults(self) -> tuple[str, ...]:
        """Why the run does not count; empty if it does."""
        found = []
        if not self.drained:
            found.append(f"not all records were committed {self.seconds:.0f} s after the start")
        if self.failures:
            found.append(f"{several(self.failures, 'cycle')} failed, the last one: {self.last_failure}")
        if self.history.records_lost or self.history.records_duplicated:
            lost = several(self.history.records_lost, "record")
            found.append(f"{lost} lost, {self.history.records_duplicated} doubled")
        return tuple(found)


def simulate(
    job: JobFile,
    load: Prepared,
    contender: Contender,
    *,
    seed: int,
    recorder: Recorder | None = None,
    archive: Archive | None = None,
    before_each: Callable[[Loop, float], None] | None = None,
) -> Run:
    """Run the production loop until the load is over and every record is committed.

    The run is given up, and does not count, where that takes longer than :func:`drain_limit_s`.

    Args:
        job: what is scaled.
        load: what it has to do.
        contender: who decides.
        seed: of the job's own chance (start-ups, noise of batches).
        recorder: what remembers the decisions; None: one of its own.
        archive: where its policy puts samples that are too many for its state; None: in memory.
        before_each: is called with the loop and the time of the next cycle before that begins.

    Raises:
        InputError: the policy is unknown, or its options or settings are wrong.
    """
    contender = contender.at_size(violation_weight(job, load.peak))
    settings = settings_for(job, contender)
    simulated = SimulatedJob(job, load.curve, seed, start_executors(job, load))
    end, recorder = drain_limit_s(load.curve.duration), recorder or Recorder()

    def over(now: float, later: float) -> bool:
        if before_each is not None:
            before_each(loop, later)
        return simulated.drained or now >= end

    time = SimulatedTime(over)
    planner = build_planner(settings, archive or MemoryArchive(), seed)
    loop = Loop(simulated, planner, simulated, recorder, time, settings, job=job.name)
    loop.run()
    simulated.close()
    status = loop.status()
    return Run(
        label=contender.label,
        seed=seed,
        history=simulated.history,
        seconds=time.at,
        drained=simulated.drained,
        acts=tuple(recorder.acts),
        holds=recorder.holds,
        dropped=recorder.dropped,
        failures=status.failures,
        last_failure=status.last_failure,
        unready=unready_at_end(loop, [*recorder.holds, *(act.code for act in recorder.acts)]),
    )


def unready_at_end(loop: Loop, codes: Iterable[str]) -> str | None:
    """What the policy does not do at the end of a run, and what it needs for that; None: it works as it is meant to.

    Args:
        loop: that has ended.
        codes: of all its decisions: ``FORECAST`` tells that control was on.
    """
    found = loop.unready
    if found is None:
        return None
    return f"{found[0]} {'had ended before the run did' if Code.FORECAST in codes else 'never began'}: {found[1]}"


def drain_limit_s(duration_s: float) -> float:
    """When a run is given up: as long again as the load lasted, and six hours at least.

    >>> drain_limit_s(3600.0) / 3600, drain_limit_s(86_400.0) / 3600
    (7.0, 48.0)
    """
    return duration_s + max(_LEAST_DRAIN_S, duration_s)


def start_executors(job: JobFile, load: Prepared) -> int:
    """What the job file says, or the fewest that carry the load of the first decision interval."""
    if job.start_executors is not None:
        return job.start_executors
    first = load.curve.cumulative(job.decide_every_s) / min(job.decide_every_s, load.curve.duration)
    return demand(job, first)
