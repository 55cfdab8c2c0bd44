"""Cross-validation and resampling by blocks, held against the plain way: fitting the rows themselves."""

import numpy as np
import pytest

from rheostat.learn.slow_records import Blocks


@pytest.fixture
def rows():
    random = np.random.default_rng(4)
    points = random.normal(size=(50, 4))
    return points, points @ [1.0, 2.0, 0.0, -1.0] + random.normal(size=50)


def least_squares(points, values):
    return np.linalg.lstsq(points, values, rcond=None)[0]


def test_rows_are_cut_into_blocks_of_about_the_length(rows):
    points, values = rows

    assert Blocks.of(points, values, 12).starts == (0, 12, 25, 37)
    assert Blocks.of(points, values, 1000).starts == (0,)
    assert Blocks.of(points, values, 1).starts == tuple(range(50))


@pytest.mark.parametrize("size", [2, 4])
def test_an_error_is_that_of_fits_to_the_other_folds(rows, size):
    points, values = rows
    blocks = Blocks.of(points, values, 5)
    fold = np.repeat(np.arange(10) % 3, 5)
    rests = []
    for left_out in range(3):
        inside = fold == left_out
        weights = least_squares(points[~inside, :size], values[~inside])
        rests.append(values[inside] - points[inside, :size] @ weights)

    assert blocks.errors(points, values, [size], folds=3) == pytest.approx(
        [np.sqrt(np.mean(np.concatenate(rests) ** 2))]
    )


def test_more_folds_than_blocks_leave_out_one_block_each(rows):
    points, values = rows
    blocks = Blocks.of(points, values, 25)

    assert blocks.errors(points, values, [3], folds=40) == blocks.errors(points, values, [3], folds=2)


def test_a_refit_is_the_fit_to_the_rows_of_the_drawn_blocks(rows):
    points, values = rows
    blocks = Blocks.of(points, values, 10)
    drawn = np.random.default_rng(7).multinomial(5, [0.2] * 5, size=3)

    refits = blocks.refits(3, 7, [4], 4)

    for counts, weights in zip(drawn, refits, strict=True):
        chosen = np.concatenate(
            [np.arange(10 * b, 10 * b + 10) for b, times in enumerate(counts) for _ in range(times)]
        )
        assert weights == pytest.approx(least_squares(points[chosen], values[chosen]), rel=1e-6)


def test_a_refit_has_the_columns_that_do_best_on_the_blocks_it_left_out(rows):
    points = rows[0]
    values = 0.3 * points[:, 0] + np.random.default_rng(2).standard_normal(50)
    blocks = Blocks.of(points, values, 10)
    drawn = np.random.default_rng(7).multinomial(5, [0.2] * 5, size=20)

    refits = blocks.refits(20, 7, [1, 2, 4], 2)

    sizes = []
    for counts, weights in zip(drawn, refits, strict=True):
        taken = np.repeat(counts, 10)
        inside, outside = np.repeat(np.arange(50), taken), np.flatnonzero(taken == 0)
        fits = {size: least_squares(points[inside, :size], values[inside]) for size in (1, 2, 4)}
        errors = {size: np.sum((points[outside, :size] @ fit - values[outside]) ** 2) for size, fit in fits.items()}
        best = min(errors, key=lambda size: errors[size]) if outside.size else 2
        sizes.append(best)
        assert weights == pytest.approx(np.pad(fits[best], (0, 4 - best)), rel=1e-6)
    assert len(set(sizes)) > 1


def test_a_refit_of_all_blocks_has_the_usual_columns():
    points = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])
    blocks = Blocks.of(points, np.array([0.0, 1.0, 2.0, 3.0]), 4)

    assert blocks.refits(1, 0, [1, 2], 1)[0] == pytest.approx([1.5, 0.0])
    assert blocks.refits(1, 0, [1, 2], 2)[0] == pytest.approx([0.0, 1.0], abs=1e-6)
