"""``rheostat bench truth``: the simulator, fitted to one real run on this machine, compared with three others."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, permutations
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from rheostat.calibrate.fit import Calibration, calibrate
from rheostat.calibrate.measured import RealRun, read_run
from rheostat.calibrate.truth import Replay, errors_of, overlay, replay, write_truth
from rheostat.demo.run import DemoPlan, run_demo
from rheostat.errors import RheostatError
from rheostat.host.java import cache_folder
from rheostat.policies.schedule import OPEN_LOOP
from rheostat.report.html import plots_installed
from rheostat.research.bench.harness import Bench, Metric, Watch, ignore_progress


@dataclass(frozen=True, slots=True, kw_only=True)
class TimetablePlan(DemoPlan):
    """The demo's cluster and pipeline under any load, with a timetable of executors instead of a policy.

    ``shape``: as in :mod:`rheostat.load.shapes`. ``steps``: ``(second of the load, executors)``, ascending; before the
    first one the least number. ``sample_s``: shorter than a batch, so that none is missed.
    """

    shape: str
    steps: tuple[tuple[float, int], ...]
    sample_s: float = 1.0
    policy: str = "schedule"
    begin_s: float = 45.0

    def settings(self, folder: Path) -> Mapping[str, Any]:
        """The autoscaler's settings: the timetable, without guards that could delay it."""
        return {
            "profile": "demo",
            "objective": self.objective,
            "executors": list(self.executors),
            "sample_s": self.sample_s,
            "policy": "schedule",
            "policy_options": {"steps": [[max(0.0, self.begin_s + at), count] for at, count in self.steps]},
            "guard": dict(OPEN_LOOP),
            "journal": str(folder / "journal"),
        }


_TARGETS = {"backlog": 0.15, "batch": 0.15, "lag_p95": 0.20}
_WITHIN_SPREAD = 1.5
"""Where equal real runs are further apart than the target, the target is this × their distance."""
_BETTER = 3.0
WARM_UP_S = 15.0

_VISITS = (
    (1, 36, "ramp:35..60"),
    (2, 20, "ramp:60..130"),
    (4, 20, "ramp:120..260"),
    (5, 20, "ramp:220..320"),
    (6, 20, "ramp:300..400"),
    (3, 20, "ramp:180..120"),
    (5, 20, "ramp:150..320"),
    (2, 20, "ramp:120..80"),
    (3, 20, "ramp:100..190"),
    (4, 20, "ramp:160..260"),
    (6, 20, "ramp:260..400"),
    (2, 20, "ramp:110..60"),
)
"""Executors, seconds and load: every size from 1 to 6, at a third to nine tenths of its capacity."""

_COMMON: Mapping[str, Any] = {"objective": "lag < 30s", "lookup_ms": 8.0, "trigger_s": 4.0}

CALIBRATION = TimetablePlan(
    **_COMMON,
    base_rate=60.0,
    shape="+".join(f"{shape}@{seconds}" for _, seconds, shape in _VISITS),
    steps=tuple(
        (begin, executors)
        for (executors, _, _), begin in zip(
            _VISITS, accumulate((float(seconds) for _, seconds, _ in _VISITS), initial=0.0), strict=False
        )
    ),
)

TRUTH = TimetablePlan(
    **_COMMON,
    base_rate=70.0,
    shape="constant:70@18+ramp:70..360@20+constant:360@28+ramp:360..70@14+constant:70@18",
    steps=((-1000.0, 2), (14.0, 4), (22.0, 6), (72.0, 4), (82.0, 2)),
)
"""A rise, a plateau and a fall, with executors that follow them."""


def run_truth(watch: Watch = ignore_progress) -> Bench:
    """One run to fit to, three equal ones to compare the simulator with.

    Raises:
        InputError: plotly is not installed.
        PartFailedError: a part died; with its name and the end of its log.
        RheostatError: a run lost records, or did not end its work.
    """
    plots_installed()
    folder = cache_folder() / "bench" / "truth"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    plans = [("calibration", CALIBRATION), *((f"run {number}", TRUTH) for number in (1, 2, 3))]
    runs, loads = [], []
    for number, (name, plan) in enumerate(plans):
        watch(number, len(plans), name)
        loads.append(f"{os.getloadavg()[0]:.1f}")
        runs.append(_run(plan, folder / name.replace(" ", "-")))
    watch(len(plans), len(plans), "fit and replay")
    fitted = calibrate(runs[:1], name="click_fraud", warm_up_s=WARM_UP_S)
    replays = [replay(each, fitted.job, warm_up_s=WARM_UP_S) for each in runs[1:]]
    (folder / "job.yaml").write_text(yaml.safe_dump(fitted.values, sort_keys=False), encoding="utf-8")
    write_truth(folder / "truth.html", fitted, [(each, errors_of(each)) for each in replays])
    return Bench(
        "truth",
        figures(fitted, runs[1:], replays),
        (*_notes(fitted), f"Load average (1 min) before each run: {', '.join(loads)}."),
    )


