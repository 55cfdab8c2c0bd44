"""What a lab refuses before it starts anything, and where it keeps things."""

import json
import socket
from pathlib import Path

import psutil
import pytest

from rheostat.cli import main
from rheostat.errors import InputError
from rheostat.host.java import cache_folder, require_room, require_writable
from rheostat.host.spark_daemons import WorkerSize
from rheostat.lab import standing
from rheostat.lab.broker import BrokerOptions, broker_properties
from rheostat.lab.lab import Lab, LabSpec


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        pytest.param({"RHEOSTAT_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, "/a", id="our own variable wins"),
        pytest.param({"XDG_CACHE_HOME": "/b"}, "/b/rheostat", id="the desktop convention"),
        pytest.param({}, str(Path.home() / ".cache" / "rheostat"), id="the home folder"),
    ],
)
def test_where_the_cache_is(environ, expected):
    assert str(cache_folder(environ)) == expected


@pytest.mark.parametrize(
    ("make", "fields"),
    [
        pytest.param(lambda: LabSpec(workers=-1), ["workers"], id="fewer than no Workers"),
        pytest.param(lambda: LabSpec(broker=False, spark=False), ["lab"], id="nothing to start"),
        pytest.param(lambda: WorkerSize(cores=0, memory_mb=10), ["cores", "memory_mb"], id="a Worker of no size"),
        pytest.param(lambda: LabSpec(workers=1001), ["workers"], id="more Workers than any machine has room for"),
        pytest.param(lambda: LabSpec(kafka_port=80), ["kafka_port"], id="a port of the system's"),
        pytest.param(
            lambda: WorkerSize(cores=1001, memory_mb=4_000_001), ["cores", "memory_mb"], id="a Worker beyond any size"
        ),
    ],
)
def test_a_specification_that_makes_no_sense_is_refused(make, fields):
    with pytest.raises(InputError) as caught:
        make()

    assert [fault.field for fault in caught.value.faults] == fields


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(LabSpec(), 900, id="broker, master, Worker"),
        pytest.param(LabSpec(workers=0), 650, id="no Worker"),
        pytest.param(LabSpec(spark=False), 400, id="broker only"),
        pytest.param(LabSpec(broker=False, workers=3), 1000, id="Spark only"),
    ],
)
def test_memory_that_the_parts_need(spec, expected):
    assert spec.memory_mb == expected


def test_too_little_room_is_told_with_figures_for_both(tmp_path):
    with pytest.raises(InputError) as caught:
        require_room(tmp_path, disk_mb=10**9, memory_mb=10**9)

    disk, memory = caught.value.faults
    assert (disk.field, disk.allowed) == ("disk", ">= 1000000000 MB")
    assert (memory.field, memory.allowed) == ("memory", ">= 1000000000 MB")
    assert str(tmp_path) in disk.message


def test_enough_room_passes(tmp_path):
    require_room(tmp_path, disk_mb=0, memory_mb=0)


def test_a_file_in_the_way_of_a_folder_is_an_input_error(tmp_path):
    (tmp_path / "taken").write_text("")

    with pytest.raises(InputError, match="cannot write to this folder"):
        require_writable(tmp_path / "taken" / "below", "folder")


