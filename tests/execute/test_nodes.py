"""A node server from outside: what it says, and everything that can come instead. All over real connections."""

from __future__ import annotations

import json
import re
import socket
import threading
from contextlib import closing, contextmanager, suppress
from itertools import chain

import pytest

from rheostat.errors import UnavailableError
from rheostat.execute.node_client import ExecutorTime, NodeClient, NodeState, NodeTime, PeerTrip, parse_state
from rheostat.execute.workers import SparkJob

WORKER = {"id": 1, "name": "n-1-7", "host": "127.0.0.2", "web": "127.0.0.2:8081", "state": "ready", "used": True}
PEER = {"name": "far", "url": "http://127.0.3.1:8091", "round_trip_ms": 250.5, "age_s": 3.0, "trouble": None}
STATE = {
    "schema": "rheostat.node/1",
    "name": "near",
    "n_max": 5,
    "master": "spark://127.0.0.1:7077",
    "workers": [
        WORKER,
        WORKER | {"id": 2, "name": "n-2-8", "web": None, "state": "starting", "used": False},
        WORKER | {"id": 4, "name": "n-4-9", "web": "127.0.0.5:8081", "state": "leaving", "used": False},
    ],
    "free_ids": [3, 5],
}


def whole_request(connection):
    """Head and body of a request."""
    seen = b""
    while b"\r\n\r\n" not in seen:
        seen += connection.recv(65536)
    head, _, body = seen.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    while length and len(body) < int(length[1]):
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


@contextmanager
def answering(*chunks, more=lambda: (), then=lambda: None):
    """A server that answers its first connection with these bytes, whatever is asked; keeps what was asked."""
    asked: list[bytes] = []

    def work():
        connection, _ = listener.accept()
        with closing(connection), suppress(OSError):
            asked.append(whole_request(connection))
            for chunk in chain(chunks, more()):
                connection.sendall(chunk)
            then()

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        thread = threading.Thread(target=work)
        thread.start()
        client = NodeClient(f"http://127.0.0.1:{listener.getsockname()[1]}", "a-token", timeout_s=1.0)
        yield client, asked
        client.close()
        client.close()
        thread.join(10)


def http(body, status="200 OK"):
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text


def test_the_state_is_read():
    with answering(http(STATE)) as (client, asked):
        seen = client.state()

    names = {"127.0.0.2:8081": "n-1-7", "127.0.0.5:8081": "n-4-9"}
    assert seen == NodeState(5, ("n-1-7",), 1, 2, names, "near", frozenset({"127.0.0.2"}), leaving=1, peers=())
    assert asked[-1].startswith(b"GET /taskmanager HTTP/1.1\r\n")
    assert b"Authorization: Bearer a-token\r\n" in asked[-1]


def test_the_ways_to_peers_are_read_as_far_as_they_are_measured():
    peers = [PEER, PEER | {"name": "new", "round_trip_ms": None, "age_s": None}]

    assert parse_state(STATE | {"peers": peers}).peers == (PeerTrip("far", 250.5, 3.0),)


def test_the_processor_time_is_read_where_it_is_told():
    executor = {"worker": "n-1-7", "app_id": "app-1", "executor_id": "0", "cpu_s": 1.5}
    cpu = {"at": 9.0, "cpus": 2, "busy_s": 3.5, "executors": [executor]}

    assert parse_state(STATE).cpu is None
    assert parse_state(STATE | {"cpu": cpu}).cpu == NodeTime(9.0, 2, 3.5, (ExecutorTime("app-1", "0", 1.5),))
    assert parse_state(STATE | {"cpu": cpu | {"speed": 1.5}}).cpu == NodeTime(
        9.0, 2, 3.5, (ExecutorTime("app-1", "0", 1.5),), 1.5
    )
    for wrong in (
        {"busy_s": -1},
        {"speed": 0},
        {"at": "soon"},
        {"executors": [executor | {"cpu_s": float("nan")}]},
        {"cpus": None},
    ):
        with pytest.raises(UnavailableError, match="this is not what a node says"):
            parse_state(STATE | {"cpu": cpu | wrong})


