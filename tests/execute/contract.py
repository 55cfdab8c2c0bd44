"""What every actuator keeps, as rules to be checked on one that has one executor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rheostat.model import Action, Decision, Outcome, Reason, ReasonCode, Recommendation
from rheostat.ports import Actuator

LATER = 4e9


def decide(target, at=0.0, decision_id=1, current=1, placement=None):
    reason = Reason(ReasonCode.SLA_VIOLATED, "a test")
    action = Action.UP if target is None or target > current else Action.DOWN
    recommendation = Recommendation(target, reason)
    return Decision(at, decision_id, action, current, target, reason, recommendation, placement=placement)


@dataclass
class Case:
    """An actuator, and what lets it finish."""

    actuator: Actuator
    finish: Callable[[], object] = lambda: None

    def outcome(self) -> Outcome:
        self.finish()
        outcome = self.actuator.poll(LATER)
        assert outcome is not None
        return outcome


def no_outcome_without_a_decision(case: Case) -> None:
    assert case.actuator.poll(LATER) is None


def one_outcome_for_a_decision(case: Case) -> None:
    case.actuator.apply(decide(2, decision_id=7))

    outcome = case.outcome()

    assert (outcome.decision_id, outcome.target) == (7, 2)
    assert outcome.reason.text
    assert case.actuator.poll(LATER) is None


def the_last_decision_counts(case: Case) -> None:
    case.actuator.apply(decide(3, decision_id=1))
    case.actuator.apply(decide(2, decision_id=2))

    assert case.outcome().decision_id == 2
    assert case.actuator.poll(LATER) is None


def closing_twice_is_allowed(case: Case) -> None:
    case.actuator.close()
    case.actuator.close()


RULES = (
    no_outcome_without_a_decision,
    one_outcome_for_a_decision,
    the_last_decision_counts,
    closing_twice_is_allowed,
)
