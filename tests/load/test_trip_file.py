"""Trips from files: what is a trip, what is not, and that their order and number do not matter."""

import json

import pytest

from rheostat.errors import InputError
from rheostat.load.trips import SortedTrips, file_trips

TLC_2015 = (
    "VendorID,tpep_pickup_datetime,tpep_dropoff_datetime,passenger_count,trip_distance,pickup_longitude,"
    "pickup_latitude,RateCodeID,store_and_fwd_flag,dropoff_longitude,dropoff_latitude,payment_type\n"
)
TLC_2014 = (
    "vendor_id, pickup_datetime, dropoff_datetime, passenger_count, trip_distance, pickup_longitude, "
    "pickup_latitude, rate_code, store_and_fwd_flag, dropoff_longitude, dropoff_latitude\n\n"
)
S2_2013 = (
    "medallion, hack_license, vendor_id, rate_code, store_and_fwd_flag, pickup_datetime, dropoff_datetime, "
    "passenger_count, trip_time_in_secs, trip_distance, pickup_longitude, pickup_latitude, dropoff_longitude, "
    "dropoff_latitude\n"
)
MEDALLION = "07290D3599E7A0D62097A346EFCC1FB5"
MAY_2013 = 1_367_366_400
"""2013-05-01 00:00:00, as if the city's clocks showed UTC: 15 826 days × 86 400 s."""


def row(begin="2013-05-01 00:00:10", end="2013-05-01 00:08:10", miles="1.64", at="-73.99,40.72", to="-73.98,40.74"):
    return f"2,{begin},{end},1,{miles},{at},1,N,{to},2\n"


@pytest.fixture
def write(tmp_path):
    def write(text, name="trips.csv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def trips_of(load):
    return [json.loads(f"{{{body}}}") for body in load.bodies()]


def faults(*paths):
    with pytest.raises(InputError) as caught:
        file_trips(paths)
    return caught.value.faults


TOLD = {
    "pickup": MAY_2013 + 10,
    "dropoff": MAY_2013 + 490,
    "pickup_longitude": -73.99,
    "pickup_latitude": 40.72,
    "dropoff_longitude": -73.98,
    "dropoff_latitude": 40.74,
    "passengers": 1,
    "distance": 1.64,
}


@pytest.mark.parametrize(
    ("text", "passengers"),
    [
        pytest.param(TLC_2015 + row(), 1, id="yellow cabs, 2015"),
        pytest.param("\ufeff" + TLC_2014 + row(), 1, id="yellow cabs, 2014: blanks in the header, a blank line"),
        pytest.param(
            S2_2013 + "m,h,CMT,1,N,2013-05-01 00:00:10,2013-05-01 00:08:10,1,480,1.64,-73.99,40.72,-73.98,40.74\n",
            1,
            id="Donovan and Work, 2013",
        ),
        pytest.param(
            f"{MEDALLION},{MEDALLION},2013-05-01 00:00:10,2013-05-01 00:08:10,480,1.64,-73.99,40.72,-73.98,40.74,"
            "CSH,8,0.5,0.5,0,0,9\n",
            None,
            id="DEBS 2015, without a header",
        ),
    ],
)
def test_a_trip_in_each_form(write, text, passengers):
    load = file_trips([write(text)])
    assert trips_of(load) == [TOLD | {"passengers": passengers}]
    assert (load.left_out, load.arrivals.duration) == ({}, 1.0)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (row(begin="yesterday"), "a time cannot be read"),
        (row(miles="far"), "a number cannot be read"),
        (row(miles="nan"), "a number cannot be read"),
        (row(at="-273.99,40.72"), "its coordinates are not on earth"),
        (row(to="-73.98,91"), "its coordinates are not on earth"),
        (row(at="0,0"), "its coordinates are 0, 0"),
        (row(to="0.0,0"), "its coordinates are 0, 0"),
        (row(end="2013-05-01 00:00:09"), "it ends before it begins"),
        ("2,2013-05-01 00:00:10\n", "it has too few fields"),
        (row(), "the same trip again"),
    ],
)
def test_what_is_no_trip_is_left_out_and_counted(write, bad, reason):
    load = file_trips([write(TLC_2015 + row() + bad + bad)])
    assert trips_of(load) == [TOLD]
    assert load.left_out == {reason: 2}
    assert load.arrivals.trips[-1] == 1


def test_rows_in_any_order_are_played_by_their_pickups(write):
    later = row(begin="2013-05-01 00:00:40")
    one, two = write(TLC_2015 + later + row(), "one.csv"), write(TLC_2015 + row(begin="2013-05-01 00:00:25"), "two.csv")
    load = file_trips([one, two], speed=10, copies=3)
    assert [trip["pickup"] - MAY_2013 for trip in trips_of(load)] == [10, 25, 40]
    assert [load.arrivals.cumulative(t) for t in (0, 1.4, 1.5, 3.0)] == [3, 3, 6, 9]
    assert load.arrivals.duration == 3.1


def test_all_missing_columns_of_all_files_are_reported_at_once(write, tmp_path):
    zones = write("VendorID,tpep_pickup_datetime,tpep_dropoff_datetime,trip_distance,PULocationID,DOLocationID\n")
    found = faults(zones, tmp_path / "nowhere.csv", tmp_path, write("", "empty.csv"))
    messages = [fault.message.removeprefix(f"{tmp_path}/") for fault in found]
    assert messages[0] == (
        "trips.csv: it has no column pickup_longitude: it names zones; files with coordinates end in June 2016"
    )
    assert len(messages) == 4 + 1 + 1 + 7
    assert "nowhere.csv: cannot be read: No such file or directory" in messages
    assert messages[5].endswith("cannot be read: it is a folder")
    assert messages[-1] == "empty.csv: it has no column trip_distance"


def test_a_file_without_a_trip_says_why(write):
    (fault,) = faults(write(TLC_2015 + row(at="0,0") + row(miles="x")))
    assert fault.message.endswith(
        "there is no trip in it: 1 row: its coordinates are 0, 0; 1 row: a number cannot be read"
    )


def test_no_file_is_a_fault():
    assert [fault.message for fault in faults()] == ["no file is named"]


def test_trips_come_out_in_order_once_and_leave_no_file_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    entries = [(7 * number % 10, f"trip {number}") for number in range(20)] + [(7, "trip 1"), (7, "trip 1")]
    trips = SortedTrips(iter(entries))
    assert list(trips.bodies()) == [body for _, body in sorted(set(entries))] == list(trips.bodies())
    seconds, sums, duplicates = trips.count_by_second()
    assert list(seconds) == list(range(10))
    assert (list(sums), duplicates) == (list(range(2, 22, 2)), 2)
    assert list(tmp_path.iterdir()) != []
    del trips
    assert list(tmp_path.iterdir()) == []
