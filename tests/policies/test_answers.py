"""What the conformance suite says of a policy that answers something else than a recommendation."""

from typing import Any

import pytest
from tests.policies.samples import Fixed

from rheostat.model import Reason, ReasonCode, Recommendation
from rheostat.testing.policies import check_policy
from rheostat.testing.stories import STORIES


def checked(build: Any) -> None:
    check_policy(build, stories=STORIES[:1])


class Answers(Fixed):
    """Answers whatever it is told to."""

    def __init__(self, answer: Any) -> None:
        super().__init__(2)
        self.answer = answer

    def recommend(self, seen, state):  # noqa: ARG002
        return self.answer if isinstance(self.answer, int) else (self.answer, state)


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        pytest.param(
            3,
            "it returned 3: it must be (Recommendation, state), as "
            "Recommendation(2, Reason(ReasonCode.FIXED, 'why')), state",
            id="a bare number",
        ),
        pytest.param(
            Recommendation(2.5, Reason(ReasonCode.FIXED, "half")),  # type: ignore[arg-type]
            "target is 2.5: it must be a whole number of executors (int), or None for no opinion",
            id="half an executor",
        ),
        pytest.param(
            Recommendation(2, Reason("MY_CODE", "mine")),  # type: ignore[arg-type]
            "reason.code is 'MY_CODE': it must be a rheostat.model.ReasonCode, as in ReasonCode.FIXED",
            id="a code of one's own",
        ),
        pytest.param(
            Recommendation(2, "because"),  # type: ignore[arg-type]
            "reason is 'because': it must be a Reason, as in Reason(ReasonCode.FIXED, 'why')",
            id="a sentence only",
        ),
        pytest.param(
            Recommendation(True, Reason(ReasonCode.FIXED, 5, {"rate": "fast"})),  # type: ignore[arg-type,dict-item]  # noqa: FBT003
            "target is True: it must be a whole number of executors (int), or None for no opinion\n"
            "  - reason.text is 5: it must be text\n"
            "  - reason.figures has 'rate': 'fast': it must be name → number, or None where it is unknown",
            id="everything at once",
        ),
    ],
)
def test_what_is_no_answer_is_told_with_what_must_be_returned(answer, wrong):
    with pytest.raises(AssertionError) as caught:
        checked(lambda: Answers(answer))
    asked = "asked for recommend() at 1015 s, with 3 executors in force"
    assert str(caught.value) == f"in the story {STORIES[0].name!r}, Answers answers wrongly, {asked}:\n  - {wrong}"


def test_a_capacity_that_is_no_number_is_told():
    class Boasts(Fixed):
        def capacity(self, executors, state):  # noqa: ARG002
            return "plenty"

    with pytest.raises(AssertionError, match="it returned 'plenty': it must be a number of records/s, or None"):
        checked(lambda: Boasts(2))


@pytest.mark.parametrize("part", ["initial", "recommend", "capacity"])
def test_a_policy_that_raises_is_named_with_the_story_and_the_exception(part):
    def fail(*_arguments):
        return 1 / 0

    broken = type("Broken", (Fixed,), {part: fail})
    with pytest.raises(AssertionError) as caught:
        checked(lambda: broken(2))
    assert str(caught.value).startswith(f"in the story {STORIES[0].name!r}, Broken raised ZeroDivisionError, asked for")
    assert f"{part}()" in str(caught.value)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
