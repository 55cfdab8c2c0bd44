"""A golden run: the production loop on a simulated job, its decisions, and what the golden files keep of them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from tests.golden.cases import JOBS, LOAD, SEED, GoldenCase

from rheostat.judge.cases import Case, LoadSpec, PolicySpec, Ready, ready
from rheostat.judge.simulate import Recorder, simulate
from rheostat.sim.jobfile import job_of

HOUR_S = 3600.0


class DecisionListener(Recorder):
    """A journal that turns each decision and each outcome into plain lists: figures apart from sentences."""

    def __init__(self) -> None:
        super().__init__()
        self.figures: list[list[Any]] = []
        self.sentences: list[list[Any]] = []

    def record(self, record: Any, states: Any) -> None:
        """Keep it in full."""
        if hasattr(record, "outcome"):
            outcome = record.outcome
            self.figures.append(_outcome_figures(outcome))
            self.sentences.append([outcome.decision_id, outcome.at, outcome.reason.text])
        else:
            decision = record.decision
            self.figures.append(_decision_figures(decision))
            texts = [decision.reason.text, decision.recommendation.reason.text]
            notes = [note.reason.text for note in decision.notes]
            self.sentences.append([decision.decision_id, decision.at, *texts, *notes, decision.why])
        super().record(record, states)


def play(case: GoldenCase, hours: int) -> dict[str, Any]:
    """Run a case for its first hours: every decision and outcome, and plain figures of the run."""
    listener = DecisionListener()

    def end_in_time(loop: Any, next_cycle_at: float) -> None:
        if next_cycle_at >= hours * HOUR_S:
            loop.stop()

    run = simulate(
        job_of(JOBS[case.job]),
        _ready(case.job).load,
        PolicySpec(case.policy, case.preset, case.options, case.settings),
        seed=SEED,
        recorder=listener,
        before_each=end_in_time,
    )
    return {
        "figures": listener.figures,
        "sentences": listener.sentences,
        "last_failure": run.last_failure,
        "paid": [list(step) for step in run.history.paid],
    }


def golden_figures(played: dict[str, Any], hours: int) -> dict[str, Any]:
    """What the golden file keeps of the first hours of a run: the digest, and figures that explain a mismatch."""
    rows = [row for row in played["figures"] if row[1] < hours * HOUR_S]
    decisions = [row for row in rows if row[0] == "decision"]
    return {
        "digest": digest(rows),
        "decisions": len(decisions),
        "changes": sum(row[3] != "hold" for row in decisions),
        "target": next((row[5] for row in reversed(decisions) if row[5] is not None), None),
        "executor_seconds": _integral(played["paid"], hours * HOUR_S),
        "codes": dict(sorted(Counter(row[6] for row in decisions).items())),
        "outcomes": dict(sorted(Counter(row[3] for row in rows if row[0] == "outcome").items())),
    }


def golden_sentences(played: dict[str, Any], hours: int) -> str:
    """Digest of all sentences of the first hours of a run."""
    return digest([row for row in played["sentences"] if row[1] < hours * HOUR_S])


def digest(rows: Sequence[Any]) -> str:
    """SHA-256 of rows as lines of JSON, floats by their repr."""
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


@cache
def _ready(job: str) -> Ready:
    return ready(Case(job_of(JOBS[job]), job, LoadSpec("golden", shape=LOAD), SEED))


def _reason_figures(reason: Any) -> list[Any]:
    return [str(reason.code), sorted(reason.figures.items())]


def _decision_figures(decision: Any) -> list[Any]:
    wanted, placement = decision.recommendation, decision.placement
    return [
        "decision",
        decision.at,
        decision.decision_id,
        str(decision.action),
        decision.current,
        decision.target,
        *_reason_figures(decision.reason),
        [wanted.target, *_reason_figures(wanted.reason)],
        [[note.step, note.before, note.after, *_reason_figures(note.reason)] for note in decision.notes],
        [[each.executors, each.capacity, each.utilization] for each in decision.projections],
        placement and [placement.use, placement.add, placement.leave, placement.slow],
        decision.first,
    ]


def _outcome_figures(outcome: Any) -> list[Any]:
    return [
        "outcome",
        outcome.at,
        outcome.decision_id,
        str(outcome.status),
        *_reason_figures(outcome.reason),
        [outcome.target, outcome.before, outcome.after],
        [outcome.method, outcome.redone_tasks, outcome.waited_s, outcome.took_s],
    ]


def _integral(steps: Sequence[Sequence[float]], end: float) -> float:
    cut = [(min(at, end), number) for at, number in steps]
    return sum(number * (later - at) for (at, number), (later, _) in pairwise([*cut, (end, 0.0)]))
