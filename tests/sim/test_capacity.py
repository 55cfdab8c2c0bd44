"""What a job carries, worked by hand."""

import pytest
from tests.sim.jobs import plain, stage

from rheostat.judge.cases import load_job
from rheostat.sim.capacity import batch_s, capacity, capacity_curve, demand, long_batch_rate

WAVES = {
    "executors": [1, 4],
    "partitions": 4,
    "stages": stage(10.0, 100.0),
    "driver": {"planning_s": 0.5, "commit_s": 0.5},
}
"""τ = 10 s. On 1 executor 1 + 4 × 0.1 + r × 0.01 ≤ 10 for r = 860; on 2 or 3: 1 + 2 × (0.1 + r ÷ 4 × 0.01) for 1760; on
4: 1 + 0.1 + r ÷ 4 × 0.01 for 3560."""


def rounded(values):
    return [round(value, 3) for value in values]


def test_capacity_is_a_staircase_of_waves():
    assert rounded(capacity_curve(plain(**WAVES))) == [0.0, 86.0, 176.0, 176.0, 356.0]


def test_the_long_batch_rate_has_no_fixed_part():
    job = plain(**WAVES)
    assert rounded(long_batch_rate(job, n) for n in range(5)) == [0.0, 100.0, 200.0, 200.0, 400.0]


def test_where_the_cap_is_smaller_batches_of_the_cap_follow_one_another():
    """500 records take 6.4, 3.7, 3.7 and 2.35 s."""
    job = plain(**WAVES, batch_cap=500)
    expected = [0.0, 78.125, 135.135, 135.135, 212.766]
    assert rounded(capacity_curve(job)) == expected
    assert rounded(long_batch_rate(job, n) for n in range(5)) == expected


def test_a_cap_that_ends_before_the_trigger_is_the_capacity():
    """100 records each 2 s, whatever the number."""
    assert rounded(capacity_curve(plain(executors=[1, 2], batch_cap=100))) == [0.0, 50.0, 50.0]


def test_a_cap_that_does_not_end_in_time_counts_for_nothing():
    """2000 records take 10.4 s or more on one executor: it is the time that limits. Long batches have 2000 ÷ 21.4 s."""
    job = plain(**WAVES, batch_cap=2000)
    assert round(capacity_curve(job)[1], 3) == 86.0
    assert round(long_batch_rate(job, 1), 3) == round(2000 / 21.4, 3)


def test_skewed_partitions_carry_what_the_largest_leaves_time_for():
    """Half of the load in one of 3 partitions: 0.5 r × 5 ms ≤ 10 s on 2 or 3 executors, r = 4000."""
    job = plain(executors=[1, 3], partitions=3, partition_shares=[2, 1, 1])
    assert rounded(capacity_curve(job)) == [0.0, 200.0, 400.0, 400.0]


def test_the_sink_limits():
    assert rounded(capacity_curve(plain(executors=[1, 2], sink={"records_per_s": 150.0}))) == [0.0, 150.0, 150.0]


def test_an_exponent_below_1_bends_the_curve():
    """200/s × n^0.5, one slot for each of 4 partitions at most 4 in use: 3 slots are two waves of slower tasks."""
    curve = capacity_curve(plain(executors=[1, 4], partitions=4, exponent=0.5))
    assert rounded(curve) == [0.0, 200.0, 282.843, 230.94, 400.0]


def test_slots_count_and_not_executors():
    assert rounded(capacity_curve(plain(executors=[1, 2], partitions=4, executor={"cores": 2}))) == [0.0, 400.0, 800.0]


@pytest.mark.parametrize(
    ("rate", "executors"),
    [(0, 1), (86, 1), (86.1, 2), (176, 2), (177, 4), (356, 4), (1000, 4)],
)
def test_demand_is_the_smallest_number_that_carries_the_rate(rate, executors):
    assert demand(plain(**WAVES), rate) == executors


def test_demand_keeps_the_least_number():
    assert demand(plain(**{**WAVES, "executors": [2, 4]}), 10) == 2


def test_a_batch_takes_as_long_as_the_engine_takes_for_it():
    assert batch_s(plain(**WAVES), 400, 3) == pytest.approx(1.0 + 2 * 1.1)


def test_measured_throughput_is_the_capacity_of_the_flink_preset():
    curve = capacity_curve(load_job("flink-cars"))
    assert (curve[2], curve[11], curve[23]) == (36521.8, 195826.9, 369729.5)


def test_capacity_of_the_presets_that_have_stages():
    """base on 1: 0.5 + 24 × 0.02 + 120 × 0.02 + r × 0.0005 ≤ 30 s for 53240 records."""
    assert round(capacity_curve(load_job("base"))[1], 3) == round(53240 / 30, 3)
    assert [round(rate) for rate in capacity_curve(load_job("click-fraud"))] == [0, 198, 392, 550, 690, 690, 923]


@pytest.mark.parametrize("changes", [{}, {"partition_skew": 1.0}, {"exponent": 0.3}, {"batch_cap": 60_000}])
def test_a_capacity_takes_few_batches_to_find(changes, monkeypatch):
    """A simulation of 2,000 executors needs 2,000 of them, each of 10,000 partitions."""
    job, reckoned = load_job("base", {"executors": [1, 40], **changes}), []

    def reckon(*given):
        reckoned.append(given)
        return batch_s(*given)

    monkeypatch.setattr("rheostat.sim.capacity.batch_s", reckon)
    curve = [capacity(job, n) for n in range(1, 41)]
    assert curve[0] > 0
    assert len(reckoned) <= 12 * 40
