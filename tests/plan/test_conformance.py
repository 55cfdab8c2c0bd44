from dataclasses import dataclass, replace
from itertools import count

import pytest
from tests.plan.samples import Fixed

from rheostat.model import Code, Objective, Reason, Recommendation
from rheostat.plan import PolicyContext, load_policy, policy_names
from rheostat.testing import check_policy


@pytest.mark.parametrize("preset", ["default", "faithful", "demo"])
@pytest.mark.parametrize("name", policy_names())
def test_every_registered_policy_conforms(name, preset):
    check_policy(lambda: load_policy(name, {}, PolicyContext(Objective(30.0), 15.0, preset)))


class Guesses(Fixed):
    """Goes down on a sample that does not count."""

    def recommend(self, seen, state):
        proposal, state = super().recommend(seen, state)
        return replace(proposal, target=1) if seen.missing else proposal, state


class Remembers(Fixed):
    """Two of them do not decide alike."""

    numbers = count()  # shared by all instances, which is the fault

    def recommend(self, seen, state):
        target = None if seen.missing or seen.invalid else 2 + next(self.numbers) // 100
        return Recommendation(target, Reason(Code.FIXED, "by turns")), state


@dataclass
class Box:
    number: int = 0


class Writes(Fixed):
    state_type = Box

    def initial(self):
        return Box()

    def recommend(self, _seen, state):
        state.number += 1
        return Recommendation(3, Reason(Code.FIXED, "counted")), state


class Infinite(Fixed):
    state_type = float

    def recommend(self, _seen, _state):
        return Recommendation(3, Reason(Code.FIXED, "no bound")), float("inf")


class Silent(Fixed):
    def recommend(self, _seen, state):
        return Recommendation(3, Reason(Code.FIXED, "")), state


@pytest.mark.parametrize(
    ("policy", "rule"),
    [
        pytest.param(Guesses, "fewer executors proposed on unknown figures", id="guesses"),
        pytest.param(Remembers, "two runs on the same story differ", id="remembers outside of its state"),
        pytest.param(Writes, "changed what it was given", id="writes into its state"),
        pytest.param(Infinite, "does not come back from JSON", id="state that JSON cannot carry"),
        pytest.param(Silent, "without a sentence", id="gives no reason"),
    ],
)
def test_the_suite_finds_what_is_wrong(policy, rule):
    with pytest.raises(AssertionError, match=rule):
        check_policy(lambda: policy(3))
