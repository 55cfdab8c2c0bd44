"""Cross-validation and resampling by blocks, held against the plain way: fitting the rows themselves."""

import numpy as np
import pytest

from rheostat.learn.blocks import Blocks


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

    refits = blocks.refits(3, seed=7)

    for counts, weights in zip(drawn, refits, strict=True):
        chosen = np.concatenate(
            [np.arange(10 * b, 10 * b + 10) for b, times in enumerate(counts) for _ in range(times)]
        )
        assert weights == pytest.approx(least_squares(points[chosen], values[chosen]), rel=1e-6)
