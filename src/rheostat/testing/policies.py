"""The conformance suite of policies. It runs on every registered one; run it on yours."""

from __future__ import annotations

import difflib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from statistics import pstdev
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from rheostat.config.models import GuardSettings
from rheostat.decide.decide import DecisionSettings, decide, learn
from rheostat.decide.policy import Policy, in_force, misanswered, mismeasured, misshapen
from rheostat.decide.state import State
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


# The laws that every policy keeps, each a function of one case: a policy on a story.


FACTORS = (1 / 64, 1024.0)
"""Powers of two, so that rounding cannot change anything by itself; far apart, so that no constant can hide."""

_EVERY = 6
"""What is asked of every sample costs too much for some laws; these look at every sixth, and at every decrease."""

_OPTIONAL = (*OPTIONAL, "waiting", "drain_s", "slots_per_executor")


@dataclass(frozen=True, slots=True)
class Moment:
    """One decision of a run: what was seen, the state before it, what was decided, the state after it."""

    step: int
    assessment: Assessment
    before: State[Any]
    decision: Decision
    after: State[Any]


@dataclass(frozen=True)
class Case:
    """A policy on a story.

    Attributes:
        make: builds the policy anew.
        scaled: builds it for rates and records of so many times the size.
    """

    make: Callable[[], Policy[Any]]
    scaled: Callable[[float], Policy[Any]]
    story: Story

    @cached_property
    def planner(self) -> DecisionSettings:
        """The planner that :attr:`moments` were made with."""
        return _planner(self.make(), self.story.bounds)

    @cached_property
    def moments(self) -> list[Moment]:
        """Every decision on the story; what is asked for is granted until the next sample."""
        return run(self.planner, self.story)

    @property
    def some(self) -> Iterator[Moment]:
        """Some of them, with all decreases."""
        return (each for each in self.moments if each.step % _EVERY == 0 or each.decision.action is Action.DOWN)


@dataclass(frozen=True, slots=True)
class Law:
    """A law.

    Attributes:
        check: raises AssertionError where it is broken.
        may_be_exempted: whether a policy may say that it cannot hold it.
    """

    name: str
    check: Callable[[Case], None]
    may_be_exempted: bool = False


def run(planner: DecisionSettings, story: Story, factor: float = 1.0) -> list[Moment]:
    """The story told to a planner."""
    job, state, moments = Job(story, factor), planner.initial(), list[Moment]()
    for number, step in enumerate(story.steps):
        seen = job.step(step)
        decision, after = decide(deepcopy(seen), deepcopy(state), planner)
        moments.append(Moment(number, seen, state, decision, after))
        state = after
        if decision.acts and decision.target is not None:
            job.ask(decision.target)
            state = learn(_granted(decision, decision.target), state, planner)
    return moments


def _planner(policy: Policy[Any], bounds: Bounds) -> DecisionSettings:
    return DecisionSettings(answering(policy), bounds, GuardSettings(), Objective(OBJECTIVE_S), SAMPLE_S)


def _granted(decision: Decision, target: int) -> Outcome:
    return Outcome(
        at=decision.at,
        decision_id=decision.decision_id,
        status=OutcomeStatus.APPLIED,
        reason=Reason(ReasonCode.APPLIED, "granted"),
        target=target,
        before=decision.current,
        after=target,
    )


def _require(holds: object, fault: str, where: Moment | None = None, told: Callable[[], str] = str) -> None:
    """Raise where it does not hold; ``told`` says what is to be seen there, in few words."""
    if holds:
        return
    at = "" if where is None else f" (sample {where.step})"
    seen = told()
    raise AssertionError(f"{fault}{at}" + (f": {seen}" if seen else ""))


def _named(answer: tuple[Decision, State[Any]]) -> Mapping[str, object]:
    return dict(zip(("decision", "state"), answer, strict=True))


def _rewritten(kept: tuple[Assessment, State[Any]], moment: Moment) -> str:
    changed = [differences(*each) for each in zip(kept, (moment.assessment, moment.before), strict=True)]
    names = ("the assessment", "the state")
    return "; ".join(f"{name}: {what}" for name, what in zip(names, changed, strict=True) if what != "nothing")


def _with(assessment: Assessment, worse: Assessment, decision: Decision) -> str:
    """An answer to a sample that was made worse."""
    return (
        f"{differences(assessment, worse)}; decided {decided(decision)}, proposed {proposed(decision.recommendation)}"
    )


