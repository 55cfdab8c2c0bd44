from importlib.metadata import EntryPoint, entry_points
from typing import Any

import pytest
from pydantic import BaseModel
from tests.policies.samples import seen

from rheostat.decide.policy import PolicyContext, load_policy, policy_names
from rheostat.errors import InputError
from rheostat.model import Objective, ReasonCode
from rheostat.plugins import POLICIES
from rheostat.policies.reactive import ReactiveOptions, ReactivePolicy
from rheostat.policies.static import StaticPolicy

CONTEXT = PolicyContext(Objective(30.0), 15.0)


def options_of(name: str) -> type[BaseModel]:
    policy: Any = load_policy(name, {}, CONTEXT)
    return policy.options_type  # type: ignore[no-any-return]


def faults_of(name: str, **options: Any):
    with pytest.raises(InputError) as caught:
        load_policy(name, options, CONTEXT)
    return caught.value.faults


@pytest.fixture
def registered(monkeypatch):
    """Registers further entry points, beside the installed ones."""

    def register(**values: str) -> None:
        def found(*, group: str, name: str | None = None) -> list[EntryPoint]:
            assert group == POLICIES.group
            added = [EntryPoint(key, value, POLICIES.group) for key, value in values.items()]
            return [each for each in (*installed(group=POLICIES.group), *added) if name in (None, each.name)]

        installed = entry_points
        monkeypatch.setattr("rheostat.plugins.entry_points", found)

    return register


def test_the_built_in_ones_come_through_entry_points():
    assert {"reactive", "static"} <= set(policy_names())
    assert isinstance(load_policy("reactive", {}, CONTEXT), ReactivePolicy)
    assert isinstance(load_policy("static", {}, CONTEXT), StaticPolicy)


def test_a_mistyped_name_gets_a_hint_and_the_list():
    (fault,) = faults_of("reactiv")
    assert (fault.field, fault.given) == ("policy", "'reactiv'")
    assert fault.message == (
        "no such policy; did you mean 'reactive'? A new one is found after its entry point in `rheostat.policies` was "
        "added and its package installed again"
    )


def test_a_name_that_is_like_none_gets_the_way_to_one_of_ones_own():
    (fault,) = faults_of("zzz")
    assert fault.message == (
        "no such policy. A new one is found after its entry point in `rheostat.policies` was added and its package "
        "installed again"
    )
    assert {"reactive", "static"} <= set(fault.allowed.split(" | "))


def test_every_wrong_option_is_reported_at_once():
    faults = faults_of("reactive", slaa=0.2, sla=-1, memory="many", preset="faithfull")
    assert {fault.field: fault.given for fault in faults} == {
        "policy_options.preset": "'faithfull'",
        "policy_options.slaa": "'slaa'",
        "policy_options.sla": "-1",
        "policy_options.memory": "'many'",
    }
    hints = {fault.field: fault.message for fault in faults}
    assert hints["policy_options.slaa"] == "no such option; did you mean 'sla'?"
    assert hints["policy_options.preset"] == "no such preset; did you mean 'faithful'?"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "0.1", True], ids=["NaN", "infinite", "text", "bool"])
def test_a_number_is_a_number(value):
    assert [fault.field for fault in faults_of("reactive", sla=value)] == ["policy_options.sla"]


@pytest.mark.parametrize(
    ("preset", "options", "samples", "learn_from"),
    [
        pytest.param("default", {}, 10, "processed", id="ours"),
        pytest.param("production", {}, 10, "processed", id="a preset that this policy does not have"),
        pytest.param("faithful", {}, 10, "arrival", id="as published"),
        pytest.param("faithful", {"samples_to_shrink": 3}, 3, "arrival", id="an option goes before the preset"),
        pytest.param("faithful", {"preset": "demo"}, 4, "processed", id="the option preset goes before the context"),
    ],
)
def test_presets(preset, options, samples, learn_from):
    policy = load_policy("reactive", options, PolicyContext(Objective(30.0), 15.0, preset))
    assert isinstance(policy, ReactivePolicy)
    assert (policy.options.samples_to_shrink, policy.options.learn_from) == (samples, learn_from)


def test_the_faithful_preset_has_the_published_constants():
    policy = load_policy("reactive", {"preset": "faithful"}, CONTEXT)
    assert isinstance(policy, ReactivePolicy)
    assert policy.options == ReactiveOptions(
        sla=0.10,
        occupancy_limit=None,
        wait_limit=None,
        slow_interval_s=15.0,
        increase="one",
        decrease="one",
        samples_to_shrink=10,
        shrink_on=False,
        headroom=0.9,
        learn_from="arrival",
        memory=None,
        settle_batches=0,
        catch_up_lags=None,
        probe=False,
    )


def test_every_option_is_described():
    for name in policy_names():
        for field in options_of(name).model_fields.values():
            assert field.description


def test_a_policy_that_cannot_be_imported_says_why(registered):
    registered(broken="no_such_package_of_ours:Policy")
    (fault,) = faults_of("broken")
    assert (fault.field, fault.given) == ("policy", "broken")
    assert "ModuleNotFoundError: No module named 'no_such_package_of_ours'" in fault.message


def test_what_is_no_policy_says_what_it_lacks(registered):
    registered(dictionary="builtins:dict")
    (fault,) = faults_of("dictionary")
    assert (
        fault.message
        == "builtins:dict is not a policy: it has no options_type, no presets, no name, no self_managed_steps, "
        "no state_type, no initial, no recommend, no capacity"
    )


def test_two_packages_under_one_name_are_refused(registered):
    registered(static="other_package:Static")
    (fault,) = faults_of("static")
    assert fault.message == "registered more than once: other_package:Static, rheostat.policies.static:StaticPolicy"


@pytest.mark.parametrize(
    ("executors", "target", "text"),
    [
        pytest.param(None, 3, "the number is fixed at 3", id="the current target"),
        pytest.param(7, 7, "the number is fixed: 3 → 7", id="a number"),
    ],
)
def test_static(executors, target, text):
    proposal, _ = (policy := load_policy("static", {"executors": executors}, CONTEXT)).recommend(
        seen(executors=3), policy.initial()
    )
    assert (proposal.target, proposal.reason.code, proposal.reason.text) == (target, ReasonCode.FIXED, text)
    assert policy.capacity(3, policy.initial()) is None


def test_options_are_frozen_and_closed():
    for name in policy_names():
        options = options_of(name)
        assert (options.model_config.get("frozen"), options.model_config.get("extra")) == (True, "forbid")
