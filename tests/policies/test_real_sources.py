"""Closed loops on sources as real ones are: they wait on purpose, hold offsets that are no records, and begin late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.policies.closed_loop import Cycle, Points, job, run
from tests.policies.test_story import demo_load, numbers

from rheostat.analyze.assess import analysis_settings
from rheostat.config.models import Settings
from rheostat.decide.decide import DecisionSettings
from rheostat.decide.policy import PolicyContext, load_policy
from rheostat.model import Observation, Offsets, ReasonCode
from rheostat.observe.parse import new_partitions, partition_offsets, skip_deleted
from rheostat.sim.jobfile import JobFile

pytestmark = pytest.mark.slow

OURS = ["reactive", "router", "mst", "proactive"]


def play(
    policy: str,
    made: JobFile,
    load: Points,
    *,
    executors: int = 1,
    seen: Callable[[Observation], Observation] = replace,
) -> list[Cycle]:
    values = {"objective": made.objective, "policy": policy, "executors": made.executors, "sample_s": 5.0}
    settings = Settings.model_validate(values)
    objective = settings.parsed_objective
    made_policy = load_policy(policy, {}, PolicyContext(objective, settings.sample_s, settings.preset))
    plans = DecisionSettings(made_policy, made.bounds, settings.guard, objective, settings.sample_s)
    return run(made, load, plans, analysis_settings(settings), executors, seen)


def waiting_job(objective: str = "lag < 5m", least: int = 12_000) -> JobFile:
    """One executor carries 400/s; it waits for 12,000 records, or 15 minutes."""
    return job(objective=objective, batch_cap=None, min_offsets_per_trigger=least)


@pytest.mark.parametrize("policy", OURS)
@pytest.mark.parametrize(
    "load",
    [
        pytest.param([(0.0, 100.0), (1800.0, 100.0)], id="120 s for the minimum"),
        pytest.param(
            [(0.0, 100.0), (700.0, 100.0), (701.0, 0.0), (1500.0, 0.0), (1501.0, 100.0), (2400.0, 100.0)], id="a pause"
        ),
        pytest.param([(0.0, 150.0), (600.0, 50.0), (1200.0, 150.0), (1800.0, 50.0)], id="a rate that varies"),
    ],
)
def test_waiting_on_purpose_adds_no_executor(policy, load):
    cycles = play(policy, waiting_job("lag < 20m"), load)
    assert numbers(cycles) == [1]
    assert max(cycle.assessment.backlog_excess or 0.0 for cycle in cycles) < 120.0  # of 12,000


@pytest.mark.parametrize("policy", OURS)
def test_overload_beyond_the_wait_is_seen(policy):
    cycles = play(policy, waiting_job(), [(0.0, 100.0), (600.0, 100.0), (601.0, 1000.0), (2400.0, 1000.0)])
    assert numbers(cycles)[-1] >= 3
    assert (cycles[-1].assessment.lag_s or 0.0) < 300.0


@pytest.mark.parametrize("policy", OURS)
def test_an_objective_shorter_than_the_wait_is_named(policy):
    cycles = play(policy, waiting_job("lag < 60s"), [(0.0, 100.0), (1800.0, 100.0)])
    assert numbers(cycles) == [1]
    last = cycles[-1].decision.reason
    assert last.code is ReasonCode.OBJECTIVE_TOO_SHORT
    assert last.text == (  # 12,000 records have come after 120 s, and the next trigger is 2 s later
        "the source waits 122 s for records (minOffsetsPerTrigger, maxTriggerDelay): no number of executors keeps "
        "lag < 60 s: 1 stays"
    )


@pytest.mark.parametrize("policy", OURS)
def test_a_wait_that_ends_at_a_trigger_after_the_objective_adds_no_executor(policy):
    """Batches begin 120 s after the last one, at the next trigger: records wait for 122 s, and then for their batch."""
    cycles = play(policy, waiting_job("lag < 121s"), [(0.0, 100.0), (2400.0, 100.0)])
    assert numbers(cycles) == [1]
    assert cycles[-1].decision.reason.code is ReasonCode.OBJECTIVE_TOO_SHORT


@pytest.mark.parametrize("rows", [0.5, 1.0, 2.0], ids=["markers of transactions", "records", "two actions"])
def test_a_batch_cap_limits_whatever_rows_are_read(rows):
    """1000 offsets each 2 s: 500/s whatever the number, under 600/s."""
    made = job(batch_cap=1000, metrics={"rows_per_offset": rows})
    cycles = play("reactive", made, [(0.0, 600.0), (300.0, 600.0)], executors=4)
    assert max(numbers(cycles)) == 4
    assert cycles[-1].assessment.capped is True


@pytest.mark.parametrize("policy", OURS)
@pytest.mark.parametrize("rows", [0.5, 2.0], ids=["markers of transactions", "two actions"])
def test_a_capacity_is_learned_in_the_unit_of_the_arrival_rate(policy, rows):
    made, load = job(metrics={"rows_per_offset": rows}), demo_load(600.0, slower=2.0)
    assert numbers(play(policy, made, load)) == numbers(play(policy, job(), load))


def with_new_topic(at: float, first: int) -> Callable[[Observation], Observation]:
    """From ``at`` on there is a topic whose oldest offset is ``first``; Spark's next batch but one takes it in."""

    def seen(observation: Observation) -> Observation:
        if observation.at < at or not observation.queries:
            return observation
        (query,) = observation.queries
        assert query.offsets is not None
        rows = query.offsets.partitions
        named = {} if observation.at < at + 10 else {"new": {"0": first + 500}}
        latest = {("new", 0): first + 500}
        assert new_partitions(latest, named) == (set() if named else {("new", 0)})
        new = skip_deleted(partition_offsets(latest, named, named, {("new", 0): first}), {("new", 0): first})
        both = sorted([*rows, *new], key=lambda each: each.topic)
        return replace(observation, queries=(replace(query, offsets=Offsets.of(query.offsets.at, both)),))

    return seen


@pytest.mark.parametrize("policy", OURS)
def test_a_topic_that_begins_late_is_neither_a_backlog_nor_a_capacity(policy):
    """1000/s need three executors; 500 records of the new topic change nothing."""
    load = [(0.0, 1000.0), (900.0, 1000.0)]
    cycles = play(policy, job(), load, executors=3, seen=with_new_topic(300.0, 5_000_000))
    assert max(cycle.assessment.backlog or 0 for cycle in cycles if cycle.assessment.at >= 300.0) < 20_000
    assert numbers(cycles)[-1] >= 3
    assert max(cycle.assessment.lag_s or 0.0 for cycle in cycles) < 10.0
