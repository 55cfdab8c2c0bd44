"""Scenarios: reading, faults, curves, records, and whole runs into logs."""

from __future__ import annotations

import json
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyarrow import ipc
from tests.load.test_load_command import call, send_when_records_are_there

from rheostat.errors import Fault, InputError, RheostatError
from rheostat.load import kafka_sink
from rheostat.load.log_writer import LogSink
from rheostat.load.payload import IdChecksum, Records
from rheostat.load.request import KafkaTarget, read_requests
from rheostat.load.scenario import Scenario, TopicLoad, read_scenario

RATES = [{"at_s": 0, "rate": 100}]


def write(folder: Path, *applications: dict[str, Any], name: str = "scenario.json") -> Path:
    path = folder / name
    path.write_text(json.dumps({"applications": list(applications)}))
    return path


def application(name: str = "taxi", **more: Any) -> dict[str, Any]:
    return {"name": name, "stop_s": 2, "topics": {"drives": {"rates": RATES}}, **more}


def faults(folder: Path, *applications: Any) -> dict[str, Fault]:
    with pytest.raises(InputError) as caught:
        read_scenario(write(folder, *applications))
    return {fault.field: fault for fault in caught.value.faults}


def test_the_rate_of_a_topic_is_0_before_its_application_starts_and_ends_with_it(tmp_path: Path) -> None:
    steps = [{"at_s": 5, "rate": 100}, {"at_s": 10, "rate": 0}, {"at_s": 15.5, "rate": 400}, {"at_s": 100, "rate": 1}]
    both = {"a": {"rates": steps}, "b": {"rates": RATES}}
    path = write(tmp_path, application("late", start_s=20, stop_s=40, topics=both), application("now", stop_s=30))
    curves = read_scenario(path).curves()
    assert list(curves) == ["a", "b", "drives"]
    rates = [(at, curves["a"].rate(at)) for at in (0, 19, 24.9, 25, 29.9, 30, 35.4, 35.5, 39.9, 40)]
    assert rates == [
        *((0, 0), (19, 0), (24.9, 0), (25, 100), (29.9, 100), (30, 0), (35.4, 0), (35.5, 400), (39.9, 400), (40, 0))
    ]
    assert curves["a"].cumulative(99) == 5 * 100 + 4.5 * 400
    assert [curve.duration for curve in curves.values()] == [40, 40, 30]
    assert (curves["b"].cumulative(20), curves["b"].cumulative(40), curves["drives"].cumulative(30)) == (0, 2000, 3000)


def test_all_faults_are_listed_at_once_with_their_place(tmp_path: Path) -> None:
    (tmp_path / "blank.txt").write_text("\n  \n")
    down = [{"at_s": 4, "rate": 50}, {"at_s": 4, "rate": -50}, {"at_s": 3, "rate": 50}]
    topics = {
        "drives-1": {"partitions": 0, "records": "missing.txt", "payload": "clicks", "rates": [{"at_s": 1, "rat": 4}]},
        "drives 2": {"payload": "trip", "rates": [{"at_s": 0, "rate": -1}]},
        "drives-3": {"records": "blank.txt", "rates": []},
    }
    found = faults(tmp_path, application(start_s=5, topics=topics), {"name": "knn", "colour": 1, "topics": topics})
    one, two = "applications.0.topics.drives-1", "applications.0.topics.drives 2"
    allowed = {
        "applications.0.stop_s": "> start_s (5)",
        f"{one}.partitions": "integer ≥ 1 and ≤ 10000 (partitions) or null",
        f"{one}.records": "a text file with a record on each line",
        f"{one}.payload": "one of records, payload",
        f"{one}.rates.0.rat": f"one of: {one}.rates.0.at_s, {one}.rates.0.rate",
        f"{one}.rates.0.rate": "number ≥ 0 and ≤ 1e+09 (records/s)",
        two: "1 to 249 letters, digits, dots, underscores and hyphens",
        f"{two}.payload": "one of `clicks`, `trips`, `points` or null",
        f"{two}.rates.0.rate": "number ≥ 0 and ≤ 1e+09 (records/s)",
        "applications.0.topics.drives-3.records": "a text file with a record on each line",
        "applications.0.topics.drives-3.rates": "at least one",
    }
    assert {field: found[field].allowed for field in allowed} == allowed
    assert {field for field in found if field.startswith("applications.0")} == set(allowed)
    assert found["applications.1.colour"].message == "unknown key"
    assert found["applications.1.stop_s"].message == "this key is required"
    twice = found["applications.1.topics.drives-1"]
    assert (twice.given, twice.message) == ("drives-1", f"{one} is the same topic")
    assert found[f"{one}.records"].given == "'missing.txt'"

    found = faults(tmp_path, application(topics={"a": {"rates": down[::2]}, "b": {"rates": down[:2]}}))
    assert {field: fault.given for field, fault in found.items()} == {
        "applications.0.topics.a.rates.1.at_s": "3",
        "applications.0.topics.b.rates.1.rate": "-50",
    }


