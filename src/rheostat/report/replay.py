"""A journal decided once more, by the same policy or by another one.

The recorded observations and outcomes go through the same analysis and the same planner as in the run. With the
settings of the run, every target and every reason code must come out again. With others the replay is *open loop*:
the observations are those of the executors that the run had, not of those that the other policy would have had.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rheostat import __version__
from rheostat.analyze import AnalysisSettings, analysis_settings, analyze
from rheostat.config import Settings
from rheostat.errors import Fault, InputError
from rheostat.journal import DecisionRecord, OutcomeRecord, Record, SessionRecord
from rheostat.loop import Memory, Rules, build_planner, decide, learn, settings_of
from rheostat.model import Code, Decision
from rheostat.plan import Planner
from rheostat.report.score import RunFacts, Sample, samples_of, score

__all__ = ["Replayed", "replay", "replay_score"]


@dataclass(frozen=True, slots=True)
class Replayed:
    """A recorded cycle and what the replay decided in it; None: the cycle had failed and was not decided."""

    record: DecisionRecord
    decision: Decision | None

    @property
    def same(self) -> bool:
        """Whether number, action, target and reason code are the recorded ones."""
        return self.decision is None or _essence(self.decision) == _essence(self.record.decision)


@dataclass
class _Stage:
    """Where a replay stands: the settings in force and what follows from them."""

    settings: Settings
    planner: Planner
    analysis: AnalysisSettings
    memory: Memory

    @property
    def rules(self) -> Rules:
        return Rules.of(self.settings.bounds, self.settings.mode, self.settings.sample_s)


def replay(records: Iterable[Record], overrides: Mapping[str, Any] | None = None) -> list[Replayed]:
    """Decide every cycle once more.

    Args:
        records: of a journal, from a session record on.
        overrides: settings (dotted keys) that differ from the recorded ones.

    Raises:
        InputError: an override is wrong, or there is nothing to replay.
        JournalError: a state in the journal does not fit this version.
    """
    replayed = list(_replayed(records, dict(overrides or {})))
    if not replayed:
        raise InputError([Fault("journal", "no decisions", "a journal with decisions", "there is nothing to replay")])
    return replayed


def _replayed(records: Iterable[Record], overrides: dict[str, Any]) -> Iterator[Replayed]:
    stage: _Stage | None = None
    for record in records:
        if isinstance(record, SessionRecord):
            stage = _session(record, overrides, stage)
        elif stage is None:
            continue
        elif isinstance(record, OutcomeRecord):
            stage.memory = learn(record.outcome, stage.memory, stage.planner)
        else:
            yield _decided(record, stage)


def _session(session: SessionRecord, overrides: dict[str, Any], before: _Stage | None) -> _Stage:
    """Take over the recorded states; a policy that differs from the recorded one keeps its own."""
    recorded = settings_of(session.header)
    settings = settings_of(session.header, overrides)
    planner = build_planner(settings)
    memory = Memory.from_json(session.states, build_planner(recorded))
    if settings != recorded:
        plan = planner.initial() if before is None else before.memory.plan
        memory = replace(memory, plan=replace(plan, next_id=memory.plan.next_id))
    return _Stage(settings, planner, analysis_settings(settings), memory)


def _decided(record: DecisionRecord, stage: _Stage) -> Replayed:
    observation = record.observation
    if observation is None or record.decision.reason.code is Code.CYCLE_FAILED:
        plan = replace(stage.memory.plan, next_id=record.decision_id + 1)
        stage.memory = replace(stage.memory, plan=plan)
        return Replayed(record, None)
    seen, analysis = analyze(observation, stage.memory.analysis, stage.analysis)
    decision, stage.memory = decide(seen, replace(stage.memory, analysis=analysis), stage.planner, stage.rules)
    return Replayed(record, decision)


def replay_score(records: Iterable[Record], overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The score of the replayed run, with ``decisions``, ``identical``, ``differences`` and ``open_loop``.

    Executor-hours of an open-loop replay are those of the targets that it decided: what they would have cost if
    every request had been granted at once. Its lag is unknown: the recorded one was that of other executors.
    """
    records = list(records)
    replayed = replay(records, overrides)
    first = next(record for record in records if isinstance(record, SessionRecord))
    settings, recorded = settings_of(first.header, overrides), settings_of(first.header)
    open_loop = settings != recorded
    samples = [_open_sample(each) for each in replayed] if open_loop else samples_of(records)
    bounds = settings.bounds
    facts = RunFacts(
        version=__version__,
        engine="spark",
        policy=settings.policy,
        objective_s=settings.parsed_objective.lag_s,
        n_max=bounds.maximum if bounds else None,
        job=first.header.job,
        seed=first.header.seed,
    )
    decided = [each for each in replayed if each.decision is not None]
    return {
        **score(facts, samples, stale_after_s=3 * settings.sample_s),
        "decisions": len(decided),
        "identical": sum(each.same for each in decided),
        "failed_cycles": len(replayed) - len(decided),
        "open_loop": open_loop,
        "differences": [_difference(each) for each in decided if not each.same],
    }


def _open_sample(each: Replayed) -> Sample:
    return Sample(each.record.at, None, each.decision.target if each.decision else None, None)


def _difference(each: Replayed) -> dict[str, Any]:
    return {
        "at": each.record.at,
        "decision": each.record.decision_id,
        "recorded": _told(each.record.decision),
        "replayed": _told(each.decision),
    }


def _told(decision: Decision | None) -> dict[str, Any] | None:
    if decision is None:
        return None
    return {
        "current": decision.current,
        "target": decision.target,
        "code": decision.reason.code.value,
        "reason": decision.reason.text,
    }


def _essence(decision: Decision) -> tuple[Any, ...]:
    return decision.decision_id, decision.action, decision.target, decision.reason.code
