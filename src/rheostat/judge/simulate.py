"""One policy on one job under one load: the production loop on the simulated job, with a clock that does not wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rheostat.config.models import Settings
from rheostat.decide.decide import DecisionSettings
from rheostat.errors import Fault, InputError
from rheostat.journal.records import DecisionRecord, Header, OutcomeRecord
from rheostat.journal.store import Journal, JournalWriter, States, StateStore
from rheostat.judge.cases import PolicySpec, drain_limit_s, settings_for
from rheostat.load.prepare import Prepared
from rheostat.loop.build import build_decision_settings, sample_store_in
from rheostat.loop.loop import Loop
from rheostat.model import Decision, OutcomeStatus, Placement, ReasonCode
from rheostat.ports import SampleStore
from rheostat.report.html import require_folder
from rheostat.sample_store import MemorySampleStore
from rheostat.sim.capacity import demand, violation_weight
from rheostat.sim.history import History
from rheostat.sim.job import SimulatedJob
from rheostat.sim.jobfile import JobFile
from rheostat.text import several


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run.

    Attributes:
        seconds: from the start of the load until all records were committed, or the run was given up.
        drained: whether all records were committed in time.
        holds: decisions that held, by reason code.
        failures: failed cycles; a sound policy has none.
        unready: what the policy never did, and what it would have needed; None: it was ready.
    """

    history: History
    seconds: float
    drained: bool
    acts: tuple[Act, ...]
    holds: Mapping[str, Held]
    failures: int = 0
    last_failure: str | None = None
    unready: str | None = None

    @property
    def faults(self) -> tuple[str, ...]:
        """Why the run does not count; empty if it does."""
        faults = []
        if not self.drained:
            faults.append(f"not all records were committed {self.seconds:.0f} s after the start")
        if self.failures:
            faults.append(f"{several(self.failures, 'cycle')} failed, the last one: {self.last_failure}")
        if self.history.records_lost or self.history.records_duplicated:
            lost = several(self.history.records_lost, "record")
            faults.append(f"{lost} lost, {self.history.records_duplicated} duplicated")
        return tuple(faults)


def simulate(
    job: JobFile,
    load: Prepared,
    spec: PolicySpec,
    *,
    seed: int,
    recorder: Recorder | None = None,
    before_each: Callable[[Loop, float], None] | None = None,
) -> Run:
    """Run the production loop until every record of the load is committed, or :func:`drain_limit_s` is reached.

    ``seed`` is that of the job's random draws. ``before_each`` is called with the loop and the time of the next cycle.

    Raises:
        InputError: the policy is unknown, or its options or settings are wrong.
    """
    spec = spec.at_size(violation_weight(job, load.peak))
    settings = settings_for(job, spec)
    simulated = SimulatedJob(job, load.curve, seed, start_executors(job, load))
    end, recorder = drain_limit_s(load.curve.duration), recorder or Recorder()
    loop, seconds = run_loop(
        simulated,
        settings,
        build_decision_settings(settings, recorder.samples, seed),
        recorder,
        lambda now, _: simulated.drained or now >= end,
        job=job.name,
        before_each=before_each,
    )
    status = loop.status()
    return Run(
        history=simulated.history,
        seconds=seconds,
        drained=simulated.drained,
        acts=tuple(recorder.acts),
        holds=recorder.holds,
        failures=status.failures,
        last_failure=status.last_failure,
        unready=unready_at_end(loop, [*recorder.holds, *(act.code for act in recorder.acts)]),
    )


def run_loop(
    simulated: SimulatedJob,
    settings: Settings,
    decision_settings: DecisionSettings,
    journal: Journal,
    is_over: Callable[[float, float], bool],
    *,
    job: str,
    store: StateStore | None = None,
    before_each: Callable[[Loop, float], None] | None = None,
) -> tuple[Loop, float]:
    """Run the production loop on a simulated job, and close the job; the loop, and the second at which it ended.

    ``is_over`` and ``before_each`` are called before each cycle: the first with the time of the last cycle and of this
    one, the second with the loop and the time of this one. ``job``: its name in the journal.
    """

    def over(now: float, later: float) -> bool:
        if before_each is not None:
            before_each(loop, later)
        return is_over(now, later)

    time = SimulatedTime(over)
    loop = Loop(simulated, decision_settings, simulated, journal, time, settings, store=store, job=job)
    loop.run()
    simulated.close()
    return loop, time.at


