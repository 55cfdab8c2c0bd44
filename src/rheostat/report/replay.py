"""Replay of a journal, with the settings of the run or with others.

The recorded observations and outcomes go through the same analysis and the same decision as in the run. With the
settings of the run, every target and every reason code must be equal. With others the replay is *open loop*: the
observations are those of the executors that the run had, not of those that the other policy would have had. Where all
decisions are equal nevertheless, the recorded observations, and so the lag, are valid for the replay too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rheostat import __version__
from rheostat.analyze.assess import analysis_settings, analyze
from rheostat.analyze.state import AnalysisSettings
from rheostat.attachment import objective_refusals
from rheostat.config.loading import load_settings
from rheostat.config.models import Settings, policy_label
from rheostat.decide.decide import DecisionSettings, decide, learn
from rheostat.decide.settings_check import policy_faults
from rheostat.decide.state import State
from rheostat.errors import Fault, InputError, JournalError, attempt
from rheostat.journal.records import DecisionRecord, Header, OutcomeRecord, Record, SessionRecord
from rheostat.loop.build import build_decision_settings, settings_of
from rheostat.model import Decision, ReasonCode
from rheostat.report.score import RunFacts, Sample, samples_of, score
from rheostat.sample_store import MemorySampleStore, ParquetSampleStore

_NO_EFFECT: Mapping[str, str] = {
    "actuator": "a replay asks for no executors",
    "allow_redone_work": "a replay removes no executors",
    "journal": "a replay writes none",
    "metrics": "a replay serves none",
    "profile": "a profile gives defaults, and the journal has a value for every key: set those that are to differ",
    "queries": "the journal holds the observations of the selected queries only",
    "state": "a replay keeps none",
    "workers": "a replay asks for no executors",
}
"""Settings that have no effect in a replay, and why."""

_SOME_JOURNAL = Header(
    __version__, load_settings({"objective": "lag < 60s", "executors": [1, 20]}).model_dump(mode="json")
)
"""Stands in for a journal that cannot be read, so that other faults are found too."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """A recorded cycle and its replayed decision; None: the cycle had failed."""

    record: DecisionRecord
    decision: Decision | None

    @property
    def same(self) -> bool:
        """Whether number, action, target, reason code, placement and what is kept are the recorded ones."""
        return self.decision is None or _essence(self.decision) == _essence(self.record.decision)


@dataclass
class _Stage:
    """The settings in force, the parts that follow from them, and the memory."""

    settings: Settings
    decision_settings: DecisionSettings
    analysis: AnalysisSettings
    state: State[Any]


def replay(
    records: Iterable[Record], overrides: Mapping[str, Any] | None = None, kept: ParquetSampleStore | None = None
) -> list[Replayed]:
    """Decide every cycle again, from the first session record on.

    ``overrides`` are settings (dotted keys) that differ from the recorded ones; ``kept`` is the sample store of the
    run, only read.

    Raises:
        InputError: an override is wrong or has no effect, there is nothing to replay, or the journal is of another
            version.
    """
    records, overrides = list(records), dict(overrides or {})
    faults = override_faults(overrides, records) if overrides else []
    if not any(isinstance(record, DecisionRecord) for record in records):
        allowed = "a journal with decisions"
        faults.append(Fault("journal", "no decisions", allowed, "there is nothing to replay"))
    if faults:
        raise InputError(faults)
    return list(_replay_records(records, overrides, MemorySampleStore(kept)))


def override_faults(overrides: Mapping[str, Any], records: Sequence[Record] = ()) -> list[Fault]:
    """The faults of settings (dotted keys) that differ from the recorded ones, as far as ``records`` show them."""
    allowed, faults = "settings that decide something in a replay", list[Fault]()
    for key, value in overrides.items():
        why = _NO_EFFECT.get(key.split(".")[0])
        if why is not None:
            faults.append(Fault(key, repr(value), allowed, why))
    sessions = [record for record in records if isinstance(record, SessionRecord)]
    header = attempt(_read_session, (_SOME_JOURNAL,), faults, sessions[0])[0] if sessions else _SOME_JOURNAL
    settings = attempt(settings_of, None, faults, header, overrides)
    faults += [fault for fault in policy_faults(_policy_values(header, overrides)) if fault not in faults]
    if settings is not None and "objective" in overrides:
        observations = [each.observation for each in records if isinstance(each, DecisionRecord) and each.observation]
        queries = {(each.name or each.query_id, each.trigger_s) for seen in observations for each in seen.queries}
        for name, trigger_s in sorted(queries, key=str):
            faults += objective_refusals(name, trigger_s, settings.parsed_objective.lag_s)
    return faults


def _policy_values(header: Header, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The replayed policy with its options; recorded options of another policy are dropped."""
    recorded = header.settings
    values = {key: overrides.get(key, recorded[key]) for key in ("policy", "preset", "objective")}
    kept = recorded["policy_options"] if values["policy"] == recorded["policy"] else {}
    options = overrides.get("policy_options", kept)
    if isinstance(options, Mapping):
        prefix = "policy_options."
        single = {key.removeprefix(prefix): value for key, value in overrides.items() if key.startswith(prefix)}
        options = {**options, **single}
    return {**values, "policy_options": options}


