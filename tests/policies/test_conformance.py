from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel, ConfigDict, Field
from tests.policies.samples import Fixed

from rheostat.decide.policy import PolicyContext, current_target, load_policy, policy_names
from rheostat.model import Bounds, Objective, Reason, ReasonCode, Recommendation
from rheostat.testing.policies import LAWS, check_policy
from rheostat.testing.stories import STORIES, Job, Step, Story

CONTEXT = PolicyContext(Objective(30.0), 15.0)


def checked(build: Any, stories: Sequence[Story] = STORIES[:3], **more: Any) -> list[str]:
    """The suite on policies that are looser in their types than a policy should be; what they are exempt from."""
    return list(check_policy(build, stories=stories, **more))


def presets_of(name: str) -> list[str]:
    """The presets of a policy; of those with equal values, which are one and the same policy, the first."""
    policy: Any = load_policy(name, {}, CONTEXT)
    distinct: dict[str, Any] = {}
    for preset, values in sorted({"default": {}, **policy.presets}.items()):
        if values not in distinct.values():
            distinct[preset] = values
    return list(distinct)


REGISTERED = [(name, preset) for name in policy_names() for preset in presets_of(name)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "preset"), REGISTERED, ids=["-".join(pair) for pair in REGISTERED])
def test_every_registered_policy_conforms(name, preset):
    policy: Any = load_policy(name, {"preset": preset}, CONTEXT)
    lacks = [part for part in ("options", "context") if not hasattr(policy, part)]
    assert not lacks, f"a policy of this repository keeps `options` and `context`: {name} has no {', no '.join(lacks)}"
    check_policy(lambda: type(policy)(policy.options, policy.context))


# ------------------------------------------------------------------------ what the suite is there to find


class Guesses(Fixed):
    """Goes down on a sample that does not count."""

    def recommend(self, seen, state):
        proposal, state = super().recommend(seen, state)
        return replace(proposal, target=1) if seen.missing else proposal, state


class Hopes(Fixed):
    """Takes an unknown busy share for an idle job."""

    def recommend(self, seen, state):
        n = current_target(seen)
        if seen.missing or seen.invalid or n is None:
            return Recommendation(None, Reason(ReasonCode.METRICS_MISSING, "unknown")), state
        return Recommendation(n if seen.busy_ratio else n - 1, Reason(ReasonCode.FIXED, "by the busy share")), state


class Remembers(Fixed):
    """Two of them do not decide alike."""

    numbers = count()  # shared by all instances, which is the fault

    def recommend(self, seen, state):
        target = None if seen.missing or seen.invalid else 2 + next(self.numbers) // 100
        return Recommendation(target, Reason(ReasonCode.FIXED, "by turns")), state


class Counts(Fixed):
    """Keeps a state of its own: anew it decides alike, asked again it does not."""

    calls = 0

    def recommend(self, seen, state):
        self.calls += 1
        target = None if seen.missing or seen.invalid else 1 + self.calls // 8 % 3
        return Recommendation(target, Reason(ReasonCode.FIXED, "counted")), state


@dataclass
class Box:
    number: int = 0


class Writes(Fixed):
    state_type = Box

    def initial(self):
        return Box()

    def recommend(self, _seen, state):
        state.number += 1
        return Recommendation(8, Reason(ReasonCode.FIXED, "counted")), state


class Overwrites(Fixed):
    """Always writes the same, so that a second time changes nothing."""

    def recommend(self, seen, state):
        object.__setattr__(seen, "skew", 7.0)
        return super().recommend(seen, state)


class Infinite(Fixed):
    state_type = float

    def recommend(self, _seen, _state):
        return Recommendation(8, Reason(ReasonCode.FIXED, "no bound")), float("inf")


class Endless(Fixed):
    """Pydantic carries it as a string, the journal does not."""

    state_type = dict

    def initial(self):
        return {}

    def recommend(self, _seen, _state):
        return Recommendation(8, Reason(ReasonCode.FIXED, "no bound", {"ratio": float("inf")})), {"ratio": float("inf")}


class Silent(Fixed):
    def recommend(self, _seen, state):
        return Recommendation(8, Reason(ReasonCode.FIXED, "")), state


class Yields(Fixed):
    """Gives executors back once the backlog is beyond what it had for long."""

    state_type: Any = tuple[int, ...]

    def initial(self):
        return ()

    def recommend(self, seen, state):
        n = current_target(seen)
        if seen.missing or seen.invalid or n is None:
            return Recommendation(None, Reason(ReasonCode.METRICS_MISSING, "unknown")), state
        flees = len(state) == 8 and seen.backlog > 1.1 * max(state)
        target = n - 1 if flees else n
        return Recommendation(target, Reason(ReasonCode.FIXED, "by the backlog")), (*state, seen.backlog)[-8:]


