"""Reads what Spark says in JSON (executors, progress events, stages, offsets, options) into values of the model."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from rheostat.config.shedding import WHOLE
from rheostat.model import (
    JUMPS,
    Batch,
    EdgeCount,
    Executor,
    ExecutorWork,
    Offsets,
    PartitionOffsets,
    RunningBatch,
    SourceInfo,
    StageWork,
    add_counts,
)
from rheostat.spark.jvm import Position, executor_age, host_of, option_of
from rheostat.spark.kafka_admin import Place
from rheostat.spark.kafka_offsets import BATCH_KEY, pieces_between, plan_of, positions_of
from rheostat.spark.kafka_options import FORMAT, spark_seconds
from rheostat.spark.keep import COUNTED, count_kept

# Executors, as Spark's REST interface describes them


def _as_it_is(wall: float) -> float:
    return wall


def parse_executors(
    listed: Iterable[Mapping[str, Any]], place: Callable[[float], float] = _as_it_is
) -> tuple[Executor, ...]:
    """The active executors without the driver, oldest first.

    Times may be milliseconds of the epoch (the driver's status store) or Spark's dates (``…GMT``; REST).
    ``place`` turns a time of the wall clock into one of the loop.

    Raises:
        ValueError: an entry is not understood.
    """
    try:
        found = [_executor(entry, place) for entry in listed if entry["id"] != "driver" and entry.get("isActive", True)]
    except (KeyError, TypeError, AttributeError) as error:
        message = f"an executor that is not understood: {error!r}"
        raise ValueError(message) from error
    return tuple(sorted(found, key=lambda each: executor_age(each.executor_id)))


def _executor(entry: Mapping[str, Any], place: Callable[[float], float]) -> Executor:
    cores, slots, gc_ms = entry["totalCores"], entry.get("maxTasks"), entry.get("totalGCTime")
    excluded = entry.get("isExcluded") or entry.get("isBlacklisted") or entry.get("excludedInStages")
    return Executor(
        executor_id=entry["id"],
        host=host_of(entry["hostPort"]),
        cores=cores,
        active_tasks=entry["activeTasks"],
        failed_tasks=entry["failedTasks"],
        finished_tasks=entry["completedTasks"] + entry["failedTasks"],
        busy_s=entry["totalDuration"] / 1000,
        added_at=place(_time(entry["addTime"])),
        slots=None if slots == cores else slots,
        excluded=bool(excluded),
        gc_s=None if gc_ms is None else gc_ms / 1000,
    )


def _time(value: float | str) -> float:
    if isinstance(value, str):
        return datetime.fromisoformat(value.replace("GMT", "+00:00")).timestamp()
    return value / 1000


# Progress events


_PLANNING = ("latestOffset", "getBatch", "queryPlanning", "walCommit")


@dataclass(frozen=True, slots=True)
class Progress:
    """A progress event.

    Attributes:
        batch: None for an event that was sent although no batch ran.
        planned_at: when the batch was planned; the latest offsets are as old.
        latest: latest offset of each source as a JSON value, in the order of the plan; None where Spark gives none.
    """

    batch: Batch | None
    planned_at: float
    latest: tuple[object, ...]


def parse_progress(text: str) -> Progress:
    """Parse a progress event of Spark 4.0 to 4.2. The batch ended at ``timestamp`` + ``triggerExecution``.

    Raises:
        ValueError: it is not understood.
    """
    event = json.loads(text)
    try:
        started = datetime.fromisoformat(event["timestamp"]).timestamp()
        batch = _batch(event, started) if "addBatch" in event["durationMs"] else None
        return Progress(batch, started, tuple(source.get("latestOffset") for source in event["sources"]))
    except (KeyError, TypeError, AttributeError) as error:
        message = f"a progress event that is not understood ({error!r}): {text[:200]}"
        raise ValueError(message) from error


def _batch(event: Mapping[str, Any], started: float) -> Batch:
    took = event["durationMs"]
    states = event.get("stateOperators", [])
    duration = took["triggerExecution"] / 1000
    return Batch(
        at=started + duration,
        batch_id=event["batchId"],
        duration_s=duration,
        planning_s=sum(took.get(part, 0) for part in _PLANNING) / 1000,
        add_batch_s=took["addBatch"] / 1000,
        commit_s=took["commitOffsets"] / 1000 if "commitOffsets" in took else None,
        records=event.get("numInputRows"),
        offsets=_count_offsets(event["sources"]),
        state_rows=sum(state["numRowsTotal"] for state in states),
        dropped_late=sum(state.get("numRowsDroppedByWatermark", 0) for state in states),
        listing_s=took["latestOffset"] / 1000 if "latestOffset" in took else None,
        edges=_count_edges(event),
    )


def _count_edges(event: Mapping[str, Any]) -> tuple[EdgeCount, ...]:
    """The edges of the shedding graph: the first one of a source from its offsets, later ones as Spark counted rows.

    A source that has not moved still shows the plan of an earlier batch.
    """
    keep, found = dict[str, int](), list[EdgeCount]()
    for source in event["sources"]:
        start, end = source.get("startOffset") or {}, source.get("endOffset")
        if not isinstance(end, Mapping) or BATCH_KEY not in end or positions_of(start) == positions_of(end):
            continue
        plan = plan_of(end)
        keep |= plan.keep
        if plan.edge is not None:
            found.append(count_kept(plan.edge, pieces_between(start, end), plan.keep.get(plan.edge, WHOLE)))
    for name, counts in (event.get("observedMetrics") or {}).items():
        edge = name.removeprefix(COUNTED)
        if edge != name:
            values = tuple([float(value) for value in counts.get("values") or ()])
            values = values if all(map(math.isfinite, values)) else ()
            found.append(EdgeCount(edge, keep.get(edge, WHOLE), counts["offered"], counts["kept"], values))
    return add_counts(found)


def _count_offsets(sources: Iterable[Mapping[str, Any]]) -> tuple[int | None, ...]:
    """Offsets from the start to the end of a batch in each source: None where the start of a partition is not told."""
    spans = [(partition_map(source.get("startOffset")), partition_map(source.get("endOffset"))) for source in sources]
    if all(end is None for _, end in spans):
        return ()
    return tuple(
        [
            None
            if start is None or end is None or not start.keys() >= end.keys()
            else sum(max(0, position - start[key]) for key, position in end.items())
            for start, end in spans
        ]
    )


# Stages of a batch, as Spark's REST interface describes them

_BATCH_NUMBER = re.compile(r"runId = \S+\s+batch = (\d+)\s*$")

MOST_STAGES = 32
"""How many of the newest stages, and of the newest jobs, are read. The work of a batch with more stays unknown."""


def with_stages(
    batch: Batch,
    run_id: str,
    stages: Sequence[Mapping[str, Any]],
    jobs: Sequence[Mapping[str, Any]],
    others: Collection[str] = (),
    by_executor: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
) -> Batch:
    """The batch with the work of its stages; unchanged where that is not known.

    A batch's jobs carry the run as job group or in their description, and begin while it runs: ``foreachBatch`` may
    give them another description, or another group. A job with neither that begins and ends within the batch may be
    its own (of a thread of ``foreachBatch``) or not: then the work is unknown, not a part of it. So it is unless every
    stage has ended and all of them are there: an older one is too, or fewer than ``MOST_STAGES``.

    Args:
        batch: a finished one.
        run_id: of its query.
        stages: of the application, the newest first, ``MOST_STAGES`` at most.
        jobs: likewise.
        others: the runs of other queries.
        by_executor: what each executor did of a stage, in the form of its ``executorSummary``; None: not read.

    Raises:
        ValueError: a stage or a job is not understood.
    """
    try:
        ids = _stages_of(batch, run_id, jobs, others)
        mine = [each for each in stages if each["stageId"] in ids and each["status"] != "SKIPPED"]
        whole = len(stages) < MOST_STAGES or stages[-1]["stageId"] < min(ids, default=0)
        if not mine or not whole or any(each["completionTime"] is None for each in mine):
            return batch
        spans_ms = [(each["firstTaskLaunchedTime"] or each["submissionTime"], each["completionTime"]) for each in mine]
        work = [
            StageWork(
                each["numTasks"], each["executorRunTime"] / 1000, _split_work(by_executor(each) if by_executor else {})
            )
            for each in reversed(mine)
        ]
        batch = replace(batch, work_s=_covered(spans_ms) / 1000, stages=tuple(work))
        return batch.with_reads([each.get("inputRecords") for each in reversed(mine)])
    except (KeyError, TypeError, AttributeError) as error:
        message = f"a stage or job that is not understood: {error!r}"
        raise ValueError(message) from error


def _split_work(summary: Mapping[str, Any]) -> tuple[ExecutorWork, ...]:
    return tuple(
        [ExecutorWork(name, each["taskTime"] / 1000, each["inputRecords"]) for name, each in sorted(summary.items())]
    )


def _stages_of(batch: Batch, run_id: str, jobs: Sequence[Mapping[str, Any]], others: Collection[str]) -> frozenset[int]:
    """Ids of the stages of a batch's jobs; empty where these are not known."""
    begin, end = (batch.at - batch.duration_s) * 1000, batch.at * 1000
    if len(jobs) >= MOST_STAGES and jobs[-1]["submissionTime"] >= begin:
        return frozenset()
    ids = set[int]()
    for job in jobs:
        group, text = job["jobGroup"], job["description"] or ""
        began, numbered = job["submissionTime"], _BATCH_NUMBER.search(text)
        during = begin <= began <= end
        if group == run_id or f"runId = {run_id}" in text:
            if int(numbered[1]) == batch.batch_id if numbered else during:
                ids.update(job["stageIds"])
        elif during and group not in others and "runId = " not in text and (job["completionTime"] or 0) <= end:
            return frozenset()
    return frozenset(ids)


def _covered(spans: Iterable[tuple[int, int]]) -> int:
    """The length that at least one span covers: 4 of (0, 2), (1, 3) and (5, 6)."""
    whole, reached = 0, 0
    for begin, end in sorted(spans):
        whole += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return whole


# Offsets of sources


@dataclass(frozen=True, slots=True)
class Latest:
    """The latest offsets of one source at a time."""

    at: float
    offsets: Mapping[Place, int]


def partition_map(offset: object) -> dict[Place, int] | None:
    """An offset in the shape of Kafka's by (topic, partition); None for an offset of another shape.

    >>> partition_map({"orders": {"0": 15, "1": 5}})
    {('orders', 0): 15, ('orders', 1): 5}
    """
    if not isinstance(offset, Mapping) or not offset:
        return None
    found: dict[Place, int] = {}
    for topic, positions in offset.items():
        if topic == BATCH_KEY:
            continue
        if not isinstance(positions, Mapping):
            return None
        for partition, position in positions.items():
            if not (isinstance(partition, str) and partition.isdecimal() and type(position) is int):
                return None
            found[str(topic), int(partition)] = position
    return found


def partition_offsets(
    latest: Mapping[Place, int], planned: object, committed: object, earliest: Mapping[Place, int]
) -> tuple[PartitionOffsets, ...]:
    """One source's partitions, sorted; ``planned`` and ``committed`` are offsets as Spark writes them.

    A partition that a known offset does not name is new to the query: it will be read from its earliest offset. A
    partition that Spark names and that is not among the latest has no latest offset; a topic of which none is among
    them has been deleted.
    """
    planned_at, committed_at = partition_map(planned), {} if committed == {} else partition_map(committed)
    found = []
    topics = {topic for topic, _ in latest}
    keys: set[Place] = {key for key in (*latest, *(planned_at or ()), *(committed_at or ())) if key[0] in topics}
    for key in sorted(keys):
        start = None if committed_at is None else committed_at.get(key, earliest.get(key))
        end = start if planned_at is None else planned_at.get(key, start)
        if end is not None and start is not None:
            end = max(end, start)
        found.append(PartitionOffsets(*key, latest.get(key), end, start))
    return tuple(found)


def new_partitions(latest: Iterable[Place], committed: object) -> set[Place]:
    """Partitions that a known committed offset does not name."""
    return set() if committed is None else set(latest).difference(partition_map(committed) or ())


def skip_deleted(partitions: Iterable[PartitionOffsets], earliest: Mapping[Place, int]) -> tuple[PartitionOffsets, ...]:
    """The partitions with positions that can still be read: what was deleted before it was read never will be."""
    found = []
    for each in partitions:
        first = earliest.get((each.topic, each.partition), 0)
        if each.committed is not None and each.committed < first <= (each.latest or 0):
            planned = None if each.planned is None else max(each.planned, first)
            each = each._replace(committed=first, planned=planned)
        found.append(each)
    return tuple(found)


def running_batch(position: Position, at: float, place: Callable[[float], float] = _as_it_is) -> RunningBatch:
    """The running batch of a query at this position, or that there is none; ``place`` as for executors."""
    since = None if position.started_s is None else place(position.started_s)
    return RunningBatch(at, position.running, position.batch_id if position.running else None, since)


def not_a_count(
    partitions: Iterable[PartitionOffsets],
    earliest: Mapping[Place, int] | None = None,
    compacted: frozenset[str] = frozenset(),
) -> str | None:
    """Why differences of these offsets are not a count of records, as far as the offsets show; None: they are.

    Args:
        partitions: of one source.
        earliest: offsets of the oldest records that are still there; None: unknown.
        compacted: topics with compaction.
    """
    for each in partitions:
        if each.committed is None or each.latest is None:
            continue
        if each.latest < each.committed:
            return "topic recreated"
        if earliest is not None and earliest.get((each.topic, each.partition), 0) > each.committed:
            return "retention"
        if each.topic in compacted:
            return "compaction"
    return None


def tell_apart(sources: Iterable[Offsets]) -> tuple[Offsets, ...]:
    """The offsets of the sources of a query; a topic that was read before gets a number (``"orders#2"``)."""
    times_read: dict[str, int] = {}
    found = []
    for offsets in sources:
        times_read.update({topic: times_read.get(topic, 0) + 1 for topic in set(offsets.topics)})
        names = {topic: topic if times_read[topic] == 1 else f"{topic}#{times_read[topic]}" for topic in offsets.topics}
        found.append(replace(offsets, topics=tuple([names[topic] for topic in offsets.topics])))
    return tuple(found)


def merged(sources: Iterable[Offsets]) -> Offsets | None:
    """The offsets of all sources of a query as one; see :func:`tell_apart`."""
    sources = tell_apart(sources)
    if len(sources) < 2:
        return sources[0] if sources else None
    partitions = [each for offsets in sources for each in offsets.partitions]
    reasons = {offsets.inexact_because for offsets in sources if offsets.inexact_because}
    because = min(reasons, key=lambda reason: (reason not in JUMPS, reason), default=None)
    ordered = sorted(partitions, key=lambda each: (each.topic, each.partition))
    return Offsets.of(min(offsets.at for offsets in sources), ordered, because is None, because)


# Options of sources, without secrets


LOG_PROVIDER = "rheostat_log"
KAFKA_PROVIDERS = ("kafka", FORMAT)

_FILES = frozenset({"avro", "binaryfile", "csv", "json", "orc", "parquet", "text", "xml"})
_UNCOUNTABLE = _FILES | {"delta", "rate", "rate-micro-batch", "socket"}


def is_uncountable(provider: str, offsets: Iterable[object] = ()) -> bool:
    """Whether it can never be known how many records wait in a source, by its name or by offsets of it.

    Offsets of files, Delta tables and the like count files, versions or seconds.

    >>> is_uncountable("rate"), is_uncountable("kafka"), is_uncountable("tableflow", [{"version": 7}])
    (True, False, True)
    """
    if provider in (*KAFKA_PROVIDERS, LOG_PROVIDER):
        return False
    strange = any(partition_map(offset) is None for offset in offsets if offset not in (None, {}))
    return strange or provider.lower() in _UNCOUNTABLE


_SECRET_NAME = re.compile(r"password|passwd|jaas|secret|key|token|credential|certificate|auth", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"(password|secret|token)\s*=|://[^/@\s]+:[^/@\s]*@", re.IGNORECASE)
_CAPS = ("maxOffsetsPerTrigger", "maxRecordsPerTrigger", "maxRowsPerTrigger", "rowsPerBatch")
_NAMES = ("subscribe", "subscribePattern", "assign", "path")


def without_secrets(options: Mapping[str, str]) -> dict[str, str]:
    """The options without those that are, by name or by look, secrets or ways to them."""
    return {
        key: value
        for key, value in sorted(options.items())
        if not _SECRET_NAME.search(key) and not _SECRET_VALUE.search(value)
    }


def source_info(provider: str, options: Mapping[str, str], offsets: Offsets | None = None) -> SourceInfo:
    """Describe a source; partitions and topics are known once its offsets have been read."""
    name = next((value for value in (option_of(options, key) for key in _NAMES) if value is not None), provider)
    caps = [value.strip() for value in (option_of(options, key) for key in _CAPS) if value is not None]
    least = (option_of(options, "minOffsetsPerTrigger") or "").strip()
    waits = provider in KAFKA_PROVIDERS and least.isdecimal() and int(least) > 0
    return SourceInfo(
        kind="log" if provider == LOG_PROVIDER else provider,
        name=provider if _SECRET_VALUE.search(name) else name,
        partitions=None if offsets is None else len(offsets.topics),
        batch_cap=next((int(cap) for cap in caps if cap.isdecimal()), None),
        options=without_secrets(options),
        topics=() if offsets is None else tuple(dict.fromkeys(offsets.topics)),
        min_offsets=int(least) if waits else None,
        max_delay_s=spark_seconds(option_of(options, "maxTriggerDelay") or "15m") if waits else None,
    )
