"""What the stages of a batch did, as Spark's REST interface describes them (JSON), added to the batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rheostat.model import Batch, StageWork

__all__ = ["MOST_STAGES", "with_stages"]

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
