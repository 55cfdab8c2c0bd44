"""What the pipeline holds whatever a policy proposes, and what policies do with 17, 31 and 97 partitions."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policies import closed_loop
from tests.policies.samples import Fixed, outcome, seen

from rheostat.analyze.state import AnalysisSettings
from rheostat.config.models import GuardSettings
from rheostat.decide.decide import STEPS, DecisionSettings, decide, learn
from rheostat.decide.policy import PolicyContext, load_policy, policy_names
from rheostat.model import Action, Assessment, Bounds, Decision, Objective, OutcomeStatus, ReasonCode

PARTITIONS = (17, 31, 97)
BROUGHT = (frozenset[str](), frozenset(step.name for step in STEPS if step.self_manageable))
TWO_COOLDOWNS_S = 2 * GuardSettings().cooldown_down_s
LEAST, MOST = 2, 40
ONE_WAY = ("static", "schedule", "dynamic-allocation")
"""Policies that do not look at the load, or do not go down while each batch has a task for every executor."""
DOES_IT_ITSELF = ("rheostat",)
"""It prices changes, so that a short burst may be worth two of them."""
Steps = list[tuple[int | None, int, dict[str, Any]]]


def round_trips(decisions: list[Decision]) -> list[tuple[float, float]]:
    """Times of an increase and of the decrease after it, within two cooldowns."""
    acts = [each for each in decisions if each.acts]
    ups = [(a.at, b.at) for a, b in pairwise(acts) if (a.action, b.action) == (Action.UP, Action.DOWN)]
    return [(up, down) for up, down in ups if down - up < TWO_COOLDOWNS_S]


guards = st.builds(
    GuardSettings,
    align_to=st.sampled_from(["nothing", "waves", "partitions", "state"]),
    align_most=st.sampled_from([0.0, 0.34, 1.0]),
    tolerance=st.sampled_from([0.0, 0.1]),
    scale_down_hold_s=st.sampled_from([0.0, 90.0]),
    largest_step_up=st.none() | st.integers(1, 9),
    largest_step_down=st.none() | st.integers(1, 9),
    most_partitions=st.none() | st.floats(0.5, 9.0),
    quota_cores=st.none() | st.integers(1, 60),
    failover=st.sampled_from([False, False, False, True]),
    catching_up=st.booleans(),
    ineffective_share=st.none() | st.sampled_from([0.3, 1.0]),
)
LIMITED = {"backlog_excess": 90_000.0, "batch_s": 14.0, "draining": False, "busy_ratio": 0.9}
LOOKS: list[dict[str, Any]] = [
    *[{}] * 8,
    *[LIMITED] * 4,
    {**LIMITED, "processed_rate": 1900.0, "draining": True},
    {**LIMITED, "processed_rate": None, "draining": None},
    {"capped": True, "backlog_excess": 90_000.0},
    {"missing": ("lag_s",)},
    {"metrics_age_s": 31.0},
    {"metrics_age_s": None},
    {"slots_per_executor": None},
    {"slots_per_executor": 2},
    {"sink": "slow"},
]
steps_told = st.tuples(st.sampled_from([None, 2, 3, 6, 9, 17, 30, 60]), st.integers(1, 12), st.sampled_from(LOOKS))
proposals = st.lists(steps_told, min_size=3, max_size=10)


def told(
    partitions: int, guard: GuardSettings, steps: Steps, self_managed_steps: frozenset[str]
) -> list[tuple[Assessment, Decision]]:
    """Each proposal on its look for so many samples, one each 15 s; what is decided is there 5 s later."""
    policy: Any = Fixed(None, self_managed_steps)
    policy.capacity_each = 250.0
    plans = DecisionSettings(policy, Bounds(LEAST, MOST), guard, Objective(30.0), 15.0)
    state, number, batches, at, done = plans.initial(), 5, 5, 1000.0, []
    for target, look in ((target, look) for target, times, look in steps for _ in range(times)):
        policy.target = target
        looked = seen(at, executors=number, batches=batches, partitions=partitions, **look)
        decision, state = decide(looked, state, plans)
        done.append((looked, decision))
        if decision.acts and decision.target is not None:
            end = outcome(OutcomeStatus.APPLIED, decision.target, number, decision.target, took_s=5.0)
            state = learn(replace(end, at=at + 5, decision_id=decision.decision_id), state, plans)
            number, batches = decision.target, -1
        at, batches = at + 15, batches + 1
    return done


@given(st.sampled_from(PARTITIONS), guards, proposals, st.sampled_from(BROUGHT))
def test_whatever_is_proposed_and_brought(partitions, guard, steps, self_managed_steps):
    done = told(partitions, guard, steps, self_managed_steps)
    for looked, decision in done:
        target, current, wanted = decision.target, decision.current, decision.recommendation.target
        assert target is not None
        assert current is not None
        assert LEAST <= target <= MOST
        if wanted is not None and decision.reason.code is not ReasonCode.INEFFECTIVE:
            assert (wanted - current) * (target - current) >= 0, "the direction was turned"
        known = not looked.missing and looked.metrics_age_s == 0.5
        assert known or decision.action is Action.HOLD, "changed on unknown figures"
        assert not guard.failover or decision.action is not Action.DOWN
        assert (
            not guard.catching_up
            or decision.action is not Action.DOWN
            or looked.backlog_excess == 0
            or undone(decision)
        )
    assert "round_trip" in self_managed_steps or round_trips([decision for _, decision in done]) == []


def undone(decision: Decision) -> bool:
    """Also where the policy wants just that itself: then the step changes the reason, and leaves no note."""
    return decision.reason.code is ReasonCode.INEFFECTIVE or any(note.step == "undo" for note in decision.notes)


@pytest.mark.slow
@pytest.mark.parametrize("partitions", PARTITIONS)
@pytest.mark.parametrize("policy", [name for name in policy_names() if name not in ONE_WAY + DOES_IT_ITSELF])
def test_a_rise_and_a_fall_make_no_round_trip(policy, partitions):
    """A surge of ten minutes and steps after it; the read stage has one task for each partition."""
    stage = {"name": "all", "tasks": partitions, "cost_ms": 2.5, "task_ms": 0.0}
    job = closed_loop.job(partitions=partitions, stages=[stage])
    load = [
        (0, 500.0),
        (300, 2800.0),
        (420, 2200.0),
        (600, 3000.0),
        (900, 600.0),
        (1200, 900.0),
        (1500, 300.0),
        (2400, 300.0),
    ]
    context = PolicyContext(Objective(10.0), 15.0)
    plans = DecisionSettings(load_policy(policy, {}, context), Bounds(1, 16), GuardSettings(), Objective(10.0), 15.0)
    cycles = closed_loop.run(job, load, plans, AnalysisSettings(10.0, 60.0, 60.0))
    actions = [each.decision.action for each in cycles]
    assert Action.UP in actions
    assert Action.DOWN in actions
    assert round_trips([each.decision for each in cycles]) == []
