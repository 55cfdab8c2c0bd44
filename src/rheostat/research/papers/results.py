"""Experiments of the papers: each statement of a document, with our figures beside its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from rheostat.config.models import Settings
from rheostat.decide.decide import DecisionSettings
from rheostat.journal.records import DecisionRecord, Header, OutcomeRecord, Record
from rheostat.journal.store import States, StateStore
from rheostat.judge.crew import crew
from rheostat.judge.simulate import SimulatedTime, unready_at_end
from rheostat.learn.slow_records import Sample
from rheostat.load.curves import Pieces
from rheostat.loop.build import build_decision_settings
from rheostat.loop.loop import Loop
from rheostat.model import ReasonCode
from rheostat.policies.capacity import Learned, slow_records
from rheostat.policies.proactive import ProactiveState, read_rows
from rheostat.sample_store import MemorySampleStore
from rheostat.sim.job import SimulatedJob
from rheostat.sim.jobfile import JobFile

# ----------------------------------------------------------------------------------- statements and their results

SCHEMA = "rheostat.experiment/1"
_LISTED = ("id", "statement", "ours", "document", "holds", "why")
_REQUIRED_SHARE = 0.8
"""Share of the seeds in which a statement must hold."""


class SeedResult(NamedTuple):
    """Figures of one seed in words, and whether the statement holds in them."""

    seed: int
    ours: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Result:
    """One statement.

    Attributes:
        id: section of the document, and a word.
        ours, document: figures in words; None: there are none.
        why: explains a difference, or how the figure was obtained.
        by_seed: empty for a single seed.
    """

    id: str
    statement: str
    ours: str | None
    document: str | None
    holds: bool
    why: str
    by_seed: tuple[SeedResult, ...] = ()


Figures = tuple[float | None, ...]


class Statement(NamedTuple):
    """A statement that is checked in the runs of each seed.

    Attributes:
        words: our figures in words, with a place for each.
        check: takes the runs of one seed; whether the statement holds, and the figures (None: there is none).
        number: formats a figure before it goes into ``words``.
    """

    id: str
    statement: str
    document: str | None
    why: str
    words: str
    check: Callable[[Any], tuple[bool, Figures]]
    number: Callable[[float | None], object] = lambda value: value

    def judge(self, runs: Mapping[int, Any]) -> Result:
        """Result over all seeds; ``runs``: by seed."""
        checked = {seed: self.check(each) for seed, each in runs.items()}
        by_seed = [SeedResult(seed, self._say(figures), holds) for seed, (holds, figures) in checked.items()]
        means = tuple(map(_mean, zip(*(figures for _, figures in checked.values()), strict=True)))
        result = Result(self.id, self.statement, self._say(means), self.document, holds=False, why=self.why)
        return judge_seeds(result, by_seed)

    def _say(self, figures: Figures) -> str:
        return self.words.format(*map(self.number, figures))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def judge_seeds(result: Result, by_seed: Sequence[SeedResult]) -> Result:
    """A statement over several seeds: it holds if it does in at least four of five of them.

    Args:
        result: with the means as ``ours``.
        by_seed: at least one.

    >>> once = Result("5.3 x", "it is less", "1.5", None, False, "")
    >>> result = judge_seeds(once, [SeedResult(1, "1", True), SeedResult(2, "2", False)])
    >>> result.ours, result.holds
    ('1.5; in 1 of 2 seeds', False)
    """
    if len(by_seed) == 1:
        return replace(result, ours=by_seed[0].ours, holds=by_seed[0].holds)
    held = sum(each.holds for each in by_seed)
    ours = f"{result.ours}; in {held} of {len(by_seed)} seeds"
    return replace(result, ours=ours, holds=held >= _REQUIRED_SHARE * len(by_seed), by_seed=tuple(by_seed))


@dataclass(frozen=True)
class Part:
    """One of the document's experiments.

    Attributes:
        trials: runs of the first seed, by name.
        shares: whether w ÷ w_max is plotted against the executors (figure 36 of S1).
    """

    title: str
    results: Sequence[Result]
    trials: dict[str, Trial] = field(default_factory=dict)
    shares: bool = False


@dataclass(frozen=True)
class Experiment:
    """All parts that were run; the plots show the first seed."""

    name: str
    parts: Sequence[Part]
    seeds: Sequence[int] = (1,)

    @property
    def results(self) -> list[Result]:
        """All statements, in order."""
        return [result for part in self.parts for result in part.results]

    @property
    def notes(self) -> list[str]:
        """What policies never did in the runs of the first seed, and what they would have needed."""
        trials = [(part.title, name, trial) for part in self.parts for name, trial in part.trials.items()]
        return [f"{title}, {name}: {trial.unready}" for title, name, trial in trials if trial.unready is not None]

    def to_json(self) -> dict[str, Any]:
        """Value of ``--json``."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "results": [{name: getattr(result, name) for name in _LISTED} for result in self.results],
            "seeds": list(self.seeds),
            "by_seed": [{"id": result.id, **seed._asdict()} for result in self.results for seed in result.by_seed],
            "notes": self.notes,
        }


Task = TypeVar("Task")
Done = TypeVar("Done")


