"""Values: what is true of them both as they run in tests, guarded, and as they run in production."""

import dataclasses
import pickle

import pytest

from rheostat import values
from rheostat.errors import InputError
from rheostat.model import Assessment, Bounds


@pytest.fixture(params=[False, True], ids=["plain", "guarded"])
def pair(request, monkeypatch):
    """A class of each kind with two fields."""
    monkeypatch.setattr(values, "GUARDED", request.param)

    @values.dataclass(frozen=True, slots=True)
    class Pair:
        first: int
        second: tuple[int, ...] = ()

    return Pair


def test_the_values_of_the_loop_cannot_be_changed_in_tests():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Assessment(0.0).executors = 3  # type: ignore[misc] # mypy sees it too


def test_equal_fields_are_equal_values_with_one_hash(pair):
    assert pair(1, (2,)) == pair(1, (2,)) != pair(1, (3,))
    assert len({pair(1, (2,)), pair(1, (2,)), pair(1, (3,))}) == 2


def test_there_is_no_room_for_another_attribute(pair):
    with pytest.raises((AttributeError, TypeError)):
        pair(1).third = 3


def test_a_field_is_replaced_and_the_value_stays(pair):
    before = pair(1, (2,))
    assert values.replace(before, second=(5,)) == pair(1, (5,))
    assert before == pair(1, (2,))


def test_the_only_field_of_a_class_can_be_replaced():
    @values.dataclass(frozen=True)
    class One:
        only: int

    assert values.replace(One(1), only=2) == One(2)


def test_a_replaced_value_is_checked_like_a_new_one():
    with pytest.raises(InputError, match="the greatest number is under the least"):
        values.replace(Bounds(1, 5), minimum=9)


def test_a_field_that_is_not_there_cannot_be_replaced(pair):
    with pytest.raises(TypeError, match="Pair has no field 'third'"):
        values.replace(pair(1), third=3)


def test_a_value_goes_through_pickle():
    assert pickle.loads(pickle.dumps(Bounds(1, 5))) == Bounds(1, 5)  # noqa: S301 - of our own making
