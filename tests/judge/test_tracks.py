import pytest

from rheostat.judge.scoring import lag_line, thin, thin_acts
from rheostat.judge.simulate import Act


def test_few_points_stay_as_they_are():
    assert thin([(0.0, 1.0), (1.0, 2.0)], 2) == [(0.0, 1.0), (1.0, 2.0)]


def test_every_extreme_survives():
    """A single spike and a single gap among a thousand points; the order of time stays."""
    points = [(float(at), 5.0) for at in range(1000)]
    points[333], points[777] = (333.0, 50.0), (777.0, -3.0)
    kept = thin(points, 100)
    assert len(kept) <= 100
    assert {(333.0, 50.0), (777.0, -3.0)} <= set(kept)
    assert kept == sorted(kept)


@pytest.mark.parametrize(("count", "most", "kept"), [(0, 3, 0), (3, 3, 3), (7, 3, 3), (6, 3, 3)])
def test_of_too_many_acts_every_kth_is_shown(count, most, kept):
    acts = [Act(float(at), 1, 2, "STEADY", "why") for at in range(count)]
    assert len(thin_acts(acts, most)) == kept


def test_lag_is_zero_where_nothing_waits():
    assert lag_line([]) == []
    assert lag_line([(5.0, 8.0, 2.0)]) == [(5.0, 2.0), (8.0, 5.0)]
