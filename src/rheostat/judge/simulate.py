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
        seconds: from the start of the load until all records are committed, or until it was given up.
        drained: whether all records were committed in time.
        acts, dropped: decisions that acted; how many more there were than are kept.
        holds: decisions that held, by reason code.
        failures: cycles that failed; a sound policy has none.
        unready: what the policy never did, and what it would have needed, in a sentence; None: it was ready.
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
    spec: PolicySpec,
    *,
    seed: int,
    recorder: Recorder | None = None,
    before_each: Callable[[Loop, float], None] | None = None,
) -> Run:
    """Run the production loop until the load is over and every record is committed.

    The run is given up, and does not count, where that takes longer than :func:`drain_limit_s`.

    Args:
        job: the job to scale.
        load: its load.
        spec: the policy that decides.
        seed: of the job's own chance (start-ups, noise of batches).
        recorder: keeps the decisions; None: one that writes no journal.
        before_each: called before each cycle with the loop and the time of the cycle.

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
        build_decision_settings(settings, recorder.archive, seed),
        recorder,
        lambda now, _: simulated.drained or now >= end,
        job=job.name,
        before_each=before_each,
    )
    status = loop.status()
    return Run(
        label=spec.label,
        seed=seed,
        history=simulated.history,
        seconds=seconds,
        drained=simulated.drained,
        acts=tuple(recorder.acts),
        holds=recorder.holds,
        dropped=recorder.dropped,
        failures=status.failures,
        last_failure=status.last_failure,
        unready=unready_at_end(loop, [*recorder.holds, *(act.code for act in recorder.acts)]),
    )


def run_loop(
    simulated: SimulatedJob,
    settings: Settings,
    deciding: DecisionSettings,
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
    loop = Loop(simulated, deciding, simulated, journal, time, settings, store=store, job=job)
    loop.run()
    simulated.close()
    return loop, time.at


def unready_at_end(loop: Loop, codes: Iterable[str]) -> str | None:
    """What the policy does not do at the end of a run, and what it needs for that; None: it was ready.

    Args:
        loop: after its end.
        codes: of all its decisions: ``FORECAST`` shows that control was on.
    """
    found = loop.unready
    if found is None:
        return None
    return f"{found[0]} {'had ended before the run did' if ReasonCode.FORECAST in codes else 'never began'}: {found[1]}"


def start_executors(job: JobFile, load: Prepared) -> int:
    """The number in the job file, or the fewest executors that carry the load of the first decision interval."""
    if job.start_executors is not None:
        return job.start_executors
    first = load.curve.cumulative(job.decide_every_s) / min(job.decide_every_s, load.curve.duration)
    return demand(job, first)


class SimulatedTime:
    """Time that passes as soon as it is waited for, until the run is over.

    Args:
        over: whether the run is over, given the present second and the next one.

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
        """Let time pass; True, and it does not, once the run is over."""
        later = self.at + seconds
        if self._stopped or self._over(self.at, later):
            return True
        self.at = later
        return False

    def stop(self) -> None:
        """End the run."""
        self._stopped = True


# The decisions of a run, in bounded memory


@dataclass(frozen=True, slots=True)
class Act:
    """A decision that acted.

    Attributes:
        before, after: executors asked for before, and from then on.
        text: what the policy proposed and why, and what the guards made of it.
        outcome: None: it had not ended, or was superseded.
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
    """The decisions of one reason code that changed nothing: their number, and time and text of the last."""

    count: int
    at: float
    text: str


class Recorder:
    """The journal of a simulated run: it keeps decisions, and writes them to a folder where one is given.

    Second 0 of the run is the beginning of 1970 in the written journal.

    Args:
        keep: how many acting decisions are kept.
        journal: folder of the journal; None: nothing is written.

    Attributes:
        acts: the first ``keep`` decisions that acted, in order.
        dropped: how many acting decisions came after those.
        archive: stores samples that are too many for a policy's state: beside the journal, or in memory without a
            journal or pyarrow.
        last_id: 0, as a run begins with an empty journal.

    Raises:
        InputError: the folder cannot be written.
    """

    def __init__(self, keep: int = 20_000, journal: Path | None = None) -> None:
        self.acts: list[Act] = []
        self.dropped = 0
        self.last_id = 0
        self.archive: SampleStore = (None if journal is None else sample_store_in(journal)) or MemorySampleStore()
        self._keep = keep
        self._writer = None if journal is None else JournalWriter(journal, forced=False)
        self._places: dict[int, int] = {}
        self._held: dict[str, tuple[int, Decision]] = {}

    @property
    def holds(self) -> dict[str, Held]:
        """The decisions that held, by reason code."""
        return {code: Held(count, last.at, last.why) for code, (count, last) in self._held.items()}

    def start(self, header: Header, note: str | None = None) -> None:
        """Begin a session of the journal."""
        if self._writer is not None:
            self._writer.start(header, note)

    def record(self, record: DecisionRecord | OutcomeRecord, states: States) -> None:
        """Keep the decision or the outcome, and write it."""
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
        """Release the journal."""
        if self._writer is not None:
            self._writer.close()


def require_new(folder: Path | None) -> None:
    """Check before a run that its journal can be written: it needs a folder of its own, which is made.

    Raises:
        InputError: the folder is not empty, or cannot be written.
    """
    if folder is None:
        return
    require_folder("journal", folder)
    if any(folder.iterdir()):
        raise InputError([Fault("journal", str(folder), "a folder, new or empty", "there is something in it already")])