@pytest.mark.parametrize(
    ("document", "field", "message"),
    [
        ("{}", "applications", "this key is required"),
        ('{"applications": []}', "applications", "the list is empty"),
        ('{"applications": 5}', "applications", "input should be a valid list"),
        ('{"applications": [5]}', "applications.0", "input should hold keys with values"),
        (
            '{"applications": [{"name": "a", "stop_s": 1, "topics": {}}]}',
            "applications.0.topics",
            "input should have at least 1 item",
        ),
        ('{"applications": [], "applications": []}', "applications", "the list is empty"),
        (
            '{"applications": [{"name": "a", "stop_s": 2, "topics": {"t": {"rates": [{"at_s": 2, "rate": 1}]}}}]}',
            "applications.0.topics.t.rates.0.at_s",
            "the application stops before the first record",
        ),
    ],
)
def test_a_scenario_without_applications_or_topics(tmp_path: Path, document: str, field: str, message: str) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(document)
    with pytest.raises(InputError) as caught:
        read_scenario(path)
    assert (caught.value.faults[-1].field, caught.value.faults[-1].message) == (field, message)


def test_a_topic_that_is_there_twice_in_one_application_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    topics = {"a": {"rates": RATES}, "b": {"rates": RATES}}
    path.write_text(json.dumps({"applications": [application(topics=topics)]}).replace('"b"', '"a"'))
    with pytest.raises(InputError, match="given again, first in line 1"):
        read_scenario(path)


def test_json_may_be_indented_by_tabs_and_yaml_is_read_too(tmp_path: Path) -> None:
    given = {"applications": [application()]}
    (tmp_path / "tabs.json").write_text(json.dumps(given, indent="\t"))
    (tmp_path / "plain.yaml").write_text(
        "applications:\n- name: taxi\n  stop_s: 2\n  topics:\n    drives: {rates: [{at_s: 0, rate: 100}]}\n"
    )
    expected = Scenario.model_validate(given)
    assert read_scenario(tmp_path / "tabs.json") == read_scenario(tmp_path / "plain.yaml") == expected


# Records


def made(topic: str = "t", seed: int = 1, count: int = 5000, **load: Any) -> list[str]:
    """Records that were made in uneven pieces."""
    maker = TopicLoad.model_validate({"rates": RATES, **load}).make_records(topic, seed, 7)
    pieces = [maker.make(begin, min(1300, count - begin), 12.5) for begin in range(0, count, 1300)]
    assert [piece.first_id for piece in pieces] == [7 + begin for begin in range(0, count, 1300)]
    assert all(piece.keys is None or load.get("payload", "clicks") == "clicks" for piece in pieces)
    return [value for piece in pieces for value in piece.values]


@pytest.fixture
def lines(tmp_path: Path) -> list[str]:
    found = [f"line {number}, ø" for number in range(50)]
    (tmp_path / "lines.txt").write_text("\r\n\r\n".join(found) + "\n", encoding="utf-8")
    return found


