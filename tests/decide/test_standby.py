"""Hot standby at every jump. ``n_max`` 12 Workers, two of them in standby, unless said."""

import pytest

from rheostat.errors import InputError
from rheostat.execute.workers import Standby, around


@pytest.mark.parametrize(
    ("before", "after", "idle", "expected"),
    [
        pytest.param(2, 3, 2, Standby(0, 1), id="one up from two in standby: one is missing afterwards"),
        pytest.param(2, 4, 2, Standby(0, 2), id="two up: both are missing afterwards"),
        pytest.param(2, 5, 2, Standby(1, 2), id="three up: one before, the refill after"),
        pytest.param(2, 8, 2, Standby(4, 2), id="six up: four before"),
        pytest.param(2, 3, 0, Standby(1, 2), id="none in standby: the one before, two after"),
        pytest.param(2, 3, 3, Standby(0, 0), id="more in standby than wanted: nothing to create"),
        pytest.param(2, 3, 4, Standby(0, 0, 2), id="and where three are left, one too many goes"),
        pytest.param(2, 2, 1, Standby(0, 1), id="no change: only the refill"),
        pytest.param(5, 4, 2, Standby(0, 0, 2), id="one down: three idle, two are kept"),
        pytest.param(5, 2, 1, Standby(0, 0, 2), id="three down: four idle, two are kept"),
        pytest.param(5, 4, 0, Standby(0, 1), id="one down from none in standby: one idle, one more is created"),
        pytest.param(8, 11, 2, Standby(1, 1), id="three up near the end: one Worker is left for standby"),
        pytest.param(8, 12, 2, Standby(2, 0), id="all Workers in use: none for standby"),
        pytest.param(8, 14, 2, Standby(2, 0), id="beyond all Workers: what there is"),
        pytest.param(12, 12, 0, Standby(0, 0), id="nothing free"),
    ],
)
def test_around_a_change(before, after, idle, expected):
    assert around(before, after, idle, n_backup=2, n_max=12) == expected


def test_standby_does_not_grow_with_each_increase():
    """As printed, five increases by one leave 6 in standby. Here there are two after each."""
    used, idle, left = 1, 2, []
    for _ in range(5):
        plan = around(used, used + 1, idle, n_backup=2, n_max=12)
        used, idle = used + 1, idle + plan.create_first - 1 + plan.create_after
        left.append(idle)
    assert left == [2, 2, 2, 2, 2]


def test_without_standby_it_creates_what_an_increase_needs_and_removes_what_a_decrease_frees():
    assert around(2, 4, 0, n_backup=0, n_max=12) == Standby(2, 0)
    assert around(4, 2, 0, n_backup=0, n_max=12) == Standby(0, 0, 0)


@pytest.mark.parametrize(("used", "idle", "expected"), [(3, 0, 2), (3, 1, 1), (3, 2, 0), (3, 5, 0), (11, 0, 1)])
def test_the_refill(used, idle, expected):
    assert around(used, used, idle, n_backup=2, n_max=12).create_after == expected


def test_every_impossible_number_is_named():
    with pytest.raises(InputError) as caught:
        around(9, -1, 4, n_backup=-2, n_max=12)
    assert [fault.field for fault in caught.value.faults] == ["after", "n_backup", "room"]
