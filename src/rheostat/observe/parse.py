"""Reads what Spark says in JSON (executors, progress events, stages, offsets, options) into values of the model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from rheostat.model import Batch, Executor, Offsets, PartitionOffsets, RunningBatch, SourceInfo, StageWork
from rheostat.spark.jvm import Position, executor_age, host_of

# Executors, as Spark's REST interface describes them


def parse_executors(listed: Iterable[Mapping[str, Any]]) -> tuple[Executor, ...]:
    """The active executors without the driver, oldest first.

    Times may be milliseconds of the epoch (the driver's status store) or Spark's dates (``…GMT``; REST).

    Raises:
        ValueError: an entry is not understood.
    """
    try:
        found = [_executor(entry) for entry in listed if entry["id"] != "driver" and entry.get("isActive", True)]
    except (KeyError, TypeError, AttributeError) as error:
        message = f"an executor that is not understood: {error!r}"
        raise ValueError(message) from error
    return tuple(sorted(found, key=lambda each: executor_age(each.executor_id)))


def _executor(entry: Mapping[str, Any]) -> Executor:
    return Executor(
        executor_id=entry["id"],
        host=host_of(entry["hostPort"]),
        cores=entry["totalCores"],
        active_tasks=entry["activeTasks"],
        failed_tasks=entry["failedTasks"],
        finished_tasks=entry["completedTasks"] + entry["failedTasks"],
        busy_s=entry["totalDuration"] / 1000,
        added_at=_time(entry["addTime"]),
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
        state_rows=sum(state["numRowsTotal"] for state in states),
        dropped_late=sum(state.get("numRowsDroppedByWatermark", 0) for state in states),
        listing_s=took["latestOffset"] / 1000 if "latestOffset" in took else None,
    )


# Stages of a batch, as Spark's REST interface describes them


MOST_STAGES = 32
"""How many of the newest stages are read. The work of a batch with more of them stays unknown."""


def with_stages(batch: Batch, run_id: str, newest: Sequence[Mapping[str, Any]]) -> Batch:
    """The batch with the work of its stages; unchanged where that is not known.

    Streams give every job of a batch, also one of ``foreachBatch``, a description with run and batch. The work is known
    if its stages have ended and all of them are there: an older batch of the run is too, or fewer than ``MOST_STAGES``.

    Args:
        batch: the last finished one.
        run_id: of its query.
        newest: stages of the application, the newest first, ``MOST_STAGES`` at most.

    Raises:
        ValueError: a stage is not understood.
    """
    try:
        of_run = [each for each in newest if f"runId = {run_id}" in (each["description"] or "")]
        mine = [each for each in of_run if each["description"].rstrip().endswith(f"batch = {batch.batch_id}")]
        whole = len(newest) < MOST_STAGES or (len(of_run) > 0 and of_run[-1] not in mine)
        if not mine or not whole or any(each["completionTime"] is None for each in mine):
            return batch
        spans_ms = [(each["firstTaskLaunchedTime"] or each["submissionTime"], each["completionTime"]) for each in mine]
        work = [StageWork(each["numTasks"], each["executorRunTime"] / 1000) for each in reversed(mine)]
        return replace(batch, work_s=_covered(spans_ms) / 1000, stages=tuple(work) if len(work) > 1 else ())
    except (KeyError, TypeError, AttributeError) as error:
        message = f"a stage that is not understood: {error!r}"
        raise ValueError(message) from error


def _covered(spans: Iterable[tuple[int, int]]) -> int:
    """The length that at least one span covers: 4 of (0, 2), (1, 3) and (5, 6)."""
    whole, reached = 0, 0
    for begin, end in sorted(spans):
        whole += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return whole


# Offsets of sources


_Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Latest:
    """The latest offsets of one source at a time."""

    at: float
    offsets: Mapping[_Key, int]


def partition_map(offset: object) -> dict[_Key, int] | None:
    """An offset in the shape of Kafka's by (topic, partition); None for an offset of another shape.

    >>> partition_map({"orders": {"0": 15, "1": 5}})
    {('orders', 0): 15, ('orders', 1): 5}
    """
    if not isinstance(offset, Mapping) or not offset:
        return None
    found: dict[_Key, int] = {}
    for topic, positions in offset.items():
        if not isinstance(positions, Mapping):
            return None
        for partition, position in positions.items():
            if not (isinstance(partition, str) and partition.isdecimal() and type(position) is int):
                return None
            found[str(topic), int(partition)] = position
    return found


def partition_offsets(latest: Mapping[_Key, int], planned: object, committed: object) -> tuple[PartitionOffsets, ...]:
    """One source's partitions, sorted; ``planned`` and ``committed`` are offsets as Spark writes them.

    A partition that a known offset does not name is new to the query: it will be read from 0. A partition that Spark
    names and that is not among the latest has no latest offset.
    """
    planned_at, committed_at = partition_map(planned), partition_map(committed)
    found = []
    keys: set[_Key] = {*latest, *(planned_at or ()), *(committed_at or ())}
    for key in sorted(keys):
        start = None if committed_at is None else committed_at.get(key, 0)
        end = start if planned_at is None else planned_at.get(key, start or 0)
        if end is not None and start is not None:
            end = max(end, start)
        found.append(PartitionOffsets(*key, latest.get(key), end, start))
    return tuple(found)


def running_batch(position: Position, at: float) -> RunningBatch:
    """The running batch of a query at this position, or that there is none."""
    return RunningBatch(at, position.running, position.batch_id if position.running else None, position.started_s)


def not_a_count(
    partitions: Iterable[PartitionOffsets],
    earliest: Mapping[_Key, int] | None = None,
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


def merged(sources: Iterable[Offsets]) -> Offsets | None:
    """The offsets of all sources of a query as one; a topic that is read twice gets a number (``"orders#2"``)."""
    sources = tuple(sources)
    if len(sources) < 2:
        return sources[0] if sources else None
    times_read: dict[str, int] = {}
    partitions: list[PartitionOffsets] = []
    for offsets in sources:
        times_read.update({topic: times_read.get(topic, 0) + 1 for topic in set(offsets.topics)})
        for each in offsets.partitions:
            number = times_read[each.topic]
            topic = each.topic if number == 1 else f"{each.topic}#{number}"
            partitions.append(PartitionOffsets(topic, each.partition, each.latest, each.planned, each.committed))
    because = next((offsets.inexact_because for offsets in sources if offsets.inexact_because), None)
    ordered = sorted(partitions, key=lambda each: (each.topic, each.partition))
    return Offsets.of(min(offsets.at for offsets in sources), ordered, because is None, because)


# Options of sources, without secrets


LOG_PROVIDER = "rheostat_log"

_SECRET_NAME = re.compile(r"password|passwd|jaas|secret|key|token|credential|certificate|auth", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"(password|secret|token)\s*=|://[^/@\s]+:[^/@\s]*@", re.IGNORECASE)
_CAPS = ("maxOffsetsPerTrigger", "maxRecordsPerTrigger", "maxRowsPerTrigger", "rowsPerBatch")
_NAMES = ("subscribe", "subscribePattern", "assign", "path")


def option(options: Mapping[str, str], name: str) -> str | None:
    """An option by its name, which is not case-sensitive."""
    return next((value for key, value in options.items() if key.lower() == name.lower()), None)


def without_secrets(options: Mapping[str, str]) -> dict[str, str]:
    """The options without those that are, by name or by look, secrets or ways to them."""
    return {
        key: value
        for key, value in sorted(options.items())
        if not _SECRET_NAME.search(key) and not _SECRET_VALUE.search(value)
    }


def source_info(provider: str, options: Mapping[str, str], partitions: int | None = None) -> SourceInfo:
    """Describe a source; the number of partitions is known once its offsets have been read."""
    name = next((value for value in (option(options, key) for key in _NAMES) if value is not None), provider)
    caps = [value.strip() for value in (option(options, key) for key in _CAPS) if value is not None]
    return SourceInfo(
        kind="log" if provider == LOG_PROVIDER else provider,
        name=provider if _SECRET_VALUE.search(name) else name,
        partitions=partitions,
        batch_cap=next((int(cap) for cap in caps if cap.isdecimal()), None),
        options=without_secrets(options),
    )
