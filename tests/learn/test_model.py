"""f(workload, n): the polynomial where samples lie, made monotone; what is assumed elsewhere."""

import json
import math

import pytest
from pydantic import TypeAdapter
from tests.learn.data import staircase

from rheostat.learn.slow_records import CEILING, LoadRange, Polynomial, SlowModel, spans, surface, train


def model_of(coefficients, seen, w_max=1000.0, top=10.0, degree=1, costs=(1.0,)):
    """A model of z_w = w ÷ 1000 and z_n = n."""
    polynomial = Polynomial(degree, (0.0, 0.0), (1000.0, 1.0), coefficients)
    return SlowModel(polynomial, costs, tuple(LoadRange(*span) for span in seen), w_max, top, objective=0.1)


PLANE = model_of((0.3, 0.1, -0.1), [(2, 0.0, 2000.0), (3, 1000.0, 3000.0)])
"""0.3 + w ÷ 10000 − n ÷ 10"""


@pytest.mark.parametrize(
    ("workload", "executors", "expected"),
    [
        pytest.param(500.0, 2, 0.15, id="where samples lie: the polynomial"),
        pytest.param(2500.0, 3, 0.25, id="where samples lie, at another number"),
        pytest.param(0.0, 2, 0.1, id="at the edge"),
        pytest.param(3000.0, 2, 0.6, id="beyond: the line through the objective at n·w_max"),
        pytest.param(4000.0, 3, 0.1 * (4 / 3 - 0.9) / 0.1, id="beyond, at another number"),
        pytest.param(500.0, 3, 0.0, id="below: nothing at half of the capacity"),
        pytest.param(4500.0, 5, 0.0, id="a number never seen: 90 % of n·w_max"),
        pytest.param(5000.0, 5, 0.1, id="a number never seen: n·w_max is the objective"),
        pytest.param(7500.0, 5, 0.6, id="a number never seen: and on along the line"),
        pytest.param(2900.0, 5, 0.0, id="a number never seen: no more than fewer were seen to have"),
        pytest.param(300.0, 1, 0.13, id="fewer than seen: no less than more were seen to have"),
        pytest.param(2500.0, 1, 1.6, id="fewer than seen, beyond: the line"),
    ],
)
def test_the_expected_share_of_slow_records(workload, executors, expected):
    assert PLANE.predict((workload,), executors) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("workload", "executors", "expected"),
    [
        pytest.param(500.0, 2, 0.15, id="where samples lie: the polynomial"),
        pytest.param(500.0, 3, 0.1, id="below them: as at the least load there"),
        pytest.param(2900.0, 5, 0.29, id="more executors: as with fewer"),
        pytest.param(2100.0, 2, math.inf, id="beyond them: nothing is known"),
        pytest.param(500.0, 1, math.inf, id="fewer executors: nothing is known"),
        pytest.param(3100.0, 5, math.inf, id="more load than any: nothing is known"),
    ],
)
def test_what_samples_at_least_as_hard_allow(workload, executors, expected):
    assert PLANE.most((workload,), executors) == pytest.approx(expected)


@pytest.mark.parametrize("coefficients", [(0.3, 0.1, -0.1), (-0.5, 0.4, -0.2), (0.0, 0.05, 0.0)])
@pytest.mark.parametrize("w_max", [1000.0, 300.0, None])
def test_a_prediction_is_what_is_assumed_within_what_was_seen(coefficients, w_max):
    spans_seen = [LoadRange(2, 0.0, 2000.0), LoadRange(3, 1000.0, 3000.0)]
    model = model_of(coefficients, spans_seen, w_max)
    table = surface(model.polynomial, spans_seen, model.top, model.objective)

    def whole(load, n):
        """The rule as the docstring of ``predict`` tells it, nothing left out."""
        capacity = max(n * (w_max or 0.0), table.sound_load(n))
        line = CEILING if load >= CEILING * capacity else model.objective * (load / capacity - 0.9) / (1 - 0.9)
        assumed = 0.0 if load <= 0.9 * capacity else line
        least = max(
            (at(row, load, row[-1]) for number, row in zip(table.numbers, table.least, strict=True) if number >= n),
            default=0.0,
        )
        most = min(
            (at(row, load, math.inf) for number, row in zip(table.numbers, table.most, strict=True) if number <= n),
            default=math.inf,
        )
        return min(max(assumed, least), most, CEILING)

    def at(row, load, beyond):
        place = next((place for place, knot in enumerate(table.knots) if knot >= load), None)
        if place is None:
            return beyond
        if table.knots[place] == load or row[place] == row[place - 1]:
            return row[place]
        share = (load - table.knots[place - 1]) / (table.knots[place] - table.knots[place - 1])
        return min(row[place], row[place - 1] + share * (row[place] - row[place - 1]))

    cases = [(load, n) for load in (0.0, 1.0, *range(90, 9000, 45)) for n in range(1, 9)]
    assert [model.predict((load,), n) for load, n in cases] == [whole(load, n) for load, n in cases]