# ------------------------------------------------------------------------------------------------- the laws


def inputs(case: Case) -> None:
    """What a policy is given stays as it was: assessments and states are values."""
    for moment in case.some:
        kept = deepcopy((moment.assessment, moment.before))
        decide(moment.assessment, moment.before, case.planner)
        fault = "the policy changed what it was given"
        _require(kept == (moment.assessment, moment.before), fault, moment, partial(_rewritten, kept, moment))


def bounds(case: Case) -> None:
    """Whatever is done ends within the bounds; what is decided has a number, a direction and a sentence."""
    for moment in case.moments:
        decision, limits = moment.decision, case.story.bounds
        within = decision.target is not None and limits.clamp(decision.target) == decision.target
        told = partial(decided, decision)
        _require(within or not decision.acts, "the target is out of bounds", moment, told)
        answer = decision.recommendation
        _require(answer.target is None or answer.target >= 0, "a negative number", moment, partial(proposed, answer))
        for reason in (decision.reason, answer.reason):
            _require(reason.text.strip(), "a decision without a sentence", moment, told)
    ids = [moment.decision.decision_id for moment in case.moments]
    _require(all(later > earlier for earlier, later in pairwise(ids)), "ids do not ascend")


def determinism(case: Case) -> None:
    """Built twice it decides alike, and asked again it answers alike: no hidden state, clock or random numbers."""
    again = run(_planner(case.make(), case.story.bounds), case.story)
    for first, second in zip(case.moments, again, strict=True):
        same = first.decision == second.decision
        told = partial(differences, first.decision, second.decision)
        _require(same, "two runs on the same story differ", first, told)
    for moment in case.some:
        answer, before = decide(moment.assessment, moment.before, case.planner), (moment.decision, moment.after)
        told = partial(differences, _named(before), _named(answer))
        _require(answer == before, "asked again it answers otherwise", moment, told)


def unknown(case: Case) -> None:
    """Unknown never scales down.

    A sample of the story that comes with a needed figure unknown, impossible or stale leads to no decrease, neither by
    the planner nor by the policy asked alone. And a figure that is not needed by all, if unknown, turns no hold or
    increase into a decrease.
    """
    for moment in case.some:
        for worse in _spoilt(moment.assessment):
            decision, _ = decide(worse, moment.before, case.planner)
            down = decision.action is Action.DOWN
            told = partial(_with, moment.assessment, worse, decision)
            _require(not down, "fewer executors on unknown figures", moment, told)
            if worse.missing or worse.invalid:
                fewer = _change(case.planner.policy, worse, moment) < 0
                _require(not fewer, "fewer executors proposed on unknown figures", moment, told)
        _each_unknown(case.planner.policy, moment)


def _each_unknown(policy: Policy[Any], moment: Moment) -> None:
    if moment.assessment.missing or moment.assessment.invalid or _change(policy, moment.assessment, moment) < 0:
        return
    blanks: list[dict[str, Any]] = [*({name: None} for name in _OPTIONAL), dict.fromkeys(_OPTIONAL)]
    for blank in blanks:
        fewer = _change(policy, replace(moment.assessment, **blank), moment) < 0
        _require(not fewer, f"fewer executors proposed only because {' and '.join(blank)} is unknown", moment)


def _change(policy: Policy[Any], assessment: Assessment, moment: Moment) -> int:
    """By how many executors the policy wants to change; no opinion is none."""
    proposed, _ = policy.recommend(assessment, moment.before.policy)
    number = in_force(assessment)
    return 0 if proposed.target is None or number is None else proposed.target - number


def _spoilt(assessment: Assessment) -> Iterator[Assessment]:
    yield replace(assessment, arrival_rate=None, missing=("arrival_rate",))
    yield replace(assessment, batch_s=None, occupancy=None, lag_s=None, missing=("batch_s", "lag_s"))
    yield replace(assessment, backlog=None, backlog_excess=None, invalid=("backlog",))
    yield replace(assessment, invalid=("offsets.committed",))
    yield replace(assessment, metrics_age_s=2 * SAMPLE_S + 1)
    yield replace(assessment, metrics_age_s=None)


def journal(case: Case) -> None:
    """The state survives the journal: as JSON, and written to disk and read back."""
    adapter = case.planner.state_adapter
    for moment in case.moments[::2]:
        back = _from_json(adapter, moment)
        told = partial(differences, moment.after, back)
        _require(back == moment.after, "the state changes on its way through JSON", moment, told)
    with tempfile.TemporaryDirectory() as folder:
        _through_files(case, case.moments[::12], Path(folder))