class Sizes(Fixed):
    """One executor for each 500 records/s, wherever that stands."""

    each = 500.0

    def recommend(self, seen, state):
        if seen.missing or seen.invalid or seen.arrival_rate is None:
            return Recommendation(None, Reason(ReasonCode.METRICS_MISSING, "unknown")), state
        return Recommendation(1 + int(seen.arrival_rate // self.each), Reason(ReasonCode.FIXED, "by the rate")), state


@pytest.mark.parametrize(
    ("policy", "law", "fault"),
    [
        pytest.param(Writes, "inputs", "changed what it was given", id="writes into its state"),
        pytest.param(Overwrites, "inputs", "changed what it was given", id="writes into the sample"),
        pytest.param(Silent, "bounds", "without a sentence", id="gives no reason"),
        pytest.param(Remembers, "determinism", "two runs on the same story differ", id="remembers beside its class"),
        pytest.param(Counts, "determinism", "asked again it answers otherwise", id="remembers beside its state"),
        pytest.param(Guesses, "unknown", "fewer executors proposed on unknown figures", id="guesses"),
        pytest.param(Hopes, "unknown", "only because busy_ratio is unknown", id="takes unknown for none"),
        pytest.param(Infinite, "journal", "does not come back from JSON", id="state that JSON cannot carry"),
        pytest.param(Endless, "journal", "changes on its way through JSON", id="state that the journal cannot carry"),
        pytest.param(Yields, "more_load", "2 instead of 3 executors with", id="fewer on more load"),
        pytest.param(Sizes, "scale", "where all rates and records are", id="a rate that is nobody's option"),
    ],
)
def test_the_suite_finds_what_is_wrong(policy, law, fault):
    with pytest.raises(AssertionError, match=fault) as caught:
        checked(lambda: policy(8))
    assert str(caught.value).startswith(f"the law {law!r} is broken in the story ")


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        pytest.param(Writes, "(sample 0): state.number: 0 → ", id="what it wrote"),
        pytest.param(Counts, "; decision.recommendation.target: 1 → 2", id="what it answered before and now"),
        pytest.param(Guesses, "; missing: () → ('arrival_rate',); decided 3 → 3 (METRICS_MISSING: ", id="the sample"),
        pytest.param(Sizes, "): target: 2 → 1", id="what was proposed"),
    ],
)
def test_a_broken_law_is_told_in_few_words(policy, told):
    with pytest.raises(AssertionError) as caught:
        checked(lambda: policy(8))
    text = str(caught.value)
    assert told in text
    assert len(text) < 600
    assert "Assessment(" not in text


class Unfinished:
    """Neither the steps that it brings nor a capacity, and a name that is none."""

    name = 3
    state_type = int

    def initial(self):
        return 0

    def recommend(self, seen):
        return seen


def test_everything_that_a_policy_lacks_is_told_at_once():
    with pytest.raises(AssertionError) as caught:
        checked(Unfinished)
    assert str(caught.value).splitlines() == [
        "Unfinished is not built as a policy must be:",
        "  - it has no self_managed_steps: the guard steps that it does itself, frozenset() for none",
        "  - it has no capacity: capacity(executors, state) → records/s, or None",
        "  - name is 3: it must be text",
        "  - recommend cannot be called with 2 arguments: recommend(assessment, state) → (Recommendation, state)",
    ]


class Uncallable(Fixed):
    capacity: Any = None


def test_a_part_that_cannot_be_called_is_told():
    with pytest.raises(AssertionError, match="capacity cannot be called with 2 arguments"):
        checked(lambda: Uncallable(2))


def test_a_class_in_place_of_a_policy_is_told():
    with pytest.raises(AssertionError, match="Fixed is a class, not a policy: it must be built"):
        checked(lambda: Fixed)


# ----------------------------------------------------------------------------------------------- exemptions


class Excused(Sizes):
    exempt: ClassVar[Mapping[str, str]] = {"scale": "made for jobs of 500 records/s an executor"}


class Needless(Fixed):
    exempt: ClassVar[Mapping[str, str]] = {"more_load": "it might be"}


class Mistyped(Fixed):
    exempt: ClassVar[Mapping[str, str]] = {"scael": "typing is hard"}


class Unsafe(Fixed):
    exempt: ClassVar[Mapping[str, str]] = {"unknown": "we like risk"}


class Unreasoned(Sizes):
    exempt: ClassVar[Mapping[str, str]] = {"scale": " "}


def test_an_exemption_comes_with_what_breaks_the_law():
    assert checked(lambda: Excused(1)) == ["scale"]


@pytest.mark.parametrize(
    ("policy", "fault"),
    [
        pytest.param(Needless, r"exempt from 'more_load' \(it might be\), yet it holds", id="not needed"),
        pytest.param(Mistyped, "did you mean 'scale'", id="mistyped"),
        pytest.param(Unsafe, "no policy is exempt from 'unknown', only from more_load | scale", id="not allowed"),
        pytest.param(Unreasoned, "has no reason", id="without a reason"),
    ],
)
def test_an_exemption_that_does_not_hold(policy, fault):
    with pytest.raises(AssertionError, match=fault):
        checked(lambda: policy(8))


