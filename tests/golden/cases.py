"""The simulated runs of the golden files: four jobs, one load, every registered policy with each of its presets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any

FAST_HOURS, ALL_HOURS = 1, 6
"""What a test plays of a run unless RHEOSTAT_GOLDEN_HOURS says more, and how long a run is recorded."""

SEED = 7

LOAD = (
    "daily:15..100@2000,period=2000,seed=3"
    "+bursts:20..100@1000,on=150,off=200,seed=3"
    "+step:90..20@600,steps=4"
    "+daily:15..100@9000,period=4500,seed=4"
    "+bursts:20..100@4500,on=500,off=900,seed=5"
    "+ramp:10..100@2250"
    "+ramp:100..10@2250"
)
"""Scaled to the job: its peak is 80 % of what the job carries. It rises and falls slowly, in bursts and in steps."""

_MICRO_BATCH: dict[str, Any] = {
    "objective": "lag < 60s for 99%",
    "executors": [1, 12],
    "decide_every_s": 15.0,
    "trigger_s": 15.0,
    "partitions": 12,
    "batch_cap": 400_000,
    "batch_noise_cv": 0.05,
    "stages": [
        {"name": "read", "cost_ms": 0.05, "task_ms": 20.0},
        {"name": "aggregate", "tasks": 24, "cost_ms": 0.45, "task_ms": 20.0, "stateful": True},
    ],
    "driver": {"planning_s": 0.3, "commit_s": 0.2},
    "executor": {"start_up": {"median_s": 10.0, "p95_s": 20.0}, "cold_task_s": 2.0},
    "state": {"reload_s": 0.2},
}

_RECORD: dict[str, Any] = {
    "model": "record",
    "objective": "lag < 2m for 95%",
    "executors": [1, 8],
    "decide_every_s": 15.0,
    "trigger_s": 0.0,
    "partitions": 8,
    "batch_noise_cv": 0.05,
}

_NODES: dict[str, Any] = {
    "names": ["n1", "n2", "n3", "n4", "n5", "n6"],
    "slots": [1, 2, 1, 2, 1, 2],
    "first": "n2",
    "unmeasured": ["n6"],
    "round_trips_ms": [
        [0, 10, 25, 60, 90, 140],
        [10, 0, 20, 50, 80, 130],
        [25, 20, 0, 35, 70, 110],
        [60, 50, 35, 0, 40, 75],
        [90, 80, 70, 40, 0, 45],
        [140, 130, 110, 75, 45, 0],
    ],
}

_FAULTS: list[dict[str, Any]] = [
    {"kind": "slow", "at_s": 300, "for_s": 250, "executor": 1, "factor": 3},
    {"kind": "dead", "at_s": 750, "executor": 0, "replaced_after_s": None},
    {"kind": "dead", "at_s": 900, "executor": 1, "replaced_after_s": 60},
    {"kind": "metrics", "at_s": 1050, "for_s": 100, "missing": ["offsets"]},
    {"kind": "metrics", "at_s": 1250, "for_s": 75, "missing": ["running", "cluster"]},
    {"kind": "metrics", "at_s": 1400, "for_s": 100, "frozen": True},
    {"kind": "metrics", "at_s": 1600, "for_s": 150, "delay_s": 60},
    {"kind": "reject", "at_s": 1850, "for_s": 150},
    {"kind": "late", "at_s": 2050, "for_s": 200, "factor": 6},
    {"kind": "no-room", "at_s": 2300, "for_s": 250, "room": 3},
    {"kind": "slow-node", "at_s": 2600, "for_s": 250, "node": "n2", "factor": 3},
    {"kind": "node-lost", "at_s": 2900, "for_s": 150, "node": "n1"},
    {"kind": "node-full", "at_s": 3100, "for_s": 150, "node": "n3"},
    {"kind": "sink", "at_s": 3250, "for_s": 125, "records_per_s": 4000},
    {"kind": "skew", "at_s": 3400, "for_s": 450, "skew": 0.8},
    {"kind": "code", "at_s": 3500, "factor": 1.2, "pause_s": 25},
]
"""Every kind of injected event within the first hour; the job has them once more two hours later."""

JOBS: Mapping[str, Mapping[str, Any]] = {
    "base": {**_MICRO_BATCH, "name": "base"},
    "nodes": {
        **_RECORD,
        "name": "nodes",
        "record": {"alpha": 75.0, "beta": 0.9, "gamma": 0.25, "commit_every_s": 10.0},
        "nodes": _NODES,
        "executor": {"start_up": {"median_s": 1.0, "p95_s": 2.0}, "cold_task_s": 0.0},
        "rescale": {"mode": "restart", "pause": {"median_s": 25.0, "p95_s": 32.0}},
    },
    "faults": {
        **_MICRO_BATCH,
        "name": "faults",
        "executors": [1, 9],
        "nodes": _NODES,
        "events": [{**event, "at_s": event["at_s"] + later} for later in (0, 7200) for event in _FAULTS],
    },
    "record": {
        **_RECORD,
        "name": "record",
        "record": {"table": [[1, 1000], [2, 1900], [4, 3500], [8, 6000]], "commit_every_s": 10.0},
        "executor": {"start_up": {"median_s": 20.0, "p95_s": 40.0}, "cold_task_s": 1.0},
    },
}
"""Job files as values: ``faults`` has every kind of injected event, ``nodes`` restarts for each change."""

_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "schedule": {"steps": [[0, 3], [600, 8], [1200, 2], [1800, 6], [2700, 4], [3300, 9], [12000, 3]]},
}
"""Options of policies that do nothing without any."""

_GUARDS: Mapping[str, Mapping[str, Any]] = {
    "careful guards": {
        "guard": {
            "warm_up_s": 60.0,
            "hold_s": 120.0,
            "hold_both": True,
            "largest_step_up": 2,
            "cooldown_up_s": 60.0,
            "cooldown_down_s": 300.0,
            "tolerance": 0.1,
            "align_to": "waves",
            "replace_slow": True,
            "scale_down_hold_s": 600.0,
            "quota_cores": 7,
        }
    },
    "state aligned": {"guard": {"align_to": "state", "state_partitions": 24, "largest_step_down": 3}},
    "slow executors replaced": {"guard": {"replace_slow": True}},
    "faithful profile": {"profile": "faithful"},
    "demo profile": {"profile": "demo"},
}
"""Settings beside the policy that are off unless said."""

_WITH_GUARDS: tuple[tuple[str, str, str], ...] = (
    ("reactive", "base", "careful guards"),
    ("hpa", "faults", "careful guards"),
    ("threshold", "base", "state aligned"),
    ("reactive", "faults", "slow executors replaced"),
    ("mst", "nodes", "faithful profile"),
    ("reactive", "faults", "demo profile"),
)


@dataclass(frozen=True)
class GoldenCase:
    """A policy with one of its presets, on one of the jobs, with other settings of the loop or none."""

    policy: str
    preset: str | None
    job: str
    settings_name: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """As in ``hpa:s4 on faults``; ``own`` stands for the policy's own settings."""
        with_settings = f", {self.settings_name}" if self.settings_name else ""
        return f"{self.policy}:{self.preset or 'own'} on {self.job}{with_settings}"


def distinct_presets() -> tuple[list[tuple[str, str | None]], dict[str, str]]:
    """Policies with the presets that differ, and which presets have the same options as an earlier one."""
    distinct: list[tuple[str, str | None]] = []
    same: dict[str, str] = {}
    for entry in sorted(entry_points(group="rheostat.policies"), key=lambda entry: entry.name):
        factory = entry.load()
        earlier: dict[str, str] = {}
        for preset in [None, *sorted(set(factory.presets) - {"default"})]:
            values = dict(factory.presets.get(preset or "default", {}))
            options = factory.options_type.model_validate(values).model_dump_json()
            if options in earlier:
                same[f"{entry.name}:{preset}"] = earlier[options]
            else:
                earlier[options] = f"{entry.name}:{preset or 'own'}"
                distinct.append((entry.name, preset))
    return distinct, same


def golden_cases() -> Iterator[GoldenCase]:
    """Every run, in the order of the golden files."""
    for policy, preset in distinct_presets()[0]:
        for job in JOBS:
            yield GoldenCase(policy, preset, job, options=_OPTIONS.get(policy, {}))
    for policy, job, name in _WITH_GUARDS:
        yield GoldenCase(policy, None, job, name, _OPTIONS.get(policy, {}), _GUARDS[name])
