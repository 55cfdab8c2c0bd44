"""What is measured while an executor is named slow is not what the number of executors carries: nothing is learned."""

from dataclasses import replace
from typing import Any

import pytest
from tests.policies.samples import OVERLOAD, seen

from rheostat.decide.policy import PolicyContext, load_policy
from rheostat.model import Objective

SLOW: dict[str, Any] = {"slow": ("executor 2 on b",), "slow_executors": ("2",), "slow_factor": 3.0}


def overloads(count, **changes):
    """Samples of an overloaded job, one batch each."""
    return [
        replace(
            OVERLOAD,
            at=OVERLOAD.at + 15.0 * number,
            pressure=1.0,
            throughput=1000.0 - number,
            batches=9 + number,
            last_batch_id=100 + number,
            last_batch_records=14_000,
            last_batch_s=14.0,
            **changes,
        )
        for number in range(count)
    ]


def after(name, samples, **options):
    policy = load_policy(name, options, PolicyContext(Objective(30.0), 15.0, "default"))
    state = policy.initial()
    for sample in samples:
        _, state = policy.recommend(sample, state)
    return policy.capacity(3, state)


@pytest.mark.parametrize("name", ["reactive", "router", "mst", "proactive"])
def test_an_overload_on_a_slow_executor_teaches_nothing(name):
    assert after(name, overloads(12)) is not None
    assert after(name, overloads(12, **SLOW)) is None


@pytest.mark.parametrize("name", ["reactive", "router", "mst"])
def test_a_healthy_sample_on_a_slow_executor_teaches_nothing(name):
    healthy = [seen(1000.0 + 15 * number, pressure=0.1, batches=9 + number) for number in range(12)]
    assert after(name, healthy) is not None
    assert after(name, [replace(sample, **SLOW) for sample in healthy]) is None


def test_proactive_keeps_no_row_of_it():
    policy = load_policy("proactive", {}, PolicyContext(Objective(30.0), 15.0, "default"))
    rows = []
    for changes in ({}, SLOW):
        state = policy.initial()
        for sample in overloads(20, **changes):
            _, state = policy.recommend(sample, state)
        rows.append(len(state.data.rows))
    assert rows[0] > rows[1] == 0