def _run(plan: TimetablePlan, folder: Path) -> RealRun:
    folder.mkdir()
    done = run_demo(plan, folder, lambda _: None, lambda _: None)
    if not done.score["valid"] or not done.drained:
        message = f"{folder.name}: the sink does not hold what was produced, or not in time"
        raise RheostatError(message)
    return read_run(folder / "journal")


def figures(fitted: Calibration, runs: Sequence[RealRun], replays: Sequence[Replay]) -> list[Metric]:
    """Errors of the replays, means over the runs, with their targets; and how far the real runs are apart."""
    errors = [errors_of(each) for each in replays]
    pairs = [errors_of(overlay(a, b, fitted.job, warm_up_s=WARM_UP_S)) for a, b in permutations(runs, 2)]
    titles = {"backlog": "backlog", "batch": "median batch time", "lag_p95": "lag p95"}
    formulas = {"backlog": ": sum of differences ÷ sum measured"}
    unit, metrics = "of measured", list[Metric]()
    for name, title in titles.items():
        apart = float(np.mean([getattr(each, name) for each in pairs]))
        target = _TARGETS[name] if apart <= _TARGETS[name] else _WITHIN_SPREAD * apart
        words = title + formulas.get(name, ": difference ÷ measured")
        metrics.append(_mean(words, unit, [getattr(each, name) for each in errors], target))
    metrics += [
        _mean("backlog: error ÷ that of a constant mean", "×", [1 / e.worse_than_mean for e in errors], 1 / _BETTER),
        _mean("backlog: error ÷ that of zero", "×", [1 / e.worse_than_zero for e in errors], 1 / _BETTER),
    ]
    metrics += [
        _mean(f"three real runs, from each other: {title}", unit, [getattr(each, name) for each in pairs])
        for name, title in titles.items()
    ]
    metrics += [
        Metric(f"worst of the runs: {title}", max(getattr(each, name) for each in errors), unit, len(errors))
        for name, title in titles.items()
    ]
    metrics.append(Metric("noise of a warm batch, coefficient of variation", fitted.fit.noise, "×", fitted.fit.points))
    return metrics


def _mean(words: str, unit: str, values: Sequence[float], target: float | None = None) -> Metric:
    return Metric(words, float(np.mean(values)), unit, len(values), target=target)


def _notes(fitted: Calibration) -> tuple[str, ...]:
    plan, left = TRUTH, [each.key for each in fitted.estimates if not each.identified]
    known = [f"{each.key} {each.value:.4g} {each.unit}".strip() for each in fitted.estimates if each.identified]
    return (
        f"Spark standalone and Kafka on this machine, the pipeline click_fraud: trigger {plan.trigger_s:g} s, "
        f"{plan.partitions} partitions, look-up {plan.lookup_ms:g} ms a record, "
        f"fetch.max.wait.ms {plan.fetch_wait_ms}, at most {plan.cap} records a batch, executors of 1 core by a "
        f"timetable, a cycle each {plan.sample_s:g} s.",
        f"Fitted to one run of {CALIBRATION.seconds:.0f} s with 1 to 6 executors, each number at a third to nine "
        f"tenths of its capacity: {fitted.fit.points} of {fitted.batches} batches were warm and undisturbed. "
        f"{'; '.join(known)}. Not identified and left at their defaults: {', '.join(left) or 'none'}.",
        "Compared with three equal runs that were not fitted to, from 70 to 360 records/s and back with 2 to 6 "
        f"executors; means over the runs, from {WARM_UP_S:g} s after the first batch on. The simulator gets the "
        "arrivals, the executors at the start and the decisions; start-up times, cold executors and batch times are "
        "its own.",
        "Where equal real runs differ by more than the target, 1.5 × their difference is the target. Three times "
        "better than a constant mean, or than zero, is a ratio of 1/3. See [truth](truth.md).",
        "Journals, job file and report (truth.html) are kept in the user's cache, bench/truth, until the next run.",
    )
