"""Training: the degree, what is refused, and data that is hard to learn from."""

import numpy as np
import pytest
from tests.learn.data import points_of, scattered, staircase

from rheostat.errors import InputError
from rheostat.learn.slow_records import Sample, TrainingOptions, stability, train


def made(of, rows=480, noise=0.01, seed=1):
    """Samples of a function of (w ÷ 1000, n), n from 1 to 6 in turns of ten."""
    random = np.random.default_rng(seed)
    found = []
    for row in range(rows):
        w, n = random.uniform(0, 6000), 1 + row // 10 % 6
        slow = max(0.0, of(w / 1000, n) + noise * random.standard_normal())
        found.append(Sample(15.0 * row, (float(w),), n, float(slow)))
    return found


@pytest.mark.parametrize(
    ("of", "degree"),
    [
        pytest.param(lambda w, n: 1 + 0.1 * w - 0.1 * n, 1, id="a plane"),
        pytest.param(lambda w, n: 1 + 0.02 * w * w - 0.03 * w * n, 2, id="a quadric"),
        pytest.param(lambda w, _: 2 + 0.02 * (w - 3) ** 3, 3, id="a cubic"),
        pytest.param(lambda w, _: 2 + np.cos(2.9 * w), 8, id="waves that take all eight"),
    ],
)
def test_the_degree_is_that_of_the_least_error_on_blocks_left_out(of, degree):
    trained = train(made(of), None)

    assert [tried for tried, _ in trained.cv_errors] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert trained.degree == degree
    assert trained.degree == trained.model.polynomial.degree
    assert min(trained.cv_errors, key=lambda pair: pair[1])[0] == degree


def test_the_training_error_would_have_picked_the_highest_degree():
    rows = made(lambda w, n: 1 + 0.1 * w - 0.1 * n)
    points, slow = [(s.workload[0], s.executors) for s in rows], [s.slow for s in rows]
    options = [TrainingOptions(degrees=(degree,), outliers=False) for degree in range(1, 9)]
    fits = [train(rows, None, each).model.polynomial for each in options]
    errors = [np.mean((fit.values(points) - slow) ** 2) for fit in fits]

    assert int(np.argmin(errors)) + 1 == 8
    assert train(rows, None, TrainingOptions(outliers=False)).degree == 1


def test_the_model_follows_the_samples():
    model = train(scattered(), 1000.0).model

    assert model.predict((1200.0,), 2) == pytest.approx(0.0, abs=0.03)
    assert model.predict((2200.0,), 2) == pytest.approx(0.3, abs=0.03)
    assert model.predict((3600.0,), 4) == pytest.approx(0.1, abs=0.03)


def test_the_same_samples_give_the_same_model_in_any_order_and_given_twice():
    rows = staircase()
    trained = train(rows, 1000.0)

    assert train(rows, 1000.0) == trained
    assert train(rows[::-1], 1000.0) == trained
    assert train(rows + rows[20:40], 1000.0) == trained
    assert trained.rows == 240


def test_a_degree_with_more_monomials_than_half_of_the_rows_is_not_tried():
    trained = train(staircase(steps=6), 1000.0)

    assert [degree for degree, _ in trained.cv_errors] == [1, 2, 3]


