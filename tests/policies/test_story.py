"""Closed loops: the simulated job, the real analysis, the decision_settings, and executors that need time to start."""

from itertools import pairwise

import pytest
from tests.policies.closed_loop import Cycle, Points, job, run

from rheostat.analyze.assess import analysis_settings
from rheostat.config.models import Settings
from rheostat.decide.decide import DecisionSettings
from rheostat.decide.policy import PolicyContext, load_policy
from rheostat.model import Action, ReasonCode
from rheostat.sim.jobfile import JobFile

QUIET_S, RISE_S, PLATEAU_S, FALL_S = 20.0, 40.0, 50.0, 60.0
BASE, PEAK = 200.0, 1400.0


def demo_load(until: float, slower: float = 1.0) -> Points:
    """Base load, a rise in 40 s, a plateau of 50 s, a fall in 60 s, base load until the end."""
    top, falls = QUIET_S + RISE_S, QUIET_S + RISE_S + PLATEAU_S
    points = [(0.0, BASE), (QUIET_S, BASE), (top, PEAK), (falls, PEAK), (falls + FALL_S, BASE)]
    return [*((at * slower, rate) for at, rate in points), (until, BASE)]


def story(
    made: JobFile, load: Points, profile: str, lag_s: float, bounds: tuple[int, int], executors: int = 1
) -> list[Cycle]:
    settings = Settings.model_validate({"objective": f"lag < {lag_s} s", "profile": profile, "executors": bounds})
    objective = settings.parsed_objective
    context = PolicyContext(objective, settings.sample_s, settings.preset)
    policy = load_policy(settings.policy, settings.policy_options, context)
    assert settings.bounds is not None
    plans = DecisionSettings(policy, settings.bounds, settings.guard, objective, settings.sample_s)
    return run(made, load, plans, analysis_settings(settings), executors)


def numbers(cycles: list[Cycle]) -> list[int]:
    """Each number in force, in order."""
    first = cycles[0].decision.current
    assert first is not None
    return [first] + [c.decision.target for c in cycles if c.decision.acts and c.decision.target is not None]


def turns(cycles: list[Cycle]) -> list[tuple[float, Action]]:
    """When the direction changed, and to which."""
    acts = [(c.decision.at, c.decision.action) for c in cycles if c.decision.acts]
    return [later for earlier, later in pairwise(acts) if later[1] is not earlier[1]]


JOBS = [
    pytest.param({"partitions": 8}, id="8 partitions"),
    pytest.param({"partitions": 10}, id="10 partitions"),
    pytest.param({"partitions": 4}, id="4 partitions"),
    pytest.param({"start_up_s": 6.0, "cold_s": 3.0}, id="slow to start"),
    pytest.param({"fixed_s": 0.5, "batch_cap": 4000}, id="costlier batches, smaller cap"),
]


@pytest.mark.parametrize("lag_s", [10.0, 15.0, 20.0, 30.0])
@pytest.mark.parametrize("changes", JOBS)
def test_the_demo_goes_from_1_to_at_least_4_and_back_to_at_most_2(changes, lag_s):
    cycles = story(job(**changes), demo_load(200.0), "demo", lag_s, (1, 8))
    path = numbers(cycles)
    assert (path[0], max(path) >= 4, path[-1] <= 2) == (1, True, True)
    assert max(cycle.registered for cycle in cycles) == max(path)
    assert len(turns(cycles)) == 1, f"up, then down, and no flapping: {path}"


def test_the_demo_does_not_exceed_by_far():
    """1400/s at 400/s each are 3.5, with the fixed part of a batch just under 4."""
    cycles = story(job(), demo_load(200.0), "demo", 10.0, (1, 16))
    assert numbers(cycles) == [1, 2, 3, 4, 3, 2, 1]
    assert max(cycle.assessment.lag_s or 0.0 for cycle in cycles) < 10.0
    static, used = 5 * len(cycles), sum(cycle.registered for cycle in cycles)
    assert used <= 0.65 * static


def test_the_demo_never_goes_down_on_an_excess_or_on_unknown_figures():
    for cycle in story(job(), demo_load(200.0), "demo", 10.0, (1, 8)):
        if cycle.decision.action is Action.DOWN:
            assert (cycle.assessment.missing, cycle.assessment.invalid, cycle.assessment.backlog_excess) == (
                (),
                (),
                0.0,
            )


def slow_job() -> JobFile:
    return job(partitions=12, trigger_s=5.0, batch_cap=20_000)


def test_the_defaults_follow_a_slower_load_without_a_violation():
    cycles = story(slow_job(), demo_load(2000.0, slower=10.0), "default", 30.0, (1, 12))
    assert numbers(cycles) == [1, 2, 3, 4, 3, 2, 1]
    assert max(cycle.assessment.lag_s or 0.0 for cycle in cycles) < 30.0


def test_the_published_constants_follow_later():
    cycles = story(slow_job(), demo_load(2400.0, slower=10.0), "faithful", 30.0, (1, 12))
    ups = [c for c in cycles if c.decision.action is Action.UP]
    assert {c.decision.reason.code for c in ups} == {ReasonCode.SLA_VIOLATED}
    assert all(later.decision.at - earlier.decision.at >= 240 for earlier, later in pairwise(ups))
    assert max(cycle.assessment.lag_s or 0.0 for cycle in cycles) > 60.0


def test_an_ample_start_does_not_stay():
    """Never overloaded: what batches show is enough to go from six down to the one that 200/s need."""
    cycles = story(job(fixed_s=0.1), [(0.0, BASE), (300.0, BASE)], "demo", 10.0, (1, 8), executors=6)
    assert numbers(cycles) == [6, 4, 2, 1]
    assert {c.decision.recommendation.reason.code for c in cycles if c.decision.acts} == {ReasonCode.OVERSIZED}


def test_a_batch_cap_that_limits_does_not_drive_the_number_up():
    """1000 records each 2 s: 500/s whatever the number, under a load of 600/s."""
    cycles = story(job(batch_cap=1000), [(0.0, 600.0), (120.0, 600.0)], "demo", 10.0, (1, 8), executors=4)
    assert max(numbers(cycles)) == 4
    assert cycles[-1].decision.reason.code is ReasonCode.USELESS_EXECUTORS