def unready_at_end(loop: Loop, codes: Iterable[str]) -> str | None:
    """What the policy does not do at the end of a run, and what it needs for that; None: it is ready.

    ``codes``: reason codes of all its decisions; ``FORECAST`` among them shows that control was on.
    """
    if loop.unready is None:
        return None
    what, needs = loop.unready
    return f"{what} {'ended before the run did' if ReasonCode.FORECAST in codes else 'never began'}: {needs}"


def start_executors(job: JobFile, load: Prepared) -> int:
    """The number in the job file, or the fewest executors that carry the load of the first decision interval."""
    if job.start_executors is not None:
        return job.start_executors
    first = load.curve.cumulative(job.decide_every_s) / min(job.decide_every_s, load.curve.duration)
    return demand(job, first)


class SimulatedTime:
    """A clock whose waits take no time. ``is_over(now, next)`` ends the run; ``at``: the current second."""

    def __init__(self, is_over: Callable[[float, float], bool]) -> None:
        self.at = 0.0
        self._is_over, self._stopped = is_over, False

    def now(self) -> float:
        return self.at

    def start_from(self, at: float) -> None:
        self.at = max(self.at, at)

    def wall_ahead_s(self) -> float:
        return 0.0

    def wait(self, seconds: float) -> bool:
        """Advance the clock; at the end of the run return True instead."""
        later = self.at + seconds
        if self._stopped or self._is_over(self.at, later):
            return True
        self.at = later
        return False

    def stop(self) -> None:
        self._stopped = True


# The decisions of a run


@dataclass(frozen=True, slots=True)
class Act:
    """A decision that changed the target from ``before`` to ``after``; its text includes what the guards made of it.

    ``outcome`` is None if it had not ended, or was superseded; ``placement`` is None if the job has no nodes.
    """

    at: float
    before: int | None
    after: int
    code: str
    text: str
    outcome: OutcomeStatus | None = None
    placement: Placement | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """The decisions of one reason code that changed nothing: their number, and time and text of the last."""

    count: int
    at: float
    text: str


class Recorder:
    """The journal of a simulated run. It keeps the acts, and writes all records to a folder if one is given.

    In the written journal, second 0 of the run is the beginning of 1970.

    Raises:
        InputError: the folder cannot be written.
    """

    def __init__(self, journal: Path | None = None) -> None:
        self.acts: list[Act] = []
        self.last_id = 0
        self.samples: SampleStore = (None if journal is None else sample_store_in(journal)) or MemorySampleStore()
        self._writer = None if journal is None else JournalWriter(journal, forced=False)
        self._places: dict[int, int] = {}
        self._held: dict[str, tuple[int, Decision]] = {}

    @property
    def holds(self) -> dict[str, Held]:
        """The decisions that held, by reason code."""
        return {code: Held(count, last.at, last.why) for code, (count, last) in self._held.items()}

    def start(self, header: Header, note: str | None = None) -> None:
        if self._writer is not None:
            self._writer.start(header, note)

    def record(self, record: DecisionRecord | OutcomeRecord, states: States) -> None:
        """Keep and write a decision, or the outcome of an earlier one."""
        if self._writer is not None:
            self._writer.record(record, states)
        if isinstance(record, OutcomeRecord):
            place = self._places.pop(record.outcome.decision_id, None)
            if place is not None:
                self.acts[place] = replace(self.acts[place], outcome=record.outcome.status)
            return
        decision = record.decision
        code = decision.reason.code
        if not decision.acts:
            count = self._held[code][0] if code in self._held else 0
            self._held[code] = (count + 1, decision)
        elif decision.target is not None:
            self._places[decision.decision_id] = len(self.acts)
            act = Act(
                at=record.at,
                before=decision.current,
                after=decision.target,
                code=code.value,
                text=decision.why,
                placement=decision.placement,
            )
            self.acts.append(act)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def require_new(folder: Path | None) -> None:
    """Check before a run that its journal can be written: it needs a folder of its own, which is created.

    Raises:
        InputError: the folder is not empty, or cannot be written.
    """
    if folder is None:
        return
    require_folder("journal", folder)
    if any(folder.iterdir()):
        raise InputError([Fault("journal", str(folder), "a folder, new or empty", "the folder is not empty")])
