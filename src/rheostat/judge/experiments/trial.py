"""One policy on one simulated job, look by look: what was seen, what was decided, and what the policy knew at the end.

It is the production loop on the simulated job, as in :mod:`rheostat.judge.simulate`. What the loop writes into its
journal is kept as rows; where it keeps its state, the policy's is taken from, and given to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from rheostat.archive import MemoryArchive
from rheostat.config import Settings
from rheostat.journal import DecisionRecord, Header, OutcomeRecord, Record, States, StateStore
from rheostat.judge.simulate import unready_at_end
from rheostat.judge.simulated_time import SimulatedTime
from rheostat.learn.samples import Sample
from rheostat.load.curves import Pieces
from rheostat.loop import Loop, build_planner
from rheostat.loop.memory import Memory
from rheostat.model import Code
from rheostat.plan import Planner
from rheostat.plan.capacity import Learned, slow_records
from rheostat.plan.collector import gathered
from rheostat.plan.proactive import ProactiveState
from rheostat.sim.job import SimulatedJob
from rheostat.sim.jobfile import JobFile

__all__ = ["Look", "Trial", "begun", "look_of", "run"]

_ALL = 10**9
_UNCOUNTED = "this sample does not count"


class Look(NamedTuple):
    """One sample.

    Attributes:
        at: s from the start of the load.
        rate: records/s that arrive; None: not known yet.
        executors: in force.
        slow: slow records, a share; None: not known, or without bound.
        counts: whether it counted for the policy: not in a hold, nothing missing.
        code: why the policy proposed what it did.
        target: what was decided.
        figures: of that reason.
    """

    at: float
    rate: float | None
    executors: int
    slow: float | None
    counts: bool
    code: Code
    target: int
    figures: Mapping[str, float | None]


def look_of(record: Record, interval_s: float) -> Look | None:
    """The row of a journal's record; None for one that is no decision, or one made blindly. ``interval_s``: T."""
    if not isinstance(record, DecisionRecord) or record.assessment is None or record.decision.current is None:
        return None
    seen, decision = record.assessment, record.decision
    proposed = decision.recommendation
    slow = None
    if seen.backlog_excess is not None and seen.arrival_rate:
        slow = slow_records(seen.backlog_excess, seen.arrival_rate, interval_s)
    return Look(
        at=record.at,
        rate=seen.arrival_rate,
        executors=decision.current or 0,
        slow=slow,
        counts=not proposed.reason.text.startswith(_UNCOUNTED),
        code=proposed.reason.code,
        target=decision.target or 0,
        figures=proposed.reason.figures,
    )


@dataclass
class _Witness:
    """A journal that keeps rows for plots and figures."""

    interval_s: float
    looks: list[Look] = field(default_factory=list)
    last_id: int = 0

    def start(self, header: Header, note: str | None = None) -> None:
        """The run is one session."""

    def record(self, record: DecisionRecord | OutcomeRecord, states: States) -> None:  # noqa: ARG002
        """Keep a row of each decision."""
        look = look_of(record, self.interval_s)
        if look is not None:
            self.looks.append(look)

    def close(self) -> None:
        """Nothing is to be given free."""


class _Kept(StateStore):
    """The state in memory: what a run begins with, and what it ends with."""

    def __init__(self, begin: Mapping[str, Any] | None) -> None:
        self.state = begin

    def save(self, state: Mapping[str, Any]) -> None:
        """Keep the newest."""
        self.state = state

    def load(self) -> tuple[Mapping[str, Any] | None, str | None]:
        """What it begins with."""
        return self.state, None


@dataclass(frozen=True)
class Trial:
    """A finished run.

    Attributes:
        looks: every sample, in order.
        policy: the policy's state at the end.
        rows: all that it has collected, also before a change point, wherever it keeps it.
        failures: cycles that failed; of a sound policy none does.
        unready: what the policy never did, and what it would have needed; None: it was ready.
    """

    looks: tuple[Look, ...]
    policy: Any
    rows: tuple[Sample, ...]
    failures: int
    unready: str | None = None

    @property
    def counted(self) -> tuple[Look, ...]:
        """Samples that count, as the document's figures show them: those of a hold are left out."""
        return tuple(look for look in self.looks if look.counts)

    @property
    def executors_per_sample(self) -> float:
        """Mean number in force over the samples that count."""
        return sum(look.executors for look in self.counted) / len(self.counted)

    @property
    def w_max(self) -> float | None:
        """Records/s of one executor, as the policy has learned them by the document's rule; None: it has not."""
        explorer = getattr(self.policy, "reactive", self.policy)
        learned: Learned | None = getattr(explorer, "learned", None)
        return None if learned is None else learned.w_max

    def violations(self, sla: float) -> int:
        """Samples that count with so many slow records or more."""
        return sum(look.slow is not None and look.slow >= sla for look in self.counted)


def run(
    job: JobFile,
    load: Pieces,
    settings: Settings,
    *,
    executors: int,
    seed: int,
    interval_s: float,
    begin: Any = None,
) -> Trial:
    """Run the loop over the whole load.

    Args:
        job: what is scaled.
        load: what it has to do.
        settings: of the loop.
        executors: at the start.
        seed: of the job's chance.
        interval_s: T of the slow records.
        begin: the policy's state to begin with; None: its initial one.
    """
    simulated = SimulatedJob(job, load, seed, executors)
    archive, witness, store = MemoryArchive(), _Witness(interval_s), _Kept(None)
    planner = build_planner(settings, archive)
    store.state = None if begin is None else begun(planner, begin)
    time = SimulatedTime(lambda _, later: later > load.duration)
    loop = Loop(simulated, planner, simulated, witness, time, settings, store=store, job=job.name)
    loop.run()
    simulated.close()
    ended = planner.state_adapter.validate_python((store.state or {})["plan"]).policy
    rows = _collected(ended, archive) if isinstance(ended, ProactiveState) else ()
    unready = unready_at_end(loop, [look.code for look in witness.looks])
    return Trial(tuple(witness.looks), ended, tuple(rows), loop.status().failures, unready)


def _collected(policy: ProactiveState, archive: MemoryArchive) -> Sequence[Sample]:
    return gathered(replace(policy.data, since=None), archive, _ALL)


def begun(planner: Planner, policy: Any) -> Mapping[str, Any]:
    """The state of a loop that has seen nothing, but whose policy has."""
    memory = Memory.initial(planner)
    return replace(memory, plan=replace(memory.plan, policy=policy)).to_json(planner)