def test_a_story_of_ones_own_may_show_what_the_others_do_not():
    """It gives back only what it has beyond eight executors, which no built-in story goes to."""

    class Rare(Yields):
        exempt: ClassVar[Mapping[str, str]] = {"more_load": "gives back executors that cannot help any more"}

        def recommend(self, seen, state):
            proposal, state = super().recommend(seen, state)
            return (
                proposal if (current_target(seen) or 0) > 8 else replace(proposal, target=current_target(seen))
            ), state

    with pytest.raises(AssertionError, match="yet it holds in every story"):
        checked(lambda: Rare(3))
    large = Story("large", tuple(Step(2000.0) for _ in range(9)), start=12, bounds=Bounds(1, 20))
    assert checked(lambda: Rare(3), stories=(*STORIES[:3], large)) == ["more_load"]


# ------------------------------------------------------------------------------------- options with records


class SizedOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    each: float = Field(500.0, json_schema_extra={"unit": "records/s"})
    most: tuple[int, ...] = Field((64_000, 1_000_000), json_schema_extra={"unit": "records"})
    floor: float | None = Field(None, json_schema_extra={"unit": "records/s"})
    samples: int = Field(3, json_schema_extra={"unit": "samples"})


class Sized(Fixed):
    options_type: ClassVar[type[BaseModel]] = SizedOptions

    def __init__(self, options, context):
        super().__init__(options.samples)
        self.options, self.context = options, context

    def recommend(self, seen, state):
        if seen.missing or seen.invalid or seen.arrival_rate is None:
            return Recommendation(None, Reason(ReasonCode.METRICS_MISSING, "unknown")), state
        full = sum(seen.backlog > most for most in self.options.most)
        target = self.options.samples + full + int(seen.arrival_rate // self.options.each)
        return Recommendation(target, Reason(ReasonCode.FIXED, "by rate and backlog")), state


class Closed(Sized):
    """Does not keep its options."""

    def __init__(self, options, context):
        super().__init__(options, context)
        self.known = options
        del self.options

    def recommend(self, seen, state):
        return Sized(self.known, self.context).recommend(seen, state)


def test_options_that_say_that_they_are_records_are_scaled():
    assert checked(lambda: Sized(SizedOptions.model_validate({}), CONTEXT)) == []


def closed(factor: float = 1.0) -> Closed:
    values = {"each": 500 * factor, "most": (64_000 * factor, 1e6 * factor)}
    return Closed(SizedOptions.model_validate(values), CONTEXT)


def test_a_policy_that_hides_such_options_must_be_scaled_by_who_checks_it():
    with pytest.raises(AssertionError, match="must keep `options` and `context`"):
        checked(closed)
    with pytest.raises(AssertionError, match="the law 'scale'"):
        checked(closed, scaled=lambda _: closed())
    assert checked(closed, scaled=closed) == []


# ------------------------------------------------------------------------------------------------ the stories


def test_the_names_of_the_laws_are_stable():
    assert [law.name for law in LAWS] == [
        "inputs",
        "bounds",
        "determinism",
        "unknown",
        "journal",
        "more_load",
        "scale",
    ]
    assert [law.name for law in LAWS if law.may_be_exempted] == ["more_load", "scale"]


def test_the_job_of_a_story_by_hand():
    """Two executors carry 800/s; at 1000/s for 15 s, 3000 records are left beside the 10 000 of one trigger."""
    seen = Job(Story("", (), start=2)).step(Step(1000.0))
    assert (seen.arrival_rate, seen.processed_rate, seen.busy_ratio) == (1000.0, 800.0, 1.0)
    assert (seen.batch_s, seen.backlog, seen.waiting, seen.in_flight) == (14.75, 12_992, 2_944, 10_048)
    assert (seen.backlog_excess, seen.draining, seen.drain_s) == (0.0, False, None)
    capped = Job(Story("", (), start=2, batch_cap=5000.0)).step(Step(600.0))
    assert (capped.processed_rate, capped.capped, capped.batch_s) == (500.0, True, 7.25)


@pytest.mark.parametrize("factor", [1 / 64, 1024.0])
def test_the_job_scales_exactly(factor):
    first, second = (Job(STORIES[3], by) for by in (1.0, factor))
    for step in STORIES[3].steps:
        one, other = first.step(step), second.step(step)
        assert other.backlog == one.backlog * factor
        assert other.backlog_excess == one.backlog_excess * factor
        assert (other.batch_s, other.drain_s, other.lag_s) == (one.batch_s, one.drain_s, one.lag_s)


def test_an_executor_that_was_asked_for_is_there_at_the_next_sample_but_one():
    job = Job(Story("", (), start=2))
    job.step(Step(100.0))
    job.ask(3)
    waits, there = job.step(Step(100.0)), job.step(Step(100.0))
    assert [(seen.executors, seen.requested, seen.batches) for seen in (waits, there)] == [(2, 3, 7), (3, 3, 0)]
