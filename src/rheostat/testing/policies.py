"""Conformance suite for policies: it runs on every registered policy; run it on yours."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from statistics import pstdev
from typing import Any, TypeVar, cast

from pydantic import ValidationError

from rheostat.config.faults import describe
from rheostat.config.models import GuardSettings
from rheostat.decide.decide import DecisionSettings, decide, learn
from rheostat.decide.policy import Policy, current_target, find_answer_faults, find_capacity_faults, find_policy_faults
from rheostat.decide.state import State
from rheostat.errors import did_you_mean
from rheostat.journal.records import DecisionRecord, Header, SessionRecord
from rheostat.journal.store import JournalWriter, read_journal
from rheostat.model import (
    Action,
    Assessment,
    Bounds,
    Decision,
    Objective,
    Outcome,
    OutcomeStatus,
    Reason,
    ReasonCode,
    Recommendation,
)
from rheostat.testing.stories import (
    OBJECTIVE_S,
    OPTIONAL,
    SAMPLE_S,
    STORIES,
    Job,
    Step,
    Story,
    steady_rates,
    with_backlog,
)

T = TypeVar("T")

FACTORS = (1 / 64, 1024.0)
"""Powers of two, so that rounding changes nothing by itself; far apart, so that no constant can hide."""

_EVERY = 6
"""Laws that are too expensive for every sample check every sixth, and every decrease."""

_OPTIONAL = (*OPTIONAL, "waiting", "drain_s", "slots_per_executor")


def check_policy(
    make: Callable[[], Policy[Any]],
    *,
    scaled: Callable[[float], Policy[Any]] | None = None,
    stories: Sequence[Story] = STORIES,
) -> Mapping[str, str]:
    """Check the laws of :data:`rheostat.testing.LAWS` on several stories.

    ``inputs``
        a policy does not change its arguments: assessments and states are values;
    ``bounds``
        actions end within the bounds, and every decision has a sentence;
    ``determinism``
        built anew it decides alike, asked again it answers alike: no hidden state, clock or random numbers;
    ``unknown``
        a needed metric that is unknown, impossible or stale leads to no decrease, neither of the decision nor of the
        policy alone; and a metric that not all need, if unknown, turns no hold or increase into a decrease;
    ``journal``
        the state survives JSON and a journal on disk unchanged;
    ``more_load``
        raising only the latest rate and backlog of a steady history, within 3 standard deviations, never gives fewer;
    ``scale``
        rates, backlogs, capacities, thresholds and caps scaled together change nothing.

    A policy that cannot hold one of the last two declares it in an attribute ``exempt``, law → why. The law must then
    be broken on at least one of the stories: an exemption that is not needed is an error too.

    Args:
        make: builds the policy anew at each call.
        scaled: builds it for rates and records multiplied by a power of two; see :func:`scale_options` for the default.
        stories: what it runs on; add one that shows what yours is exempt from.

    Returns:
        For each exemption, what broke the law.

    Raises:
        AssertionError: a law is broken, ``make`` does not build a policy, or an answer has the wrong type.
    """
    policy = make()
    wrong = find_policy_faults(policy)
    if wrong:
        name = policy.__name__ if isinstance(policy, type) else type(policy).__name__
        raise AssertionError("\n  - ".join([f"{name} is not built as a policy must be:", *wrong]))
    exempt: Mapping[str, str] = getattr(policy, "exempt", {})
    _check_exemptions(exempt)
    codec = _decision_settings(policy, Bounds(1, 1))
    cases = [Case(make, scaled or (lambda factor: scale_options(make(), factor)), story, codec) for story in stories]
    broken = {}
    for law in LAWS:
        fault = _first_fault(law, cases)
        if law.name not in exempt:
            if fault is not None:
                raise fault
        elif fault is None:
            needless = f"exempt from {law.name!r} ({exempt[law.name]}), yet it holds in every story: "
            raise AssertionError(needless + "remove the exemption, or add a story")
        else:
            broken[law.name] = str(fault)
    return broken


def _check_exemptions(exempt: Mapping[str, str]) -> None:
    allowed = [law.name for law in LAWS if law.may_be_exempted]
    for name, why in exempt.items():
        if name not in allowed:
            hint = did_you_mean(name, allowed)
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
            raise AssertionError(fault) from error.__cause__
        except AssertionError as error:
            return AssertionError(f"the law {law.name!r} is broken in the story {case.story.name!r}: {error}")
    return None


# ----------------------------------------------------------------------------------------- a policy on a story


@dataclass(frozen=True, slots=True)
class Moment:
    """One decision of a run.

    Attributes:
        before, after: the state before and after the decision.
        given: copies of ``assessment`` and of the policy's ``state``, made before the decision; None: not made.
        shown: the assessment as the policy got it, after its answer.
    """

    step: int
    assessment: Assessment
    before: State[Any]
    decision: Decision
    after: State[Any]
    given: Mapping[str, Any] | None = None
    shown: Assessment | None = None


@dataclass(frozen=True)
class Case:
    """A policy on a story; ``codec`` turns states into JSON and back, one for all stories, as it is slow to build."""

    make: Callable[[], Policy[Any]]
    scaled: Callable[[float], Policy[Any]]
    story: Story
    codec: DecisionSettings

    @cached_property
    def decision_settings(self) -> DecisionSettings:
        """Settings of the decisions in :attr:`moments`."""
        return _decision_settings(self.make(), self.story.bounds)

    @cached_property
    def moments(self) -> list[Moment]:
        """Every decision on the story; each request is granted until the next sample."""
        return run(self.decision_settings, self.story, copies=True)

    @property
    def some(self) -> Iterator[Moment]:
        """Some of the moments, with all decreases."""
        return (each for each in self.moments if each.step % _EVERY == 0 or each.decision.action is Action.DOWN)


def run(
    decision_settings: DecisionSettings, story: Story, factor: float = 1.0, *, copies: bool = False
) -> list[Moment]:
    """Make the decisions of a story; with ``copies``, keep what the policy was given."""
    job, state, moments = Job(story, factor), decision_settings.initial(), list[Moment]()
    for number, step in enumerate(story.steps):
        assessment = job.step(step)
        given = deepcopy({"assessment": assessment, "state": state.policy}) if copies else None
        decision, after = decide(assessment, state, decision_settings)
        shown = getattr(decision_settings.policy, "shown", None)
        moments.append(Moment(number, assessment, state, decision, after, given, shown))
        state = _grant(decision, after, decision_settings)
        if decision.acts and decision.target is not None:
            job.ask(decision.target)
    return moments


def _grant(decision: Decision, state: State[Any], decision_settings: DecisionSettings) -> State[Any]:
    """The state once the request is granted; a hold requests nothing."""
    if not decision.acts or decision.target is None:
        return state
    outcome = Outcome(
        at=decision.at,
        decision_id=decision.decision_id,
        status=OutcomeStatus.APPLIED,
        reason=Reason(ReasonCode.APPLIED, "granted"),
        target=decision.target,
        before=decision.current,
        after=decision.target,
    )
    return learn(outcome, state, decision_settings)


def _decision_settings(policy: Policy[Any], bounds: Bounds) -> DecisionSettings:
    checked = cast("Policy[Any]", _CheckedPolicy(policy))
    return DecisionSettings(checked, bounds, GuardSettings(), Objective(OBJECTIVE_S), SAMPLE_S)


class AnswerError(AssertionError):
    """A policy raised, or returned a value of the wrong type or range; the message says what, and what it must be."""


class _CheckedPolicy:
    """A policy whose answers are checked before they are used. ``shown``: the assessment that it got last."""

    def __init__(self, policy: Policy[Any]) -> None:
        self._policy = policy
        self.shown: Assessment | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def recommend(self, assessment: Assessment, state: Any) -> tuple[Recommendation, Any]:
        self.shown = assessment
        asked = f"recommend() at {assessment.at:g} s, with {assessment.requested} executors in force"
        answer = self._ask(asked, lambda: self._policy.recommend(assessment, state))
        wrong = find_answer_faults(answer)
        if wrong:
            raise self._error(wrong, asked)
        return answer

    def capacity(self, executors: int, state: Any) -> float | None:
        asked = f"capacity() of {executors} executors"
        answer = self._ask(asked, lambda: self._policy.capacity(executors, state))
        wrong = find_capacity_faults(answer)
        if wrong:
            raise self._error(wrong, asked)
        return answer

    def initial(self) -> Any:
        return self._ask("initial()", self._policy.initial)

    def _ask(self, asked: str, answer: Callable[[], T]) -> T:
        try:
            return answer()
        except Exception as error:
            name = type(self._policy).__name__
            message = f"{name} raised {type(error).__name__}, asked for {asked}: {error}"
            raise AnswerError(message) from error

    def _error(self, wrong: list[str], asked: str) -> AnswerError:
        return AnswerError(
            "\n  - ".join([f"{type(self._policy).__name__} answers wrongly, asked for {asked}:", *wrong])
        )


def _fault(fault: str, moment: Moment, detail: str = "") -> AssertionError:
    return AssertionError(f"{fault} (sample {moment.step})" + (f": {detail}" if detail else ""))


# ------------------------------------------------------------------------ the laws, as check_policy lists them


def check_inputs(case: Case) -> None:
    for moment in case.moments:
        given, shown = moment.given, moment.shown
        if given is None or shown is None:
            continue
        told = {name: getattr(shown, name) for name in ("requested", "missing", "bounds", "answer")}
        given, now = {**given, "assessment": replace(given["assessment"], **told)}, {"assessment": shown}
        now["state"] = moment.before.policy
        if given != now:
            raise _fault("the policy changed what it was given", moment, differences(given, now))


def check_bounds(case: Case) -> None:
    for moment in case.moments:
        decision, answer = moment.decision, moment.decision.recommendation
        within = decision.target is not None and case.story.bounds.clamp(decision.target) == decision.target
        if decision.acts and not within:
            raise _fault("the target is out of bounds", moment, _describe(decision))
        if answer.target is not None and answer.target < 0:
            raise _fault("a negative number", moment, _describe_answer(answer))
        if not (decision.reason.text.strip() and answer.reason.text.strip()):
            raise _fault("a decision without a sentence", moment, _describe(decision))
    ids = [moment.decision.decision_id for moment in case.moments]
    if any(later <= earlier for earlier, later in pairwise(ids)):
        raise AssertionError("ids do not ascend")


def check_determinism(case: Case) -> None:
    anew = _decision_settings(case.make(), case.story.bounds)
    state = anew.initial()
    for moment in case.moments:
        decision, state = decide(moment.assessment, state, anew)
        if decision != moment.decision:
            raise _fault("two runs on the same story differ", moment, differences(moment.decision, decision))
        state = _grant(decision, state, anew)
    for moment in case.some:
        decision, state = decide(moment.assessment, moment.before, case.decision_settings)
        before, now = {"decision": moment.decision, "state": moment.after}, {"decision": decision, "state": state}
        if now != before:
            raise _fault("asked again it answers otherwise", moment, differences(before, now))


def check_unknown(case: Case) -> None:
    policy = case.decision_settings.policy
    for moment in case.some:
        assessment = moment.assessment
        for worse in _spoil(assessment):
            decision, _ = decide(worse, moment.before, case.decision_settings)
            proposed = decision.recommendation.target
            fault = None
            if decision.action is Action.DOWN:
                fault = "fewer executors on unknown figures"
            elif (worse.missing or worse.invalid) and proposed is not None and proposed < (decision.current or 0):
                fault = "fewer executors proposed on unknown figures"
            if fault is not None:
                answers = f"decided {_describe(decision)}, proposed {_describe_answer(decision.recommendation)}"
                raise _fault(fault, moment, f"{differences(assessment, worse)}; {answers}")
        if assessment.missing or assessment.invalid or _change(policy, assessment, moment) < 0:
            continue
        for names in (*((name,) for name in _OPTIONAL), _OPTIONAL):
            if _change(policy, _forget(assessment, names), moment) < 0:
                fault = f"fewer executors proposed only because {' and '.join(names)} is unknown"
                raise _fault(fault, moment)


def _change(policy: Policy[Any], assessment: Assessment, moment: Moment) -> int:
    """By how many executors the policy wants to change; 0 without an opinion."""
    answer, _ = policy.recommend(assessment, moment.before.policy)
    number = current_target(assessment)
    return 0 if answer.target is None or number is None else answer.target - number


def _forget(assessment: Assessment, names: Sequence[str]) -> Assessment:
    unknown: dict[str, Any] = dict.fromkeys(names)
    return replace(assessment, **unknown)


def _spoil(assessment: Assessment) -> Iterator[Assessment]:
    yield replace(assessment, arrival_rate=None, missing=("arrival_rate",))
    yield replace(assessment, batch_s=None, occupancy=None, lag_s=None, missing=("batch_s", "lag_s"))
    yield replace(assessment, backlog=None, backlog_excess=None, invalid=("backlog",))
    yield replace(assessment, invalid=("offsets.committed",))
    yield replace(assessment, metrics_age_s=2 * SAMPLE_S + 1)
    yield replace(assessment, metrics_age_s=None)


def check_journal(case: Case) -> None:
    adapter = case.codec.state_adapter
    for moment in case.moments[::2]:
        try:
            back = adapter.validate_json(adapter.dump_json(moment.after))
        except ValidationError as error:
            fault = f"the state does not come back from JSON (numbers must be finite, types exact): {describe(error)}"
            raise AssertionError(fault) from error
        if back != moment.after:
            raise _fault("the state changes on its way through JSON", moment, differences(moment.after, back))
    with tempfile.TemporaryDirectory() as folder:
        _check_files(case.codec, case.moments[:: -8 * _EVERY][::-1], Path(folder))


def _check_files(codec: DecisionSettings, moments: list[Moment], folder: Path) -> None:
    """Write each moment as a session of its own, with its state; read it with the journal's own reader."""
    writer = JournalWriter(folder)
    for moment in moments:
        writer.start(Header("conformance", {}))
        states = codec.state_to_json(moment.before)
        writer.record(DecisionRecord.of(None, moment.assessment, moment.decision), partial(dict, states))
    writer.close()
    if any(b'"nonfinite"' in file.read_bytes() for file in folder.glob("*.jsonl")):
        raise AssertionError("NaN or an infinity in the journal")
    records = list(read_journal(folder))
    sessions = [each for each in records if isinstance(each, SessionRecord)]
    decisions = [each for each in records if isinstance(each, DecisionRecord)]
    for moment, session, record in zip(moments, sessions, decisions, strict=True):
        back = codec.state_from_json(session.states)
        if back != moment.before:
            raise _fault("the state changes on its way through the journal", moment, differences(moment.before, back))
        written, read = _essence(moment.decision), _essence(record.decision)
        if read != written:
            raise _fault("the journal has another decision", moment, differences(written, read))


