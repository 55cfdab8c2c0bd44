"""A real run from its journal: the snapshots, the batches that ended, and the changes of executors.

A snapshot holds only the last batch that had ended, so a run whose batches are shorter than the time between two
snapshots has gaps. Times are seconds of the journal's clock, amounts are records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rheostat.analyze.assess import analysis_settings, analyze
from rheostat.analyze.state import AnalysisState
from rheostat.config.loading import load_settings
from rheostat.errors import Fault, InputError
from rheostat.journal.records import DecisionRecord, Record, SessionRecord
from rheostat.journal.store import read_journal
from rheostat.model import Assessment, Batch, Decision, Observation, QueryReading, SourceInfo
from rheostat.spark.jvm import option_of

_FETCH_WAIT_S = 0.5
"""Kafka's default of fetch.max.wait.ms."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A cycle of a run; None: not known. Offsets in records, summed over the partitions; numbers of executors."""

    at: float
    latest: int | None
    committed: int | None
    lag_s: float | None
    registered: int | None
    requested: int | None

    @property
    def backlog(self) -> int | None:
        return None if self.latest is None or self.committed is None else self.latest - self.committed


@dataclass(frozen=True, slots=True)
class Lifetime:
    """An executor: when it registered, when it was last seen, and when it was first missing (None: never)."""

    added_at: float
    last_seen: float
    missed_at: float | None


