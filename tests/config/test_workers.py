"""The keys of the cluster layer, and the token that stands in none of them."""

from __future__ import annotations

import pytest

from rheostat.config.loading import load_settings, read_token
from rheostat.errors import InputError

ACT = {"objective": "lag < 30s", "executors": [1, 4]}


def fields(workers, actuator="workers"):
    try:
        load_settings({**ACT, "actuator": actuator, "workers": workers})
    except InputError as error:
        return [(fault.field, fault.given) for fault in error.faults]
    return []


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        pytest.param({"nodes": ["http://10.0.0.1:8091", "https://b:1/"]}, [], id="two nodes"),
        pytest.param({"nodes": []}, [("workers.nodes", "none")], id="no node"),
        pytest.param({"nodes": ["10.0.0.1:8091"]}, [("workers.nodes.0", "10.0.0.1:8091")], id="no scheme"),
        pytest.param(
            {"nodes": ["http://a:1/taskmanager"]}, [("workers.nodes.0", "http://a:1/taskmanager")], id="a path"
        ),
        pytest.param({"nodes": ["http://a:70000"]}, [("workers.nodes.0", "http://a:70000")], id="no port"),
        pytest.param(
            {"nodes": ["http://me:secret@a:1"]}, [("workers.nodes.0", "http://me:secret@a:1")], id="a password"
        ),
        pytest.param({"nodes": ["http://a:1", "http://a:1"]}, [("workers.nodes.1", "http://a:1")], id="one twice"),
        pytest.param(
            {"nodes": ["http://a:1"], "backup": -1, "timeout_s": 0.0, "evry_s": 1.0},
            [("workers.backup", "-1"), ("workers.timeout_s", "0.0"), ("workers.evry_s", "1.0")],
            id="all of it at once",
        ),
    ],
)
def test_what_is_refused(workers, expected):
    assert fields(workers) == expected


NAMED = ["near=http://a:1", "mid=http://b:1", "far=http://c:1/"]


@pytest.mark.parametrize(
    ("nodes", "given", "expected"),
    [
        pytest.param(["http://a:1"], "measured", [], id="measured needs no names"),
        pytest.param(NAMED, {"near": {"mid": 20, "far": 300.5}}, [], id="not every pair"),
        pytest.param(NAMED, {"near": {"far": 300}, "far": {"near": 300}}, [], id="both ways alike"),
        pytest.param(NAMED, "mesured", [("workers.round_trips_ms", "'mesured'")], id="another word"),
        pytest.param(
            NAMED,
            {"near": {"mid": -1, "fra": 3, "near": 0, "far": 5}, "far": {"near": 6, "mid": True}, "x": 3},
            [
                ("workers.round_trips_ms.near.mid", "-1"),
                ("workers.round_trips_ms.near.fra", "fra"),
                ("workers.round_trips_ms.near.near", "0"),
                ("workers.round_trips_ms.far.near", "6"),
                ("workers.round_trips_ms.far.mid", "True"),
                ("workers.round_trips_ms.x", "x"),
            ],
            id="all of it at once",
        ),
        pytest.param(NAMED, {"near": {"far": float("inf")}}, [("workers.round_trips_ms.near.far", "inf")], id="∞"),
        pytest.param(
            NAMED, {"near": {"far": 10**400}}, [("workers.round_trips_ms.near.far", str(10**400))], id="beyond a float"
        ),
        pytest.param(
            ["near=http://a:1", "http://b:1"], {"near": {}}, [("workers.round_trips_ms", "http://b:1")], id="no name"
        ),
        pytest.param(["a=http://a:1", "a=http://b:1"], None, [("workers.nodes.1", "a=http://b:1")], id="a name twice"),
        pytest.param(["a b=http://a:1"], None, [("workers.nodes.0", "a b=http://a:1")], id="no name for a node"),
    ],
)
def test_the_latency_map(nodes, given, expected):
    assert fields({"nodes": nodes, "round_trips_ms": given}) == expected


def test_a_value_of_several_types_is_told_with_each():
    with pytest.raises(InputError) as caught:
        load_settings({**ACT, "actuator": "workers", "workers": {"nodes": NAMED, "round_trips_ms": 5}})
    assert [fault.message for fault in caught.value.faults] == [
        "input should be `measured` or keys with values (ms) or null"
    ]


def test_everything_that_is_wrong_with_the_nodes_is_told_at_once():
    nodes = ["a:1", "b=http://b:1", 3, "b=http://c:1", "c d=http://b:1", "http://e", "x y=ftp://f:1"]
    with pytest.raises(InputError) as caught:
        load_settings({**ACT, "actuator": "workers", "workers": {"nodes": nodes, "round_trips_ms": {"b": {"b": 1}}}})
    no_name = "is no name for a node: letters, digits, - and _, at most 41"
    assert {fault.field: fault.message for fault in caught.value.faults} == {
        "workers.nodes.0": "this is no address of a node server; it lacks http:// before it",
        "workers.nodes.2": "this is no text",
        "workers.nodes.3": "the name 'b' stands there twice",
        "workers.nodes.4": f"this address stands there twice; 'c d' {no_name}",
        "workers.nodes.6": f"this is no address of a node server; 'x y' {no_name}",
        "workers.round_trips_ms.b.b": "executors on one node are not apart: leave this out",
    }


def test_a_mistyped_node_in_the_map_is_named():
    with pytest.raises(InputError, match="did you mean 'far'"):
        load_settings(
            {**ACT, "actuator": "workers", "workers": {"nodes": NAMED, "round_trips_ms": {"near": {"fra": 1}}}}
        )


def test_names_and_addresses_of_the_nodes():
    workers = load_settings({**ACT, "workers": {"nodes": ["near=http://a:1/", "http://b:1"]}}).workers

    assert workers.named_nodes == (("near", "http://a:1"), (None, "http://b:1"))
    assert workers.round_trips_ms is None


def test_without_the_actuator_nodes_are_not_needed():
    assert fields({}, actuator="executors") == []
    assert load_settings(ACT).actuator == "executors"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"RHEOSTAT_NODE_TOKEN": ""}, None, id="empty"),
        pytest.param({"RHEOSTAT_NODE_TOKEN": "0123456789abcdef"}, "0123456789abcdef", id="sixteen characters"),
    ],
)
def test_the_token_of_the_environment(environ, expected):
    assert read_token(None, "workers.token_file", environ) == expected


def test_a_token_file_is_read_and_its_faults_are_named_by_its_key(tmp_path):
    file = tmp_path / "token"
    with pytest.raises(InputError, match=r"workers\.token_file: the file cannot be read: No such file"):
        read_token(file, "workers.token_file", {})
    file.write_text("short")
    with pytest.raises(InputError, match=r"workers\.token_file: the token is too weak"):
        read_token(file, "workers.token_file", {})