def _essence(decision: Decision) -> tuple[object, ...]:
    answer = decision.recommendation
    return decision.action, decision.target, decision.reason.code, decision.reason.text, answer.target


def check_more_load(case: Case) -> None:
    """The history is the story up to some sample, then 24 steady ones at the number of executors there.

    The backlog is raised by the factor of the rate or more: the number of executors, batch time and processed rate
    stay, so the records above the history are in the backlog.
    """
    policy = case.decision_settings.policy
    for moment in case.moments[:: 4 * _EVERY]:
        executors, rate = current_target(moment.assessment), moment.assessment.arrival_rate
        if executors is None or rate is None:
            continue
        rates = steady_rates(rate, 24)
        story, state = Story("", tuple(Step(each) for each in rates), executors), moment.after.policy
        job = Job(story, at=moment.assessment.at, left=max(0.0, moment.assessment.backlog_excess or 0.0))
        job.requested = executors
        for step in story.steps[:-1]:
            _, state = policy.recommend(job.step(step), state)
        last = job.step(story.steps[-1])
        least = policy.recommend(last, state)[0].target
        for text, more in _raise_load(last, pstdev(rates)):
            target = policy.recommend(more, state)[0].target
            if (executors if target is None else target) < (executors if least is None else least):
                fault = f"{target} instead of {least} executors with {text}"
                raise _fault(fault, moment)


