"""The HTTP interface: what it answers, what it refuses, who gets in. Real processes stand behind it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import httpx
import psutil
import pytest

from rheostat.errors import UnavailableError
from rheostat.execute.node_client import NodeState, NodeTime, PeerTrip, parse_state
from rheostat.host.spark_daemons import WorkerSize
from rheostat.node.peers import CALLER, PeerRoundTrips
from rheostat.node.server import MOST_BYTES, make_app

TOKEN = "correct horse battery".replace(" ", "-")


class Served:
    """The interface of a node, asked without a port between."""

    def __init__(self, node, token, ways=None):
        self.headers = {}
        size = WorkerSize(1, 1024)
        self._app = make_app(node.workers, name="n", n_max=node.n_max, size=size, token=token, peers=ways)

    def ask(self, method, path, times=1, headers=None, **kwargs):
        """The answer; of several requests at the same time, all of them."""

        async def asked():
            transport = httpx.ASGITransport(self._app)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8091") as client:
                more = self.headers | (headers or {})
                wanted = [client.request(method, path, headers=more, **kwargs) for _ in range(times)]
                return await asyncio.gather(*wanted)

        answers = asyncio.run(asked())
        return answers if times > 1 else answers[0]

    def get(self, path, **kwargs):
        return self.ask("GET", path, **kwargs)

    def create(self, order, **kwargs):
        return self.ask("POST", "/taskmanager", json=order, **kwargs)

    def delete(self, order):
        return self.ask("DELETE", "/taskmanager", json=order)


@pytest.fixture
def served(node):
    return Served(node, None)


@pytest.fixture
def locked(node):
    return Served(node, TOKEN)


def fields(answer):
    body = answer.json()
    assert body["schema"] == "rheostat.error/1"
    return [fault["field"] for fault in body["faults"]]


def test_the_ways_to_its_peers_are_told_with_their_age(node):
    at = [1000.0]
    measured = {"http://b": 20.25, "http://c": UnavailableError("no answer")}

    def measure(url, caller):
        assert caller == "n"
        found = measured[url]
        if isinstance(found, Exception):
            raise found
        return found

    ways = PeerRoundTrips(
        "n", {"b": "http://b", "c": "http://c", "n": "http://n"}, {"c": 300.0}, measure=measure, clock=lambda: at[0]
    )
    ways.measure_all()
    at[0] = 1004.0

    seen = Served(node, None, ways).get("/taskmanager").json()

    b = {"name": "b", "url": "http://b", "round_trip_ms": 20.25, "age_s": 4.0, "trouble": None}
    c = {"name": "c", "url": "http://c", "round_trip_ms": None, "age_s": None}
    assert seen["peers"] == [b, c | {"trouble": "UnavailableError: no answer"}]
    assert seen["delays_ms"] == {"c": 300.0}
    assert parse_state(seen).peers == (PeerTrip("b", 20.25, 4.0),)


def test_a_ping_of_a_caller_with_a_delay_is_answered_after_the_others(node):
    served = Served(node, None, PeerRoundTrips("n", delays_ms={"far": 50.0}))

    async def asked():
        transport = httpx.ASGITransport(served._app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8091") as client:

            async def ping(caller):
                answer = await client.get("/ping", headers={} if caller is None else {CALLER: caller})
                return caller, answer.json()

            return [await each for each in asyncio.as_completed([ping("far"), ping("near"), ping(None)])]

    answers = asyncio.run(asked())

    assert answers[-1] == ("far", {"pong": True})
    assert {caller for caller, _ in answers[:-1]} == {"near", None}


def test_creating_is_answered_on_receipt(node, served):
    answer = served.create({"target": 2})

    assert (answer.status_code, answer.json()) == (202, {"target": 2, "creating": [1, 2]})
    assert node.states() == {1: "queued", 2: "queued"}


def test_creating_beyond_the_room_is_clipped_and_then_ignored(served):
    assert served.create({"target": 7}).json()["creating"] == [1, 2, 3, 4, 5]
    answer = served.create({"target": 1})
    assert (answer.status_code, answer.json()) == (202, {"target": 1, "creating": []})


def test_removing(node, served):
    node.have(4)
    node.use(2)

    answer = served.delete({"used": ["127.0.0.3"], "free": 1})

    assert (answer.status_code, answer.json()) == (202, {"removing": [1, 3], "used": [2], "free": 1})


def test_a_disagreement_is_refused(node, served):
    node.have(2)
    node.use(1)

    answer = served.delete({"used": [], "free": 0})

    assert (answer.status_code, fields(answer)) == (409, ["used"])
    assert "read again which are used" in answer.json()["faults"][0]["message"]


def test_removing_without_a_master_is_refused(node, served):
    node.have(1)
    node.spark.answers = False

    answer = served.delete({"used": [], "free": 0})

    assert (answer.status_code, fields(answer)) == (503, ["master"])
    assert node.states() == {1: "ready"}


def test_the_state(node, served):
    node.have(3)
    node.use(2)
    node.workers.remove(["127.0.0.3", "127.0.0.4"], 0)
    node.workers.create(1)

    seen = served.get("/taskmanager").json()

    assert (seen["schema"], seen["n_max"], seen["cores"], seen["memory_mb"]) == ("rheostat.node/1", 5, 1, 1024)
    assert (seen["used"], seen["idle"], seen["may_go"], seen["free_ids"]) == (1, 2, False, [5])
    told = [(one["id"], one["host"], one["state"], one["used"]) for one in seen["workers"]]
    assert told == [
        (1, "127.0.0.2", "leaving", False),
        (2, "127.0.0.3", "ready", True),
        (3, "127.0.0.4", "ready", False),
        (4, "127.0.0.5", "queued", False),
    ]
    assert [one.split(" is ")[1] for one in seen["doing"]] == ["leaving", "queued"]
    assert seen["last_error"] is None
    used, names = (node.record(2).name,), {f"{node.record(n).host}:8081": node.record(n).name for n in (1, 2, 3)}
    hosts = frozenset({"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"})
    expected = NodeState(n_max=5, used=used, idle=2, free=1, names=names, name="n", hosts=hosts, leaving=1)
    state = parse_state(seen)
    assert replace(state, cpu=None) == expected
    assert state.cpu == NodeTime(seen["cpu"]["at"], psutil.cpu_count() or 0, seen["cpu"]["busy_s"])
    assert [one["standing"] for one in seen["workers"]] == ["ALIVE", "ALIVE", "ALIVE", None]
    assert (seen["peers"], seen["delays_ms"]) == ([], {})


def test_the_state_without_a_master_knows_no_used_ones(node, served):
    node.have(1)
    node.spark.answers = False

    seen = served.get("/taskmanager").json()

    assert (seen["master"], seen["used"], seen["idle"], seen["may_go"]) == (None, None, None, None)
    assert seen["workers"][0]["used"] is None
    assert seen["last_error"]["text"] == "http://master does not answer: refused"


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        pytest.param({}, ["free", "used"], id="nothing"),
        pytest.param({"used": "a", "free": -1}, ["free", "used"], id="text for a list, a negative number"),
        pytest.param({"used": [""], "free": True}, ["free", "used.0"], id="an empty host, a truth value"),
        pytest.param({"used": [], "free": 0, "fre": 1}, ["fre"], id="an unknown key"),
        pytest.param({"used": ["a" * 256], "free": 1.5}, ["free", "used.0"], id="a long host, half a Worker"),
    ],
)
def test_everything_that_is_wrong_with_an_order_is_told_at_once(served, order, expected):
    answer = served.delete(order)
    assert (answer.status_code, sorted(fields(answer))) == (422, expected)


def test_a_mistyped_key_is_named(served):
    answer = served.create({"target": 1, "tagret": 2})
    assert "did you mean 'target'" in answer.json()["faults"][0]["message"]


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        pytest.param(b"{", "application/json", 422, id="half an object"),
        pytest.param(b"[1]", "application/json", 422, id="a list"),
        pytest.param(b'{"target": 1}', "text/plain", 422, id="no JSON by its own word"),
        pytest.param(b"[" * 100_000, "application/json", 400, id="deeper than anybody reads"),
        pytest.param(b" " * (MOST_BYTES + 1), "application/json", 413, id="too large"),
    ],
)
def test_what_is_no_order(node, served, content, kind, status):
    answer = served.ask("POST", "/taskmanager", content=content, headers={"content-type": kind})

    assert answer.status_code == status
    assert len(fields(answer)) == 1
    assert node.states() == {}


@pytest.mark.parametrize(
    ("method", "path", "status"), [("PUT", "/taskmanager", 405), ("GET", "/other", 404), ("GET", "/docs", 404)]
)
def test_what_is_not_there(served, method, path, status):
    answer = served.ask(method, path)
    assert (answer.status_code, fields(answer)) == (status, ["request"])


def test_orders_at_the_same_time_get_different_ids(served):
    answers = [answer.json() for answer in served.create({"target": 1}, times=8)]

    given = sorted(number for answer in answers for number in answer["creating"])
    assert given == [1, 2, 3, 4, 5]


# --------------------------------------------------------------------------------------------- the door


@pytest.mark.parametrize(
    "header",
    [None, "", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer café".encode("latin-1")],
    ids=["none", "empty", "bare", "basic", "more", "not ASCII"],
)
@pytest.mark.parametrize("asked", ["POST /taskmanager", "GET /taskmanager", "GET /openapi.json"])
def test_nobody_gets_in_without_the_token(node, locked, header, asked):
    headers = {} if header is None else {"authorization": header}

    answer = locked.ask(*asked.split(), headers=headers, content=b"{")

    assert (answer.status_code, fields(answer)) == (401, ["token"])
    assert answer.headers["www-authenticate"] == "Bearer"
    assert node.states() == {}


def test_the_token_opens(locked):
    locked.headers["authorization"] = f"Bearer {TOKEN}"

    assert locked.create({"target": 1}).status_code == 202
    assert locked.get("/taskmanager", headers={"host": "node.example:8091"}).status_code == 200


@pytest.mark.parametrize("path", ["/ping", "/health"])
def test_what_probes_ask_needs_no_token(locked, path):
    assert locked.get(path).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8091", 200),
        ("127.0.0.1", 200),
        ("127.0.0.9:80", 200),
        ("[::1]:8091", 200),
        ("evil.example", 400),
        ("10.0.0.1", 400),
        ("[", 400),
    ],
)
def test_without_a_token_only_names_of_this_machine_are_answered_to(served, host, status):
    assert served.get("/taskmanager", headers={"host": host}).status_code == status


@pytest.mark.parametrize("kind", ["served", "locked"])
def test_the_openapi_page_has_everything(kind, request):
    page = request.getfixturevalue(kind).get("/openapi.json", headers={"authorization": f"Bearer {TOKEN}"}).json()

    assert {path: set(methods) for path, methods in page["paths"].items()} == {
        "/taskmanager": {"get", "post", "delete"},
        "/ping": {"get"},
        "/health": {"get"},
    }
    removing = page["paths"]["/taskmanager"]["delete"]
    assert {"202", "401", "408", "409", "413", "422", "503"} <= set(removing["responses"])
    assert removing["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/RemoveOrder"
    }
    order = page["components"]["schemas"]["CreateOrder"]["properties"]["target"]
    assert (order["minimum"], order["type"]) == (0, "integer")
    assert ("security" in removing) is (kind == "locked")
