"""One policy on one job under one load: the production loop on the simulated job, with a clock that does not wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rheostat.errors import Fault, InputError
from rheostat.journal.records import DecisionRecord, Header, OutcomeRecord
from rheostat.journal.store import JournalWriter, States
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

# What a simulated run remembers of its decisions, in bounded memory: those that act, and why the others held.


@dataclass(frozen=True, slots=True)
class Act:
    """A decision that acted.

    Attributes:
        before, after: executors in force before, and asked for.
        text: what the policy wanted and why, and what the guards made of it.
        outcome: how its execution ended; None: it had not ended, or was superseded.
        placement: where executors were to come and go; None: the job has no nodes.
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
    """Decisions that changed nothing, of one reason code: how many, when the last one was, and its words."""

    count: int
    at: float
    text: str


class Recorder:
    """A journal for simulated runs. It keeps no observation: the simulated job knows its own history exactly.

    Attributes:
        acts: the first ``keep`` decisions that acted, in order.
        dropped: how many acting decisions came after those.
        last_id: it begins empty.
    """

    def __init__(self, keep: int = 20_000) -> None:
        self.acts: list[Act] = []
        self.dropped = 0
        self.last_id = 0
        self._keep = keep
        self._places: dict[int, int] = {}
        self._held: dict[str, tuple[int, Decision]] = {}

    @property
    def holds(self) -> dict[str, Held]:
        """The decisions that held, by reason code."""
        return {code: Held(count, last.at, last.why) for code, (count, last) in self._held.items()}

    def start(self, header: Header, note: str | None = None) -> None:
        """A session of a simulated run is the run itself."""

    def record(self, record: DecisionRecord | OutcomeRecord, states: States) -> None:  # noqa: ARG002
        """Keep what a reader will ask for."""
        if isinstance(record, OutcomeRecord):
            self._became(record.outcome.decision_id, record.outcome.status)
            return
        decision = record.decision
        code = decision.reason.code
        if not decision.acts:
            count = self._held[code][0] if code in self._held else 0
            self._held[code] = (count + 1, decision)
        elif len(self.acts) < self._keep and decision.target is not None:
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
        else:
            self.dropped += 1

    def close(self) -> None:
        """Nothing is to be given free."""

    def _became(self, number: int, status: OutcomeStatus) -> None:
        place = self._places.pop(number, None)
        if place is not None:
            self.acts[place] = replace(self.acts[place], outcome=status)


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
    contender: PolicySpec,
    *,
    seed: int,
    recorder: Recorder | None = None,
    archive: SampleStore | None = None,
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
    planner = build_decision_settings(settings, archive or MemorySampleStore(), seed)
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
    return f"{found[0]} {'had ended before the run did' if ReasonCode.FORECAST in codes else 'never began'}: {found[1]}"


def start_executors(job: JobFile, load: Prepared) -> int:
    """What the job file says, or the fewest that carry the load of the first decision interval."""
    if job.start_executors is not None:
        return job.start_executors
    first = load.curve.cumulative(job.decide_every_s) / min(job.decide_every_s, load.curve.duration)
    return demand(job, first)


# A simulated run that leaves a journal behind, as a live one does: to explain, to replay, and to learn from.


class JournaledRecorder(Recorder):
    """Remembers what every recorder does, and writes the journal; second 0 of the run is the beginning of 1970.

    Attributes:
        folder: of the journal.
        archive: of the samples that are too many for a policy's state, beside it; in memory for want of pyarrow.

    Raises:
        InputError: the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.archive: SampleStore = sample_store_in(folder) or MemorySampleStore()
        self._journal = JournalWriter(folder, forced=False)

    def start(self, header: Header, note: str | None = None) -> None:
        """Begin a session of the journal."""
        self._journal.start(header, note)

    def record(self, record: DecisionRecord | OutcomeRecord, states: States) -> None:
        """Write it, and keep what a reader will ask for."""
        self._journal.record(record, states)
        super().record(record, states)

    def close(self) -> None:
        """Give the journal free."""
        self._journal.close()


def require_new(folder: Path | None) -> None:
    """Say at the start that a journal cannot be written: each run has one of its own. The folder is made.

    Raises:
        InputError: there is something in it, or nothing can be written there.
    """
    if folder is None:
        return
    require_folder("journal", folder)
    if any(folder.iterdir()):
        raise InputError([Fault("journal", str(folder), "a folder, new or empty", "there is something in it already")])


# The clock of a simulated run.


class SimulatedTime:
    """Time that passes as soon as it is waited for, until the run is over.

    Args:
        over: whether it is, given the present second and the one that would come next.

    Attributes:
        at: the present second.
    """

    def __init__(self, over: Callable[[float, float], bool]) -> None:
        self.at = 0.0
        self._over, self._stopped = over, False

    def now(self) -> float:
        """The present second."""
        return self.at

    def wait(self, seconds: float) -> bool:
        """Let it pass; True, and it does not, once the run is over."""
        later = self.at + seconds
        if self._stopped or self._over(self.at, later):
            return True
        self.at = later
        return False

    def stop(self) -> None:
        """End the run."""
        self._stopped = True
