"""The stability check: how far refits to resampled blocks are apart."""

import numpy as np
import pytest
from tests.learn.data import points_of, staircase

from rheostat.errors import InputError
from rheostat.learn.slow_records import Sample, TrainingOptions, stability, train
from rheostat.research.bench.training import FluidJob, bell, explore


def wandering(rows=450, seed=3):
    """A job whose load wanders, with executors that follow it and errors that last for a while."""
    random = np.random.default_rng(seed)
    found, error = [], 0.0
    for row in range(rows):
        load = 2300 + 1900 * np.sin(row / 70) + 100 * random.standard_normal()
        n = max(1, int(np.ceil(load / 1000)))
        error = 0.9 * error + 0.01 * random.standard_normal()
        found.append(Sample(15.0 * row, (float(load),), n, float(max(0.0, load / n / 1000 - 0.9 + error))))
    return found


def deviation(rows, degree, **options):
    chosen = TrainingOptions(degrees=(degree,), outliers=False, **options)
    return stability(rows, train(rows, None, chosen), points_of(rows), chosen)


def test_low_degrees_are_stable_on_450_samples_and_degree_8_explodes():
    found = {degree: deviation(wandering(), degree) for degree in (1, 2, 3, 8)}

    assert max(found[1], found[2]) < 0.02
    assert found[3] < 0.05
    assert found[8] > 1


def test_where_the_load_has_only_risen_the_refits_do_not_agree_on_the_degree():
    whole = explore(FluidJob(), bell, 900, seed=1)
    risen, most = whole[:450], whole[449]
    ahead = [((load,), most.executors) for load in (1000.0 * most.executors, 1100.0 * most.executors)]

    def apart(rows, points, degrees):
        options = TrainingOptions(degrees=degrees)
        return stability(rows, train(rows, 1000.0, options), points, options)

    assert apart(risen, ahead, (1,)) < 0.03
    assert apart(risen, ahead, tuple(range(1, 9))) > 0.05
    assert apart(whole, points_of(whole), tuple(range(1, 9))) < 0.03


def test_rows_drawn_one_by_one_would_pass_degree_8():
    assert deviation(wandering(), 8, block=1) < 0.02


def test_it_is_the_mean_over_points_of_the_standard_deviation_of_refits():
    rows = staircase(numbers=(1, 2), steps=50)
    options = TrainingOptions(degrees=(1,), resamples=40, block=10, seed=5)
    asked = [((700.0,), 1), ((1800.0,), 2), ((2300.0,), 2)]
    drawn = np.random.default_rng(5).multinomial(10, [0.1] * 10, size=40)
    matrix = np.array([(1.0, s.workload[0], s.executors) for s in rows])
    slow = np.array([s.slow for s in rows])
    predicted = []
    for counts in drawn:
        chosen = np.concatenate(
            [np.arange(10 * b, 10 * b + 10) for b, times in enumerate(counts) for _ in range(times)]
        )
        weights = np.linalg.lstsq(matrix[chosen], slow[chosen], rcond=None)[0]
        predicted.append([weights @ (1.0, workload[0], n) for workload, n in asked])

    found = stability(rows, train(rows, None, options), asked, options)

    assert found == pytest.approx(np.std(predicted, axis=0).mean(), rel=1e-5)


def test_the_seed_decides():
    rows = wandering()
    trained = train(rows, None)

    def found(seed):
        return stability(rows, trained, points_of(rows), TrainingOptions(seed=seed))

    assert found(1) == found(1)
    assert found(1) != found(2)


def test_far_from_the_samples_the_refits_are_further_apart():
    rows = wandering()
    options = TrainingOptions(degrees=(3,))
    trained = train(rows, None, options)

    near, far = (stability(rows, trained, [((load,), 4)], options) for load in (3500.0, 9000.0))

    assert far > 10 * near


def test_at_a_number_never_seen_the_polynomial_is_not_asked():
    rows = staircase(numbers=(1, 2))
    trained = train(rows, 1000.0)

    assert stability(rows, trained, [((500.0,), 9)]) == 0.0
    assert stability(rows, trained, []) == 0.0
    assert stability(rows, trained, [((500.0,), 9), ((900.0,), 1)]) == stability(rows, trained, [((900.0,), 1)]) > 0


def test_a_job_that_is_never_slow_is_stable():
    rows = [s._replace(slow=0.0) for s in staircase()]

    assert stability(rows, train(rows, 1000.0), points_of(rows)) == 0.0


def test_samples_that_were_not_trained_on_are_told():
    rows = staircase()
    trained = train(rows, 1000.0)

    with pytest.raises(InputError, match="240 that were trained on"):
        stability(rows[:-1], trained, points_of(rows))
