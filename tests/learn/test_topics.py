"""Several topics: their rates become one load by what a record of each costs."""

import numpy as np
import pytest

from rheostat.learn.slow_records import Sample, record_costs, train


def mixed(costs, rows=300, seed=2, of=lambda load, n: max(0.0, load / n / 1000 - 0.8)):
    """Topics with rates that wander apart; slow records follow from Σ costs · rate."""
    random = np.random.default_rng(seed)
    found = []
    for row in range(rows):
        rates = tuple(float(rate) for rate in random.uniform(50, 800, len(costs)))
        n = 1 + row // 10 % 3
        found.append(Sample(15.0 * row, rates, n, of(sum(map(float.__mul__, costs, rates)), n)))
    return found


@pytest.mark.parametrize(
    "costs", [(1.0, 4.0), (4.0, 1.0), (1.0, 1.0), (1.0, 2.0, 8.0)], ids=["1 to 4", "4 to 1", "alike", "three topics"]
)
def test_costs_are_found(costs):
    found = record_costs(mixed(costs))

    assert [cost / found[0] for cost in found] == pytest.approx([cost / costs[0] for cost in costs], rel=0.1)


def test_a_topic_that_costs_nothing_is_found():
    found = record_costs(mixed((4.0, 0.0)))

    assert found[1] < 0.05 * found[0]


def test_the_mean_record_costs_one():
    rows = mixed((1.0, 4.0))
    costs, volume = record_costs(rows), np.sum([sample.workload for sample in rows], axis=0)

    assert costs @ volume == pytest.approx(volume.sum())


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([s._replace(slow=0.0) for s in mixed((1.0, 4.0))], id="nothing slow"),
        pytest.param([s._replace(workload=(s.workload[0], 0.0)) for s in mixed((1.0, 4.0))], id="one topic is empty"),
        pytest.param([s._replace(workload=(0.0, 0.0)) for s in mixed((1.0, 4.0))], id="both are empty"),
        pytest.param(mixed((1.0,)), id="one topic"),
        pytest.param(
            [s._replace(workload=(s.workload[0], 2 * s.workload[0])) for s in mixed((1.0, 4.0))], id="in proportion"
        ),
    ],
)
def test_where_nothing_tells_them_apart_costs_are_alike(rows):
    assert record_costs(rows) == pytest.approx((1.0,) * len(rows[0].workload))
    assert train(rows, 1000.0).model.costs == pytest.approx((1.0,) * len(rows[0].workload))


def test_two_topics_of_different_cost_are_predicted_better_by_the_vector_than_by_their_sum():
    known, unseen = mixed((0.5, 3.0), seed=1), mixed((0.5, 3.0), seed=9)

    def error(rows, others):
        model = train(rows, None).model
        return np.sqrt(np.mean([(model.predict(s.workload, s.executors) - s.slow) ** 2 for s in others]))

    def summed(rows):
        return [sample._replace(workload=(sum(sample.workload),)) for sample in rows]

    vector, total = error(known, unseen), error(summed(known), summed(unseen))

    assert vector < 0.05
    assert total > 4 * vector


def test_costs_are_kept_alike_where_they_predict_blocks_left_out_no_better():
    random = np.random.default_rng(5)
    rows = [s._replace(slow=float(random.uniform(0, 0.05))) for s in mixed((1.0, 1.0), rows=100)]

    costs = train(rows, 1000.0).model.costs

    assert costs == (1.0, 1.0)
    assert record_costs(rows) != pytest.approx((1.0, 1.0))
