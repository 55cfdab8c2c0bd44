"""``rheostat bench decision``: what one decision costs, from the observation to the shaped decision."""

from __future__ import annotations

import gc
import time

import numpy as np

from rheostat.analyze import AnalysisState, analysis_settings, analyze
from rheostat.bench.measure import Bench, Metric, Watch, metric, unwatched
from rheostat.config import load_settings
from rheostat.journal.synthetic import Shape, cycles
from rheostat.loop import build_planner

__all__ = ["run"]

_WARM_UP, _CYCLES = 500, 5000
_TARGET_MS = 1.0
_ALL_ON = {
    "tolerance": 0.05,
    "align_to": "waves",
    "most_partitions": 100.0,
    "largest_step_up": 4,
    "scale_down_hold_s": 300.0,
    "cooldown_up_s": 15.0,
    "warm_up_s": 60.0,
    "quota_cores": 64,
}
"""The guard steps that are off by default; but for ``failover`` and ``hold_both``, which would end most others."""


def run(watch: Watch = unwatched) -> Bench:
    """Time ``analyze`` and ``plan`` with every guard step on, for several numbers of partitions."""
    metrics: list[Metric] = []
    for number, (partitions, target) in enumerate(sizes := ((16, _TARGET_MS), (97, None), (300, None))):
        watch(number, len(sizes), f"decisions over {partitions} partitions")
        times = _times_ms(partitions, _CYCLES if partitions == 16 else _CYCLES // 5)
        name = f"decision_p{{}}_{partitions}_partitions"
        metrics.append(metric(name.format(50), times, "ms"))
        metrics.append(metric(name.format(99), times, "ms", lambda values: float(np.percentile(values, 99)), target))
    notes = (
        "One decision: analyze one observation (one query, 4 executors) and plan with the policy reactive and all "
        "guard steps. Journal, observation and execution are not in it. Garbage collection stays on.",
    )
    return Bench("decision", metrics, notes)


def _times_ms(partitions: int, count: int) -> list[float]:
    settings = load_settings({"objective": "lag < 30s", "executors": [1, 20], "guard": _ALL_ON})
    planner, analysis = build_planner(settings), analysis_settings(settings)
    seen = [cycle[0] for cycle in cycles(_WARM_UP + count, Shape(partitions=partitions))]
    gc.collect()
    gc.freeze()  # the prepared observations are no part of what is measured, nor is walking over them
    state, planned = AnalysisState(), planner.initial()
    times = []
    for observation in seen:
        begun = time.perf_counter()
        assessment, state = analyze(observation, state, analysis)
        _, planned = planner.plan(assessment, planned)
        times.append((time.perf_counter() - begun) * 1000)
    gc.unfreeze()
    return times[_WARM_UP:]
