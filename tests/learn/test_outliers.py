"""Outliers: what is left out, and what must not be."""

import pytest
from tests.learn.data import scattered, staircase

from rheostat.learn.slow_records import Sample, TrainingOptions, find_outliers, train


def changed(**rows):
    """The staircase with some rows changed: ``row_5=dict(slow=1.0)``."""
    found = staircase()
    for name, changes in rows.items():
        row = int(name.removeprefix("row_"))
        found[row] = found[row]._replace(**changes)
    return found


def load(row, factor):
    return (staircase()[row].workload[0] * factor,)


def loads(*rates):
    return [Sample(15.0 * row, (float(rate),), 1, 0.0) for row, rate in enumerate(rates)]


@pytest.mark.parametrize(
    ("rows", "left_out"),
    [
        pytest.param(staircase(), (), id="a clean climb: no violation is left out"),
        pytest.param(changed(row_5={"slow": 1.0}), (5,), id="a stall at a load that is carried"),
        pytest.param(changed(row_5={"slow": 0.46}), (5,), id="a stall as bad as the worst violation"),
        pytest.param(changed(row_5={"slow": 0.2}), (), id="harder samples that were as slow speak for it"),
        pytest.param(changed(row_5={"slow": 0.04}), (), id="less than half of the objective is no difference"),
        pytest.param(changed(row_57={"slow": 3.0}), (), id="very slow, but nothing beyond it went well"),
        pytest.param(changed(row_65={"slow": 1.0}, row_66={"slow": 0.8}), (65, 66), id="two in a row"),
        pytest.param(changed(row_30={"workload": load(30, 10)}), (30,), id="ten times the rate"),
        pytest.param(changed(row_30={"workload": load(30, 0)}), (30,), id="a rate of nothing"),
        pytest.param(changed(row_30={"workload": load(30, 2)}), (), id="twice the rate may be"),
        pytest.param(loads(*[100] * 10, 350, *[1000] * 10), (), id="half-way up a rise of the load"),
        pytest.param(loads(*[100] * 10, 3, *[100] * 10), (10,), id="a thirtieth of the rate"),
        pytest.param(loads(*[100, 1000] * 10), (), id="a load that jumps at each sample"),
        pytest.param(loads(*[100, 100, 100, 400] * 10), (), id="a load with a spike in each minute"),
        pytest.param(staircase()[:2], (), id="two rows"),
    ],
)
def test_rows_that_are_left_out(rows, left_out):
    assert find_outliers(rows, objective=0.1) == left_out


def test_a_level_that_stays_is_no_wrong_rate():
    rows = [s._replace(workload=(s.workload[0] * (10 if 20 <= i < 24 else 1),)) for i, s in enumerate(staircase())]

    assert find_outliers(rows, objective=0.1) == ()


def test_nine_witnesses_are_too_few():
    rows = changed(row_25={"slow": 0.5}, row_26={"slow": 0.5})[:35]

    assert find_outliers(rows, objective=0.1) == ()
    assert find_outliers(changed(row_25={"slow": 0.5}, row_26={"slow": 0.5})[:37], objective=0.1) == (25, 26)


def test_a_job_that_has_become_slower_is_believed_once_a_tenth_of_the_samples_say_so():
    before = staircase()
    after = [s._replace(slow=s.slow + 0.5) for s in staircase(numbers=(1, 2), at=3600.0)]

    assert find_outliers([*before, *after], objective=0.1) == ()


def test_training_leaves_them_out_and_predicts_as_if_they_were_not_there():
    rows, stalls = scattered(), (3, 47, 131, 205)
    stalled = [s._replace(slow=2.0) if row in stalls else s for row, s in enumerate(rows)]
    searched, taken = train(stalled, 1000.0), train(stalled, 1000.0, TrainingOptions(outliers=False))

    def error(trained):
        return sum(abs(trained.model.predict(s.workload, s.executors) - s.slow) for s in rows) / len(rows)

    assert (searched.left_out, searched.outliers) == (stalls, 4)
    assert (taken.left_out, taken.outliers) == ((), 0)
    assert error(searched) < 0.01
    assert error(taken) > 0.04