def test_the_lowest_degree_is_tried_in_any_case():
    assert train(staircase(steps=6), 1000.0, TrainingOptions(degrees=(8,))).degree == 8


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(staircase(numbers=(3,)), id="one number of executors"),
        pytest.param([Sample(float(t), (500.0,), 1 + t % 3, 0.01 * (t % 3)) for t in range(60)], id="one workload"),
        pytest.param([Sample(float(t), (500.0,), 2, 0.05) for t in range(60)], id="one point"),
        pytest.param([Sample(float(t), (0.0,), 2, 0.0) for t in range(60)], id="no load at all"),
        pytest.param([s._replace(slow=0.0) for s in staircase()], id="nothing slow"),
        pytest.param(staircase(capacity=1e9), id="a billion records a second"),
        pytest.param([s._replace(slow=1e6 * s.slow) for s in staircase()], id="a backlog without end"),
        pytest.param(staircase(steps=5), id="twenty rows, fewer than a block"),
        pytest.param([s._replace(at=0.0) for s in staircase()], id="all at one time"),
    ],
)
def test_hard_data_gives_a_sane_model(rows):
    trained = train(rows, 1000.0)
    deviation = stability(rows, trained, points_of(rows))

    top = max(sample.slow for sample in rows)
    for sample in rows:
        assert 0 <= trained.model.predict(sample.workload, sample.executors) <= top + 1e-9
    assert 0 <= deviation < float("inf")


def test_one_point_is_learned_as_it_is():
    model = train([Sample(float(t), (500.0,), 2, 0.05) for t in range(60)], None).model

    assert model.predict((500.0,), 2) == pytest.approx(0.05)


def wrong(row, **changes):
    rows = staircase()
    rows[row] = rows[row]._replace(**changes)
    return rows


@pytest.mark.parametrize(
    ("rows", "field", "given"),
    [
        pytest.param(staircase()[:19], "samples", "19", id="too few"),
        pytest.param(staircase()[:15] * 4, "samples", "15", id="too few different ones"),
        pytest.param([], "samples", "0", id="none"),
        pytest.param(wrong(3, slow=float("nan")), "samples[3].slow", "nan", id="slow records unknown"),
        pytest.param(wrong(3, slow=float("inf")), "samples[3].slow", "inf", id="slow records without end"),
        pytest.param(wrong(3, slow=-0.1), "samples[3].slow", "-0.1", id="fewer than no slow records"),
        pytest.param(wrong(0, at=float("nan")), "samples[0].at", "nan", id="no time"),
        pytest.param(wrong(9, workload=(float("nan"),)), "samples[9].workload", "nan", id="workload unknown"),
        pytest.param(wrong(9, workload=(-5.0,)), "samples[9].workload", "-5.0", id="negative workload"),
        pytest.param(wrong(9, workload=(1.0, 2.0)), "samples[9].workload", "(1.0, 2.0)", id="another number of topics"),
        pytest.param(wrong(0, workload=()), "samples[0].workload", "()", id="no topic"),
        pytest.param(wrong(9, executors=0), "samples[9].executors", "0", id="no executor"),
        pytest.param(wrong(9, executors=1.5), "samples[9].executors", "1.5", id="half an executor"),
        pytest.param(wrong(9, executors=True), "samples[9].executors", "True", id="no number of executors"),
    ],
)
def test_what_cannot_be_learned_from_is_told(rows, field, given):
    with pytest.raises(InputError) as told:
        train(rows, 1000.0)

    assert (told.value.faults[0].field, told.value.faults[0].given) == (field, given)


def test_all_faults_are_told_at_once_and_each_once():
    rows = wrong(3, slow=float("nan"), executors=0)
    rows[5] = rows[5]._replace(slow=-1.0)

    with pytest.raises(InputError) as told:
        train(rows, 1000.0)

    assert [fault.field for fault in told.value.faults] == ["samples[3].executors", "samples[3].slow"]
    assert "rows like it: 2" in told.value.faults[1].message


@pytest.mark.parametrize("w_max", [0.0, -1.0, float("nan"), float("inf")])
def test_a_capacity_that_cannot_be_is_told(w_max):
    with pytest.raises(InputError, match="w_max"):
        train(staircase(), w_max)


def test_options_that_cannot_be_are_told_at_once():
    with pytest.raises(InputError) as told:
        TrainingOptions(degrees=(0, 13), resamples=1, block=0, folds=1, stability_limit=0.0, objective=0.0, seed=-1)

    assert [fault.field for fault in told.value.faults] == [
        "degrees", "resamples", "block", "folds", "stability_limit", "objective", "seed"
    ]  # fmt: skip