def _raise_load(assessment: Assessment, deviation: float) -> Iterator[tuple[str, Assessment]]:
    rate, backlog, waiting = assessment.arrival_rate or 0.0, assessment.backlog or 0, assessment.waiting or 0
    relative = deviation / rate if rate else 0.0
    most = 1 + 3 * relative
    for up in (1 + relative, 1 + 2 * relative, most):
        for faster, fuller in {(up, up), (up, most), (1.0, up)}:
            more = replace(assessment, arrival_rate=rate * faster)
            added = round(backlog * fuller) - backlog
            text = f"{rate * faster:g} instead of {rate:g} records/s and a backlog {added} records larger"
            yield text, with_backlog(more, backlog + added, waiting + added)


def check_scale(case: Case) -> None:
    factor = FACTORS[len(case.story.steps) % len(FACTORS)]
    other = run(_decision_settings(case.scaled(factor), case.story.bounds), case.story, factor)
    for first, second in zip(case.moments, other, strict=True):
        if _numbers(first.decision) != _numbers(second.decision):
            fault = f"it decides otherwise where all rates and records are {factor:g} times as large"
            raise _fault(fault, first, differences(first.decision.recommendation, second.decision.recommendation))


def _numbers(decision: Decision) -> tuple[object, ...]:
    return decision.target, decision.reason.code, decision.recommendation.target, decision.recommendation.reason.code


