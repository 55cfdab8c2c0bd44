"""The conformance suite of policies. It runs on every registered one; run it on yours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise
from typing import Any

from pydantic import ValidationError

from rheostat.config import GuardSettings
from rheostat.model import Action, Assessment, Bounds, Decision, Objective
from rheostat.plan import Planner, PlanState, Policy

__all__ = ["check_policy"]

_BOUNDS = Bounds(2, 6)
_SAMPLE_S = 15.0
_STEPS = 120


def check_policy(make: Callable[[], Policy[Any]]) -> None:
    """Check what every policy must keep, on a load that rises to overload, stays, and falls.

    Checked: built twice it decides alike (no hidden state, clock or random numbers); through the planner the bounds
    hold, and each sample of the story, had it come with a figure unknown, impossible or stale, would not have led to
    fewer executors; asked directly on such a sample, it proposes no fewer either; what it is given stays as it was;
    its state survives the way through JSON.

    Args:
        make: builds the policy anew at each call.

    Raises:
        AssertionError: a rule is broken; the message says which.
    """
    first, second = _run(make()), _run(make())
    _require(first == second, "two runs on the same story differ")
    _require(all(later > earlier for earlier, later in pairwise(d.decision_id for d in first)), "ids do not ascend")


def _require(holds: object, rule: str) -> None:
    if not holds:
        raise AssertionError(rule)


def _run(policy: Policy[Any]) -> list[Decision]:
    """Every decision on the story, each state taken through JSON; a change is granted before the next sample."""
    planner = Planner(policy, _BOUNDS, GuardSettings(), Objective(30.0), _SAMPLE_S)
    state, executors, decisions = planner.initial(), 3, list[Decision]()
    for step in range(_STEPS):
        seen = _sample(step, executors)
        kept = deepcopy((seen, state))
        decision, after = planner.plan(seen, state)
        _require(kept == (seen, state), "the policy changed what it was given")
        _check_decision(decision)
        _check_unknown(planner, seen, state)
        state = _through_json(planner, after)
        executors = decision.target or executors
        decisions.append(decision)
    return decisions


def _check_decision(decision: Decision) -> None:
    within = decision.target is not None and _BOUNDS.clamp(decision.target) == decision.target
    _require(within or not decision.acts, f"the target is out of bounds: {decision}")
    _require(decision.reason.text, f"a decision without a sentence: {decision}")


def _check_unknown(planner: Planner, seen: Assessment, state: PlanState[Any]) -> None:
    for worse in _spoilt(seen):
        decision, _ = planner.plan(worse, state)
        _require(decision.action is not Action.DOWN, f"fewer executors on unknown figures: {decision}")
        if worse.missing or worse.invalid:
            proposed, _ = planner.policy.recommend(worse, state.policy)
            fewer = proposed.target is not None and proposed.target < (worse.executors or 0)
            _require(not fewer, f"fewer executors proposed on unknown figures: {proposed}")


def _spoilt(seen: Assessment) -> Iterator[Assessment]:
    yield replace(seen, arrival_rate=None, missing=("arrival_rate",))
    yield replace(seen, backlog=None, backlog_excess=None, invalid=("backlog",))
    yield replace(seen, metrics_age_s=2 * _SAMPLE_S + 1)
    yield replace(seen, metrics_age_s=None)


def _through_json(planner: Planner, state: PlanState[Any]) -> PlanState[Any]:
    text = planner.state_adapter.dump_json(state)
    try:
        back = planner.state_adapter.validate_json(text)
    except ValidationError as error:
        rule = f"the state does not come back from JSON (numbers must be finite): {error}"
        raise AssertionError(rule) from error
    _require(back == state, "the state changes on its way through JSON")
    return back


def _sample(step: int, executors: int) -> Assessment:
    """A rise to 2000/s in 20 steps, overload for 15 steps of it, a fall from step 50 on; 400/s for each executor."""
    rate = 100.0 * min(step, 20) if step < 50 else max(50.0, 2000.0 - 100.0 * (step - 50))
    excess = rate * 10 if 15 <= step < 30 else 0.0
    busy = min(1.0, rate / (400 * executors))
    return Assessment(
        at=1000.0 + step * _SAMPLE_S,
        executors=executors,
        slots_per_executor=1,
        arrival_rate=rate,
        processed_rate=min(rate, 400.0 * executors),
        backlog=int(rate * 15 + excess),
        backlog_excess=excess,
        lag_s=10.0,
        batch_s=10.0 * busy,
        trigger_s=10.0,
        period_s=15.0,
        occupancy=busy * 10 / 15,
        busy_ratio=busy,
        batches=step,
        capped=False,
        failed_tasks=0,
        partitions=12,
        metrics_age_s=0.5,
        queries=1,
    )