@dataclass(frozen=True, slots=True)
class RealBatch:
    """A batch that ended.

    Attributes:
        tasks_s: time of its jobs, with the sink (``addBatch``).
        rest_s: what is neither planning nor jobs: commits and bookkeeping.
        executors: registered when it began; None: not certain.
        joined: seconds from its start at which executors registered while it ran.
        cold: of the executors that were there when it began, those that had not yet seen a batch begin.
        age: batches seen since the number of executors changed last; 0 for the first that began after a change, and for
            one in which executors joined.
        starting_s: executor-seconds of start-ups that fell into it.
        shrunk: whether executors had been removed since the batch before.
    """

    batch_id: int
    start: float
    end: float
    records: int
    planning_s: float
    tasks_s: float
    rest_s: float
    executors: int | None
    joined: tuple[float, ...]
    cold: int
    age: int
    starting_s: float
    shrunk: bool

    @property
    def duration_s(self) -> float:
        """From its trigger to its end."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Setup:
    """The settings of a job that a job file takes over from the journal.

    ``settings``: of the autoscaler, as JSON. ``longest_wait_s``: of a reading task for the next record, as Kafka's
    fetch.max.wait.ms. ``cores``: task slots of an executor.
    """

    settings: dict[str, Any]
    kind: str
    longest_wait_s: float
    trigger_s: float
    partitions: int
    batch_cap: int | None
    cores: int


@dataclass(frozen=True, slots=True)
class RealRun:
    """A run of one query; ``began``: the first decision; ``actions``: decisions that acted.

    ``start_ups``: ``(seconds from the request, executors requested together)`` of each that registered, from the first
    batch on: before it the cluster itself may still be starting.
    """

    name: str
    began: float
    setup: Setup
    snapshots: tuple[Snapshot, ...]
    batches: tuple[RealBatch, ...]
    actions: tuple[Decision, ...]
    start_ups: tuple[tuple[float, int], ...]
    executors: tuple[Lifetime, ...]

    def count_arrived(self, at: Sequence[float]) -> npt.NDArray[np.float64]:
        """Records that had arrived by these times: by the latest offsets, straight lines between snapshots."""
        known = [(snapshot.at, float(snapshot.latest)) for snapshot in self.snapshots if snapshot.latest is not None]
        if not known:
            return np.zeros(len(at))
        found: npt.NDArray[np.float64] = np.interp(at, [when for when, _ in known], [count for _, count in known])
        return found

    def arrival_rate(self, begin: float, end: float) -> float:
        """Records/s that arrived between two times."""
        first, last = self.count_arrived([begin, end])
        return float(last - first) / (end - begin) if end > begin else 0.0


def read_run(path: str | Path) -> RealRun:
    """A run from its journal.

    Raises:
        InputError: there is no journal, it is damaged, or it does not hold a run of one query.
    """
    return run_of(str(path), read_journal(path))


def assess_all(observations: Iterable[Observation], settings: Mapping[str, Any]) -> list[Assessment]:
    """The assessments of consecutive observations under the settings of a run."""
    known = {key: settings[key] for key in ("objective", "rate_window_s") if key in settings}
    rules, state, found = analysis_settings(load_settings({"objective": "lag < 60s", **known})), AnalysisState(), []
    for each in observations:
        assessment, state = analyze(each, state, rules)
        found.append(assessment)
    return found


def relative_error(measured: npt.NDArray[np.float64], simulated: npt.NDArray[np.float64]) -> float:
    """Σ|measured − simulated| ÷ Σ measured where both are known (not NaN); infinite where nothing was measured."""
    known = ~np.isnan(measured) & ~np.isnan(simulated)
    total = float(np.sum(measured[known]))
    return float(np.sum(np.abs(measured[known] - simulated[known]))) / total if total else float("inf")


def run_of(name: str, records: Iterable[Record]) -> RealRun:
    """A run from the records of its journal. Raises InputError: they do not hold a run of one query."""
    records = list(records)
    cycles = [each for each in records if isinstance(each, DecisionRecord) and each.observation is not None]
    sessions = [each for each in records if isinstance(each, SessionRecord)]
    settings = dict(sessions[-1].header.settings) if sessions else {}
    assessments = assess_all((each.observation for each in cycles if each.observation is not None), settings)
    readings = [
        (each, query, assessment)
        for each, assessment in zip(cycles, assessments, strict=True)
        if (query := _query_of(name, each.observation)) is not None
    ]
    finished = _finished_batches(query.batch for _, query, _ in readings)
    if not finished:
        raise InputError([Fault("journal", name, "a journal of a running query", "no finished batch was seen in it")])
    executors = _lifetimes(cycles)
    actions = tuple(each.decision for each in cycles if each.decision.acts)
    starts = _start_ups(actions, executors)
    return RealRun(
        name=name,
        began=cycles[0].at,
        setup=_setup_of(name, settings, [(each, query) for each, query, _ in readings]),
        snapshots=_in_order(_snapshot_of(each.at, query, assessment) for each, query, assessment in readings),
        batches=_batches(finished, executors, starts),
        actions=actions,
        start_ups=tuple((to - since, together) for since, to, together in starts if since > finished[0].at),
        executors=executors,
    )


def _query_of(name: str, observation: Observation | None) -> QueryReading | None:
    queries = observation.queries if observation is not None else ()
    if len(queries) > 1:
        raise InputError([Fault("journal", name, "one query", f"it holds {len(queries)} queries at the same time")])
    return queries[0] if queries else None


def _in_order(snapshots: Iterable[Snapshot]) -> tuple[Snapshot, ...]:
    """Those not older than one before them, as the offsets of a delayed reading can be."""
    kept: list[Snapshot] = []
    for snapshot in snapshots:
        if not kept or snapshot.at >= kept[-1].at:
            kept.append(snapshot)
    return tuple(kept)


def _snapshot_of(at: float, query: QueryReading, assessment: Assessment) -> Snapshot:
    offsets = query.offsets
    latest = committed = None
    if offsets is not None and offsets.exact and None not in offsets.latest and None not in offsets.committed:
        latest, committed = sum(filter(None, offsets.latest)), sum(filter(None, offsets.committed))
    return Snapshot(
        at=at if offsets is None else offsets.at,
        latest=latest,
        committed=committed,
        lag_s=assessment.lag_s,
        registered=assessment.executors,
        requested=assessment.requested,
    )


def _setup_of(name: str, settings: dict[str, Any], readings: Sequence[tuple[DecisionRecord, QueryReading]]) -> Setup:
    query = next((query for _, query in reversed(readings) if query.sources and query.trigger_s is not None), None)
    clusters = [record.observation.cluster for record, _ in readings if record.observation is not None]
    cores = next((each for cluster in clusters if cluster is not None for each in cluster.roster.task_slots), None)
    if not settings or query is None or query.trigger_s is None or cores is None:
        message = "the trigger, the source or the executors are unknown"
        raise InputError([Fault("journal", name, "a journal of a running query", message)])
    caps = [source.batch_cap for source in query.sources]
    return Setup(
        settings=settings,
        kind=query.sources[0].kind,
        longest_wait_s=_longest_wait_s(query.sources[0]),
        trigger_s=query.trigger_s,
        partitions=max(
            [len(query.offsets.topics) if query.offsets else 0, *(each.partitions or 0 for each in query.sources)]
        ),
        batch_cap=None if None in caps else sum(each or 0 for each in caps),
        cores=cores,
    )


def _longest_wait_s(source: SourceInfo) -> float:
    if source.kind != "kafka":
        return 0.0
    given = option_of(source.options, "kafka.fetch.max.wait.ms")
    return float(given) / 1000 if given is not None and given.isdecimal() else _FETCH_WAIT_S


def _finished_batches(batches: Iterable[Batch | None]) -> list[Batch]:
    """Each batch with records once, in order, with all of its times."""
    known = [each for each in batches if each is not None]
    whole = {each.batch_id: each for each in known if each.records and None not in (each.planning_s, each.add_batch_s)}
    return [whole[number] for number in sorted(whole)]


def _lifetimes(cycles: Sequence[DecisionRecord]) -> tuple[Lifetime, ...]:
    found: dict[str, Lifetime] = {}
    for record in cycles:
        if record.observation is None or record.observation.cluster is None:
            continue
        at, roster = record.observation.cluster.at, record.observation.cluster.roster
        for name, added_at in zip(roster.ids, roster.added_at, strict=True):
            begin = found[name].added_at if name in found else at if added_at is None else added_at
            found[name] = Lifetime(begin, at, None)
        for name, life in found.items():
            if name not in roster.ids and life.missed_at is None:
                found[name] = replace(life, missed_at=at)
    return tuple(sorted(found.values(), key=lambda life: life.added_at))


def _start_ups(actions: Sequence[Decision], executors: Sequence[Lifetime]) -> list[tuple[float, float, int]]:
    """``(request, registration, requested together)`` of each executor that came after a request."""
    found = []
    ends = [*(action.at for action in actions[1:]), float("inf")]
    for action, end in zip(actions, ends, strict=False):
        together = (action.target or 0) - (action.current or 0)
        if together > 0:
            came = [life.added_at for life in executors if action.at <= life.added_at < end]
            found += [(action.at, at, together) for at in came[:together]]
    return found


def _batches(
    finished: Sequence[Batch], executors: Sequence[Lifetime], starts: Sequence[tuple[float, float, int]]
) -> tuple[RealBatch, ...]:
    found: list[RealBatch] = []
    for each in finished:
        start = each.at - each.duration_s
        previous = found[-1] if found else None
        there = [life for life in executors if life.added_at <= start and life.last_seen >= start]
        unclear = any(life.last_seen < start < life.missed_at for life in executors if life.missed_at is not None)
        joined = tuple(life.added_at - start for life in executors if start < life.added_at < each.at)
        since = previous.start if previous else float("-inf")
        cold = sum(life.added_at > since for life in there) if previous else len(there)
        before = None if previous is None else (previous.executors or 0) + len(previous.joined)
        gone = before is not None and len(there) < before
        planning_s, tasks_s = each.planning_s or 0.0, each.add_batch_s or 0.0
        found.append(
            RealBatch(
                batch_id=each.batch_id,
                start=start,
                end=each.at,
                records=each.records or 0,
                planning_s=planning_s,
                tasks_s=tasks_s,
                rest_s=max(0.0, each.duration_s - planning_s - tasks_s),
                executors=None if unclear else len(there),
                joined=joined,
                cold=cold - (len(previous.joined) if previous else 0),
                age=0 if joined or cold or gone or previous is None else previous.age + 1,
                starting_s=sum(max(0.0, min(to, each.at) - max(begin, start)) for begin, to, _ in starts),
                shrunk=gone,
            )
        )
    return tuple(found)