@pytest.mark.parametrize(
    ("standing", "leaving"),
    [
        pytest.param("ALIVE", 1, id="the master does not know it yet"),
        pytest.param(None, 1, id="it may register still"),
        pytest.param("DECOMMISSIONED", 0, id="no executor comes to it any more"),
        pytest.param("DEAD", 0, id="it has gone"),
    ],
)
def test_a_worker_that_leaves_may_get_an_executor_until_the_master_knows(standing, leaving):
    workers = [WORKER | {"used": False, "state": "leaving", "standing": standing}]

    assert parse_state(STATE | {"workers": workers}).leaving == leaving


def test_a_node_has_the_name_that_it_is_called_here():
    with answering(http(STATE)) as (client, _):
        client.name = "rack-1"
        assert client.state().name == "rack-1"


def test_orders_are_sent_as_the_document_says():
    with answering(http({"target": 3, "creating": [2, 3]}, "202 Accepted")) as (client, asked):
        assert client.create(3) == 2
    assert asked[-1].startswith(b"POST /taskmanager")
    assert json.loads(asked[-1].partition(b"\r\n\r\n")[2]) == {"target": 3}

    with answering(http({"removing": [1], "used": [], "free": 0}, "202 Accepted")) as (client, asked):
        assert client.remove({"b", "a"}, 2) == 1
    assert asked[-1].startswith(b"DELETE /taskmanager")
    assert json.loads(asked[-1].partition(b"\r\n\r\n")[2]) == {"used": ["a", "b"], "free": 2}


NONSENSE = [
    pytest.param(http(b"<html>"), "it answers 200, and no JSON", id="a page"),
    pytest.param(http(b"[" * 50_000), "it answers 200, and no JSON", id="deeper than anybody reads"),
    pytest.param(http(b"\xff\xfe"), "it answers 200, and no JSON", id="no text"),
    pytest.param(http([]), "not what a node says", id="a list"),
    pytest.param(http({"schema": "rheostat.lab/1"}), "not what a node says", id="another program of ours"),
    pytest.param(http(STATE | {"master": None}), "its master does not answer", id="a node without a master"),
    pytest.param(http(STATE | {"workers": 3}), "not what a node says", id="a number for a list"),
    pytest.param(http(STATE | {"workers": [{}]}), "not what a node says", id="a Worker without anything"),
    pytest.param(http(STATE | {"n_max": 2}), "3 Workers and 2 free ids of 2", id="more than there can be"),
    pytest.param(http(STATE | {"n_max": float("inf")}), "not what a node says", id="no end of Workers"),
    pytest.param(http(STATE | {"peers": [PEER | {"age_s": 10**400}]}), "not what a node says", id="an age without end"),
    pytest.param(http(STATE | {"peers": [{}]}), "not what a node says", id="a peer without a name"),
    pytest.param(http(STATE | {"peers": [PEER | {"round_trip_ms": -1}]}), "is no number", id="a way that is negative"),
    pytest.param(http(STATE | {"peers": [PEER | {"age_s": None}]}), "not what a node says", id="a way without an age"),
    pytest.param(http({"faults": [{"message": "no token"}]}, "401 No"), "refuses with 401: no token", id="a refusal"),
    pytest.param(http({"faults": 7}, "500 No"), "it refuses with 500", id="a broken server"),
    pytest.param(http(b"", "302 Found"), "it answers 302, and no JSON", id="somewhere else"),
    pytest.param(b"SSH-2.0-OpenSSH\r\n", "RemoteProtocolError", id="another protocol"),
    pytest.param(b"", "RemoteProtocolError", id="closed at once"),
    pytest.param(http(b" " * 4_100_000), "it answers without an end", id="endless"),
]


