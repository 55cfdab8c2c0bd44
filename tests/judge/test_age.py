"""What was learned before a restart, a deployment or a healing is not held against fewer executors afterwards."""

from __future__ import annotations

import pytest
from tests.judge.test_useless import changes, play

pytestmark = pytest.mark.slow

HOUR = 3600.0
OURS = ("reactive", "router", "mst", "mst-alpha", "proactive", "flink", "ds2")
STEPS = "+".join(f"constant:{rate}@1200" for rate in (3000, 6000, 9000, 12000, 9000))
"""Loads that teach what two to seven executors carry."""
DEGRADED = {"kind": "drift", "at_s": 1800, "over_s": 3 * HOUR, "factor": 3.0}


def deploy(at: float, factor: float, pause_s: float = 60.0) -> dict[str, object]:
    return {"kind": "code", "at_s": at, "factor": factor, "pause_s": pause_s}


@pytest.mark.parametrize("policy", OURS)
@pytest.mark.parametrize(
    ("events", "shape", "hours", "enough"),
    [
        pytest.param([DEGRADED, deploy(4.5 * HOUR, 1 / 3)], "constant:5000@21600", 6, (3, 5), id="healed by a restart"),
        pytest.param(
            [DEGRADED, {"kind": "drift", "at_s": 4.5 * HOUR, "over_s": 60, "factor": 1 / 3}],
            "constant:5000@21600",
            6,
            (3, 4),
            id="healed from outside",
        ),
        pytest.param([deploy(2.5 * HOUR, 0.5)], f"{STEPS}+constant:6000@14400", 4, (2, 3), id="twice as fast"),
        pytest.param([deploy(2.5 * HOUR, 2.0)], f"{STEPS}+constant:5000@14400", 4, (6, 8), id="half as fast"),
    ],
)
def test_the_number_is_that_of_the_present_job(policy, events, shape, hours, enough):
    made = changes(play(policy, {"batch_cap": 240_000, "start_executors": 3, "events": events}, shape, hours * HOUR))
    assert enough[0] <= made[-1][2] <= enough[1], made


@pytest.mark.parametrize("policy", OURS[:3])
@pytest.mark.parametrize(
    ("events", "most"),
    [
        pytest.param([deploy(2.5 * HOUR, 1.0)], 3, id="the same code again"),
        pytest.param([deploy(2.5 * HOUR + 90 * n, 1.0, 20.0) for n in range(12)], 11, id="failed, again and again"),
    ],
)
def test_a_restart_of_the_same_code_costs_a_few_changes(policy, events, most):
    """5000/s need 3 or 4; where it starts again each 90 s, executors are cold and each pause leaves a backlog."""
    job = {"batch_cap": 240_000, "start_executors": 2, "events": events}
    made = changes(play(policy, job, f"{STEPS}+constant:5000@14400", 4 * HOUR))
    late = [each for each in made if each[0] >= 2.5 * HOUR]
    assert made[-1][2] in (3, 4), made
    assert len(late) <= most, late
