"""Settings from files and mappings: what is taken, and every fault that is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from rheostat.config.loading import load_settings, read_document, read_pair
from rheostat.config.models import GuardSettings, Settings
from rheostat.errors import InputError
from rheostat.model import Bounds, Objective

GOOD = {"objective": "lag < 30s", "executors": [1, 20]}


def faults_of(given):
    with pytest.raises(InputError) as caught:
        load_settings(given)
    return {fault.field: fault for fault in caught.value.faults}


def test_a_file_is_read_and_the_rest_has_its_defaults(tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text("objective: lag < 2 min for 95%\nexecutors: [2, 8]\njournal: out\nguard:\n  largest_step_up: 4\n")
    settings = load_settings(file)
    assert settings.parsed_objective == Objective(120.0, 95.0)
    assert settings.bounds == Bounds(2, 8)
    assert settings.mode == "act"
    assert settings.sample_s == 15.0
    assert settings.journal == Path("out")
    assert settings.guard == GuardSettings(largest_step_up=4)


@pytest.mark.parametrize(
    ("given", "mode"),
    [
        pytest.param({"objective": "lag < 1s"}, "watch", id="no bounds: watch"),
        pytest.param(GOOD, "act", id="bounds: act"),
        pytest.param({**GOOD, "mode": "dry-run"}, "dry-run", id="bounds and a word"),
        pytest.param({**GOOD, "mode": "watch"}, "watch", id="bounds that are not used"),
        pytest.param({**GOOD, "mode": None}, "act", id="null is the same as left out"),
    ],
)
def test_the_mode_follows_from_the_bounds_unless_it_is_said(given, mode):
    assert load_settings(given).mode == mode


@pytest.mark.parametrize(
    ("change", "field", "allowed"),
    [
        pytest.param({"objective": "lag under 3"}, "objective", "'lag < DURATION", id="objective not understood"),
        pytest.param({"objective": "lag < 0s"}, "objective", "DURATION > 0", id="objective of zero"),
        pytest.param({"objective": 30}, "objective", "text", id="objective that is no text"),
        pytest.param({"executors": [5, 2]}, "executors", "minimum ≤ maximum", id="greatest under least"),
        pytest.param({"executors": [0, 2]}, "executors", "an integer ≥ 1", id="no executor at all"),
        pytest.param({"executors": [1]}, "executors", "list of two integers", id="one bound"),
        pytest.param({"executors": ["1", 2]}, "executors", "list of two integers", id="a bound that is text"),
        pytest.param({"executors": "1-20"}, "executors", "list of two integers", id="bounds as text"),
        pytest.param({"executors": None, "mode": "act"}, "executors", "[least, greatest]", id="acting without bounds"),
        pytest.param({"mode": "on"}, "mode", "`act`, `watch`, `dry-run`", id="unknown mode"),
        pytest.param({"profile": "demos"}, "profile", "`demo`", id="unknown profile"),
        pytest.param({"profile": ["demo"]}, "profile", "`demo`", id="profile that is a list"),
        pytest.param({"sample_s": 0.1}, "sample_s", "number ≥ 0.2 and ≤ 3600 (s)", id="sampling too often"),
        pytest.param({"sample_s": True}, "sample_s", "number", id="a truth value is no number"),
        pytest.param({"sample_s": float("nan")}, "sample_s", "number", id="NaN is no number"),
        pytest.param({"rate_window_s": float("inf")}, "rate_window_s", "number", id="infinity is no number"),
        pytest.param({"policy": ""}, "policy", "text", id="policy without a name"),
        pytest.param({"policy_options": [1]}, "policy_options", "keys with values", id="options as a list"),
        pytest.param({"queries": "clicks"}, "queries", "list of text or null", id="one query as text"),
        pytest.param({"allow_redone_work": 1}, "allow_redone_work", "true or false", id="a number is no truth value"),
        pytest.param({"journal": "a\0b"}, "journal", "without NUL", id="a path that no system has"),
        pytest.param({"state": "a\0b"}, "state", "without NUL", id="a folder that no system has"),
        pytest.param({"guard": 3}, "guard", "keys with values", id="guard that is a number"),
        pytest.param({"guard": {"hold_s": -1}}, "guard.hold_s", "number ≥ 0", id="negative time"),
        pytest.param({"guard": {"largest_step_up": 0}}, "guard.largest_step_up", "integer ≥ 1", id="step of zero"),
        pytest.param({"guard": {"warm_up_batches": 1.5}}, "guard.warm_up_batches", "integer", id="half a batch"),
        pytest.param(
            {"guard": {"no_room_backoff_s": 700}},
            "guard.no_room_backoff_max_s",
            "≥ no_room_backoff_s (700)",
            id="back-off that starts above its end",
        ),
    ],
)
def test_a_wrong_value_is_one_fault_at_its_key(change, field, allowed):
    faults = faults_of({**GOOD, **change})
    assert set(faults) == {field}
    assert allowed in faults[field].allowed


@pytest.mark.parametrize(
    ("change", "field", "meant"),
    [
        pytest.param({"sampel_s": 1}, "sampel_s", "'sample_s'", id="mistyped"),
        pytest.param({"guard": {"cooldown_up": 1}}, "guard.cooldown_up", "'guard.cooldown_up_s'", id="unit forgotten"),
        pytest.param({"cooldown_up_s": 1}, "cooldown_up_s", "'guard.cooldown_up_s'", id="section forgotten"),
        pytest.param({"guard": {"sample_s": 1}}, "guard.sample_s", "'sample_s'", id="wrong section"),
    ],
)
def test_an_unknown_key_is_a_fault_that_names_the_one_that_was_meant(change, field, meant):
    assert faults_of({**GOOD, **change})[field].message == f"unknown key; did you mean {meant}?"


def test_an_unknown_key_like_no_other_lists_what_there_is():
    fault = faults_of({**GOOD, "zzzz": 1})["zzzz"]
    assert fault.message == "unknown key"
    assert "rate_window_s" in fault.allowed


def test_everything_that_is_wrong_is_named_at_once(tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(
        "sample_s: 20\nexecutors: [4, 1]\nsampel: 1\nguard:\n  hold_s: -2\n  hold_s: 5\n3: 4\nsample_s: 0\n"
    )
    faults = faults_of(file)
    assert set(faults) == {"objective", "executors", "sampel", "hold_s", "sample_s", "3"}
    assert faults["hold_s"].message == f"{file}, line 6: given again, first in line 5"


def test_a_key_given_twice_is_a_fault_even_if_both_values_are_right(tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text("objective: lag < 30s\nsample_s: 10\nsample_s: 20\n")
    assert faults_of(file)["sample_s"].message == f"{file}, line 3: given again, first in line 2"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a: [1, 2\n", "not readable as YAML", id="a list that never ends"),
        pytest.param("- 1\n- 2\n", "holds no settings", id="a list"),
        pytest.param("just words\n", "holds no settings", id="words"),
        pytest.param("a: !!python/object/apply:os.getcwd []\n", "not readable as YAML", id="an object of Python"),
        pytest.param("? [1, 2]\n: 3\n", "not readable as YAML", id="a list as a key"),
        pytest.param("a: 1\n---\nb: 2\n", "not readable as YAML", id="two documents"),
    ],
)
def test_a_file_without_settings_is_named_with_the_reason(tmp_path, text, message):
    file = tmp_path / "job.yaml"
    file.write_text(text)
    assert message in faults_of(file)[str(file)].message


def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path):
    none, huge, pipe = (tmp_path / name for name in ("none.yaml", "huge.yaml", "pipe.yaml"))
    os.mkfifo(pipe)
    with huge.open("wb") as file:
        file.truncate(2**40)
    reasons = {
        none: "No such file or directory",
        huge: "it is larger than 1 MiB",
        pipe: "it is a pipe",
        tmp_path: "it is a folder",
        Path("/dev/zero"): "it is a device",
    }
    for path, reason in reasons.items():
        [fault] = faults_of(path).values()
        assert (fault.field, fault.given) == (str(path), str(path))
        assert fault.message == f"the file cannot be read: {reason}"


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e6", 1e6), ("1e+1", 10.0), ("2.5E2", 250.0), (".5e1", 5.0), ("-1e-3", -0.001), ("+1.e2", 100.0)],
)
def test_a_number_with_an_exponent_is_a_number_as_in_yaml_1_2(text, value, tmp_path):
    assert read_pair(f"job.x={text}") == ("job.x", value)
    file = tmp_path / "job.yaml"
    file.write_text(f"a: {text}\nb: [{text}]\n")
    assert read_document(file) == ({"a": value, "b": [value]}, [])


@pytest.mark.parametrize("text", ["1e", "e6", "v1e6", "1e6s", "'1e6'", "1e6.5"])
def test_what_only_looks_like_a_number_stays_text(text):
    assert read_pair(f"a={text}")[1] == text.strip("'")


def test_a_key_given_twice_in_a_pair_is_not_understood():
    with pytest.raises(ValueError, match="guard="):
        read_pair("guard={hold_s: 1, hold_s: 2}")


def test_a_policy_may_be_named_with_its_preset():
    settings = load_settings({**GOOD, "policy": "hpa:faithful", "policy_options": {"tolerance": 0.2}})
    assert (settings.policy, settings.policy_options) == ("hpa", {"tolerance": 0.2, "preset": "faithful"})


def test_an_empty_file_lacks_the_objective(tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text("")
    assert faults_of(file)["objective"].message == "this key is required"


def test_settings_are_frozen_and_survive_json():
    settings = load_settings({**GOOD, "profile": "demo", "journal": "out", "queries": ["clicks"]})
    with pytest.raises(ValidationError):
        settings.sample_s = 1.0
    adapter = TypeAdapter(Settings)
    assert adapter.validate_json(adapter.dump_json(settings)) == settings


def test_importing_the_settings_brings_no_heavy_library():
    heavy = "{'numpy', 'scipy', 'yaml', 'httpx', 'rich', 'typer', 'pyspark', 'confluent_kafka'}"
    code = f"import sys, rheostat.config, rheostat.analyze.assess; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "text",
    [
        "objective: \1",
        "journal: 2025-13-45",
        "sample_s: " + "9" * 5000,
        "a: !!timestamp x",
        "a: !!int ''",
        "a: !!bool x",
    ],
    ids=["a control character", "no day", "too many digits", "no time", "no integer", "no truth value"],
)
def test_what_yaml_cannot_read_is_a_fault_of_the_file(text, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(text)
    assert faults_of(file)[str(file)].message.startswith("the file is not readable as YAML: ")


def test_an_objective_without_end_is_none():
    assert "out of range" in faults_of({"objective": f"lag < {'9' * 400}s"})["objective"].message
