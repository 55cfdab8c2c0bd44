"""Experiments 5.2 and 5.3 of S1, shortened, on a real local Kafka and a real local Spark cluster.

Two bells of load, one after the other. Under the first the policy explores, under the second it is in control. The same
load is run under ``reactive``, and both are compared under the second bell. A sample is taken each two seconds instead
of each 15, the bells take six minutes instead of five hours, and the guards are those of the profile ``demo``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rheostat.demo.run import DemoPlan, DemoRun
from rheostat.model import ReasonCode
from rheostat.research.papers.live import Open, records_result, run_all
from rheostat.research.papers.results import Experiment, Look, Part, Result, Trial, look_of
from rheostat.text import several

_BELL_S, _LOW, _PEAK = 360.0, 50.0, 450.0
_SLA, _INTERVAL_S = 0.10, 15.0
_EXPLORE: Mapping[str, Any] = {"samples_to_shrink": 4, "increase": "one", "decrease": "one"}
_CONTROL: Mapping[str, Any] = {"check_every": 80, "block": 15, "degree": 3, "back_s": 60.0, "horizon_s": 20.0}


def plans(seed: int) -> dict[str, DemoPlan]:
    """The runs by the name of the policy."""
    bell = f"gaussian:{_LOW:g}..{_PEAK:g}@{_BELL_S:g}"
    common: dict[str, Any] = {"shape": f"{bell}+{bell}", "base_rate": _LOW, "peak_rate": _PEAK, "seed": seed}
    return {
        "proactive": DemoPlan(policy="proactive", policy_options={**_EXPLORE, **_CONTROL}, **common),
        "reactive": DemoPlan(policy="reactive", policy_options=_EXPLORE, **common),
    }


def experiment(seed: int, folder: Path, show: Open) -> Experiment:
    """Run both, about twenty-five minutes.

    Args:
        seed: of keys and payloads.
        folder: gets a folder for each run, with its journal.
        show: makes the live table of a run.

    Raises:
        PartFailedError: a part of a run died; with its name and the end of its log.
        RheostatError: records could not be delivered, or a step took too long.
    """
    runs = run_all(plans(seed), folder, show)
    trials = {name: _trial(run) for name, run in runs.items()}
    counts = {name: dict(run.score) for name, run in runs.items()}
    return Experiment("s1", [Part("5.2 and 5.3, shortened, on a real cluster", results(trials, counts), trials)])


def results(trials: Mapping[str, Trial], scores: Mapping[str, Mapping[str, Any]]) -> list[Result]:
    """The statements. Times of the looks are seconds of the load; ``scores``: in the shape of ``rheostat.score/1``."""
    whole, control = trials["proactive"], _since(trials["proactive"], _BELL_S)
    exploring = [look for look in whole.looks if look.at < _begins(whole)]
    ups = [look for look in exploring if look.target > look.executors]
    reactive = _since(trials["reactive"], _BELL_S)
    bad = {"proactive": control.violations(_SLA), "reactive": reactive.violations(_SLA)}
    ours, theirs = _mean(control), _mean(reactive)
    return [
        Result(
            "5.2 steps up, live",
            "in exploration each step up follows a violation of the SLA",
            f"{sum(look.code is ReasonCode.SLA_VIOLATED for look in ups)} of {len(ups)} steps up at a violation",
            "each of them",
            bool(ups) and all(look.code is ReasonCode.SLA_VIOLATED for look in ups),
            "slow records, or a batch or a wait too long for the objective, as on micro-batches",
        ),
        Result(
            "5.2 switch, live",
            "at the end of the load the model is stable and control begins",
            _switch(whole),
            "at the end",
            _BELL_S / 2 < _begins(whole) < 1.5 * _BELL_S,
            f"a bell of {_BELL_S:g} s, the model is checked each {_CONTROL['check_every']} samples",
        ),
        Result(
            "5.3 violations, live",
            "proactive has no more violations than reactive",
            f"proactive {bad['proactive']}, reactive {several(bad['reactive'], 'sample')}",
            "proactive none, reactive some",
            bad["proactive"] <= bad["reactive"],
            "under the second bell; samples in a hold do not count",
        ),
        Result(
            "5.3 executors, live",
            "at no more executors a sample",
            " v ".join("unknown" if each is None else f"{each:.2f}" for each in (ours, theirs)),
            "1.81 v 1.84",
            ours is not None and theirs is not None and ours <= theirs,
            "means over the samples of the second bell that count",
        ),
        records_result(scores),
    ]


def _trial(run: DemoRun) -> Trial:
    """What its journal says, in seconds of the load."""
    began = run.load.go_at or run.load.began_at
    looks = [look._replace(at=look.at - began) for look in map(_look, run.records) if look is not None]
    failures = sum(look.code is ReasonCode.CYCLE_FAILED for look in looks)
    return Trial(tuple(look for look in looks if look.at >= 0), None, (), failures)


def _look(record: Any) -> Look | None:
    return look_of(record, _INTERVAL_S)


def _since(trial: Trial, at: float) -> Trial:
    return Trial(tuple(look for look in trial.looks if at <= look.at <= 2 * _BELL_S), None, (), trial.failures)


def _mean(trial: Trial) -> float | None:
    """Executors a sample; None without a sample that counts."""
    return trial.executors_per_sample if trial.counted else None


def _begins(trial: Trial) -> float:
    """When control begins, s; after all samples if it never does."""
    return next((look.at for look in trial.looks if look.code is ReasonCode.FORECAST), float("inf"))


def _switch(trial: Trial) -> str:
    begins = _begins(trial)
    return "not at all" if begins == float("inf") else f"after {begins:.0f} s of {_BELL_S:g}"
