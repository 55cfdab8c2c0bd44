"""The daily cycle of trips: as a shape, as S2's load, and as the trips themselves."""

import json
from itertools import chain, pairwise

import pytest

from rheostat.errors import InputError
from rheostat.load.shapes import parse_shape
from rheostat.load.trips import BEGIN, DAYS_S, TripPlan, experiment_curve, synthetic_trips, trip_curve


def by_minute(curve, minutes=288):
    return [(curve.cumulative(60 * m + 60) - curve.cumulative(60 * m)) / 60 for m in range(minutes)]


def test_the_load_of_the_experiment_is_a_million_trips_three_times_within_288_minutes():
    """3,000,000 ÷ 17,280 s = 173.6 records/s; a Poisson number of a million has a standard deviation of 0.1 %."""
    curve = experiment_curve(seed=1)
    assert curve.duration == 17_280
    assert curve.cumulative(17_280) == pytest.approx(3_000_000, rel=0.005)
    assert curve.cumulative(17_280) % 3 == 0


def test_the_load_rises_and_falls_when_that_of_the_document_does():
    """Within twelve minutes up more than threefold, within twenty down by two fifths; dips by a tenth on the way."""
    rates = by_minute(experiment_curve())
    for rise in (30, 180):
        assert max(rates[rise - 10 : rise]) < 45
        assert rates[rise + 12] > 150
    for fall in (120, 270):
        assert min(rates[fall - 5 : fall]) > 260
    assert rates[140] < 0.6 * rates[119]
    assert rates[287] < 0.6 * rates[269]
    for dip in (100, 220):
        assert rates[dip] < 0.9 * min(rates[dip - 8], rates[dip + 8])


def test_the_heights_are_to_scale():
    """Means over a minute with at least 20 trips/s × 60 s: within 5 standard deviations, of 3 %, of the expected."""
    rates = by_minute(experiment_curve(seed=2))
    assert rates[26] == pytest.approx(0.15 / 0.944 * 173.6, rel=0.15)
    assert rates[117] == pytest.approx(1.56 / 0.944 * 173.6, rel=0.08)


def test_the_rate_is_the_mean_of_two_days_and_speed_and_copies_do_not_change_it():
    texts = ("trips:200@172800", "trips:200@17280,speed=10", "trips:200@17280,speed=10,copies=4")
    sums = [parse_shape(text).cumulative(1e9) for text in texts]
    assert sums == pytest.approx([34_560_000, 3_456_000, 3_456_000], rel=0.005)


def test_two_days_come_again():
    curve = parse_shape("trips:1000@34560,speed=10")
    assert by_minute(curve, 576)[288 + 117] == pytest.approx(by_minute(curve, 576)[117], rel=0.05)


def test_copies_make_the_load_rougher():
    """So many records from fewer trips: the spread between minutes of the city is √copies as large."""

    def spread(copies):
        curve = parse_shape(f"trips:100@1000,speed=60,copies={copies},seed=1")
        rates = [curve.rate(second) for second in range(1000)]
        return sum((left - right) ** 2 for left, right in pairwise(rates)) / sum(rates)

    assert spread(100) == pytest.approx(100 * spread(1), rel=0.25)


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("trips:1@5,speed=0", "a number > 0 and ≤ 1000000"),
        ("trips:1@5,copies=1.5", "a whole number from 1 to 1000"),
        ("trips:1..2@5", "RATE, a number ≥ 0"),
    ],
)
def test_a_mistake_in_the_shape_is_named(text, allowed):
    with pytest.raises(InputError) as caught:
        parse_shape(text)
    assert [fault.allowed for fault in caught.value.faults] == [allowed]


def test_absurd_lengths_and_rates_stay_bounded():
    assert parse_shape("trips:1e300@1").cumulative(1) > 1e299
    assert len(parse_shape("trips:1@1e8").pieces().points) == 100_000


@pytest.mark.parametrize("seed", [0, 7])
def test_the_generator_makes_the_trips_of_the_curve(seed):
    plan = TripPlan(rate=2.0, seconds=1234.5, speed=10, copies=3, seed=seed)
    arrivals, curve = synthetic_trips(plan).arrivals, trip_curve(plan)
    assert arrivals.duration == curve.duration == 1234.5
    text = f"trips:60@1234.5,speed=10,copies=3,seed={seed}"
    for points in (arrivals.pieces().points, parse_shape(text).pieces().points):
        assert list(chain(*points)) == pytest.approx(list(chain(*curve.points)))


def test_synthetic_trips_are_trips_of_the_city_in_order():
    load = synthetic_trips(TripPlan(rate=1.0, seconds=9_000, seed=3))
    trips = [json.loads(f"{{{body}}}") for body in load.bodies()]
    assert len(trips) == load.arrivals.trips[-1] > 4_096
    pickups = [trip["pickup"] for trip in trips]
    assert pickups == sorted(pickups)
    assert (pickups[0] >= BEGIN, pickups[-1] < BEGIN + 9_000) == (True, True)
    assert all(trip["dropoff"] >= trip["pickup"] + 60 for trip in trips)
    assert all(-74.3 < trip["pickup_longitude"] < -73.6 and 40.5 < trip["pickup_latitude"] < 41 for trip in trips)
    assert {trip["passengers"] for trip in trips} == {1, 2, 3, 4, 5, 6}
    assert 1.5 < sorted(trip["distance"] for trip in trips)[len(trips) // 2] < 2.1


def test_equal_seeds_make_equal_trips():
    one, same, other = (
        list(synthetic_trips(TripPlan(rate=1.0, seconds=600, seed=seed)).bodies()) for seed in (3, 3, 4)
    )
    assert one == same
    assert one[0] != other[0]


@pytest.mark.parametrize(("rate", "allowed"), [(0.0, "at least one trip"), (1e6, "at most 20000000 trips")])
def test_too_few_and_too_many_trips_are_reported(rate, allowed):
    with pytest.raises(InputError) as caught:
        synthetic_trips(TripPlan(rate=rate, seconds=DAYS_S))
    assert [(fault.field, fault.allowed) for fault in caught.value.faults] == [("trips", allowed)]
