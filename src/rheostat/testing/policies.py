"""The conformance suite of policies. It runs on every registered one; run it on yours."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rheostat.plan import Policy
from rheostat.plan.structure import misshapen
from rheostat.testing.answers import AnswerError
from rheostat.testing.laws import LAWS, Case, Law, scaled_options
from rheostat.testing.stories import STORIES, Story

__all__ = ["check_policy"]


def check_policy(
    make: Callable[[], Policy[Any]],
    *,
    scaled: Callable[[float], Policy[Any]] | None = None,
    stories: Sequence[Story] = STORIES,
) -> Mapping[str, str]:
    """Check the laws of :data:`rheostat.testing.LAWS` on several stories.

    ``inputs``
        what a policy is given stays as it was;
    ``bounds``
        what is done ends within the bounds, and every decision has a sentence;
    ``determinism``
        no hidden state, clock or random numbers;
    ``unknown``
        unknown, impossible and stale figures never lead to fewer executors;
    ``journal``
        the state goes through JSON and through a journal on disk unchanged;
    ``more_load``
        raising only the latest rate and backlog of a steady history, within 3 standard deviations, never gives fewer;
    ``scale``
        rates, backlogs, capacities, thresholds and caps scaled together change nothing.

    A policy that cannot hold one of the last two says so in an attribute ``exempt``, law → why. Then the law must be
    seen to be broken on one of the stories: an exemption that is not needed is a fault too.

    Args:
        make: builds the policy anew at each call.
        scaled: builds it for rates and records so many times as large, a power of two. Without it the options are
            multiplied whose fields say ``json_schema_extra={"unit": "records/s"}`` or ``"records"``.
        stories: what it is run on; add one that shows what yours is exempt from.

    Returns:
        For each exemption, what broke the law.

    Raises:
        AssertionError: a law is broken; the message names it, the story, the sample and what differs there. Or what
            ``make`` builds is no policy: all that it lacks. Or what it answers is no answer: what must be returned.
    """
    policy = make()
    _check_structure(policy)
    exempt: Mapping[str, str] = getattr(policy, "exempt", {})
    _check_exemptions(exempt)
    cases = [Case(make, scaled or (lambda factor: scaled_options(make(), factor)), story) for story in stories]
    broken = {}
    for law in LAWS:
        fault = _first_fault(law, cases)
        if law.name in exempt:
            broken[law.name] = _needed(law.name, fault, exempt[law.name])
        elif fault is not None:
            raise fault
    return broken


def _check_structure(policy: object) -> None:
    wrong = misshapen(policy)
    if wrong:
        named = policy.__name__ if isinstance(policy, type) else type(policy).__name__
        fault = "\n  - ".join([f"{named} is not built as a policy must be:", *wrong])
        raise AssertionError(fault)


def _check_exemptions(exempt: Mapping[str, str]) -> None:
    allowed = [law.name for law in LAWS if law.may_be_exempted]
    for name, why in exempt.items():
        close = difflib.get_close_matches(name, allowed, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        if name not in allowed:
            fault = f"no policy is exempt from {name!r}, only from {' | '.join(allowed)}{hint}"
            raise AssertionError(fault)
        if not why.strip():
            fault = f"the exemption from {name!r} has no reason"
            raise AssertionError(fault)


def _first_fault(law: Law, cases: Sequence[Case]) -> AssertionError | None:
    for case in cases:
        try:
            law.check(case)
        except AnswerError as error:
            fault = f"in the story {case.story.name!r}, {error}"
            raise AssertionError(fault) from None
        except AssertionError as error:
            return AssertionError(f"the law {law.name!r} is broken in the story {case.story.name!r}: {error}")
    return None


def _needed(name: str, fault: AssertionError | None, why: str) -> str:
    if fault is not None:
        return str(fault)
    needless = f"exempt from {name!r} ({why}), yet it holds in every story: strike it, or add a story"
    raise AssertionError(needless)
