"""Executors as Spark's REST interface describes them (JSON) → :class:`~rheostat.model.Executor`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from rheostat.model import Batch, Executor, Offsets, PartitionOffsets, SourceInfo, StageWork
from rheostat.spark.jvm import host_of


def parse_executors(listed: Iterable[Mapping[str, Any]]) -> tuple[Executor, ...]:
    """The active executors without the driver, those with numbers for ids in their order.

    Times may be milliseconds of the epoch (the driver's status store) or Spark's dates (``…GMT``; REST).

    Raises:
        ValueError: an entry is not understood.
    """
    try:
        found = [_executor(entry) for entry in listed if entry["id"] != "driver" and entry.get("isActive", True)]
    except (KeyError, TypeError, AttributeError) as error:
        message = f"an executor that is not understood: {error!r}"
        raise ValueError(message) from error
    return tuple(sorted(found, key=_order))


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


def _order(executor: Executor) -> tuple[int, str]:
    return (int(executor.executor_id) if executor.executor_id.isdecimal() else 0, executor.executor_id)


# Spark's progress events (JSON) → :class:`~rheostat.model.Batch`.


_PLANNING = ("latestOffset", "getBatch", "queryPlanning", "walCommit")


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """What a progress event says of one source; offsets as JSON values, None where Spark gives none."""

    end: object
    latest: object


@dataclass(frozen=True, slots=True)
class Progress:
    """A progress event.

    Attributes:
        batch: None for an event that was sent although no batch ran.
        planned_at: when the batch was planned; the latest offsets of the sources are as old.
        sources: in the order of the plan.
    """

    batch: Batch | None
    planned_at: float
    sources: tuple[SourceProgress, ...]


def parse_progress(text: str) -> Progress:
    """Read a progress event of Spark 4.0 to 4.2. The batch ended at ``timestamp`` + ``triggerExecution``.

    Raises:
        ValueError: it is not understood.
    """
    event = json.loads(text)
    try:
        return _progress(event)
    except (KeyError, TypeError, AttributeError) as error:
        message = f"a progress event that is not understood ({error!r}): {text[:200]}"
        raise ValueError(message) from error


def _progress(event: Mapping[str, Any]) -> Progress:
    started = datetime.fromisoformat(event["timestamp"]).timestamp()
    sources = tuple(SourceProgress(source.get("endOffset"), source.get("latestOffset")) for source in event["sources"])
    batch = _batch(event, started) if "addBatch" in event["durationMs"] else None
    return Progress(batch, started, sources)


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
    )


# What the stages of a batch did, as Spark's REST interface describes them (JSON), added to the batch.


MOST_STAGES = 32
"""How many stages, the newest, are looked at. What a batch with more of them did stays unknown."""


def with_stages(batch: Batch, run_id: str, newest: Sequence[Mapping[str, Any]]) -> Batch:
    """The batch with what its stages did; unchanged where that is not known.

    Streams give every job of a batch, also one of ``foreachBatch``, a description with run and batch. What a batch did
    is known if its stages have ended, and all of them are there: an older batch of the run is too, or fewer stages than
    were asked for.

    Args:
        batch: the last finished one.
        run_id: of its query.
        newest: stages of the application, the newest first, ``MOST_STAGES`` at most.

    Raises:
        ValueError: a stage is not understood.
    """
    try:
        ours = [each for each in newest if f"runId = {run_id}" in (each["description"] or "")]
        mine = [each for each in ours if each["description"].rstrip().endswith(f"batch = {batch.batch_id}")]
        whole = len(newest) < MOST_STAGES or (len(ours) > 0 and ours[-1] not in mine)
        if not mine or not whole or any(each["completionTime"] is None for each in mine):
            return batch
        spans_ms = [(each["firstTaskLaunchedTime"] or each["submissionTime"], each["completionTime"]) for each in mine]
        work = [StageWork(each["numTasks"], each["executorRunTime"] / 1000) for each in reversed(mine)]
        return replace(batch, work_s=_covered(spans_ms) / 1000, stages=tuple(work) if len(work) > 1 else ())
    except (KeyError, TypeError, AttributeError) as error:
        message = f"a stage that is not understood: {error!r}"
        raise ValueError(message) from error


def _covered(spans: Iterable[tuple[int, int]]) -> int:
    """How much at least one of them covers.

    >>> _covered([(0, 2), (1, 3), (5, 6)])
    4
    """
    whole, reached = 0, 0
    for begin, end in sorted(spans):
        whole += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return whole


# Offsets of sources, as Spark writes them in JSON, → :class:`~rheostat.model.PartitionOffsets`.


_Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Latest:
    """The latest offsets of one source, and when they were so."""

    at: float
    offsets: Mapping[_Key, int]


def partition_map(offset: object) -> dict[_Key, int] | None:
    """An offset in the shape of Kafka's, by (topic, partition); None for an offset of another shape.

    >>> partition_map({"orders": {"0": 15, "1": 5}})
    {('orders', 0): 15, ('orders', 1): 5}
    >>> partition_map(7) is None
    True
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

    A partition that Spark does not name yet, in an offset that is known, is new to it: it will be read from 0.
    A partition that Spark names and that is not among the latest has no latest offset.
    """
    planned_at, committed_at = partition_map(planned), partition_map(committed)
    keys = sorted({*latest, *(planned_at or ()), *(committed_at or ())})
    return tuple(_partition(key, latest, planned_at, committed_at) for key in keys)


def _partition(
    key: _Key, latest: Mapping[_Key, int], planned: Mapping[_Key, int] | None, committed: Mapping[_Key, int] | None
) -> PartitionOffsets:
    committed_at = None if committed is None else committed.get(key, 0)
    planned_at = committed_at if planned is None else planned.get(key, committed_at or 0)
    if planned_at is not None and committed_at is not None:
        planned_at = max(planned_at, committed_at)
    return PartitionOffsets(*key, latest.get(key), planned_at, committed_at)


def not_a_count(
    partitions: Iterable[PartitionOffsets], earliest: Mapping[_Key, int], compacted: frozenset[str]
) -> str | None:
    """Why differences of these offsets are not a count of records, as far as the offsets tell.

    ``earliest`` and ``compacted`` may be empty where they are not known.
    """
    for found in partitions:
        if found.committed is None or found.latest is None:
            continue
        if found.latest < found.committed:
            return "topic recreated"
        if earliest.get((found.topic, found.partition), 0) > found.committed:
            return "retention"
        if found.topic in compacted:
            return "compaction"
    return None


def merged(sources: Iterable[Offsets]) -> Offsets | None:
    """The offsets of all sources of a query as one; a topic that is read twice gets a number (``"orders#2"``)."""
    sources = tuple(sources)
    if len(sources) < 2:
        return sources[0] if sources else None
    seen: dict[str, int] = {}
    partitions: list[PartitionOffsets] = []
    for offsets in sources:
        seen.update({topic: seen.get(topic, 0) + 1 for topic in set(offsets.topics)})
        partitions += [_numbered(found, seen[found.topic]) for found in offsets.partitions]
    because = next((offsets.inexact_because for offsets in sources if offsets.inexact_because), None)
    ordered = sorted(partitions, key=lambda found: (found.topic, found.partition))
    return Offsets.of(min(offsets.at for offsets in sources), ordered, because is None, because)


def _numbered(found: PartitionOffsets, number: int) -> PartitionOffsets:
    topic = found.topic if number == 1 else f"{found.topic}#{number}"
    return PartitionOffsets(topic, found.partition, found.latest, found.planned, found.committed)


# What a query reads, from the options in its plan: :class:`~rheostat.model.SourceInfo`, without secrets.


LOG_PROVIDER = "rheostat_log"

_SECRET_NAME = re.compile(r"password|passwd|jaas|secret|key|token|credential|certificate|auth", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"(password|secret|token)\s*=|://[^/@\s]+:[^/@\s]*@", re.IGNORECASE)
_CAPS = ("maxOffsetsPerTrigger", "maxRecordsPerTrigger", "maxRowsPerTrigger", "rowsPerBatch")
_NAMES = ("subscribe", "subscribePattern", "assign", "path")


def option(options: Mapping[str, str], name: str) -> str | None:
    """An option by its name, which is not case-sensitive.

    >>> option({"PATH": "/data"}, "path")
    '/data'
    """
    return next((value for key, value in options.items() if key.lower() == name.lower()), None)


def without_secrets(options: Mapping[str, str]) -> dict[str, str]:
    """The options without those that are, by name or by look, secrets or ways to them.

    >>> without_secrets({"subscribe": "orders", "kafka.sasl.jaas.config": "…", "url": "http://me:pw@host/"})
    {'subscribe': 'orders'}
    """
    return {
        key: value
        for key, value in sorted(options.items())
        if not _SECRET_NAME.search(key) and not _SECRET_VALUE.search(value)
    }


def source_info(provider: str, options: Mapping[str, str], partitions: int | None = None) -> SourceInfo:
    """Describe a source; the number of partitions is known once its offsets have been read."""
    kinds = {LOG_PROVIDER: "log"}
    named = next((value for value in (option(options, name) for name in _NAMES) if value is not None), provider)
    return SourceInfo(
        kind=kinds.get(provider, provider),
        name=named if not _SECRET_VALUE.search(named) else provider,
        partitions=partitions,
        batch_cap=_cap(options),
        options=without_secrets(options),
    )


def _cap(options: Mapping[str, str]) -> int | None:
    given = (option(options, name) for name in _CAPS)
    return next((int(value) for value in given if value is not None and value.strip().isdecimal()), None)
