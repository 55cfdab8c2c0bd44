"""``mst`` through ``rheostat.attach`` on three nodes, with round trips that are given in the configuration.

The run of the shortened experiment, under a load of two levels. That round trips are measured is in
``test_placement.py``, and in the experiment itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from rheostat.config.models import pairs_of
from rheostat.demo.run import run_demo
from rheostat.journal.records import DecisionRecord
from rheostat.load.curves import RateCurve, staircase
from rheostat.research.papers.live import NODES, ROUND_TRIPS_MS, TripsPlan, nodes_run, right_choices

pytestmark = pytest.mark.cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoLevels(TripsPlan):
    """More than one executor carries, then less."""

    def curve(self) -> RateCurve:
        return staircase([(40.0, 110.0), (self.days_s - 40.0, 10.0)])


@pytest.mark.timeout(600)
def test_the_near_node_comes_first_and_the_far_one_goes_first(tmp_path: Path) -> None:
    plan = TwoLevels(
        policy="mst",
        policy_options={"samples_to_shrink": 2},
        mean_rate=60.0,
        days_s=130.0,
        begin_s=20.0,
        measured=False,
        seed=1,
    )

    done = run_demo(plan, tmp_path, lambda _: None, lambda _: None)

    assert done.score["valid"]
    assert done.drained
    found, apart = nodes_run(done, "test"), pairs_of(ROUND_TRIPS_MS)
    came, went = (right_choices(found.moves, NODES, apart, added=added) for added in (True, False))
    assert came
    assert went
    assert all(came + went), found.moves
    assert found.distance_ms is not None
    assert 0 < found.distance_ms <= 250.0
    acted = [each for each in done.records if isinstance(each, DecisionRecord) and each.decision.acts]
    said = " ".join(each.decision.reason.text for each in acted)
    assert "greatest round trip 0 ms → 20 ms" in said or "greatest round trip 0 ms → 250 ms" in said
