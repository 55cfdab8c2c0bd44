"""The sampled curve of latest offsets and its inverse."""

from __future__ import annotations

import pytest

from rheostat.analyze.offsets import add_look, arrival_time, count_at, first_needed, keep_looks, known_samples
from rheostat.analyze.state import thin


@pytest.mark.parametrize(
    ("at", "count"),
    [
        pytest.param(-5.0, 100.0, id="before the first sample"),
        pytest.param(0.0, 100.0, id="at the first"),
        pytest.param(5.0, 150.0, id="between two"),
        pytest.param(15.0, 200.0, id="on a pause"),
        pytest.param(28.0, 240.0, id="on a steeper part"),
        pytest.param(99.0, 250.0, id="after the last"),
    ],
)
def test_arrivals_are_linear_between_samples(at, count):
    assert count_at((0.0, 10.0, 20.0, 30.0), (100, 200, 200, 250), at) == count


@pytest.mark.parametrize(
    ("count", "at"),
    [
        pytest.param(50, 0.0, id="before the first sample: its time, a bound"),
        pytest.param(100, 0.0, id="at the first"),
        pytest.param(125, 2.5, id="between two"),
        pytest.param(200, 20.0, id="after a pause: the end of the pause"),
        pytest.param(225, 25.0, id="on a later part"),
        pytest.param(250, 30.0, id="all of them"),
    ],
)
def test_a_record_arrived_when_the_curve_passed_its_number(count, at):
    assert arrival_time(((0.0, 10.0, 20.0, 30.0), (100, 200, 200, 250)), count) == at


@pytest.mark.parametrize(
    ("at", "count", "expected"),
    [
        pytest.param(2.0, 30, ((0.0, 1.0, 2.0), (10, 20, 30)), id="one more sample"),
        pytest.param(1.0, 25, ((0.0, 1.0), (10, 20)), id="a second reading at the same time"),
        pytest.param(2.0, 5, ((2.0,), (5,)), id="a count that fell"),
        pytest.param(0.5, 30, ((0.5,), (30,)), id="a clock that ran back"),
    ],
)
def test_a_curve_grows_or_starts_anew(at, count, expected):
    times, (column,) = add_look((0.0, 1.0), [(10, 20)], at, [count])
    assert known_samples(times, column) == expected


@pytest.mark.parametrize(
    ("since", "committed", "kept"),
    [
        pytest.param(25.0, 40, (20.0, 30.0, 40.0), id="the window reaches further back"),
        pytest.param(35.0, 15, (10.0, 20.0, 30.0, 40.0), id="the backlog reaches further back"),
        pytest.param(40.0, 99, (40.0,), id="nothing waits and no window"),
        pytest.param(35.0, None, (0.0, 10.0, 20.0, 30.0, 40.0), id="what is committed is not known"),
    ],
)
def test_only_what_will_be_asked_for_is_kept(since, committed, kept):
    at = (0.0, 10.0, 20.0, 30.0, 40.0)
    first_at = first_needed([(at, (0, 10, 20, 30, 40))], since=since, committed=[committed])
    times, rows = keep_looks(at, [(0,), (10,), (20,), (30,), (40,)], first_at, most=32)
    assert times == kept
    assert rows == tuple((int(at),) for at in kept)


def test_too_long_a_curve_loses_every_second_sample_of_its_older_half():
    looks = [(float(i), i) for i in range(9)]
    assert thin(looks, most=8) == tuple((float(i), i) for i in (0, 2, 4, 5, 6, 7, 8))