def test_records_are_lines_of_a_file_at_random(tmp_path: Path, lines: list[str]) -> None:
    path = write(tmp_path, application(topics={"drives": {"records": "lines.txt", "rates": RATES}}))
    (load,) = read_scenario(path).applications[0].topics.values()
    assert load.records == tuple(lines)
    one, same, other, elsewhere = (
        load.make_records(topic, seed).make(0, 5000, 0.0).values
        for topic, seed in (("a", 1), ("a", 1), ("a", 2), ("b", 1))
    )
    assert one == same
    assert one != other
    assert one != elsewhere
    counts = Counter(one)
    assert set(counts) == set(lines)
    assert all(abs(number - 100) <= 50 for number in counts.values())  # 100 ± 5 standard deviations


def test_points_lie_in_the_unit_cube() -> None:
    points = [json.loads(text) for text in made(payload="points")]
    assert [point["id"] for point in points] == list(range(7, 5007))
    assert all(set(point) == {"id", "x", "y", "z", "timestamp"} and point["timestamp"] == 12.5 for point in points)
    for axis in "xyz":
        values = [point[axis] for point in points]
        assert len(set(values)) == 5000
        assert 0 <= min(values) < max(values) < 1
        assert sum(values) / 5000 == pytest.approx(0.5, abs=0.02)
    assert made(payload="points") == made(payload="points", count=6000)[:5000]


def test_trips_and_clicks() -> None:
    trips = [json.loads(text) for text in made(payload="trips")]
    assert [trip["id"] for trip in trips] == list(range(7, 5007))
    assert {"pickup_longitude", "pickup_latitude", "distance", "pickup", "dropoff"} < set(trips[0])
    assert len({(trip["pickup"], trip["pickup_longitude"]) for trip in trips}) > 3500
    assert made(payload="clicks") == made()
    assert {json.loads(text)["eventType"] for text in made()} == {"click", "display"}


# The command


def values_in(log: Path) -> list[str]:
    files = sorted(log.glob("partition=*/*.arrow"))
    return [value for file in files for value in ipc.open_file(file).read_all().column("value").to_pylist()]


def test_all_topics_are_produced_at_once_into_logs(tmp_path: Path, lines: list[str], capsys: Any) -> None:
    quick = [{"at_s": 0, "rate": 1000}, {"at_s": 0.1, "rate": 4000}]
    topics = {"a": {"records": "lines.txt", "rates": quick}, "b": {"payload": "points", "rates": quick}}
    later = application("later", start_s=0.1, stop_s=0.3, topics={"c": {"partitions": 3, "rates": quick}})
    path = write(tmp_path, application(stop_s=0.2, topics=topics), later)
    options = ["--scenario", path, "--log", tmp_path / "logs", "--first-id", 10, "--seed", 4, "--json"]
    assert call(*options) == 0
    captured = capsys.readouterr()
    result = json.loads(captured.out.splitlines()[-1])
    assert result["schema"] == "rheostat.load-scenario/1"
    found = [
        (each["application"], Path(each["log"]).name, each["records"], each["first_id"]) for each in result["topics"]
    ]
    assert found == [("taxi", "a", 500, 10), ("taxi", "b", 500, 510), ("later", "c", 500, 1010)]
    totals = result["totals"]
    assert (totals["records"], totals["records_scheduled"], totals["records_in_doubt"]) == (1500, 1500, 0)
    assert (totals["next_id"], totals["seconds_scheduled"], totals["stopped"]) == (1510, 0.3, False)
    assert IdChecksum.from_json(totals["checksum"]) == IdChecksum().add_many(range(10, 1510))
    stored = values_in(tmp_path / "logs" / "a")
    assert set(stored) == set(lines)
    assert result["topics"][0]["bytes"] == sum(len(value.encode()) for value in stored)
    assert {json.loads(value)["id"] for value in values_in(tmp_path / "logs" / "b")} == set(range(510, 1010))
    assert len(list((tmp_path / "logs" / "c").glob("partition=*"))) == 3
    assert "b: 500 records in" in captured.err + captured.out