def run_tasks(
    work: Callable[[Task], Done], tasks: Sequence[Task], jobs: int, watch: Callable[[int, int, str], None]
) -> list[Done]:
    """Results of ``work`` for each task, in their order, computed in ``jobs`` processes."""
    done: dict[int, Done] = {}
    with crew(work, jobs, len(tasks)) as workers:
        for place, result in workers.results(tasks):
            done[place] = result
            watch(len(done), len(tasks), "runs")
    return [done[place] for place in range(len(tasks))]


# ------------------------------------------------------------------------- one policy on one simulated job, in full

_ALL = 10**9


class Cycle(NamedTuple):
    """One cycle of the loop.

    Attributes:
        at: s from the start of the load.
        rate: arrival rate, records/s; None: unknown.
        executors: current target.
        slow: slow records, a share; None: unknown or unbounded.
        counts: whether the policy counted the sample: not in a hold, nothing missing.
        code: reason of the policy's recommendation.
        target: number decided.
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


def cycle_of(record: Record, interval_s: float) -> Cycle | None:
    """A journal record as a cycle; None without an assessment or a current number. ``interval_s``: T."""
    if not isinstance(record, DecisionRecord) or record.assessment is None or record.decision.current is None:
        return None
    assessment, decision = record.assessment, record.decision
    slow = None
    if assessment.backlog_excess is not None and assessment.arrival_rate:
        slow = slow_records(assessment.backlog_excess, assessment.arrival_rate, interval_s)
    reason = decision.recommendation.reason
    return Cycle(
        at=record.at,
        rate=assessment.arrival_rate,
        executors=record.decision.current,
        slow=slow,
        counts=reason.code is not ReasonCode.METRICS_MISSING,
        code=reason.code,
        target=decision.target or 0,
        figures=reason.figures,
    )


@dataclass(frozen=True)
class Trial:
    """A finished run.

    Attributes:
        cycles: all, in order.
        policy: the policy's state at the end.
        samples: all that the policy collected, also before a change point.
        failures: failed cycles; 0 for a sound policy.
        unready: what the policy never did, and what it would have needed; None: it was ready.
    """

    cycles: tuple[Cycle, ...]
    policy: Any
    samples: tuple[Sample, ...]
    failures: int
    unready: str | None = None

    @property
    def counted(self) -> tuple[Cycle, ...]:
        """Cycles that count, as in the document's figures: without those of a hold."""
        return tuple(cycle for cycle in self.cycles if cycle.counts)

    @property
    def executors_per_sample(self) -> float:
        """Mean number of executors over the counted cycles."""
        return sum(cycle.executors for cycle in self.counted) / len(self.counted)

    @property
    def w_max(self) -> float | None:
        """Records/s of one executor, as the policy learned it by the document's rule; None: it has not."""
        explorer = getattr(self.policy, "reactive", self.policy)
        learned: Learned | None = getattr(explorer, "learned", None)
        return None if learned is None else learned.w_max

    def violations(self, sla: float) -> int:
        """Number of counted cycles with at least this share of slow records."""
        return sum(cycle.slow is not None and cycle.slow >= sla for cycle in self.counted)


class _CycleJournal:
    """A journal in memory that keeps only cycles."""

    def __init__(self, interval_s: float) -> None:
        self.cycles: list[Cycle] = []
        self.last_id = 0
        self._interval_s = interval_s

    def start(self, header: Header, note: str | None = None) -> None:
        pass

    def record(self, record: DecisionRecord | OutcomeRecord, states: States) -> None:  # noqa: ARG002
        cycle = cycle_of(record, self._interval_s)
        self.cycles += [] if cycle is None else [cycle]

    def close(self) -> None:
        pass


class _MemoryStateStore(StateStore):
    def __init__(self, state: Mapping[str, Any] | None) -> None:
        self.state = state

    def save(self, state: Mapping[str, Any]) -> None:
        self.state = state

    def load(self) -> tuple[Mapping[str, Any] | None, str | None]:
        return self.state, None


def run(
    job: JobFile, load: Pieces, settings: Settings, *, executors: int, seed: int, interval_s: float, begin: Any = None
) -> Trial:
    """Run the loop over the whole load, from ``executors`` on.

    ``seed``: of the job's random draws. ``interval_s``: T of the slow records. ``begin``: the policy's state to begin
    with; None: its initial one.
    """
    simulated, samples, journal = (
        SimulatedJob(job, load, seed, executors),
        MemorySampleStore(),
        _CycleJournal(interval_s),
    )
    deciding = build_decision_settings(settings, samples)
    store = _MemoryStateStore(None if begin is None else initial_state(deciding, begin))
    time = SimulatedTime(lambda _, later: later > load.duration)
    loop = Loop(simulated, deciding, simulated, journal, time, settings, store=store, job=job.name)
    loop.run()
    simulated.close()
    policy = deciding.state_from_json(store.state or {}).policy
    collected = read_rows(replace(policy.data, since=None), samples, _ALL) if isinstance(policy, ProactiveState) else ()
    unready = unready_at_end(loop, [cycle.code for cycle in journal.cycles])
    return Trial(tuple(journal.cycles), policy, tuple(collected), loop.status().failures, unready)


def initial_state(deciding: DecisionSettings, policy: Any) -> Mapping[str, Any]:
    """State of a loop that has observed nothing yet, with this state of its policy."""
    return deciding.state_to_json(replace(deciding.initial(), policy=policy))
