"""Profiles, and how they stand to the published constants."""

from __future__ import annotations

import pytest

from rheostat.config.loading import load_settings
from rheostat.config.models import PROFILES, Settings
from rheostat.config.reference import profile_ratios


def settings(**given):
    return load_settings({"objective": "lag < 30s", "executors": [1, 8], **given})


def test_the_demo_samples_each_2_s_and_shrinks_after_4():
    demo = settings(profile="demo")
    assert (demo.sample_s, demo.policy_options) == (2.0, {"samples_to_shrink": 4})
    assert (demo.guard.hold_s, demo.guard.hold_batches) == (None, 1)
    assert (demo.guard.cooldown_up_s, demo.guard.cooldown_down_s) == (5.0, 5.0)


def test_what_is_given_goes_before_the_profile_key_by_key():
    demo = settings(profile="demo", sample_s=1.0, guard={"cooldown_up_s": 1.0})
    assert (demo.sample_s, demo.guard.cooldown_up_s, demo.guard.cooldown_down_s) == (1.0, 1.0, 5.0)


def test_the_options_of_a_profile_are_for_its_own_policy():
    assert settings(profile="demo", policy="static").policy_options == {}
    assert settings(profile="demo", policy="reactive").policy_options == {"samples_to_shrink": 4}


def test_faithful_has_the_constants_of_s1_and_no_guard_of_ours():
    faithful = settings(profile="faithful")
    assert (faithful.sample_s, faithful.preset) == (15.0, "faithful")
    guard = faithful.guard
    assert (guard.hold_s, guard.hold_both) == (240.0, True)
    assert (guard.warm_up_batches, guard.failure_window_s, guard.catching_up) == (0, 0.0, False)
    assert (guard.largest_step_up, guard.largest_step_down) == (None, None)
    assert (guard.cooldown_up_s, guard.cooldown_down_s, guard.no_room_backoff_s) == (0.0, 0.0, 0.0)


def test_the_default_profile_changes_nothing():
    assert settings(profile="default") == settings()
    assert settings() == Settings(objective="lag < 30s", executors=(1, 8))


@pytest.mark.parametrize("name", list(PROFILES))
def test_every_profile_is_valid(name):
    assert settings(profile=name).profile == name


def test_the_demo_stands_to_the_published_constants_as_printed():
    rows = {row.key: row for row in profile_ratios("demo")}
    assert (rows["sample_s"].ours, rows["sample_s"].published) == (2.0, 15.0)
    assert rows["sample_s"].ratio == pytest.approx(2 / 15)
    assert rows["samples_to_shrink"].ratio == pytest.approx(0.4)
    assert (rows["time_to_shrink_s"].ours, rows["time_to_shrink_s"].published) == (8.0, 150.0)
    assert (rows["guard.largest_step_down"].ours, rows["guard.largest_step_down"].ratio) == (2.0, 2.0)
    assert (rows["guard.hold_s"].ours, rows["guard.hold_s"].ratio) == (None, None)
    assert rows["guard.hold_s"].note == "until 1 batch(es) ended at the new number, at most 30 s"
    assert (rows["guard.cooldown_down_s"].published, rows["guard.cooldown_down_s"].ratio) == (None, None)


def test_the_faithful_profile_is_the_published_one():
    ratios = [row.ratio for row in profile_ratios("faithful")]
    assert ratios == [1.0, 1.0, 1.0, 1.0, None, None, None]


@pytest.mark.parametrize("policy", ["reactive", "reactive:default", "proactive"])
def test_the_policies_of_s1_have_its_hold(policy):
    guard = settings(profile="faithful", policy=policy).guard
    assert (guard.hold_s, guard.hold_both) == (240.0, True)


@pytest.mark.parametrize("policy", ["hpa", "keda:faithful", "flink", "mst", "router", "static"])
def test_the_hold_of_s1_is_for_its_own_policies(policy):
    guard = settings(profile="faithful", policy=policy).guard
    assert (guard.hold_s, guard.hold_both) == (0.0, False)
    assert guard.warm_up_batches == 0


def test_a_hold_that_is_given_goes_before_that_of_the_profile():
    assert settings(profile="faithful", policy="hpa", guard={"hold_s": 60.0}).guard.hold_s == 60.0
