"""The keys of the cluster layer, and the token that stands in none of them."""

from __future__ import annotations

import pytest

from rheostat.config import load_settings
from rheostat.config.secrets import read_token
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
        pytest.param({"nodes": ["10.0.0.1:8091"]}, [("workers.nodes", "10.0.0.1:8091")], id="no scheme"),
        pytest.param({"nodes": ["http://a:1/taskmanager"]}, [("workers.nodes", "http://a:1/taskmanager")], id="a path"),
        pytest.param({"nodes": ["http://a:70000"]}, [("workers.nodes", "http://a:70000")], id="no port"),
        pytest.param({"nodes": ["http://me:secret@a:1"]}, [("workers.nodes", "http://me:secret@a:1")], id="a password"),
        pytest.param({"nodes": ["http://a:1", "http://a:1"]}, [("workers.nodes", "http://a:1")], id="one twice"),
        pytest.param(
            {"nodes": ["http://a:1"], "backup": -1, "timeout_s": 0.0, "evry_s": 1.0},
            [("workers.backup", "-1"), ("workers.timeout_s", "0.0"), ("workers.evry_s", "1.0")],
            id="all of it at once",
        ),
    ],
)
def test_what_is_refused(workers, expected):
    assert fields(workers) == expected


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
    with pytest.raises(InputError, match=r"workers\.token_file: this is no token that keeps anybody out"):
        read_token(file, "workers.token_file", {})
