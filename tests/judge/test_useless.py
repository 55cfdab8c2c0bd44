"""Executors that do not help, on simulated jobs through the production loop: found, taken back, rarely tried again."""

from __future__ import annotations

from typing import Any

import pytest

from rheostat.decide.effectiveness import Cause
from rheostat.decide.policy import policy_names
from rheostat.judge.cases import LoadSpec, PolicySpec, load_job, settings_for
from rheostat.judge.simulate import Recorder, run_loop
from rheostat.load.prepare import prepare
from rheostat.loop.build import build_decision_settings
from rheostat.model import ReasonCode
from rheostat.sim.job import SimulatedJob

pytestmark = pytest.mark.slow

POLICIES = [name for name in policy_names() if name not in {"static", "schedule"}]
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

SLOW_PARTITION: dict[str, Any] = {
    "partitions": 24,
    "executors": [1, 20],
    "start_executors": 6,
    "events": [{"kind": "slow-partition", "at_s": 1200, "for_s": 3000, "factor": 60}],
}
"""C ≥ 9000 records/s on 6 executors; for 50 minutes, with all records spread evenly, on no number."""

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


@pytest.mark.parametrize("policy", ["reactive", "router", "mst", "proactive"])
def test_a_slow_partition_without_more_records_is_told_from_a_slow_driver_and_gets_few_executors(policy):
    recorder = play(policy, SLOW_PARTITION, "constant:9000@5400", 5400.0)
    made = changes(recorder)
    texts = [act.text for act in recorder.acts if act.code == ReasonCode.INEFFECTIVE and " promised " in act.text]
    assert texts
    assert all(Cause.STRAGGLER in text for text in texts), texts
    assert [after for at, _, after in made if at < 4200.0][-1] <= 10, made


@pytest.mark.parametrize("policy", ["reactive", "proactive"])
def test_what_a_number_carries_is_measured_too_where_the_objective_is_nearly_missed_after_a_healthy_batch(policy):
    """6 carry 11 300/s before the partition slows down and 8100/s then, of which the running batch tells first."""
    slowed = {**SLOW_PARTITION, "events": [{**SLOW_PARTITION["events"][0], "factor": 20}]}
    made = changes(play(policy, slowed, "constant:9000@4200", 4200.0))
    assert len(made) <= 4, made


@pytest.mark.parametrize("policy", ["reactive", "router", "mst", "proactive"])
@pytest.mark.parametrize(
    ("job", "shape"),
    [
        pytest.param({"objective": "lag < 10s"}, "poisson:0.2@1200", id="one in five seconds"),
        pytest.param({"objective": "lag < 10s"}, "poisson:10@1200", id="ten a second"),
        pytest.param(
            {"objective": "lag < 5s", "decide_every_s": 5.0},
            "pulses:0..30@1200,rise=0,on=1,fall=0,off=299",
            id="thirty at once in five minutes",
        ),
    ],
)
def test_few_records_under_a_short_objective_need_one_executor(policy, job, shape):
    """A record that is seen for the first time has not waited since the look before; 9 for 12 are fewer by chance."""
    few = {"trigger_s": 2.0, "executors": [1, 12], "start_executors": 1, **job}
    assert changes(play(policy, few, shape, 1200.0)) == []


@pytest.mark.parametrize("policy", ["reactive", "router", "mst", "proactive"])
def test_hundreds_of_executors_that_never_had_input_go_within_half_an_hour(policy):
    many = {"partitions": 100, "executors": [1, 1000], "start_executors": 300}
    made = changes(play(policy, many, "constant:0@1790+constant:1@10", 1780.0))
    assert made[-1][2] <= 10, made


def test_slow_records_at_a_low_rate_still_add_executors():
    slow = {"stages": [{"name": "read", "cost_ms": 800.0}], "executors": [1, 12], "start_executors": 1}
    made = changes(play("reactive", slow, "poisson:3@1800", 1800.0))
    assert made[-1][2] in {3, 4, 5}, made


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
@pytest.mark.parametrize("batch_cap", [pytest.param(60_000, id="capped"), pytest.param(None, id="ever longer batches")])
def test_a_backlog_that_is_worked_off_is_no_reason_for_what_did_not_help(policy, batch_cap):
    """The load ends at 4800 s, and nothing is any faster then."""
    made = changes(play(policy, NO_FASTER | {"batch_cap": batch_cap}, "constant:1500@1200+constant:6000@3600", 8000))
    assert all(after <= 9 for at, _, after in made if at > 4800 or at == made[-1][0]), made
    assert sum(after > before for at, before, after in made if at > 4800) <= 2, made