def test_options_without_a_meaning_for_a_scenario_are_faults_beside_those_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, application(stop_s=0))
    given = {"topic": "t", "partitions": "2", "seconds": "3", "rate": "5", "speed": "2", "users": "3", "shape": "sine"}
    with pytest.raises(InputError) as caught:
        read_requests(scenario=str(path), bootstrap="nowhere", seed="x", **given)
    found = {fault.field: fault for fault in caught.value.faults}
    assert set(found) == {"--shape", "--bootstrap", "--seed", "--speed", "applications.0.stop_s"}
    assert found["--shape"].given == "--shape, --scenario"
    with pytest.raises(InputError) as caught:
        read_requests(scenario=str(path), **{name: value for name, value in given.items() if name != "shape"})
    assert {fault.field for fault in caught.value.faults} == {
        *("--topic", "--partitions", "--seconds", "--rate", "--speed", "--users", "applications.0.stop_s")
    }


def test_each_topic_is_a_load_of_its_own(tmp_path: Path) -> None:
    path = write(tmp_path, application(topics={"a": {"partitions": 3, "rates": RATES}}), application("knn"))
    one, two = read_requests(scenario=str(path), bootstrap="a:1", create=True, first_id="5")
    assert one.target == KafkaTarget("a:1", "a", 3, create=True)
    assert two.target == KafkaTarget("a:1", "drives", None, create=True)
    assert (one.first_id, two.first_id, two.records().first_id, two.application) == (5, 205, 205, "knn")
    assert two.field == "applications.1.topics.drives"


def test_every_topic_that_the_broker_does_not_have_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, application(), application("knn", topics={"points": {"partitions": 2, "rates": RATES}}))

    def ensure(bootstrap: str, topic: str, partitions: int | None = None, *, create: bool = False) -> int:
        field = "--topic" if topic == "drives" else "--partitions"
        raise InputError([Fault(field, topic, "a topic of the broker", f"{bootstrap}, {partitions}, {create}")])

    monkeypatch.setattr(kafka_sink, "ensure_topic", ensure)
    with pytest.raises(InputError) as caught:
        call("--scenario", path)
    assert [(fault.field, fault.message) for fault in caught.value.faults] == [
        ("applications.0.topics.drives", "localhost:9092, None, False"),
        ("applications.1.topics.points.partitions", "localhost:9092, 2, False"),
    ]


def test_a_folder_that_is_no_log_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, application(stop_s=60, topics={"a": {"rates": RATES}, "b": {"rates": RATES}}))
    (tmp_path / "logs" / "a").mkdir(parents=True)
    (tmp_path / "logs" / "a" / "other").touch()
    with pytest.raises(InputError) as caught:
        call("--scenario", path, "--log", tmp_path / "logs")
    assert [fault.field for fault in caught.value.faults] == ["applications.0.topics.a"]


@pytest.fixture
def long_run(tmp_path: Path) -> list[Any]:
    """Two topics for two minutes, into logs."""
    quick = [{"at_s": 0, "rate": 500}]
    path = write(tmp_path, application(stop_s=120, topics={"a": {"rates": quick}, "b": {"rates": quick}}))
    return ["--scenario", path, "--log", tmp_path / "logs", "--json"]


def test_a_signal_ends_all_topics_in_order(tmp_path: Path, long_run: list[Any], capsys: Any) -> None:
    place = (tmp_path / "logs" / "b", signal.SIGTERM)
    sender = threading.Thread(target=send_when_records_are_there, args=place, daemon=True)
    sender.start()
    assert call(*long_run) == 0
    sender.join()
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [each["stopped"] for each in (*result["topics"], result["totals"])] == [True, True, True]
    assert result["totals"]["records_in_doubt"] == 0
    stored = [len(values_in(tmp_path / "logs" / name)) for name in "ab"]
    assert [each["records"] for each in result["topics"]] == stored


def test_a_topic_that_breaks_stops_the_others(long_run: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    send, finished = LogSink.send, list[str]()

    def break_one(self: LogSink, records: Records) -> int:
        if self._writer.folder.name == "a":
            message = "the sink is broken"
            raise RheostatError(message)
        return send(self, records)

    def finish(self: LogSink, timeout_s: float) -> Any:
        finished.append(f"{self._writer.folder.name} {timeout_s:g}")
        return end(self, timeout_s)

    end = LogSink.finish
    monkeypatch.setattr(LogSink, "send", break_one)
    monkeypatch.setattr(LogSink, "finish", finish)
    with pytest.raises(RheostatError, match="the sink is broken"):
        call(*long_run)
    assert sorted(finished) == ["a 0", "b 15"]
