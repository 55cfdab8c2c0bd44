import pytest
from tests.sim.jobs import plain

from rheostat.errors import InputError
from rheostat.judge.cases import (
    Case,
    LoadSpec,
    PolicySpec,
    Treatment,
    check_policy_specs,
    drain_limit_s,
    parse_policy_specs,
    ready,
    settings_for,
)
from rheostat.judge.compare import run_one
from rheostat.judge.simulate import simulate, start_executors
from rheostat.model import OutcomeStatus

JOB = plain(partitions=8)
"""Eight tasks in waves: C = 200, 400, 533, 800, 800, 800, 800, 1600 records/s on 1 … 8 executors."""


def case(shape, job=JOB, *, scaled=False, seed=1):
    return Case(job, job.name, LoadSpec(shape, shape=shape), seed, Treatment(scaled=scaled))


def test_static_is_the_size_that_carries_the_peak_from_the_start_to_the_last_commit():
    """500/s need 3 executors (533/s). Batches begin every 2 s; the last one, at 60 s, takes 1000 × 5 ms × 3/8."""
    found = run_one(case("constant:500@60"), PolicySpec("static")).score
    assert (found["executors_max"], found["reconfigurations"], found["records_out"]) == (3, 0, 30_000)
    assert found["seconds"] == pytest.approx(60 + 1000 * 0.005 * 3 / 8)
    assert found["executor_hours"] == pytest.approx(3 * found["seconds"] / 3600)
    assert (found["violation_share"], found["total_cost"], found["valid"]) == (0.0, found["executor_hours"], True)


def test_the_peak_is_scaled_to_what_the_job_can_carry():
    """The peak becomes 0.8 × 1600 = 1280/s; fewer than 8 executors carry no more than 800/s."""
    this = ready(case("ramp:1..10@3600", scaled=True))
    assert (round(this.load.peak, 6), round(this.capacities[8], 6)) == (1280.0, 1600.0)
    assert start_executors(JOB, this.load) == 1


def test_the_job_file_may_say_where_to_start():
    job = plain(partitions=8, start_executors=5)
    assert start_executors(job, ready(case("constant:500@60", job)).load) == 5


def test_a_policy_follows_a_rise_and_the_acts_are_kept_with_their_reasons():
    this = case("step:150..700@600,steps=2")
    run = simulate(JOB, ready(this).load, PolicySpec("reactive"), seed=1)
    assert (run.faults, run.drained, run.history.records_out) == ((), True, run.history.records_in)
    ups = [act for act in run.acts if act.before is not None and act.after > act.before]
    assert ups
    assert ups[0].at >= 300
    assert (ups[0].code, ups[0].outcome) == ("SLA_VIOLATED", OutcomeStatus.APPLIED)
    assert sum(held.count for held in run.holds.values()) + len(run.acts) == pytest.approx(run.seconds / 15, abs=2)


def test_a_job_that_can_never_keep_up_is_given_up_and_does_not_count():
    job = plain(partitions=1, executors=[1, 1])
    found = run_one(case("constant:2000@3600", job), PolicySpec("static"))
    assert found.score["valid"] is False
    assert found.faults == ("not all records were committed 25200 s after the start",)
    assert found.score["seconds"] == drain_limit_s(3600.0) == 7 * 3600.0


def test_the_same_seed_gives_the_same_run_and_another_one_another():
    job = plain(partitions=8, batch_noise_cv=0.2)
    one, two, other = (
        run_one(case("constant:500@300", job, seed=seed), PolicySpec("reactive")).score for seed in (1, 1, 2)
    )
    assert one == two
    assert one["lag_p95_s"] != other["lag_p95_s"]


def test_the_loop_gets_the_objective_the_bounds_and_the_period_of_the_job():
    found = settings_for(plain(decide_every_s=5.0), PolicySpec("reactive", options={"headroom": 0.8}))
    assert (found.objective, found.executors, found.sample_s, found.mode) == ("lag < 20s", (1, 8), 5.0, "act")
    assert found.policy_options == {"headroom": 0.8}


def test_policies_are_named_with_their_presets():
    found = parse_policy_specs("hpa, reactive:faithful,hpa", {"guard": {}}, {})
    assert [(each.label, each.policy, each.preset) for each in found] == [
        ("hpa", "hpa", None),
        ("reactive:faithful", "reactive", "faithful"),
    ]


def test_all_faults_of_policies_and_settings_come_at_once():
    wrong = [
        PolicySpec("reactiv", settings={"guard": {"cooldown_s": 1}}),
        PolicySpec("reactive", "faithfull", settings={"guard": {"cooldown_s": 1}}),
    ]
    faults = {fault.field: fault.message for fault in check_policy_specs(JOB, wrong)}
    assert faults["policy"].startswith("no such policy; did you mean 'reactive'? ")
    assert faults["policy_options.preset"] == "no such preset; did you mean 'faithful'?"
    assert set(faults) == {"policy", "policy_options.preset", "guard.cooldown_s"}


def test_an_unknown_policy_is_not_run():
    with pytest.raises(InputError):
        simulate(JOB, ready(case("constant:500@60")).load, PolicySpec("none"), seed=1)


def test_a_load_too_short_for_a_model_says_that_control_never_began():
    found = run_one(case("sine:100..400@600", scaled=True), PolicySpec("proactive"))
    assert found.unready is not None
    assert found.unready.startswith("control never began: a model needs 240 samples that count, ")
    assert run_one(case("sine:100..400@600", scaled=True), PolicySpec("reactive")).unready is None


def test_control_that_begins_is_not_reported_as_unready():
    options = {"check_every": 10, "learn_rows": 50, "resamples": 10, "stability_limit": 100.0}
    found = run_one(case("sine:100..700@7200,period=1200"), PolicySpec("proactive", options=options))
    assert "FORECAST" in found.holds
    assert found.unready is None


def test_a_model_without_samples_is_reported_as_unready():
    found = run_one(case("constant:10@15"), PolicySpec("mst"))
    told = "the model of what executors carry never began: no query has been at its limit, nor healthy for two batches"
    assert found.unready == told


def test_a_load_that_is_part_of_a_period_or_scaled_by_much_has_a_warning():
    """The peak becomes 1280/s."""
    assert ready(case("daily:1..5@3600", scaled=True)).load.said[1] == (
        "! daily:1..5@3600 covers only 3600 s of its period of 86400 s (0.042), perhaps without its lowest and highest "
        "rate"
    )
    assert ready(case("constant:1@600", scaled=True)).load.said[-1] == (
        "! the load is played 1,280 times as high as it was given, so that its peak is 80% of what 8 executors carry; "
        "--as-is leaves it as it is"
    )
    assert not any(text.startswith("!") for text in ready(case("daily:200..900@86400", scaled=True)).load.said)
    assert not any(text.startswith("!") for text in ready(case("constant:1@60")).load.said)


def test_events_that_the_optimum_leaves_out_are_named():
    events = [{"kind": "dead", "at_s": 5, "executor": 0}, {"kind": "garbage", "at_s": 9, "share": 0.5}]
    job = plain(partitions=8, events=events)
    said = ready(case("constant:1@60", job)).load.said
    assert said[-1] == "what makes the job slower is left out of the optimum and of the size of static: garbage"
