"""Polynomials: what they are, and fits through Gram matrices."""

import numpy as np
import pytest

from rheostat.learn.slow_records import Polynomial, columns, monomials, orthonormal, solve


def test_monomials_come_by_total_degree():
    assert monomials(np.array([[2.0, 3.0]]), 2).tolist() == [[1, 2, 3, 4, 6, 9]]


@pytest.mark.parametrize(
    ("variables", "degree", "expected"), [(2, 1, 3), (2, 8, 45), (3, 8, 165)], ids=["a plane", "degree 8", "two topics"]
)
def test_the_number_of_columns_is_a_binomial(variables, degree, expected):
    assert columns(variables, degree) == expected
    assert monomials(np.ones((1, variables)), degree).shape == (1, expected)


def test_a_polynomial_standardizes_first():
    polynomial = Polynomial(2, (100.0, 3.0), (50.0, 2.0), (1.0, 2.0, 0.0, 0.0, 0.0, 4.0))

    assert polynomial.values([(150.0, 3.0), (100.0, 5.0), (50.0, 1.0)]).tolist() == [3.0, 5.0, 3.0]


def grid():
    return np.array([(1000.0 * w, float(n)) for w in range(12) for n in range(1, 6)])


def test_the_basis_is_orthonormal_on_its_points():
    _, values = orthonormal(grid(), 3)

    assert np.allclose(values.T @ values, np.eye(10), atol=1e-12)


def test_the_basis_of_a_lower_degree_is_the_beginning_of_that_of_a_higher_one():
    points = grid()

    assert np.allclose(orthonormal(points, 2)[1], orthonormal(points, 4)[1][:, :6])


def test_a_monomial_that_the_points_do_not_tell_from_others_gets_no_column():
    points = np.array([(float(w), float(n)) for w in range(10) for n in (2, 7)])

    basis, values = orthonormal(points, 2)

    assert np.flatnonzero(~values.any(axis=0)).tolist() == [5], "n² is determined by n where only two n were seen"
    assert not basis.mixing[:, 5].any()


def test_a_fit_finds_the_polynomial_that_made_the_values():
    points = grid()
    wanted = 3 + 2e-3 * points[:, 0] - points[:, 1] ** 2 + 1e-4 * points[:, 0] * points[:, 1]
    basis, values = orthonormal(points, 3)

    fitted = basis.polynomial(3, values.T @ wanted)

    assert fitted.values([(2500.0, 4.0)]) == pytest.approx([3 + 5 - 16 + 1])


def test_a_basis_at_other_points_is_the_same_polynomials():
    points = grid()
    basis, values = orthonormal(points, 4)

    assert np.allclose(basis.at(points[7:9], 4), values[7:9])
    assert np.allclose(basis.at(points[7:9], 2), values[7:9, :6])


def test_solving_in_batches_is_least_squares_for_each():
    points = np.random.default_rng(1).normal(size=(2, 30, 3))
    wanted = np.array([[1.0, -2.0, 3.0], [0.0, 5.0, 0.5]])
    grams = np.einsum("bri,brj->bij", points, points)
    products = np.einsum("bri,bi->bri", points, wanted).sum(axis=2)[:, :, None] * points

    assert np.allclose(solve(grams, products.sum(axis=1)), wanted)


def test_what_no_row_tells_is_taken_as_zero():
    assert solve(np.array([[2.0, 0.0], [0.0, 0.0]]), np.array([4.0, 0.0])) == pytest.approx([2.0, 0.0])
