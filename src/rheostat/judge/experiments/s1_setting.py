"""The job, the loads and the settings of S1's experiments, as far as the document gives them.

The document does not say what a TaskManager carries, how high and how wide its bell curves are, or which part of World
Cup 98 it used. Chosen are: a record-at-a-time job that restarts to rescale (as Flink does), with 1300·n^0.95 records/s,
so that the range of its model, 0 to 4500 records/s, takes one to four; noise of 5 % between seconds: in its figure 30
the forecast and the load cannot be told apart; in 5.3 a bell of 3400 records/s and σ = 950 s, with which its reactive
scaler has about the document's mean of 1.84 executors.

Slow records have T = 5 s in all of them: the period of 5.3 and 5.4, which print the residual limit of 0.08.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rheostat.config import Settings, load_settings
from rheostat.load.curves import Pieces, RateCurve
from rheostat.load.prepare import prepare
from rheostat.load.shapes import parse_shape
from rheostat.load.traces import read_trace
from rheostat.sim.jobfile import JobFile
from rheostat.sim.loading import job_of

__all__ = ["ANOMALY_S", "INTERVAL_S", "SLA", "bell", "settings", "the_job", "world_cup"]

SLA = 0.10
INTERVAL_S = 5.0
ANOMALY_S = 8500.0
"""When the job of 5.4 begins to carry less: sample 1700 at one each 5 s."""

_NOISE_CV, _STEP_S = 0.05, 1.0
_THREE_HOURS_S = 3 * 3600.0
_MATCH_S = 8080 * 60.0
"""From here on the shared week has three hours that rise and fall by half, as the document's load does."""
_STAND_IN = "ramp:1000..2300@6000+ramp:2300..1000@1200+constant:1000@3600"
_PEAK = 2300.0


def the_job(events: Sequence[dict[str, Any]] = ()) -> JobFile:
    """The job, and what happens to it."""
    return job_of(
        {
            "name": "s1",
            "model": "record",
            "objective": "lag < 60s",
            "executors": [1, 8],
            "trigger_s": 0.0,
            "partitions": 24,
            "record": {"alpha": 1300.0, "beta": 0.95, "commit_every_s": 0.1},
            "executor": {"start_up": {"median_s": 5.0, "p95_s": 5.0}, "cold_task_s": 0.0},
            "rescale": {"mode": "restart", "pause": {"median_s": 15.0, "p95_s": 25.0}},
            "events": list(events),
        }
    )


def settings(policy: str, sample_s: float, **options: Any) -> Settings:
    """Of the loop: the profile with the document's constants and no guard of ours."""
    return load_settings(
        {
            "profile": "faithful",
            "objective": "lag < 60s",
            "executors": [1, 8],
            "policy": policy,
            "sample_s": sample_s,
            "policy_options": {"slow_interval_s": INTERVAL_S, **options},
        }
    )


def bell(peak: float, seconds: float, width_s: float | None, seed: int) -> Pieces:
    """From zero to ``peak`` in the middle and back to zero; ``width_s``: σ, a sixth of the time unless said."""
    width = "" if width_s is None else f",width={width_s:g}"
    return _noisy(parse_shape(f"gaussian:0..{peak:g}@{seconds:g}{width}"), "bell", seed, None)


def world_cup(trace: Path | None, seed: int) -> Pieces:
    """Three hours of a trace, or a stand-in: a rise and a fall by half within two hours.

    Raises:
        InputError: the trace is faulty.
    """
    if trace is None:
        return _noisy(parse_shape(_STAND_IN), "stand-in", seed, None)
    whole = read_trace(trace)
    begin = _MATCH_S if whole.duration >= _MATCH_S + _THREE_HOURS_S else 0.0
    part = whole.between(begin, min(whole.duration, begin + _THREE_HOURS_S))
    return _noisy(part, "world cup", seed, _PEAK)


def _noisy(curve: RateCurve, name: str, seed: int, peak: float | None) -> Pieces:
    return prepare(
        curve, name=name, seed=seed, peak_rate=peak, noise_cv=_NOISE_CV, bin_s=60.0, step_s=_STEP_S, longest_s=None
    ).curve