def _from_json(adapter: TypeAdapter[State[Any]], moment: Moment) -> object:
    try:
        return adapter.validate_json(adapter.dump_json(moment.after))
    except ValidationError as error:
        fault = f"the state does not come back from JSON (numbers must be finite, types exact): {error}"
        raise AssertionError(fault) from error


def _through_files(case: Case, moments: list[Moment], folder: Path) -> None:
    """Each moment as a session of its own, so that its state is written; read back by the journal's own reader."""
    writer = JournalWriter(folder)
    for moment in moments:
        writer.start(Header("conformance", {}))
        states = case.planner.state_to_json(moment.before)
        writer.record(DecisionRecord.of(None, moment.assessment, moment.decision), partial(dict, states))
    writer.close()
    text = b"".join(file.read_bytes() for file in folder.glob("*.jsonl"))
    _require(b'"nonfinite"' not in text, "NaN or an infinity in the journal")
    records = list(read_journal(folder))
    sessions = [each for each in records if isinstance(each, SessionRecord)]
    decisions = [each for each in records if isinstance(each, DecisionRecord)]
    for moment, session, record in zip(moments, sessions, decisions, strict=True):
        back = case.planner.state_from_json(session.states)
        told = partial(differences, moment.before, back)
        _require(back == moment.before, "the state changes on its way through the journal", moment, told)
        told = partial(differences, _kept(moment.decision), _kept(record.decision))
        _require(_kept(record.decision) == _kept(moment.decision), "the journal has another decision", moment, told)


def _kept(decision: Decision) -> tuple[object, ...]:
    proposed = decision.recommendation
    return decision.action, decision.target, decision.reason.code, decision.reason.text, proposed.target


def more_load(case: Case) -> None:
    """Raising only the latest rate and backlog of a steady history never gives fewer executors.

    The rate is raised by up to 3 standard deviations of the history's rates, the backlog by the same factor or more:
    the number of executors, batch time and what was processed stay, so whatever arrived beyond the history is in the
    backlog. The history is the story up to some sample, then 24 steady ones at the number that is in force there.
    """
    policy = case.planner.policy
    for moment in case.moments[:: _EVERY * 4]:
        executors, rate = in_force(moment.assessment), moment.assessment.arrival_rate
        if executors is not None and rate is not None:
            _one_steady(policy, moment, executors, rate)


def _one_steady(policy: Policy[Any], moment: Moment, executors: int, rate: float) -> None:
    rates = steady_rates(rate, 24)
    story = Story("", tuple(Step(each) for each in rates), executors)
    job, state = (
        Job(story, at=moment.assessment.at, left=max(0.0, moment.assessment.backlog_excess or 0.0)),
        moment.after.policy,
    )
    job.requested = executors
    for step in story.steps[:-1]:
        _, state = policy.recommend(job.step(step), state)
    last = job.step(story.steps[-1])
    least = policy.recommend(last, state)[0].target
    for text, more in _raised(last, pstdev(rates)):
        target = policy.recommend(more, state)[0].target
        fewer = (executors if target is None else target) < (executors if least is None else least)
        _require(not fewer, f"{target} instead of {least} executors with {text}", moment)


def _raised(assessment: Assessment, deviation: float) -> Iterator[tuple[str, Assessment]]:
    rate, backlog, waiting = assessment.arrival_rate or 0.0, assessment.backlog or 0, assessment.waiting or 0
    for deviations in (1, 2, 3):
        up = 1 + deviations * deviation / rate if rate else 1.0
        most = 1 + 3 * deviation / rate if rate else 1.0
        for faster, fuller in {(up, up), (up, most), (1.0, up)}:
            more = replace(assessment, arrival_rate=rate * faster)
            added = round(backlog * fuller) - backlog
            text = f"{rate * faster:g} instead of {rate:g} records/s and a backlog {added} records larger"
            yield text, with_backlog(more, backlog + added, waiting + added)


