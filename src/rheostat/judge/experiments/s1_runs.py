"""The runs of S1's experiments for one seed; one process can do one while others do the rest.

``faithful`` is the policy as printed, corrected where it could not work. ``ours`` explores in the same way and controls
by our own defaults: a decision at each sample instead of each 60 s, three residuals in a row for an abrupt change
instead of one, no sample before the job has recovered from a change, the present rate carried as well as forecasts, and
the model held against what the executors were seen to carry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from rheostat.judge.experiments.s1_setting import ANOMALY_S, INTERVAL_S, SLA, bell, settings, the_job
from rheostat.judge.experiments.trial import Trial, run
from rheostat.learn.training import TrainingOptions, train
from rheostat.load.curves import Pieces
from rheostat.plan.proactive import ProactiveState
from rheostat.plan.reactive import ReactiveState

__all__ = ["BELL_S", "OPTIONS", "OURS", "SHORT_BELL_S", "Task", "long_bell", "ran", "short_bell", "trained"]

BELL_S, SHORT_BELL_S = 5 * 3600.0, 1.5 * 3600.0
_PEAK, _SHORT_PEAK, _SHORT_WIDTH_S = 4500, 3400, 950

OURS: Mapping[str, Any] = {
    "decide_every_s": 5.0,
    "residuals_in_a_row": 3,
    "hold_s": 240.0,
    "bounded": True,
    "present": True,
    "timely": True,
}
"""What is set beside the preset ``faithful``."""

OPTIONS = TrainingOptions(outliers=False, objective=SLA)
"""Of the training, as ``proactive:faithful`` has them."""


class Task(NamedTuple):
    """What one process does.

    Attributes:
        part: ``bells``: 5.2, and 5.3 with what it has taught; ``whole``: 5.4.
        load: of 5.4.
    """

    part: str
    seed: int
    load: Pieces | None


def ran(task: Task) -> dict[str, Trial]:
    """The runs, by name."""
    return _bells(task.seed) if task.load is None else _whole(task.load, task.seed)


def long_bell(seed: int) -> Pieces:
    """The load of 5.2."""
    return bell(_PEAK, BELL_S, None, seed)


def short_bell(seed: int) -> Pieces:
    """The load of 5.3."""
    return bell(_SHORT_PEAK, SHORT_BELL_S, _SHORT_WIDTH_S, seed)


def trained(explored: Trial) -> ProactiveState:
    """In control, with the model of all that a run has collected."""
    learned = explored.policy.reactive.learned
    model = train(explored.rows, learned.w_max, OPTIONS).model
    return replace(ProactiveState(), mode="control", model=model, reactive=ReactiveState(learned=learned))


def _bells(seed: int) -> dict[str, Trial]:
    explored = _trial(long_bell(seed), "proactive:faithful", 15.0, seed)
    load, begin = short_bell(seed), trained(explored)
    return {
        "explored": explored,
        "ours": _trial(load, "proactive:faithful", 5.0, seed, begin, **OURS),
        "faithful": _trial(load, "proactive:faithful", 5.0, seed, begin),
        "reactive": _trial(load, "reactive:faithful", 15.0, seed),
    }


def _whole(load: Pieces, seed: int) -> dict[str, Trial]:
    less = [{"kind": "code", "at_s": ANOMALY_S, "factor": 1.5, "pause_s": 20.0}]
    common: dict[str, Any] = {"explore_every_s": 5.0, "check_every": 300, "events": less}
    return {
        "ours": _trial(load, "proactive:faithful", 5.0, seed, **{**OURS, **common}),
        "faithful": _trial(load, "proactive:faithful", 5.0, seed, **{**common, "decide_every_s": 5.0}),
        "reactive": _trial(load, "reactive:faithful", 5.0, seed, events=less),
    }


def _trial(load: Pieces, policy: str, sample_s: float, seed: int, begin: Any = None, **more: Any) -> Trial:
    events = more.pop("events", ())
    chosen = settings(policy, sample_s, **more)
    return run(the_job(events), load, chosen, executors=1, seed=seed, interval_s=INTERVAL_S, begin=begin)