def scale_options(policy: Any, factor: float) -> Policy[Any]:
    """The same policy with every option that is in records or records/s multiplied.

    Such an option says so in its field: ``json_schema_extra={"unit": "records/s"}``. Its value is a number or a tuple
    of numbers; None stays.

    Raises:
        AssertionError: there are such options, and the policy does not keep ``options`` and ``context``.
    """
    options: Mapping[str, Any] = getattr(getattr(policy, "options_type", None), "model_fields", {})
    names = [name for name, field in options.items() if _is_in_records(field.json_schema_extra)]
    if not names:
        return policy  # type: ignore[no-any-return]
    if not (hasattr(policy, "options") and hasattr(policy, "context")):
        raise AssertionError(
            "it has options in records, so it must keep `options` and `context`, or `scaled` be given to the check"
        )
    values = {name: _times(getattr(policy.options, name), factor) for name in names}
    return type(policy)(policy.options.model_copy(update=values), policy.context)  # type: ignore[no-any-return]


def _is_in_records(extra: object) -> bool:
    unit = extra.get("unit") if isinstance(extra, Mapping) else None
    return isinstance(unit, str) and unit.split("/")[0].split(" ")[0] == "records"


def _times(value: Any, factor: float) -> Any:
    if isinstance(value, tuple):
        return tuple(_times(each, factor) for each in value)
    return None if value is None else value * factor


