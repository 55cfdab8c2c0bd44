"""The line through the last ten minutes, with values worked out by hand."""

import pytest

from rheostat.policies.trend import LoadPoint, add_point, ahead, forecast


def series(*points: tuple[float, float]) -> tuple[LoadPoint, ...]:
    return tuple(LoadPoint(at, (rate,)) for at, rate in points)


@pytest.mark.parametrize(
    ("points", "late_s", "expected"),
    [
        pytest.param([(0, 100), (10, 110), (20, 120)], 0.0, [125.0, 130.0], id="a straight rise goes on"),
        pytest.param([(0, 120), (10, 110), (20, 100)], 0.0, [95.0, 90.0], id="and a straight fall"),
        pytest.param([(0, 100), (10, 130), (20, 100)], 0.0, [110.0, 110.0], id="a peak in the middle has no slope"),
        pytest.param([(0, 100), (20, 140)], 30.0, [210.0, 220.0], id="a mean over 60 s is 30 s old"),
        pytest.param([(0, 30), (10, 20), (20, 10)], 0.0, [5.0, 0.0], id="a fall reaches 0"),
        pytest.param([(0, 10), (10, 2)], 0.0, [0.0, 0.0], id="and is never below it"),
        pytest.param([(0, 70)], 30.0, [70.0, 70.0], id="one point stays as it is"),
    ],
)
def test_the_next_seconds(points, late_s, expected):
    assert [rate for (rate,) in forecast(series(*points), [5.0, 10.0], late_s)] == pytest.approx(expected)


def test_without_a_point_there_is_no_forecast():
    assert forecast((), [5.0]) == ()


def test_each_topic_has_a_line_of_its_own():
    points = [LoadPoint(0.0, (100.0, 50.0)), LoadPoint(10.0, (110.0, 40.0))]
    assert forecast(points, [10.0, 60.0]) == ((120.0, 30.0), (170.0, 0.0))


@pytest.mark.parametrize(
    ("horizon_s", "points", "last"),
    [
        pytest.param(60.0, 12, 60.0, id="S1: a minute in steps of 5 s"),
        pytest.param(61.0, 13, 65.0, id="the horizon is met or passed"),
        pytest.param(2.0, 1, 5.0, id="never less than one step"),
    ],
)
def test_the_steps_ahead(horizon_s, points, last):
    steps = ahead(horizon_s, 5.0)
    assert (len(steps), steps[0], steps[-1]) == (points, 5.0, last)


class TestTheSeries:
    def test_forgets_what_is_older_than_it_looks_back(self):
        kept = add_point(series((0, 1), (300, 2), (500, 3)), LoadPoint(1000.0, (4.0,)), 600.0)
        assert [point.at for point in kept] == [500.0, 1000.0]

    def test_begins_anew_where_time_runs_backwards(self):
        assert add_point(series((0, 1), (300, 2)), LoadPoint(200.0, (4.0,)), 600.0) == series((200, 4))

    def test_begins_anew_with_another_number_of_topics(self):
        two = LoadPoint(400.0, (1.0, 2.0))
        assert add_point(series((0, 1), (300, 2)), two, 600.0) == (two,)

    def test_is_bounded_however_often_one_looks_and_ends_with_the_last_look(self):
        points: tuple[LoadPoint, ...] = ()
        for tick in range(5000):
            points = add_point(points, LoadPoint(tick / 5, (float(tick),)), 600.0)
        assert len(points) <= 480
        assert points[-1] == LoadPoint(999.8, (4999.0,))
        assert points[0].at >= 399.8
