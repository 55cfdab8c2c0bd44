"""Executors that do not help, on simulated jobs through the production loop: found, taken back, rarely tried again."""

from __future__ import annotations

from typing import Any

import pytest

from rheostat.decide.policy import policy_names
from rheostat.judge.cases import LoadSpec, PolicySpec, load_job, settings_for
from rheostat.judge.simulate import Recorder, run_loop
from rheostat.load.prepare import prepare
from rheostat.loop.build import build_decision_settings
from rheostat.model import ReasonCode
from rheostat.sim.job import SimulatedJob

POLICIES = [
    pytest.param(name, marks=() if name in {"reactive", "hpa", "router"} else pytest.mark.slow)
    for name in policy_names()
    if name not in {"static", "schedule"}
]
"""``static`` and ``schedule`` do not look at the rate."""

NO_FASTER = {"exponent": 0.1, "start_executors": 4, "batch_cap": 60_000}
"""20 executors carry 1.17 × what 4 do."""
CROWDED_SINK = {"sink.records_per_s": 4000, "sink.crowding": 0.15, "start_executors": 2, "batch_cap": 60_000}
"""C = 1775, 3380, 3000, 2697, 2449, … 1022 records/s on 1 to 20 executors."""
HOT_PARTITION = {
    "stages": [{"name": "read", "cost_ms": 0.5, "task_ms": 20.0}],
    "partition_shares": [23] + [1] * 23,
    "start_executors": 2,
    "batch_cap": 60_000,
}
"""C = 1935, 3759, 3866, 3866 … records/s: half of all records are in one partition."""

READ = [{"name": "read", "cost_ms": 0.5, "task_ms": 20.0}]
ONE_OF_12 = {"stages": READ, "partitions": 12, "start_executors": 2, "batch_cap": 60_000}
LARGEST = {**ONE_OF_12, "partition_shares": [3] * 5 + [50] + [3] * 6}
"""C = 1951, 2884, 3046, 3046, 3046, 3227, 3227 … records/s: 60 % of all records are in partition 5."""
LAST = {**ONE_OF_12, "partition_shares": [3] * 11 + [11]}
"""C = 1951, 3270, 4220, 4938, 4938, 5949 … records/s: a quarter is in the last one, whose task waits for a slot."""
QUIET = {**ONE_OF_12, "partition_shares": [20_000] + [1] * 11, "batch_cap": 30_000}
"""C = 1906, 1934, 1934 … records/s: nearly all records are in partition 0, the others are never behind."""
COMES_AND_GOES = {**ONE_OF_12, "events": [{"kind": "skew", "at_s": 900, "for_s": 900, "skew": 2.0}]}
"""C = 1951, 3841, 5671 … records/s; from 900 s to 1800 s two thirds of all records are in partition 0."""

DRIVER_BOUND = {
    "driver": {"planning_s": 35.0, "commit_s": 0.2},
    "stages": [{"name": "read", "cost_ms": 0.05, "task_ms": 20.0}],
    "start_executors": 2,
}
"""35 s of planning and 1 s of tasks, where a batch may take 30 s."""


def play(policy: str, job: dict[str, Any], shape: str, seconds: float = 3600.0) -> Recorder:
    this, recorder = load_job("base", job), Recorder()
    settings = settings_for(this, PolicySpec(policy))
    load = prepare(LoadSpec(shape, shape=shape).curve(1), name=shape, seed=1, peak_rate=None)
    simulated = SimulatedJob(this, load.curve, 1, this.start_executors or 1)
    decisions = build_decision_settings(settings, recorder.samples, 1)
    run_loop(simulated, settings, decisions, recorder, lambda now, _: now >= seconds, job="test")
    return recorder