@dataclass(frozen=True, slots=True)
class Law:
    """A law; ``check`` raises AssertionError where it is broken."""

    name: str
    check: Callable[[Case], None]
    may_be_exempted: bool = False


LAWS: tuple[Law, ...] = (
    Law("inputs", check_inputs),
    Law("bounds", check_bounds),
    Law("determinism", check_determinism),
    Law("unknown", check_unknown),
    Law("journal", check_journal),
    Law("more_load", check_more_load, may_be_exempted=True),
    Law("scale", check_scale, may_be_exempted=True),
)
"""In the order in which they are checked."""


# --------------------------------------------------------------------------------- differences in a few words

_MOST, _LONGEST = 4, 60


def differences(before: object, after: object) -> str:
    """The fields that differ, dotted, with both values; at most the first four.

    >>> differences(Recommendation(3, None), Recommendation(5, None)), differences((1, 2), (1, 2))
    ('target: 3 → 5', 'nothing')
    """
    found = list(_compare(before, after, ""))
    more = f"; and {len(found) - _MOST} more" if len(found) > _MOST else ""
    return "; ".join(found[:_MOST]) + more if found else "nothing"


def _describe(decision: Decision) -> str:
    return f"{decision.current} → {decision.target} ({decision.reason.code}: {_short(decision.reason.text)})"


def _describe_answer(answer: Recommendation) -> str:
    return f"{answer.target} ({answer.reason.code}: {_short(answer.reason.text)})"


def _compare(before: object, after: object, path: str) -> Iterator[str]:
    if type(before) is type(after):
        if before == after:
            return
        old, new = _parts(before), _parts(after)
        if old is not None and new is not None and old.keys() == new.keys():
            for name in old:
                yield from _compare(old[name], new[name], f"{path}.{name}")
            return
    yield f"{path.removeprefix('.') or 'the value'}: {_short(repr(before))} → {_short(repr(after))}"


def _parts(value: object) -> Mapping[str, object] | None:
    """Fields or elements of a value; None: it has none."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): each for key, each in value.items()}
    return {str(place): each for place, each in enumerate(value)} if isinstance(value, list | tuple) else None


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
