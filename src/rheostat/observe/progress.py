"""Spark's progress events (JSON) → :class:`~rheostat.model.Batch`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rheostat.model import Batch

__all__ = ["Progress", "SourceProgress", "parse_progress"]

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
