"""Settings that are right and change nothing: each is named with the reason, and none that does change something."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rheostat.decide.policy import policy_names
from rheostat.decide.settings_check import check_settings, no_effect

ACT = {"objective": "lag < 30s", "executors": [1, 20]}


def idle(**given):
    values = {**ACT, **given}
    return {each.field: each.why for each in no_effect(values, check_settings(values))}


@pytest.mark.parametrize(
    ("given", "field", "why"),
    [
        pytest.param({"workers": {"backup": 3}}, "workers.backup", "say actuator: workers", id="Workers of nobody"),
        pytest.param(
            {"workers": {"round_trips_ms": "measured"}}, "workers.round_trips_ms", "say actuator", id="no nodes"
        ),
        pytest.param(
            {"metrics": {"host": "10.0.0.7"}}, "metrics.host", "give metrics.port", id="a host without a port"
        ),
        pytest.param({"mode": "dry-run", "allow_redone_work": True}, "allow_redone_work", "in mode dry-run", id="dry"),
        pytest.param({"rate_window_s": 5}, "rate_window_s", "sample_s is 15", id="a window under a period"),
        pytest.param({"executors": [4, 4], "policy": "hpa"}, "policy", "nothing is ever scaled", id="one number"),
        pytest.param({"guard": {"largest_step_up": 19}}, "guard.largest_step_up", "1 to 20", id="a step of all"),
        pytest.param({"guard": {"tolerance": 0.04}}, "guard.tolerance", "0.05 of the number", id="a small tolerance"),
        pytest.param({"guard": {"hold_s": 60, "hold_batches": 3}}, "guard.hold_batches", "hold lasts 60 s", id="hold"),
        pytest.param({"guard": {"align_most": 0.5}}, "guard.align_most", "give guard.align_to", id="alignment"),
        pytest.param(
            {"guard": {"align_to": "waves", "state_partitions": 64}}, "guard.state_partitions", "state", id="no state"
        ),
        pytest.param(
            {"guard": {"ineffective_share": None, "ineffective_s": 60}}, "guard.ineffective_s", "null", id="ineffective"
        ),
        pytest.param(
            {"guard": {"no_room_backoff_s": 0, "no_room_backoff_max_s": 60}},
            "guard.no_room_backoff_max_s",
            "could double",
            id="back-off",
        ),
        pytest.param(
            {"guard": {"cooldown_down_s": 0, "round_trip_cooldowns": 3}},
            "guard.round_trip_cooldowns",
            "which is 0",
            id="multiple of nothing",
        ),
        pytest.param(
            {"guard": {"round_trip_cooldowns": 1}}, "guard.round_trip_cooldowns", "as long", id="one cooldown"
        ),
        pytest.param({"guard": {"scale_down_hold_s": 10}}, "guard.scale_down_hold_s", "each 15 s", id="a short window"),
        pytest.param(
            {"policy": "hpa", "guard": {"tolerance": 0.2}}, "guard.tolerance", "hpa does tolerance", id="brought"
        ),
        pytest.param({"policy": "hpa", "guard": {"hold_s": 9}}, "guard.hold_s", "hpa does hold by", id="brought hold"),
        pytest.param({"policy": "static", "preset": "faithful"}, "preset", "no preset of this name", id="no preset"),
        pytest.param({"policy": "hpa:faithful", "preset": "default"}, "preset", "goes before it", id="a preset twice"),
        pytest.param(
            {"policy": "static", "policy_options": {"executors": 30}}, "policy_options.executors", "make it 20", id="30"
        ),
        pytest.param(
            {"policy": "hpa", "policy_options": {"overshoot": 2.0}},
            "policy_options.overshoot",
            "only with metrics lag_change",
            id="a metric that is not looked at",
        ),
        pytest.param(
            {"policy": "keda", "policy_options": {"threshold_triggers": 2.0, "lag_threshold": 5.0}},
            "policy_options.threshold_triggers",
            "only with lag_threshold null",
            id="two thresholds",
        ),
    ],
)
def test_what_is_void_is_named_with_the_reason(given, field, why):
    assert why in idle(**given)[field]


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({}, id="nothing more"),
        pytest.param({"metrics": {"host": "10.0.0.7", "port": 9090}}, id="a host with its port"),
        pytest.param({"guard": {"hold_batches": 3, "hold_fallback_s": 60, "largest_step_up": 18}}, id="a hold"),
        pytest.param({"guard": {"tolerance": 0.05, "round_trip_cooldowns": 1.5}}, id="a tolerance of one in twenty"),
        pytest.param({"guard": {"align_to": "state", "align_most": 0.5, "state_partitions": 64}}, id="alignment"),
        pytest.param(
            {"policy": "hpa", "guard": {"catching_up": False, "failover": True}}, id="steps that it does not do itself"
        ),
        pytest.param(
            {"policy": "hpa", "guard": {"cooldown_down_s": 90, "round_trip_cooldowns": 1}},
            id="one cooldown after an increase, for a policy that does the cooldown itself",
        ),
        pytest.param(
            {"policy": "hpa", "guard": {"hold_fallback_s": 9, "hold_both": True, "hold_s": 9}}, id="hold of all"
        ),
        pytest.param({"policy": "hpa", "preset": "faithful"}, id="a preset that it has"),
        pytest.param(
            {"policy": "keda", "policy_options": {"threshold_triggers": 2.0, "lag_threshold": None}}, id="keda"
        ),
        pytest.param(
            {"policy": "hpa", "policy_options": {"overshoot": 2.0, "metrics": {"lag_change": 1.0, "occupancy": 0.8}}},
            id="a metric that is looked at",
        ),
        pytest.param({"policy": "router", "guard": {"failure_window_s": 60}}, id="the window in which failures count"),
        pytest.param({"executors": [4, 4], "guard": {"quota_cores": 2, "max_age_cycles": 1}}, id="until 4 are there"),
        pytest.param({"profile": "faithful", "policy": "hpa"}, id="what a profile says is not what was given"),
    ],
)
def test_what_counts_is_not_named(given):
    assert idle(**given) == {}


def test_a_sentence_says_what_was_given():
    values = {**ACT, "metrics": {"host": "10.0.0.7"}}
    (each,) = no_effect(values, check_settings(values))
    told = "metrics.host: has no effect, because nothing is served: give metrics.port (given: '10.0.0.7')"
    assert str(each) == told


@pytest.mark.parametrize("name", policy_names())
def test_an_option_that_counts_only_with_another_names_one_that_there_is(name):
    from rheostat.decide.policy import PolicyContext, load_policy
    from rheostat.model import Objective

    policy: Any = load_policy(name, {}, PolicyContext(Objective(30.0), 15.0))
    options = policy.options_type
    for field in options.model_fields.values():
        needs = (field.json_schema_extra or {}).get("only_with")
        assert needs is None or needs[0] in options.model_fields


def test_the_example_in_the_reference_has_no_idle_key():
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    example = page.split("```yaml\n")[1].split("```")[0]
    import yaml

    values = yaml.safe_load(example)
    assert no_effect(values, check_settings(values)) == []


def test_a_setting_that_a_policy_reads_itself_has_an_effect():
    given = {"guard": {"largest_step_up": 2, "largest_step_down": 3}}
    assert set(idle(**given, policy="rheostat")) == {"guard.largest_step_down"}
    assert set(idle(**given, policy="ds2")) == {"guard.largest_step_up", "guard.largest_step_down"}
