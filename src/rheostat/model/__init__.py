"""The values that flow through the loop: observe → analyze → plan → execute.

All are frozen dataclasses. All times are seconds on one clock (the epoch's, where it matters to people);
all rates are records per second. ``None`` means "not known", never "zero": each use says what it assumes, and leans to
the safe side. A section of an :class:`Observation` carries the time at which it was true, so its age is
``observation.at - section.at``.
"""

from __future__ import annotations

from rheostat.model.assessment import Assessment, QueryLoad, StageLoad
from rheostat.model.decision import (
    Action,
    Code,
    Decision,
    GuardNote,
    Outcome,
    OutcomeStatus,
    Placement,
    Projection,
    Reason,
    Recommendation,
)
from rheostat.model.objective import Bounds, Objective
from rheostat.model.observation import (
    Batch,
    Cluster,
    Executor,
    Gap,
    NodeReading,
    Nodes,
    Observation,
    Offsets,
    PartitionOffsets,
    QueryReading,
    Roster,
    RoundTrip,
    RunningBatch,
    SourceInfo,
    StageWork,
)

__all__ = [
    "Action",
    "Assessment",
    "Batch",
    "Bounds",
    "Cluster",
    "Code",
    "Decision",
    "Executor",
    "Gap",
    "GuardNote",
    "NodeReading",
    "Nodes",
    "Objective",
    "Observation",
    "Offsets",
    "Outcome",
    "OutcomeStatus",
    "PartitionOffsets",
    "Placement",
    "Projection",
    "QueryLoad",
    "QueryReading",
    "Reason",
    "Recommendation",
    "Roster",
    "RoundTrip",
    "RunningBatch",
    "SourceInfo",
    "StageLoad",
    "StageWork",
]