@pytest.mark.parametrize("policy", POLICIES)
def test_a_new_increase_in_each_long_batch_does_not_put_the_verdict_off(policy):
    """Without a cap no number settles, as batches take longer than the time from increase to increase."""
    job = {"exponent": 0.1, "start_executors": 1}
    made = changes(play(policy, job, "constant:1500@600+constant:6000@3000", 3600))
    assert all(after <= 7 for at, _, after in made if at > 2400 or at == made[-1][0]), made


@pytest.mark.parametrize("policy", [name for name in POLICIES if name in {"reactive", "router", "mst"}])
def test_executors_that_help_little_are_added_where_they_keep_the_objective(policy):
    """C = 1775, 2303, 2908 on 1, 2, 4 executors, 3789 on 10, 4505 on 20: twice as many bring a quarter more."""
    recorder = play(policy, {"exponent": 0.3, "start_executors": 2}, "constant:1500@600+constant:3600@5400", 6000)
    assert ReasonCode.INEFFECTIVE not in {*recorder.holds, *(act.code for act in recorder.acts)}
    assert recorder.acts[-1].after >= 10


@pytest.mark.parametrize("policy", POLICIES)
def test_time_that_the_driver_takes_adds_no_executors(policy):
    recorder = play(policy, DRIVER_BOUND, "constant:1000@3600", 1800.0)
    made = changes(recorder)
    assert [after for _, _, after in made][-1:] in ([], [1], [2]), made
    assert all(after <= 2 for at, _, after in made if at > 600), made
    held = recorder.holds.get(ReasonCode.DRIVER_BOUND)
    if held is not None:
        assert "35.0 s of them to plan it and 0.2 s to commit" in held.text


@pytest.mark.parametrize("policy", [name for name in POLICIES if name in {"reactive", "router", "mst"}])
@pytest.mark.parametrize(
    ("driver_s", "least", "most"),
    [
        pytest.param(6.0, 4, 5, id="6 s of 30 s: C = 4568, 6155, 7708 on 3, 4, 5 executors"),
        pytest.param(12.0, 5, 6, id="12 s: 4555, 5716, 6928 on 4, 5, 6"),
        pytest.param(20.0, 8, 10, id="20 s: 4114, 5035, 5367, 6179 on 7, 8, 9, 10"),
    ],
)
def test_executors_that_help_beside_the_driver_are_as_many_as_are_needed(policy, driver_s, least, most):
    """The driver takes the same part of a batch on any number; the rest is shared."""
    job = {"driver": {"planning_s": driver_s, "commit_s": 0.2}, "start_executors": 2}
    recorder = play(policy, job, "constant:1000@900+constant:5000@2700", 3300.0)
    made = changes(recorder)
    assert all(least <= after <= most for at, _, after in made if at > 1500 or at == made[-1][0]), made
    assert len(made) <= 8, made
    assert ReasonCode.INEFFECTIVE not in {act.code for act in recorder.acts}


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


@pytest.mark.parametrize("policy", [name for name in POLICIES if name in {"reactive", "router", "mst", "hpa"}])
def test_where_records_become_dearer_the_executors_that_help_stay(policy):
    """From 600 s on each record costs 2.5 times as much: eight or more are needed, four were."""
    stages = [{"name": "read", "cost_ms": 0.4}, {"name": "aggregate", "tasks": 48, "cost_ms": 0.2, "stateful": True}]
    dearer = {"kind": "drift", "at_s": 600, "factor": 2.5, "over_s": 60}
    job = {"partitions": 24, "stages": stages, "events": [dearer], "start_executors": 4, "executors": [1, 12]}
    made = [each for each in changes(play(policy, job | {"batch_cap": None}, "constant:6000@3000")) if each[0] <= 3000]
    assert made[-1][2] >= 8, made
    assert not [each for each in made if each[0] > 900 and each[2] <= 7], made
