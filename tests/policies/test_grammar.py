"""One executor carries, three carry: no reason has a plural for one thing."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from rheostat.config.models import GuardSettings
from rheostat.decide.decide import DecisionSettings
from rheostat.decide.policy import PolicyContext, load_policy, policy_names
from rheostat.model import Bounds, Objective
from rheostat.testing.policies import run
from rheostat.testing.stories import STORIES

PLURALS = "executors|batches|tasks|records|samples|partitions|slots|cores|cycles|periods|decisions|Workers"
SLIP = re.compile(rf"(?<![\d.,])1 ({PLURALS})\b|\b1 \w+ (carry|need|are|were|have|keep)\b")


@pytest.mark.slow
@pytest.mark.parametrize("name", policy_names())
def test_no_reason_on_any_story_has_a_plural_for_one(name):
    context = PolicyContext(Objective(30.0), 15.0)
    for story in STORIES:
        decision_settings = DecisionSettings(
            load_policy(name, {}, context), Bounds(1, 10), GuardSettings(), context.objective, 15.0
        )
        for moment in run(decision_settings, replace(story, start=1)):
            assert not SLIP.search(moment.decision.why), moment.decision.why


@pytest.mark.parametrize("text", ["1 executors", "1 of 1 batches", "as 1 executor carry", "1 task need 2"])
def test_a_slip_would_be_seen(text):
    assert SLIP.search(text)


@pytest.mark.parametrize("text", ["21 executors", "0.1 records", "3.1 records", "1 executor carries", "1 000 records"])
def test_what_is_right_is_no_slip(text):
    assert not SLIP.search(text)