def scale(case: Case) -> None:
    """Rates, backlogs, capacities, thresholds and caps scaled together change nothing."""
    factor = FACTORS[len(case.story.steps) % len(FACTORS)]
    other = run(_planner(case.scaled(factor), case.story.bounds), case.story, factor)
    for first, second in zip(case.moments, other, strict=True):
        same = _numbers(first.decision) == _numbers(second.decision)
        fault = f"it decides otherwise where all rates and records are {factor:g} times as large"
        told = partial(differences, first.decision.recommendation, second.decision.recommendation)
        _require(same, fault, first, told)


def _numbers(decision: Decision) -> tuple[object, ...]:
    return decision.target, decision.reason.code, decision.recommendation.target, decision.recommendation.reason.code


def scaled_options(policy: Any, factor: float) -> Policy[Any]:
    """The same policy with every option that is in records or records/s multiplied.

    Such an option says so in its field: ``json_schema_extra={"unit": "records/s"}``. Its value is a number or a tuple
    of numbers; None stays.

    Raises:
        AssertionError: there are such options, and the policy does not keep ``options`` and ``context``.
    """
    names = _in_records(getattr(policy, "options_type", None))
    if not names:
        return policy  # type: ignore[no-any-return]
    if not (hasattr(policy, "options") and hasattr(policy, "context")):
        message = (
            "it has options in records, so it must keep `options` and `context`, or `scaled` be given to the check"
        )
        raise AssertionError(message)
    values = {name: _times(getattr(policy.options, name), factor) for name in names}
    return type(policy)(policy.options.model_copy(update=values), policy.context)  # type: ignore[no-any-return]


def _in_records(options_type: Any) -> list[str]:
    fields: Mapping[str, Any] = getattr(options_type, "model_fields", {})
    extras = {name: field.json_schema_extra for name, field in fields.items()}
    return [name for name, extra in extras.items() if isinstance(extra, Mapping) and _is_records(extra.get("unit"))]


def _is_records(unit: object) -> bool:
    return isinstance(unit, str) and unit.split("/")[0].split(" ")[0] == "records"


def _times(value: Any, factor: float) -> Any:
    if isinstance(value, tuple):
        return tuple(_times(each, factor) for each in value)
    return None if value is None else value * factor


LAWS: tuple[Law, ...] = (
    Law("inputs", inputs),
    Law("bounds", bounds),
    Law("determinism", determinism),
    Law("unknown", unknown),
    Law("journal", journal),
    Law("more_load", more_load, may_be_exempted=True),
    Law("scale", scale, may_be_exempted=True),
)
"""In the order in which they are checked."""


# A policy whose answers are looked at before anybody reckons with them.


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

    def recommend(self, assessment: Assessment, state: Any) -> tuple[Recommendation, Any]:
        """The policy's answer."""
        answer = self._policy.recommend(assessment, state)
        self._refuse(
            misanswered(answer), f"recommend() at {assessment.at:g} s, with {assessment.requested} executors in force"
        )
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


# What differs between two values, and what was decided, in a few words: for the messages of broken laws.


_MOST, _LONGEST = 4, 60


def differences(before: object, after: object) -> str:
    """The fields that differ, dotted, with both values; of many the first four.

    >>> differences(Recommendation(3, None), Recommendation(5, None)), differences((1, 2), (1, 2))
    ('target: 3 → 5', 'nothing')
    """
    found = list(_differing(before, after, ""))
    more = f"; and {len(found) - _MOST} more" if len(found) > _MOST else ""
    return "; ".join(found[:_MOST]) + more if found else "nothing"


def decided(decision: Decision) -> str:
    """A decision: its numbers, its code, its sentence."""
    return f"{decision.current} → {decision.target} ({decision.reason.code}: {_short(decision.reason.text)})"


def proposed(recommendation: Recommendation) -> str:
    """What a policy answered."""
    return f"{recommendation.target} ({recommendation.reason.code}: {_short(recommendation.reason.text)})"


def _differing(before: object, after: object, way: str) -> Iterator[str]:
    if type(before) is type(after) and before == after:
        return
    old, new = _parts(before), _parts(after)
    if type(before) is type(after) and old is not None and new is not None and old.keys() == new.keys():
        for name in old:
            yield from _differing(old[name], new[name], f"{way}.{name}")
        return
    yield f"{way.removeprefix('.') or 'the value'}: {_short(repr(before))} → {_short(repr(after))}"


def _parts(value: object) -> Mapping[str, object] | None:
    """What a value is made of; None: it is of one piece."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): each for key, each in value.items()}
    return {str(place): each for place, each in enumerate(value)} if isinstance(value, list | tuple) else None


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
