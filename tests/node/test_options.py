"""What a node refuses before it starts anything, all of it at once."""

from __future__ import annotations

import json
import math
import socket
from contextlib import closing

import pytest

from rheostat.cli import main
from rheostat.errors import UnavailableError
from rheostat.node.options import NodeOptions, _listen, check
from rheostat.node.workers import parse_master

MASTER = "http://127.0.0.1:8080"


def fields(options, environ=None):
    return [fault.field for fault in check(options, environ or {})[1]]


@pytest.fixture
def given(tmp_path):
    return lambda **values: NodeOptions(**{"master": MASTER, "folder": tmp_path / "node"} | values)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param({}, [], id="nothing is wrong"),
        pytest.param({"n_max": 0}, ["--n-max"], id="no Worker"),
        pytest.param({"n_max": 1001}, ["--n-max"], id="more Workers than any machine has room for"),
        pytest.param({"name": "a b"}, ["--name"], id="a name with a space"),
        pytest.param({"cores": 0, "memory_mb": 1}, ["--cores", "--memory"], id="a Worker of no size"),
        pytest.param({"port": 80}, ["--port"], id="a port of the system's"),
        pytest.param({"port": 0}, [], id="any port"),
        pytest.param({"grace_s": -1.0}, ["--grace"], id="a negative time"),
        pytest.param({"grace_s": float("nan")}, ["--grace"], id="no time"),
        pytest.param({"master": "spark://127.0.0.1:7077"}, ["--master"], id="the master's other address"),
        pytest.param({"master": "127.0.0.1:8080"}, ["--master"], id="no web address"),
        pytest.param({"master": "http://127.0.0.1:99999"}, ["--master"], id="no port"),
        pytest.param({"master": "http://127.0.0.1:8080/json"}, ["--master"], id="a page of the master's"),
        pytest.param({"addresses": ("10.0.0.1", "10.0.0.2")}, ["--address"], id="two addresses for four"),
        pytest.param({"addresses": ("10.0.0.1", "10.0.0.1"), "n_max": 2}, ["--address"], id="one address twice"),
        pytest.param({"addresses": ("127.255.255.253",)}, ["--address"], id="a series that ends too early"),
        pytest.param({"addresses": ("127.0.0.1x",)}, ["--address"], id="no address"),
        pytest.param({"host": "10.0.0.5"}, ["--token-file"], id="open to all without a token"),
        pytest.param({"peers": ("far=http://a:1", "node=http://b:1")}, [], id="peers, itself among them"),
        pytest.param({"peers": ("far", "a b=http://a:1", "c=a:1")}, ["--peer"] * 3, id="no name, no address"),
        pytest.param({"peers": ("far=http://a:1", "far=http://b:1")}, ["--peer"] * 2, id="a peer twice"),
        pytest.param({"delays": ("far=300", "near=0.5")}, [], id="delays"),
        pytest.param({"delays": ("far", "far=-1", "far=nan", "far=1001", "node=5")}, ["--delay"] * 5, id="no delays"),
        pytest.param({"delays": ("far=5", "far=10")}, ["--delay"] * 2, id="a delay twice"),
        pytest.param({"cpus": ("0",)}, [], id="one of the machine's CPUs"),
        pytest.param({"speed": 0.0}, ["--speed"], id="no speed"),
        pytest.param({"speed": math.nan}, ["--speed"], id="a speed that is no number"),
        pytest.param({"cpus": ("0", "0", "9999", "x", "")}, ["--cpus"] * 2, id="no CPUs, and one twice"),
        pytest.param({"ping_every_s": 0.0}, ["--ping-every"], id="pings without a pause"),
        pytest.param(
            {"n_max": 0, "cores": 0, "host": "10.0.0.5", "master": ""},
            ["--master", "--n-max", "--cores", "--token-file"],
            id="all of it at once",
        ),
    ],
)
def test_what_is_refused(given, values, expected):
    assert fields(given(**values)) == expected


