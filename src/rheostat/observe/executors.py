"""Executors as Spark's REST interface describes them (JSON) → :class:`~rheostat.model.Executor`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from rheostat.jvm.addresses import host_of
from rheostat.model import Executor

__all__ = ["parse_executors"]


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
