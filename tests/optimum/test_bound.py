"""No run of the simulated job costs less than the optimum, whoever decides; and the optimum is not far below."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sim.jobs import decision, plain, stage

from rheostat.load.curves import constant, staircase
from rheostat.optimum.dynamic_program import problem_of
from rheostat.optimum.optimum import optimum
from rheostat.sim.capacity import CostParts, capacity_curve, demand
from rheostat.sim.history import Lag, changes, integral
from rheostat.sim.job import SimulatedJob

FIXED = {
    "driver": {"planning_s": 0.5, "commit_s": 0.5},
    "stages": [*stage(4.0, 20.0), {"name": "sum", "tasks": 10, "cost_ms": 1.0, "task_ms": 30.0}],
    "partitions": 12,
}
AT_ONCE = {"cold_task_s": 0.0, "start_up": {"median_s": 0.0, "p95_s": 0.0}}
SLOWLY = {"cold_task_s": 2.0, "start_up": {"median_s": 14.0, "p95_s": 25.0}}
NODES = {
    "names": ["near", "far", "mid"],
    "slots": [3, 3, 3],
    "round_trips_ms": [[0, 300, 40], [300, 0, 260], [40, 260, 0]],
}
RECORDS = {"model": "record", "stages": [], "record": {"alpha": 200.0, "beta": 0.9}}

JOBS = {
    "no fixed part, start-up 0": plain(executor=AT_ONCE, partitions=24),
    "a fixed part, two stages": plain(**FIXED, executor=AT_ONCE),
    "cold batches": plain(**FIXED, executor=SLOWLY),
    "a cap": plain(**FIXED, executor=AT_ONCE, batch_cap=4000),
    "a small cap, waiting for the trigger": plain(**FIXED, executor=AT_ONCE, batch_cap=1200, trigger_s=5.0),
    "a skewed partition": plain(**FIXED, executor=AT_ONCE, partition_skew=0.5),
    "a slow trigger": plain(**FIXED, executor=AT_ONCE, trigger_s=10.0),
    "an exponent": plain(**FIXED, executor=AT_ONCE, exponent=0.8),
    "record at a time": plain(**RECORDS, executor=AT_ONCE),
    "record at a time, on nodes": plain(
        **{**RECORDS, "record": {"alpha": 200.0, "beta": 0.9, "gamma": 0.5}}, nodes=NODES, executor=AT_ONCE
    ),
    "record at a time, with restarts": plain(**RECORDS, executor=SLOWLY, rescale={"mode": "restart"}),
}


def used(job, load, start, choose):
    """What a run uses in which ``choose(second)`` says how many executors to ask for."""
    sim, at, target, number = SimulatedJob(job, load, 1, start), 0.0, start, 0
    while not sim.drained:
        sim.advance(at)
        sim.poll(at)
        wanted, number = choose(at), number + 1
        if wanted != target:
            sim.apply(decision(wanted, at, number))
            target = wanted
        at += job.decide_every_s
    history = sim.history
    end = max(load.duration, history.commits[-1][0])
    over_s = Lag.of(history, 0.0, end).seconds_over(job.objective_s)
    asked = changes([(0.0, start), *history.target], 0.0, end)
    return CostParts(integral(history.paid, 0.0, end) / 3600, asked, over_s / 3600)


def deciders(job, load, best, seed):
    """A plan of chance, the optimum's, what the load asks for, and the same with a margin held for a minute."""
    chance = random.Random(seed)
    numbers = [chance.randint(1, job.n_max)]
    for _ in range(200):
        numbers.append(chance.randint(1, job.n_max) if chance.random() < 0.2 else numbers[-1])
    every = job.decide_every_s

    def needed(at):
        return demand(job, (load.cumulative(at + every) - load.cumulative(at)) / every)

    yield lambda at: numbers[min(int(at / every), 200)] if at < load.duration else job.n_max
    yield lambda at: best.plan[int(at / every)] if at < load.duration else max(2, best.plan[-1])
    yield lambda at: needed(at) if at < load.duration else 2
    yield lambda at: max(needed(max(0.0, at - back)) for back in (0.0, 15.0, 30.0, 45.0, 60.0))


@pytest.mark.parametrize("name", JOBS)
@settings(max_examples=3)
@given(seed=st.integers(0, 10**6), top=st.sampled_from([0.8, 1.1]), weight=st.sampled_from([1.0, 6.0, 18.0]))
def test_no_run_costs_less_than_the_optimum(name, seed, top, weight):
    job, chance = JOBS[name], random.Random(seed)
    peak = top * max(capacity_curve(job))
    load = staircase([(chance.choice([5.0, 20.0, 60.0]), peak * chance.random() ** 2) for _ in range(12)])
    start = chance.randint(1, job.n_max)
    best = optimum(problem_of(job, load, start, weight))
    for choose in deciders(job, load, best, seed):
        assert used(job, load, start, choose).cost(weight) >= best.cost * (1 - 1e-9)


@pytest.mark.parametrize(
    ("name", "share"),
    [
        pytest.param("no fixed part, start-up 0", 0.98, id="no fixed part"),
        pytest.param("a fixed part, two stages", 0.96, id="a fixed part"),
        pytest.param("a cap", 0.96, id="a cap"),
        pytest.param("record at a time", 0.98, id="record at a time"),
    ],
)
def test_a_steady_load_costs_about_as_much_as_the_optimum(name, share):
    job = JOBS[name]
    load = constant(0.98 * capacity_curve(job)[4], 1800.0)
    run = used(job, load, 4, lambda _: 4)
    assert run.violation_hours == 0.0
    assert share <= optimum(problem_of(job, load, 4, 4.0)).cost / run.cost(4.0) <= 1.0


def test_an_executor_that_dies_below_the_least_number_is_not_paid_for():
    job = plain(executors=[2, 2], events=[{"kind": "dead", "at_s": 100.0, "executor": 1, "replaced_after_s": 600.0}])
    load = staircase([(1200.0, 10.0)])
    best = optimum(problem_of(job, load, 2, 1.0))
    cost = used(job, load, 2, lambda _: 2).cost(1.0)
    assert cost < 2 * 1200 / 3600
    assert best.cost <= cost
