"""A policy whose answers are looked at before anybody reckons with them."""

from __future__ import annotations

from typing import Any, cast

from rheostat.model import Assessment, Recommendation
from rheostat.plan import Policy
from rheostat.plan.structure import misanswered, mismeasured

__all__ = ["AnswerError", "answering"]


class AnswerError(AssertionError):
    """A policy has answered something that is no answer; the message says what, and what it must be."""


def answering(policy: Policy[Any]) -> Policy[Any]:
    """The policy as it is, but that what is no answer raises :class:`AnswerError`."""
    return cast("Policy[Any]", _Answering(policy))


class _Answering:
    def __init__(self, policy: Policy[Any]) -> None:
        self._policy = policy

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def recommend(self, seen: Assessment, state: Any) -> tuple[Recommendation, Any]:
        """The policy's answer."""
        answer = self._policy.recommend(seen, state)
        self._refuse(misanswered(answer), f"recommend() at {seen.at:g} s, with {seen.requested} executors in force")
        return answer

    def capacity(self, executors: int, state: Any) -> float | None:
        """The policy's figure."""
        answer = self._policy.capacity(executors, state)
        self._refuse(mismeasured(answer), f"capacity() of {executors} executors")
        return answer

    def _refuse(self, wrong: list[str], asked: str) -> None:
        if wrong:
            fault = "\n  - ".join([f"{type(self._policy).__name__} answers wrongly, asked for {asked}:", *wrong])
            raise AnswerError(fault)