@pytest.mark.parametrize(("answer", "words"), NONSENSE)
def test_whatever_comes_instead_is_one_kind_of_error(answer, words):
    with answering(answer) as (client, _), pytest.raises(UnavailableError, match=words):
        client.state()


@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(b"", id="silent"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", id="silent in the middle"),
    ],
)
def test_a_silent_node_is_not_waited_for(begin):
    asked = threading.Event()
    with answering(begin, then=lambda: asked.wait(10)) as (client, _):
        client._timeout_s = 0.1
        with pytest.raises(UnavailableError, match="it answers too slowly"):
            client.state()
        asked.set()


@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", id="the body"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX-Never-Ending: ", id="the header"),
        pytest.param(b"HTTP/1.1 200 O", id="the status"),
    ],
)
def test_a_node_that_answers_drop_by_drop_is_not_waited_for(begin):
    """It would never end by itself: each drop comes well within the limit, and the drops end when nobody listens."""
    enough = threading.Event()

    def drops():
        yield begin
        while not enough.wait(0.01):
            yield b" "

    with answering(more=drops, then=enough.set) as (client, _):
        client._timeout_s = 0.2
        with pytest.raises(UnavailableError, match="it answers too slowly"):
            client.state()
        client.close()
        enough.set()


def test_a_connection_that_was_too_slow_is_closed_and_the_next_request_has_its_own():
    """The server sees the end of the first connection while it still drips, and answers on the second one."""
    broken = threading.Event()

    def serve():
        first, _ = listener.accept()
        with closing(first), suppress(OSError):
            whole_request(first)
            first.sendall(b"HTTP/1.1 200 OK\r\nX-Never-Ending: ")
            while True:
                first.sendall(b" ")
                broken.wait(0.01)
        broken.set()
        second, _ = listener.accept()
        with closing(second):
            whole_request(second)
            second.sendall(http(STATE))

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        client = NodeClient(f"http://127.0.0.1:{listener.getsockname()[1]}", None, timeout_s=0.2)
        with pytest.raises(UnavailableError, match="it answers too slowly"):
            client.state()
        assert broken.wait(30)
        assert client._http is not None
        client._http._timeout_s = 30.0
        assert client.state().name == "near"
        client.close()
        thread.join(10)


def test_nobody_there():
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
    client = NodeClient(f"http://127.0.0.1:{port}", None, timeout_s=1.0)
    with pytest.raises(UnavailableError, match="ConnectError"):
        client.state()


def test_an_answer_without_what_was_asked_for():
    with answering(http({"target": 3})) as (client, _), pytest.raises(UnavailableError, match="no creating"):
        client.create(3)


def test_a_state_with_ids_beyond_a_lowered_n_max_is_taken():
    assert parse_state(STATE | {"n_max": 2, "free_ids": []}).free == 0


def executor(host, page):
    logs = {"stdout": f"http://{page}/logPage/?appId=app-1&executorId=0&logType=stdout"} if page else {}
    return {"id": "0", "hostPort": f"{host}:4711", "executorLogs": logs}


class Driver:
    def __init__(self, *executors):
        self._executors = list(executors)

    def executors(self):
        return self._executors

    def registered(self):
        return tuple(each["id"] for each in self._executors)


def test_which_workers_are_used_by_their_pages():
    pages = [("10.0.0.5", "10.0.0.5:8082"), ("10.0.0.5", "10.0.0.5:8083"), ("b", None)]
    driver = Driver(*(executor(*page) | {"id": str(number)} for number, page in enumerate(pages)))
    assert sorted(SparkJob(driver, driver).placed().values()) == ["10.0.0.5:8082", "10.0.0.5:8083", "b"]


def test_which_executor_is_on_which_worker():
    driver = Driver(executor("10.0.0.5", "10.0.0.5:8082"), executor("b", None) | {"id": "7"})
    assert SparkJob(driver, driver).placed() == {"0": "10.0.0.5:8082", "7": "b"}
