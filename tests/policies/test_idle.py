"""Without input Spark runs no batch: nothing waits for one, and the executors go. An idle query hides no busy one."""

from __future__ import annotations

import pytest
from tests.policies.closed_loop import Cycle, Points, job, run

from rheostat.analyze.assess import analysis_settings
from rheostat.config.models import Settings
from rheostat.decide.decide import DecisionSettings
from rheostat.decide.policy import PolicyContext, load_policy, policy_names
from rheostat.model import ReasonCode

pytestmark = pytest.mark.slow

NOT_BY_LOAD = {"static", "schedule"}
"""Policies that do not look at the load."""


def cycles_of(policy: str, load: Points, executors: int = 6, beside: tuple[str, ...] = ()) -> list[Cycle]:
    settings = Settings.model_validate({"objective": "lag < 60s", "executors": (1, 16), "policy": policy})
    objective, bounds = settings.parsed_objective, settings.bounds
    assert bounds is not None
    built = load_policy(policy, settings.policy_options, PolicyContext(objective, settings.sample_s, settings.preset))
    plans = DecisionSettings(built, bounds, settings.guard, objective, settings.sample_s)
    return run(job(beside=list(beside)), load, plans, analysis_settings(settings), executors)


def steps(*levels: tuple[float, float]) -> Points:
    """Rates that hold for so many seconds each."""
    points, at = list[tuple[float, float]](), 0.0
    for rate, takes_s in levels:
        points += [(at, rate), (at + takes_s, rate)]
        at += takes_s
    return points


def number_at(cycles: list[Cycle], at: float) -> int:
    return next(cycle.registered for cycle in reversed(cycles) if cycle.assessment.at <= at)


@pytest.mark.parametrize("policy", sorted(set(policy_names()) - NOT_BY_LOAD))
def test_without_input_the_executors_go_and_come_back_with_it(policy):
    cycles = cycles_of(policy, steps((1600.0, 600.0), (0.0, 2100.0), (1600.0, 600.0)))
    assert number_at(cycles, 600.0) >= 4
    assert number_at(cycles, 2700.0) == 1
    assert number_at(cycles, 3300.0) >= 4


@pytest.mark.parametrize("policy", sorted(set(policy_names()) - NOT_BY_LOAD))
def test_a_query_that_begins_on_an_empty_topic_is_released_and_grows_with_its_input(policy):
    cycles = cycles_of(policy, steps((0.0, 1800.0), (1600.0, 600.0)))
    assert all(cycle.decision.reason.code != ReasonCode.METRICS_MISSING for cycle in cycles[2:])
    assert number_at(cycles, 1800.0) == 1
    assert number_at(cycles, 2400.0) >= 4


UP_AND_DOWN = steps((300.0, 300.0), (1600.0, 900.0), (300.0, 1500.0))


@pytest.mark.parametrize("policy", sorted(set(policy_names()) - NOT_BY_LOAD))
def test_an_idle_query_beside_a_busy_one_changes_nothing(policy):
    alone = cycles_of(policy, UP_AND_DOWN, 2)
    cycles = cycles_of(policy, UP_AND_DOWN, 2, beside=("idle", "idle"))
    assert {cycle.assessment.queries for cycle in cycles} == {3}
    assert [cycle.registered for cycle in cycles] == [cycle.registered for cycle in alone]
    assert max(cycle.registered for cycle in cycles) >= 4


@pytest.mark.parametrize("policy", ["hpa", "mst", "reactive", "router"])
def test_a_query_that_cannot_be_measured_is_left_out_beside_one_that_can(policy):
    cycles = cycles_of(policy, UP_AND_DOWN, 2, beside=("unmeasured",))
    assert not any(cycle.assessment.missing for cycle in cycles[2:])
    assert (max(cycle.registered for cycle in cycles) >= 4, cycles[-1].registered <= 2) == (True, True)