def test_peers_and_delays_are_what_was_given_without_the_node_itself(given):
    peers = given(name="near", peers=("near=http://a:1", "far=http://b:2/"), delays=("far=300",)).peer_round_trips()

    assert [(one.peer, one.url) for one in peers.measurements] == [("far", "http://b:2")]
    assert (peers.delay_s("far"), peers.delay_s("near"), peers.delay_s(None)) == (0.3, 0.0, 0.0)


def test_answers_are_sent_at_once_and_not_held_back_for_an_acknowledgement(given):
    with closing(_listen(given(port=0))) as listener, closing(socket.create_connection(listener.getsockname())):
        connection, _ = listener.accept()
        with closing(connection):
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        pytest.param("sixteen-letters-", [], id="long enough"),
        pytest.param("fifteen-letters", ["RHEOSTAT_NODE_TOKEN"], id="too short"),
        pytest.param("with a space in the middle", ["RHEOSTAT_NODE_TOKEN"], id="a space"),
        pytest.param("ünprintable-in-a-header", ["RHEOSTAT_NODE_TOKEN"], id="not ASCII"),
    ],
)
def test_the_token_from_the_environment(given, token, expected):
    assert fields(given(host="10.0.0.5"), {"RHEOSTAT_NODE_TOKEN": token}) == expected


def test_the_token_from_a_file_goes_before(given, tmp_path):
    file = tmp_path / "token"
    file.write_text("from-a-file-of-mine\n")
    found = check(given(token_file=file), {"RHEOSTAT_NODE_TOKEN": "from-the-environment"})
    assert found == ("from-a-file-of-mine", [])


@pytest.mark.parametrize("content", [None, b"", b"short", b"\xff" * 20], ids=["missing", "empty", "short", "no text"])
def test_a_token_file_that_has_none(given, tmp_path, content):
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    assert fields(given(token_file=file)) == ["--token-file"]


def test_the_command_tells_everything_and_ends_with_two(capsys, tmp_path):
    code = main(["node", "--master", "spark://x:7077", "--n-max", "0", "--folder", str(tmp_path), "--json"])

    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (code, [fault["field"] for fault in answer["faults"]]) == (2, ["--master", "--n-max"])
    assert "the page tells it" in answer["faults"][0]["message"]


def test_a_port_that_is_taken_is_refused(capsys, tmp_path):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = str(taken.getsockname()[1])
        code = main(["node", "--master", MASTER, "--port", port, "--folder", str(tmp_path), "--json"])

    (fault,) = json.loads(capsys.readouterr().out.splitlines()[-1])["faults"]
    assert (code, fault["field"], fault["given"]) == (2, "--port", f"127.0.0.1:{port}")


# ---------------------------------------------------------------------------------- the master's word

WORKER = {"id": "n-1-7", "host": "127.0.0.2", "webuiaddress": "http://127.0.0.2:8081", "state": "ALIVE"}
JSON = {"status": "ALIVE", "url": "spark://127.0.0.1:7077"}


@pytest.mark.parametrize(
    ("cores", "memory", "used"),
    [
        pytest.param(0, 0, False, id="nothing on it"),
        pytest.param(1, 512, True, id="an executor"),
        pytest.param(0, 512, True, id="a driver without cores"),
    ],
)
def test_who_is_used_by_the_masters_word(cores, memory, used):
    view = parse_master(JSON | {"workers": [WORKER | {"coresused": cores, "memoryused": memory}]})

    standing = view.workers["n-1-7"]
    assert (view.url, standing.used, standing.web) == ("spark://127.0.0.1:7077", used, "127.0.0.2:8081")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param([], "not what a Spark master says", id="a list"),
        pytest.param({"id": "worker-1"}, "not what a Spark master says", id="a Worker's page"),
        pytest.param(JSON | {"workers": [{"id": 1}]}, "not what a Spark master says", id="a Worker without figures"),
        pytest.param(JSON | {"status": "STANDBY"}, "it is STANDBY", id="a master in standby"),
    ],
)
def test_what_is_no_word_of_a_master(answer, words):
    with pytest.raises(UnavailableError, match=words):
        parse_master(answer)