def changes(recorder: Recorder) -> list[tuple[float, int, int]]:
    """The changes of the target, (at, before, after); a decrease that was given up and asked for again counts once."""
    made = list[tuple[float, int, int]]()
    for act in recorder.acts:
        each = (act.at, act.before or 0, act.after)
        if each[1] != each[2] and (not made or made[-1][1:] != each[1:]):
            made.append(each)
    return made


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("job", "shape", "enough"),
    [
        pytest.param(NO_FASTER, "constant:1500@1200+constant:6000@2400", 7, id="no faster"),
        pytest.param(CROWDED_SINK, "constant:600@600+constant:5000@3000", 4, id="crowded sink"),
        pytest.param(HOT_PARTITION, "constant:600@600+constant:6000@3000", 5, id="hot partition"),
    ],
)
def test_executors_that_do_not_help_are_taken_back_and_rarely_tried_again(policy, job, shape, enough):
    """From ten minutes after the load has risen on: few are left, and the next tries are small and ever rarer."""
    made = changes(play(policy, job, shape))
    began = next(at for at, before, after in made if after > before and at >= 600)
    late = [(before, after) for at, before, after in made if at > began + 600]
    assert [after for at, _, after in made if at <= began + 600][-1] <= enough, made
    assert all(after <= enough + 2 for _, after in late), made
    assert sum(after > before for before, after in late) <= 3, made


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("job", "shape", "enough", "named"),
    [
        pytest.param(LARGEST, "constant:600@600+constant:4500@3000", 4, "partition 5 of base, 60 %", id="largest"),
        pytest.param(QUIET, "constant:600@600+constant:2200@3000", 4, "partition 0 of base", id="others quiet"),
    ],
)
def test_a_partition_that_is_too_large_for_one_task_is_named_and_gets_few_executors(policy, job, shape, enough, named):
    recorder = play(policy, job, shape)
    made = changes(recorder)
    assert made[-1][2] <= enough, made
    assert len(made) <= 16, made
    texts = [held.text for held in recorder.holds.values()] + [act.text for act in recorder.acts]
    texts = [text for text in texts if "spread its keys" in text]
    assert all(named in text for text in texts)
    if max(after for _, _, after in made) > enough:
        assert texts, made


@pytest.mark.parametrize("policy", ["reactive", "router", "mst", "proactive"])
def test_a_large_partition_whose_task_waits_for_a_slot_gets_the_executors_it_needs(policy):
    recorder = play(policy, LAST, "constant:600@600+constant:5400@3000")
    made = changes(recorder)
    assert made[-1][2] == 6, made
    assert ReasonCode.INEFFECTIVE not in {*recorder.holds, *(act.code for act in recorder.acts)}


@pytest.mark.parametrize("policy", ["reactive", "router", "mst", "proactive"])
def test_a_partition_that_is_large_for_a_while_is_forgotten(policy):
    recorder = play(policy, COMES_AND_GOES, "constant:600@600+constant:3500@3000")
    made = changes(recorder)
    assert made[-1][2] in (2, 3, 4), made
    assert len([at for at, _, _ in made if at > 2400]) <= 2, made


@pytest.mark.parametrize("policy", POLICIES)
def test_time_that_the_driver_takes_adds_no_executors(policy):
    recorder = play(policy, DRIVER_BOUND, "constant:1000@3600", 1800.0)
    made = changes(recorder)
    assert [after for _, _, after in made][-1:] in ([], [1], [2]), made
    assert all(after <= 2 for at, _, after in made if at > 600), made
    held = recorder.holds.get(ReasonCode.DRIVER_BOUND)
    if held is not None:
        assert "35.0 s of them to plan it and 0.2 s to commit" in held.text


def test_the_advice_names_the_part_of_the_driver():
    held = play("reactive", DRIVER_BOUND, "constant:1000@3600", 900.0).holds[ReasonCode.DRIVER_BOUND]
    assert "the driver delays the batches: the last batch took 3" in held.text


def test_executors_added_before_the_sink_was_found_sick_are_taken_back():
    """The sink gets slower and slower: at first executors are added, then it is called sick, and they go again."""
    events = [{"kind": "sink", "at_s": at, "records_per_s": rate} for at, rate in ((600, 1450), (1200, 600))]
    recorder = play("dynamic-allocation", {"start_executors": 2, "events": events}, "constant:1500@3600")
    made = changes(recorder)
    assert max(after for _, _, after in made) > 2
    assert made[-1][2] == 2, made


@pytest.mark.parametrize(
    ("job", "shape"),
    [
        pytest.param({}, "constant:1500@600+constant:20000@1800", id="twelve times the load"),
        pytest.param({"batch_noise_cv": 0.25}, "constant:1500@600+constant:20000@1800", id="batches of any length"),
        pytest.param(
            {"events": [{"kind": "code", "at_s": 600, "factor": 4}], "start_executors": 2, "batch_cap": 60_000},
            "constant:3000@2400",
            id="new code for which a record costs four times as much",
        ),
        pytest.param(
            {"executor": {"start_up": {"median_s": 90.0, "p95_s": 200.0}}, "batch_cap": 100_000},
            "constant:1500@600+constant:12000@1800",
            id="executors that come late",
        ),
        pytest.param(
            {"driver": {"planning_s": 4.0}, "batch_cap": 60_000},
            "constant:1500@600+constant:4500@1800",
            id="a fixed part of the batch",
        ),
    ],
)
def test_executors_that_help_are_never_called_useless(job, shape):
    recorder = play("reactive", job, shape, 2400.0)
    assert ReasonCode.INEFFECTIVE not in {*recorder.holds, *(act.code for act in recorder.acts)}
    assert max(act.after for act in recorder.acts) > 2
