"""Trips by their timestamps: when each record is due, what it says, and that none is lost."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.load.memory_sink import MemorySink

from rheostat.load.payload import IdChecksum
from rheostat.load.producer import OpenLoopProducer, ProducerSettings, Schedule
from rheostat.load.trips import Arrivals, Trip, TripLoad, TripPayloads

BODY = (
    '"pickup":100,"dropoff":160,"pickup_longitude":-73.5,"pickup_latitude":40.5,'
    '"dropoff_longitude":-73.25,"dropoff_latitude":40.25,"passengers":2,"distance":1.5'
)


class ManualClock:
    """Waits take as long as asked."""

    def __init__(self):
        self.time = 1_000.0

    def now(self):
        return self.time

    def wait(self, seconds):
        self.time += seconds
        return False


def arrivals(pickups, speed=1.0, copies=1):
    seconds = sorted(set(pickups))
    trips = [sum(pickup <= second for pickup in pickups) for second in seconds]
    return Arrivals(seconds, trips, seconds[0], (seconds[-1] - seconds[0] + 1) / speed, speed, copies)


def test_a_trip_says_what_it_is():
    assert Trip(100, 160, -73.5, 40.5, -73.25, 40.25, 2, 1.5).body() == BODY
    assert '"passengers":null' in Trip(100, 160, -73.5, 40.5, -73.25, 40.25, None, 1.5).body()


def test_records_are_due_by_the_timestamps_of_their_trips():
    """Pickups 0, 0, 25 and 100 s after the first; ten times as fast, three copies."""
    schedule = Schedule(arrivals([500, 500, 525, 600], speed=10, copies=3))
    assert schedule.total == 12
    assert [schedule.due(t) for t in (0, 2.49, 2.5, 9.99, 10.0)] == [6, 6, 9, 9, 12]
    due_at = [schedule.due_at(record) for record in range(12)]
    assert due_at == pytest.approx([0] * 6 + [2.5] * 3 + [10.0] * 3, abs=1e-5)
    assert schedule.duration == 10.1


@pytest.mark.parametrize("speed", [0.1, 3, 7, 10, 97])
def test_rounding_makes_no_record_late(speed):
    """k / speed · speed may be a hair below k."""
    curve = arrivals(range(300), speed=speed)
    assert [curve.cumulative(k / speed) for k in range(300)] == list(range(1, 301))


def test_the_rate_is_that_of_the_second():
    curve = arrivals([500, 500, 503], speed=10, copies=3)
    assert [curve.rate(t) for t in (-0.1, 0, 0.05, 0.1, 0.3, 0.4)] == [0, 60, 60, 0, 30, 0]


def test_its_pieces_are_levels_of_a_minute_of_the_city():
    curve = arrivals([500, 559, 560, 629], speed=10, copies=3)
    assert curve.pieces().points == [(0, 1), (6, 1), (6, 0.5), (12, 0.5), (12, 3), (13, 3)]


def test_each_copy_has_its_number():
    values = TripPayloads(iter([BODY, BODY.replace("100", "101")]), copies=3, first_id=50).make(1, 4, 7.25).values
    assert values[0] == f'{{"id":51,"trip":0,"copy":1,{BODY},"timestamp":7.250}}'
    told = [json.loads(value) for value in values]
    assert [(each["id"], each["trip"], each["copy"], each["pickup"]) for each in told] == [
        (51, 0, 1, 100),
        (52, 0, 2, 100),
        (53, 1, 0, 101),
        (54, 1, 1, 101),
    ]


@given(st.lists(st.integers(0, 15), min_size=1, max_size=12), st.integers(1, 4), st.integers(1, 9))
def test_each_record_is_sent_once_in_order_though_the_sink_takes_few_at_once(pickups, copies, room):
    pickups = sorted(pickups)
    load = TripLoad(arrivals(pickups, 10, copies), lambda: (f'"pickup":{pickup}' for pickup in pickups))
    sink = MemorySink(room=room)
    producer = OpenLoopProducer(sink, load.payloads(7), ManualClock(), ProducerSettings(largest_batch=11))
    result = producer.run(load.arrivals)
    told = [json.loads(value) for value in sink.stored]
    total = len(pickups) * copies
    assert [each["id"] for each in told] == list(range(7, 7 + total))
    assert [(each["trip"], each["copy"]) for each in told] == [divmod(record, copies) for record in range(total)]
    assert [each["pickup"] for each in told] == [pickup for pickup in pickups for _ in range(copies)]
    assert result.checksum == IdChecksum().add_many(range(7, 7 + total))


def test_no_more_trips_are_kept_than_may_be_asked_for_again():
    read = []

    def bodies():
        for number in range(1000):
            read.append(number)
            yield f'"pickup":{number}'

    payloads = TripPayloads(bodies(), copies=2)
    for begin in range(0, 400, 10):
        payloads.make(begin, 20, 0.0)
        assert (len(payloads._buffer), read[-1]) == (10, begin // 2 + 9)