def test_all_faults_are_told_at_once_and_nothing_is_started(tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("")
    before = psutil.Process().children()
    monkeypatch.setattr("rheostat.lab.lab.DISK_MB", 10**9)
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        spec = LabSpec(kafka_port=busy.getsockname()[1], folder=tmp_path / "taken" / "below")
        with pytest.raises(InputError) as caught:
            Lab(spec).start()

    found = {fault.field for fault in caught.value.faults} - {"JAVA_HOME"}
    assert found == {"folder", "disk", "kafka_port"}
    assert psutil.Process().children() == before


def test_the_broker_makes_no_topic_by_itself(tmp_path):
    lines = broker_properties(tmp_path, {"PLAINTEXT": 9092, "CONTROLLER": 9093}, BrokerOptions()).splitlines()

    assert "auto.create.topics.enable=false" in lines
    assert "offsets.topic.replication.factor=1" in lines
    assert "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093" in lines


def test_a_broker_has_the_listeners_and_properties_that_are_asked_for(tmp_path):
    options = BrokerOptions({"TLS": "SSL"}, {"num.io.threads": "3", "ssl.keystore.type": "PEM"})
    ports = {"PLAINTEXT": 9092, "CONTROLLER": 9093, "TLS": 9094}
    lines = broker_properties(tmp_path, ports, options).splitlines()

    assert "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093,TLS://127.0.0.1:9094" in lines
    assert "advertised.listeners=PLAINTEXT://127.0.0.1:9092,TLS://127.0.0.1:9094" in lines
    assert "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL" in lines
    assert {"num.io.threads=3", "ssl.keystore.type=PEM"} <= set(lines)
    assert "num.io.threads=2" not in lines


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RHEOSTAT_CACHE", str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("cache")
def test_a_lab_that_was_never_up_is_down():
    assert standing.status("default") == {"schema": "rheostat.lab/1", "name": "default", "state": "down", "parts": []}


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("name", ["", "../up", "a b", "-x", "x" * 42])
def test_a_name_that_is_no_file_name_is_refused(name):
    with pytest.raises(InputError, match="no name for a lab"):
        standing.status(name)


def test_down_without_a_lab_names_those_that_are_up(cache):
    (cache / "labs").mkdir()
    standing.write_state(cache / "labs" / "other.json", {"name": "other"})

    with pytest.raises(InputError) as caught:
        standing.down("default")

    assert [(fault.given, fault.allowed) for fault in caught.value.faults] == [("default", "other")]


def test_a_lab_whose_supervisor_is_gone_has_failed_and_can_be_cleared(cache):
    (cache / "labs").mkdir()
    gone = {"pid": 2**22 - 1, "created": 1.0}
    part = {"name": "master", **gone, "log": "master.log"}
    state = {"name": "old", "state": "up", "message": None, "supervisor": gone, "parts": [part]}
    standing.write_state(cache / "labs" / "old.json", state)

    seen = standing.status("old")
    assert (seen["state"], seen["message"]) == ("failed", "its supervisor has died")
    assert [(one["alive"], one["answers"]) for one in seen["parts"]] == [(False, False)]
    assert standing.down("old")["state"] == "down"
    assert standing.status("old")["state"] == "down"


def test_a_specification_survives_the_way_to_the_supervisor(tmp_path):
    spec = LabSpec(workers=0, size=WorkerSize(8, 4800), kafka_port=None, folder=tmp_path, keep=True)

    assert standing.SPEC.validate_json(standing.SPEC.dump_json(spec)) == spec


@pytest.mark.usefixtures("cache")
def test_the_command_tells_all_faults_at_once(capsys):
    code = main(["lab", "up", "--workers", "-1", "--cores", "0", "--memory", "9", "--json"])

    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (code, answer["schema"]) == (2, "rheostat.error/1")
    assert [fault["field"] for fault in answer["faults"]] == ["cores", "memory_mb", "workers"]


@pytest.mark.usefixtures("cache")
def test_numbers_beyond_any_machine_are_told_at_once_with_their_limits(capsys):
    numbers = ["--workers", "5000", "--cores", "1000000000", "--memory", "99999999", "--kafka-port", "70000"]
    code = main(["lab", "up", *numbers, "--json"])

    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert code == 2
    assert {fault["field"]: fault["allowed"] for fault in answer["faults"]} == {
        "cores": "1 to 1000",
        "memory_mb": "512 to 4000000",
        "workers": "0 to 1000",
        "kafka_port": "1024 to 65535",
    }


def test_a_lab_with_spark_needs_bash_and_one_without_does_not(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("rheostat.lab.lab.DISK_MB", 10**9)
    fields = []
    for spark in (True, False):
        with pytest.raises(InputError) as caught:
            Lab(LabSpec(spark=spark, folder=tmp_path)).start()
        fields.append({fault.field for fault in caught.value.faults} - {"JAVA_HOME"})

    assert fields == [{"PATH", "disk"}, {"disk"}]


@pytest.mark.usefixtures("cache")
def test_the_command_says_by_its_exit_code_that_no_lab_is_up(capsys):
    assert main(["lab", "status", "--json"]) == 1
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["state"] == "down"
