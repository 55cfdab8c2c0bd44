"""Which part of the driver delays the batches: planning, listing, commit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rheostat.analyze.assess import analyze
from rheostat.analyze.state import AnalysisSettings, AnalysisState
from rheostat.model import Assessment, Batch, Cluster, Executor, Observation, QueryReading

PLANNED = Batch(100.0, 7, 36.0, planning_s=35.0, add_batch_s=0.8, commit_s=0.2, work_s=0.7)
SAID = "the last batch took 36.0 s, 35.0 s of them to plan it"


def seen(*batches: Batch, trigger_s: float = 10.0) -> Assessment:
    queries = tuple(
        QueryReading(str(number), "r", None, trigger_s, batch=batch) for number, batch in enumerate(batches)
    )
    cluster = Cluster.of(100.0, [Executor("0", "h", 4, 0)])
    return analyze(Observation(100.0, queries, cluster), AnalysisState(), AnalysisSettings(60.0))[0]


@pytest.mark.parametrize(
    ("batch", "why"),
    [
        pytest.param(PLANNED, f"{SAID} and 0.2 s to commit", id="planning"),
        pytest.param(
            replace(PLANNED, listing_s=33.0),
            f"{SAID} (33.0 s of that to list what is new) and 0.2 s to commit",
            id="listing",
        ),
        pytest.param(replace(PLANNED, listing_s=1.0), f"{SAID} and 0.2 s to commit", id="planning, not listing"),
        pytest.param(
            replace(PLANNED, planning_s=0.2, commit_s=35.0),
            "the last batch took 36.0 s, 0.2 s of them to plan it and 35.0 s to commit",
            id="commit",
        ),
        pytest.param(replace(PLANNED, planning_s=27.0, commit_s=None), None, id="three quarters are not more"),
        pytest.param(replace(PLANNED, planning_s=None, commit_s=None), None, id="unknown"),
        pytest.param(replace(PLANNED, duration_s=8.0, planning_s=7.5), None, id="in time"),
    ],
)
def test_the_part_is_named(batch, why):
    assert seen(batch).driver == why


def test_a_query_that_executors_would_help_goes_before_one_that_the_driver_delays():
    busy = Batch(100.0, 7, 36.0, planning_s=0.3, commit_s=0.2, work_s=35.0)
    assert seen(PLANNED, PLANNED).driver is not None
    assert seen(PLANNED, busy).driver is None
    assert seen(PLANNED, replace(busy, duration_s=4.0)).driver is not None