def test_a_wave_of_the_polynomial_is_levelled_half_way():
    wave = model_of((0.2, 0, 0, -0.2, 0, 0), [(1, 0.0, 1000.0)], degree=2)  # 0.2 − 0.2·(w/1000)², falling

    assert [wave.predict((w,), 1) for w in (0.0, 400.0, 1000.0)] == pytest.approx([0.1, 0.1, 0.1])


def test_a_rise_with_executors_is_levelled_half_way():
    rising = model_of((0.1, 0.0, 0.1), [(1, 100.0, 900.0), (2, 100.0, 900.0)])

    assert [rising.predict((500.0,), n) for n in (1, 2)] == pytest.approx([0.25, 0.25])


def test_the_polynomial_is_cut_off_at_what_was_seen():
    steep = model_of((-5.0, 20.0, 0.0), [(1, 0.0, 1000.0)], top=0.7)

    assert [steep.predict((w,), 1) for w in (0.0, 200.0, 500.0, 1000.0)] == pytest.approx([0.0, 0.0, 0.7, 0.7])


def test_a_load_that_was_carried_well_counts_as_capacity():
    sound = model_of((0.0, 0.0, 0.0), [(1, 0.0, 4000.0)])

    assert sound.predict((3600.0,), 1) == 0.0
    assert sound.predict((4400.0,), 1) == pytest.approx(0.2), "4000 is its capacity, not 1000"
    assert sound.predict((4000.0,), 2) == 0.0, "and that of more executors at least"


def test_without_any_capacity_a_load_beyond_what_was_seen_is_violated():
    unknown = model_of((0.0, 0.0, 0.0), [(2, 0.0, 2000.0)], w_max=None)

    assert unknown.predict((1500.0,), 1) > 1
    assert unknown.predict((1500.0,), 2) == 0.0
    assert unknown.predict((1500.0,), 9) == 0.0
    assert unknown.predict((4000.0,), 9) == pytest.approx(1.1)


def test_between_two_ranges_it_is_what_is_assumed_within_what_their_ends_allow():
    gap = model_of((0.0, 0.1, 0.0), [(1, 0.0, 500.0), (1, 2000.0, 2500.0), (9, 800.0, 1800.0)])

    assert gap.predict((850.0,), 1) == pytest.approx(0.08, abs=0.006), "no less than nine executors have"
    assert gap.predict((1040.0,), 1) == pytest.approx(0.14), "the line through the objective at n·w_max"
    assert gap.predict((1700.0,), 1) == pytest.approx(0.2), "no more than at the beginning of the higher range"


def test_the_topics_make_one_load():
    priced = model_of((0.3, 0.1, -0.1), [(2, 0.0, 2000.0)], costs=(0.5, 3.0))

    assert priced.predict((400.0, 100.0), 2) == pytest.approx(0.15)


@pytest.mark.parametrize(
    ("workload", "executors"),
    [
        pytest.param((float("nan"),), 1, id="not a number"),
        pytest.param((float("inf"),), 1, id="without end"),
        pytest.param((-1.0,), 1, id="negative"),
        pytest.param((1.0, 2.0), 1, id="a topic too many"),
        pytest.param((), 1, id="no topic"),
        pytest.param((1.0,), 0, id="no executor"),
    ],
)
def test_what_cannot_be_is_refused(workload, executors):
    with pytest.raises(ValueError, match="no prediction"):
        PLANE.predict(workload, executors)


def test_a_model_goes_through_json_unchanged():
    model = train(staircase(), 1000.0).model
    adapter = TypeAdapter(SlowModel)
    text = adapter.dump_json(model)

    again = adapter.validate_json(text)

    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert again == model
    assert again.predict((2345.0,), 3) == model.predict((2345.0,), 3)


def test_a_wide_gap_ends_a_range():
    assert spans([0.0, 79.0, 100.0, 121.0, 50.0], [3, 3, 3, 3, 1]) == ((1, 50, 50), (3, 0, 0), (3, 79, 121))