def _replay_records(
    records: Iterable[Record], overrides: dict[str, Any], store: MemorySampleStore
) -> Iterator[Replayed]:
    stage: _Stage | None = None
    for record in records:
        if isinstance(record, SessionRecord):
            stage = _begin_session(record, overrides, stage, store)
        elif stage is None:
            continue
        elif isinstance(record, OutcomeRecord):
            stage.state = learn(record.outcome, stage.state, stage.decision_settings)
        else:
            yield _decide_again(record, stage)


def _begin_session(
    session: SessionRecord, overrides: dict[str, Any], before: _Stage | None, store: MemorySampleStore
) -> _Stage:
    """Take over the recorded states; a policy that differs from the recorded one keeps its own."""
    header, recorded, state = _read_session(session)
    settings = settings_of(header, overrides)
    decision_settings = build_decision_settings(settings, store, header.seed)
    if settings != recorded:
        own = decision_settings.initial() if before is None else before.state
        state = replace(state, policy=own.policy, guard=own.guard)
    return _Stage(settings, decision_settings, analysis_settings(settings), state)


def _read_session(session: SessionRecord) -> tuple[Header, Settings, State[Any]]:
    """The header of a session with every key, its settings, and its states; InputError: of another version."""
    try:
        recorded = settings_of(session.header)
        state = build_decision_settings(recorded).state_from_json(session.states)
    except (InputError, JournalError) as error:
        allowed = f"settings and states of version {__version__}"
        raise InputError([Fault("journal", f"the session of second {session.at:.0f}", allowed, str(error))]) from error
    return replace(session.header, settings=recorded.model_dump(mode="json")), recorded, state


def _decide_again(record: DecisionRecord, stage: _Stage) -> Replayed:
    observation = record.observation
    if observation is None or record.decision.reason.code is ReasonCode.CYCLE_FAILED:
        stage.state = replace(stage.state, next_id=record.decision_id + 1)
        return Replayed(record, None)
    assessment, analysis = analyze(observation, stage.state.analysis, stage.analysis)
    decision, stage.state = decide(assessment, replace(stage.state, analysis=analysis), stage.decision_settings)
    return Replayed(record, decision)


def replay_score(
    records: Iterable[Record], overrides: Mapping[str, Any] | None = None, kept: ParquetSampleStore | None = None
) -> dict[str, Any]:
    """The score of the replayed run, with ``decisions``, ``identical``, ``differences`` and ``open_loop``.

    Executor-hours of an open-loop replay are those of its targets, as if every request had been granted at once. Its
    lag is unknown: the recorded one was that of other executors.
    """
    records = list(records)
    replayed = replay(records, overrides, kept)
    first = next(record for record in records if isinstance(record, SessionRecord))
    header, recorded, _ = _read_session(first)
    settings = settings_of(header, overrides)
    open_loop = settings != recorded and not all(each.same for each in replayed)
    samples = samples_of(records)
    if open_loop:
        targets = [(each.record.at, each.decision.target if each.decision else None) for each in replayed]
        samples = [Sample(at, None, target, None) for at, target in targets]
    bounds = settings.bounds
    facts = RunFacts(
        version=__version__,
        engine="spark",
        policy=policy_label(settings.policy, settings.policy_options.get("preset")),
        objective_s=settings.parsed_objective.lag_s,
        n_max=bounds.maximum if bounds else None,
        job=first.header.job,
        seed=first.header.seed,
    )
    decided = [(each, each.decision) for each in replayed if each.decision is not None]
    return {
        **score(facts, samples, stale_after_s=3 * settings.sample_s),
        "decisions": len(decided),
        "identical": sum(each.same for each, _ in decided),
        "failed_cycles": len(replayed) - len(decided),
        "open_loop": open_loop,
        "differences": [
            {
                "at": each.record.at,
                "decision": each.record.decision_id,
                "recorded": _decision_json(each.record.decision),
                "replayed": _decision_json(decision),
            }
            for each, decision in decided
            if not each.same
        ],
    }


def _decision_json(decision: Decision) -> dict[str, Any]:
    return {
        "current": decision.current,
        "target": decision.target,
        "code": decision.reason.code.value,
        "reason": decision.reason.text,
    }


def _essence(decision: Decision) -> tuple[Any, ...]:
    keep = None if decision.shedding is None else dict(decision.shedding.keep)
    return decision.decision_id, decision.action, decision.target, decision.reason.code, decision.placement, keep
