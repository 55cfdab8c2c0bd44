"""``rheostat load``: its options, and whole runs into a log."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
import typer

from rheostat.cli.load import load
from rheostat.errors import InputError, UnavailableError
from rheostat.load import kafka_sink
from rheostat.load.request import KafkaTarget, LogTarget, read_request
from rheostat.load.shapes import parse_shape
from rheostat.spark.log_files import LogFolder


def call(*arguments):
    app = typer.Typer()
    app.callback()(lambda: None)
    app.command("load")(load)
    return app(["load", *map(str, arguments)], standalone_mode=False)


def faults(**texts):
    with pytest.raises(InputError) as caught:
        read_request(**texts)
    return {fault.field: fault for fault in caught.value.faults}


def test_all_faults_are_listed_at_once():
    found = faults(topic="", shape="zigzag", rate="-5")
    assert set(found) == {"--topic", "--shape", "--rate"}
    assert all(fault.allowed and fault.message for fault in found.values())
    assert found["--rate"].allowed == "a number ≥ 0"


def test_an_option_that_is_no_number_does_not_hide_other_faults():
    found = faults(topic="a b", rate="abc", shape="constant", seconds="x", partitions="0", seed="1.5", skew="nan")
    assert set(found) == {"--topic", "--rate", "--seconds", "--partitions", "--seed", "--skew"}


@pytest.mark.parametrize(
    ("texts", "field", "allowed"),
    [
        ({}, "--shape", "one of --shape, --trace, --variation, --trips, --scenario"),
        (
            {"shape": "constant", "rate": "1", "trace": "x.csv"},
            "--shape",
            "one of --shape, --trace, --variation, --trips, --scenario",
        ),
        ({"shape": "constant"}, "--rate", "a number ≥ 0"),
        ({"shape": "constant:5@6", "rate": "1"}, "--rate", "not with a shape that has rates of its own"),
        ({"shape": "constant:5@6", "seconds": "7"}, "--seconds", "> 0 and ≤ 6"),
        ({"shape": "constant:5@6", "time_scale": "2"}, "--time-scale", "with --trace or --variation"),
        ({"shape": "constant:5@6", "rate_per_level": "2"}, "--rate-per-level", "with --variation"),
        ({"shape": "constant:5@6", "speed": "2"}, "--speed", "with --trips"),
        ({"shape": "constant:5@6", "copies": "2"}, "--copies", "with --trips"),
        ({"trips": "synthetic", "speed": "0"}, "--speed", "a number > 0"),
        ({"trips": "synthetic", "copies": "1.5"}, "--copies", "a whole number ≥ 1 and ≤ 1000"),
        ({"trips": "synthetic", "rate": "1e9"}, "--trips", "at most 20000000 trips"),
        ({"trips": "synthetic", "time_scale": "2"}, "--time-scale", "with --trace or --variation"),
        ({"trips": "synthetic", "users": "2"}, "--users", "with --shape or --trace or --variation"),
        ({"trips": "nowhere.csv", "rate": "1"}, "--rate", "with --trips synthetic"),
        ({"shape": "constant:5@6", "key": "usr"}, "--key", "user, ip, none"),
        ({"shape": "constant:5@6", "bootstrap": "broker"}, "--bootstrap", "HOST:PORT, comma separated"),
        ({"shape": "constant:5@6", "bootstrap": "broker:99999"}, "--bootstrap", "HOST:PORT, comma separated"),
        ({"shape": "constant:5@6", "click_share": "1.1"}, "--click-share", "a number ≥ 0 and ≤ 1"),
        ({"variation": "v.txt"}, "--rate-per-level", "a number > 0"),
        ({"shape": "constant", "rate": "1e300"}, "--shape", "at most 4.6e+18 records"),
        ({"shape": "spike:1..1e308@1"}, "--shape", "at most 4.6e+18 records"),
    ],
)
def test_a_fault_says_what_is_allowed(texts, field, allowed):
    assert faults(topic="clicks", **texts)[field].allowed == allowed


def test_faults_of_options_and_files_come_together(tmp_path):
    (tmp_path / "t.csv").write_text("second,events_per_second\n0,x\n")
    found = faults(trace=str(tmp_path / "t.csv"), time_scale="0", rate_scale="-1", topic="")
    assert set(found) == {"--trace", "--time-scale", "--rate-scale", "--topic"}
    assert "line 2" in found["--trace"].message


def test_a_log_has_no_topic():
    assert set(faults(log="x", topic="t", create=True, shape="constant:1@1")) == {"--topic", "--create"}


def test_a_request_is_read_whole(tmp_path):
    trace = tmp_path / "t.csv"
    trace.write_text("second,events_per_second\n0,10\n60,30\n")
    texts = {"trace": str(trace), "time_scale": "0.1", "rate_scale": "2", "seconds": "6", "key": "ip", "first_id": "7"}
    request = read_request(topic="clicks", bootstrap="a:1,b:2", partitions="3", create=True, **texts)
    assert request.target == KafkaTarget("a:1,b:2", "clicks", 3, create=True)
    assert (request.curve.duration, request.curve.rate(3), request.first_id) == (6, 20, 7)
    assert request.payload.key == "ip"


def test_a_shape_lasts_a_minute_by_default(tmp_path):
    request = read_request(log=str(tmp_path), shape="ramp", rate="10")
    assert request.curve.duration == 60
    assert request.target == LogTarget(tmp_path, None)


def test_faults_of_a_trip_file_and_of_options_come_together(tmp_path):
    (tmp_path / "t.csv").write_text("pickup_datetime\n")
    with pytest.raises(InputError) as caught:
        read_request(trips=str(tmp_path / "t.csv"), speed="x", copies="0", click_share="1")
    fields = [fault.field for fault in caught.value.faults]
    assert sorted(set(fields)) == ["--click-share", "--copies", "--speed", "--topic", "--trips"]
    assert fields.count("--trips") == 6


def test_synthetic_trips_are_a_million_in_two_days_by_default(tmp_path):
    request = read_request(log=str(tmp_path), trips="synthetic", speed="10", copies="3")
    assert request.curve.duration == 17_280
    assert request.curve.cumulative(17_280) == pytest.approx(3_000_000, rel=0.005)
    assert request.trips is not None
    short = read_request(log=str(tmp_path), trips="synthetic", rate="600", seconds="20", copies="3")
    assert short.curve.duration == 20
    assert short.curve.cumulative(20) == pytest.approx(600 * 20 * 0.78 / 0.944, rel=0.1)


@pytest.mark.parametrize(("seconds", "speed"), [("0.7", "3"), ("4.35", "100"), ("1e-3", "7")])
def test_synthetic_trips_last_as_long_as_asked_whatever_the_rounding(tmp_path, seconds, speed):
    request = read_request(log=str(tmp_path), trips="synthetic", rate="100000", seconds=seconds, speed=speed)
    assert request.curve.duration == float(seconds)


def write_trips(path):
    """Three trips within five seconds, and a row that is none."""
    places = [(1, "-73,40"), (0, "-73,40"), (2, "0,0"), (4, "-73,40")]
    header = "pickup_datetime,dropoff_datetime,trip_distance,pickup_longitude,pickup_latitude,"
    rows = [f"2013-05-01 00:00:0{second},2013-05-01 00:09:00,1,{place},-73,40\n" for second, place in places]
    path.write_text(header + "dropoff_longitude,dropoff_latitude\n" + "".join(rows))


def test_trips_of_a_file_go_into_a_log(tmp_path, capsys):
    write_trips(tmp_path / "t.csv")
    options = ["--trips", tmp_path / "t.csv", "--speed", 100, "--copies", 3, "--first-id", 50]
    assert call("--log", tmp_path / "log", "--partitions", 2, *options, "--json") == 0
    captured = capsys.readouterr()
    result = json.loads(captured.out.splitlines()[-1])
    assert result["trips"] == {
        "trips": 3,
        "speed": 100.0,
        "copies": 3,
        "left_out": {"its coordinates are 0, 0": 1},
    }
    assert (result["records"], result["next_id"], result["seconds_scheduled"]) == (9, 59, 0.05)
    assert result["checksum"]["total"] == sum(range(50, 59))
    assert LogFolder(str(tmp_path / "log")).latest() == {0: 5, 1: 4}
    assert "skipped: 1 row, its coordinates are 0, 0" in captured.err + captured.out


def test_a_trip_file_may_be_cut(tmp_path):
    write_trips(tmp_path / "t.csv")
    request = read_request(log=str(tmp_path), trips=str(tmp_path / "t.csv"), seconds="3")
    assert (request.curve.duration, request.curve.cumulative(9)) == (3, 2)


def test_help_shows_the_grammar_whole(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "300")
    call("--help")
    assert "NAME:RATE[..RATE][@SECONDS][,OPTION=NUMBER]{+…}" in capsys.readouterr().out


def test_the_seed_decides_a_shape_of_chance(tmp_path):
    requests = [read_request(log=str(tmp_path), shape="bursts:1..9@60", seed=seed) for seed in ("3", "4")]
    three, four = (request.curve.cumulative(60) for request in requests)
    assert three == parse_shape("bursts:1..9@60", seed=3).cumulative(60)
    assert three != four


def test_bad_input_starts_nothing(tmp_path):
    with pytest.raises(InputError):
        call("--log", tmp_path / "log", "--shape", "zigzag")
    assert not (tmp_path / "log").exists()


def test_a_load_goes_into_a_log(tmp_path, capsys):
    shape = "ramp:0..8000@0.125+constant:8000@0.125"
    assert call("--log", tmp_path / "log", "--shape", shape, "--partitions", 2, "--first-id", 50, "--json") == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["schema"] == "rheostat.load/1"
    assert (result["records"], result["records_scheduled"], result["records_in_doubt"]) == (1500, 1500, 0)
    assert (result["first_id"], result["next_id"], result["stopped"], result["errors"]) == (50, 1550, False, 0)
    assert result["checksum"]["total"] == sum(range(50, 1550))
    assert sum(LogFolder(str(tmp_path / "log")).latest().values()) == 1500


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_signal_ends_the_load_in_order(tmp_path, capsys, number):
    assert threading.current_thread() is threading.main_thread()
    sender = threading.Thread(target=send_when_records_are_there, args=(tmp_path / "log", number), daemon=True)
    sender.start()
    before = signal.getsignal(number)
    assert call("--log", tmp_path / "log", "--shape", "constant:500@120", "--json") == 0
    sender.join()
    assert signal.getsignal(number) is before
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (result["stopped"], result["records_in_doubt"]) == (True, 0)
    assert result["records"] == result["next_id"] == sum(LogFolder(str(tmp_path / "log")).latest().values())


def send_when_records_are_there(folder, number):
    """A signal to this process, whose load then has its handlers in place."""
    for _ in range(600):
        if list(folder.glob("partition=*/[0-9]*.arrow")):
            os.kill(os.getpid(), number)
            return
        time.sleep(0.05)


def test_an_unreachable_broker_is_reported_clearly(free_port, capfd, monkeypatch):
    assert kafka_sink._ANSWER_S <= 10
    monkeypatch.setattr(kafka_sink, "_ANSWER_S", 0.6)
    with pytest.raises(UnavailableError, match=f"no Kafka broker answered at localhost:{free_port} within 1 s"):
        call("--topic", "t", "--bootstrap", f"localhost:{free_port}", "--shape", "constant:1@1")
    assert capfd.readouterr().err == ""


@pytest.fixture
def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def test_attaching_imports_nothing_heavy_with_a_curve():
    script = "import sys, rheostat.load.request, rheostat.load.producer, rheostat.load.payload\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert not {"numpy", "pyarrow", "confluent_kafka", "rich", "typer"} & set(done.stdout.split())
