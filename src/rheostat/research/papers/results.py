"""What an experiment says: statements of the document, with our figures beside its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from rheostat.config.models import Settings
from rheostat.decide.decide import DecisionSettings
from rheostat.journal.records import DecisionRecord, Header, OutcomeRecord, Record
from rheostat.journal.store import States, StateStore
from rheostat.judge.simulate import SimulatedTime, unready_at_end
from rheostat.learn.slow_records import Sample
from rheostat.load.curves import Pieces
from rheostat.loop.build import build_decision_settings
from rheostat.loop.loop import Loop
from rheostat.model import ReasonCode
from rheostat.policies.capacity import Learned, slow_records
from rheostat.policies.proactive import ProactiveState, gathered
from rheostat.sample_store import MemorySampleStore
from rheostat.sim.job import SimulatedJob
from rheostat.sim.jobfile import JobFile

# One policy on one simulated job, look by look: what was seen, what was decided, and what the policy knew at the end.


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
    code: ReasonCode
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
    archive, witness, store = MemorySampleStore(), _Witness(interval_s), _Kept(None)
    deciding = build_decision_settings(settings, archive)
    store.state = None if begin is None else begun(deciding, begin)
    time = SimulatedTime(lambda _, later: later > load.duration)
    loop = Loop(simulated, deciding, simulated, witness, time, settings, store=store, job=job.name)
    loop.run()
    simulated.close()
    ended = deciding.state_from_json(store.state or {}).policy
    rows = _collected(ended, archive) if isinstance(ended, ProactiveState) else ()
    unready = unready_at_end(loop, [look.code for look in witness.looks])
    return Trial(tuple(witness.looks), ended, tuple(rows), loop.status().failures, unready)


def _collected(policy: ProactiveState, archive: MemorySampleStore) -> Sequence[Sample]:
    return gathered(replace(policy.data, since=None), archive, _ALL)


def begun(deciding: DecisionSettings, policy: Any) -> Mapping[str, Any]:
    """The state of a loop that has seen nothing, but whose policy has."""
    return deciding.state_to_json(replace(deciding.initial(), policy=policy))


SCHEMA = "rheostat.experiment/1"
_LISTED = ("id", "statement", "ours", "document", "holds", "why")
_MOST_SEEDS = 0.8


class Seen(NamedTuple):
    """What was seen with one seed.

    Attributes:
        ours: the figures, in words.
        holds: whether the statement is to be seen in them.
    """

    seed: int
    ours: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Result:
    """One statement.

    Attributes:
        id: section of the document, and a word.
        statement: what is to be seen.
        ours, document: the figures, in words; None: there is none.
        holds: whether it is to be seen in ours; of several seeds, in four of five or more.
        why: what explains the difference, or how it was made.
        by_seed: what was seen with each seed, where there are several.
    """

    id: str
    statement: str
    ours: str | None
    document: str | None
    holds: bool
    why: str
    by_seed: tuple[Seen, ...] = ()


@dataclass(frozen=True)
class Part:
    """One of the document's experiments.

    Attributes:
        title: its section and its subject.
        results: what it showed.
        trials: runs of one seed that it was seen in, by name.
        shares: whether w ÷ w_max is plotted against the executors (figure 36 of S1).
    """

    title: str
    results: Sequence[Result]
    trials: dict[str, Trial] = field(default_factory=dict)
    shares: bool = False


@dataclass(frozen=True)
class Experiment:
    """All parts that were run.

    Attributes:
        seeds: of all that is random; the plots show the first.
    """

    name: str
    parts: Sequence[Part]
    seeds: Sequence[int] = (1,)

    @property
    def results(self) -> list[Result]:
        """Every statement, in order."""
        return [result for part in self.parts for result in part.results]

    @property
    def notes(self) -> list[str]:
        """What policies never did in the runs of the first seed, and what they would have needed."""
        trials = [(part.title, name, trial) for part in self.parts for name, trial in part.trials.items()]
        return [f"{title}, {name}: {trial.unready}" for title, name, trial in trials if trial.unready is not None]

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        listed = [{name: getattr(result, name) for name in _LISTED} for result in self.results]
        by_seed = [{"id": result.id, **seen._asdict()} for result in self.results for seen in result.by_seed]
        return {
            "schema": SCHEMA,
            "name": self.name,
            "results": listed,
            "seeds": list(self.seeds),
            "by_seed": by_seed,
            "notes": self.notes,
        }


def over_seeds(result: Result, seen: Sequence[Seen]) -> Result:
    """The same statement over several seeds: it holds if it does with at least four of five of them.

    Args:
        result: with the means as ``ours``.
        seen: what was seen with each seed, at least one.

    >>> once = Result("5.3 x", "it is less", "1.5", None, False, "")
    >>> found = over_seeds(once, [Seen(1, "1", True), Seen(2, "2", False)])
    >>> found.ours, found.holds
    ('1.5; in 1 of 2 seeds', False)
    """
    held = sum(each.holds for each in seen)
    if len(seen) == 1:
        return replace(result, ours=seen[0].ours, holds=seen[0].holds)
    ours = f"{result.ours}; in {held} of {len(seen)} seeds"
    return replace(result, ours=ours, holds=held >= _MOST_SEEDS * len(seen), by_seed=tuple(seen))
