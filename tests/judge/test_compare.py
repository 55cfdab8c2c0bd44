import json
import re
from dataclasses import replace

import pytest
from tests.sim.jobs import plain

from rheostat.judge.cases import Case, LoadSpec, PolicySpec, Treatment, load_job, ready
from rheostat.judge.compare import (
    Comparison,
    Entry,
    RunResult,
    compare,
    find_reference,
    variants_of,
    with_matrix,
)
from rheostat.judge.report import (
    comparison_json,
    load_tables,
    matrix_rows,
    portable_command,
    ranking_rows,
    section,
    simulate_verdict,
    verdict,
    write_comparison,
    write_simulation,
)
from rheostat.judge.request import RequestOptions, read_request
from rheostat.judge.simulate import start_executors
from rheostat.optimum.dynamic_program import problem_of
from rheostat.optimum.optimum import Optimum, optimum, timetable
from rheostat.sim.capacity import capacity, violation_weight

JOB = plain(partitions=8)
POLICIES = [PolicySpec("static"), PolicySpec("reactive"), PolicySpec("hpa")]


def case(shape, seed=1, label="plain"):
    return Case(JOB, label, LoadSpec(shape, shape=shape), seed, Treatment())


@pytest.fixture(scope="module")
def found():
    cases = [case("sine:1..6@900")] + [case("constant:2@300", seed) for seed in (1, 2)]
    return compare(cases, POLICIES, drawn=cases[:1])


def test_there_is_one_run_for_each_policy_load_and_seed_in_the_order_asked_for(found):
    runs = comparison_json(found)["runs"]
    assert [(run["policy"], run["trace"], run["seed"]) for run in runs] == [
        (policy, trace, seed)
        for trace, seed in (("sine:1..6@900", 1), ("constant:2@300", 1), ("constant:2@300", 2))
        for policy in ("static", "reactive", "hpa")
    ]
    assert all(run["valid"] and run["total_cost"] >= run["optimum_cost"] > 0 for run in runs)


@pytest.mark.slow
def test_any_number_of_processes_gives_the_same(found):
    once = Comparison(found.entries[1:])
    again = compare([entry.case for entry in once.entries], POLICIES, jobs=2)
    assert json.dumps(comparison_json(again)) == json.dumps(comparison_json(once))


def test_a_plan_with_a_margin_costs_more_than_the_optimum_and_less_than_static(found):
    """``static`` must always be ready for the peak."""
    entry = found.entries[0]
    assert entry.reached is not None
    reached, static = entry.reached.score["total_cost"], entry.runs[0].score["total_cost"]
    assert entry.optimum.cost < reached < static


def test_a_plan_is_executed_ahead_by_the_start_up_of_an_executor():
    """The fluid of the optimum has its executors at second 330 and pays 30 s more; a run must ask for them at 300."""
    job = plain(partitions=8, executor={"start_up": {"median_s": 30.0, "p95_s": 30.0}, "cold_task_s": 0.0})
    steps = Case(job, "slow start", LoadSpec("a step", shape="constant:1@300+constant:5@300"), 1, Treatment())
    load = ready(steps).load
    weight = violation_weight(job, load.peak)
    plan = timetable(optimum(problem_of(job, load.curve, start_executors(job, load), weight)))
    executed = find_reference(steps, drawn=True, reached=False).executed
    assert plan == [(0.0, 2), (330.0, 8)]
    assert executed.series is not None
    assert [(act.at, act.after) for act in executed.series.acts] == [(0.0, 2), (300.0, 8)]


def test_progress_is_reported_until_all_tasks_are_done(found):
    told = []
    compare([found.entries[2].case], POLICIES[:1], progress=lambda done, of, words: told.append((done, of, words)))
    assert told == [
        (1, 2, "optimum, constant:2@300 on plain, seed 2"),
        (2, 2, "static, constant:2@300 on plain, seed 2"),
    ]


# ----------------------------------------------------------------------------------------- made by hand


def best(cost=10.0, ones=0, twos=0):
    """An optimum whose plan has so many steps with one executor and with two; by default three at every step."""
    plan = (1,) * ones + (2,) * twos or (3,)
    return Optimum(cost, plan, 15.0, 0.001, 9.0, 6, 0.0)


def run(policy, cost, *, valid=True):
    figures = dict.fromkeys(
        [
            "lag_p95_s",
            "lag_max_s",
            "provisioning_accuracy_o",
            "provisioning_accuracy_u",
            "timeshare_o",
            "timeshare_u",
            "excess_time",
            "violation_share",
        ],
        0.0,
    )
    counted = {"executor_hours": cost, "reconfigurations": 0, "total_cost": cost, "seconds": 3600.0, "valid": valid}
    return RunResult({"policy": policy, **figures, **counted})


def made(*runs, label="plain", load="constant:1@60", **more):
    least = best(**more)
    executed = run("schedule", 14.0)
    executed = replace(executed, score={**executed.score, "optimum_cost": least.cost})
    return Entry(case(load, label=label), 4, 100.0, ("as it is",), least, executed).with_runs(runs)


def test_a_policy_that_undercuts_the_optimum_is_named():
    lucky = Comparison((made(run("a", 9.99), run("b", 10.0)),))
    assert lucky.undercuts == ["a, constant:1@60 on plain, seed 1"]
    assert comparison_json(lucky)["undercut"] == lucky.undercuts


def test_a_run_that_does_not_count_undercuts_nothing():
    assert made(run("cut off", 1.0, valid=False), run("b", 10.0)).undercut == ()


def test_a_load_that_needs_hardly_more_than_one_executor_is_shown_and_not_ranked():
    idle = Comparison(
        (made(run("a", 11.0), ones=71, twos=29), made(run("a", 12.0), load="constant:1@90", ones=7, twos=3))
    )
    assert [entry.ranked for entry in idle.entries] == [False, True]
    assert (idle.rankings[0].cases, round(idle.rankings[0].ranks[0].ratio or 0.0, 9)) == (1, 1.2)
    assert len(load_tables(idle)) == 2
    assert "not ranked: the optimum needs too few executors to leave anything to decide" in load_tables(idle)[0].notes


def test_a_case_whose_optimum_costs_nothing_is_noted_and_not_ranked():
    """Events that take executors away make as many changes free: a short load may then cost nothing at best."""
    free = made(run("a", 11.0), cost=0.0)
    free.runs[0].score["objective_s"] = 60.0
    notes = load_tables(Comparison((free,)))[0].notes
    assert "optimum 0.00 executor-h (exact to 0.00 executor-h)" in notes[1]
    assert notes[2] == "not ranked: the optimum costs nothing"
    assert simulate_verdict(free).endswith("a cost of 11.00, the optimum is 0.")


def test_without_a_ranked_case_no_policy_is_the_best():
    idle = Comparison((made(run("a", 11.0), ones=1),))
    assert (idle.rankings, ranking_rows(idle.rankings)) == ((), [])
    assert verdict(idle) == "No policy could be ranked: see below why."
    assert "No policy could be ranked" in section("compare", "by hand", idle)


def test_the_verdict_names_the_best_the_next_and_the_last():
    three = Comparison((made(run("a", 20.0), run("b", 11.0), run("c", 12.5)),))
    assert verdict(three) == (
        "b is cheapest over one case, at 1.100 × the clairvoyant optimum; c follows at 1.250, a is last at 2.000."
    )


def test_of_two_policies_the_second_is_named_once():
    two = Comparison((made(run("a", 20.0), run("b", 11.0)),))
    assert verdict(two) == "b is cheapest over one case, at 1.100 × the clairvoyant optimum; a follows at 2.000."


def test_policies_level_with_the_best_are_named_beside_it():
    level = Comparison((made(run("a", 11.0), run("b", 11.0)),))
    assert verdict(level) == "a is cheapest over one case, at 1.100 × the clairvoyant optimum, as is b."
    four = Comparison((made(run("a", 11.0), run("b", 20.0), run("c", 11.0), run("d", 11.0)),))
    assert verdict(four) == (
        "a is cheapest over one case, at 1.100 × the clairvoyant optimum, as are c and d; b follows at 2.000."
    )


def test_the_matrix_has_the_geometric_mean_of_each_job_and_of_all():
    entries = [
        made(run("a", 10.0), run("b", 20.0)),
        made(run("a", 40.0), run("b", 20.0, valid=False), label="slow"),
    ]
    cells = with_matrix(Comparison(tuple(entries))).cells
    assert cells is not None
    assert cells.jobs == ("plain", "slow")
    assert matrix_rows(cells) == [
        ["policy", "plain", "slow", "geometric mean"],
        ["a", "1.000", "4.000", "2.000"],
        ["b", "2.000", "–", "–"],
    ]


def test_the_matrix_varies_one_property_at_a_time():
    found = {each.label: each for each in variants_of("base", {}, Treatment())}
    assert list(found) == [
        "base",
        "heavier fixed part",
        "L 10 s",
        "start-up 30 s",
        "start-up 60 s",
        "start-up 180 s",
        "exponent 0.8",
        "uncapped",
        "batch noise 20 %",
        "ample start",
        "small start",
        "noise 20 %",
        "low rate",
        "spikes",
        "idle for hours",
        "two queries, one idle",
        "driver-bound",
    ], "L 60 s is missing: the base job has this objective already"
    ten = found["L 10 s"].job
    assert (ten.objective_s, ten.trigger_s, ten.period_s) == (10.0, 2.5, 5.0)
    slow = found["start-up 180 s"].job.executor.start_up
    assert (slow.median_s, slow.p95_s) == (180.0, 360.0)
    assert found["heavier fixed part"].job.driver.planning_s == pytest.approx(0.3 + 0.2 * 30)
    noisy = found["noise 20 %"]
    assert (noisy.treatment, noisy.job) == (Treatment(0.2, always_noisy=True), found["base"].job)
    assert [found[label].job.start_executors for label in ("base", "ample start", "small start")] == [None, 18, 2]
    assert found["uncapped"].job.batch_cap is None


def test_jobs_of_the_matrix_with_a_load_of_their_own_play_it_once_at_its_own_rates():
    request = read_request(RequestOptions(policy="static", shapes=["ramp:1..5@900", "constant:3@900"], matrix=True))
    played: dict[str, list[Case]] = {variant.label: [] for variant in request.variants}
    for case in request.cases:
        played[case.job_label].append(case)
    assert {label: len(cases) for label, cases in played.items() if len(cases) == 1} == dict.fromkeys(
        ("low rate", "spikes", "idle for hours", "two queries, one idle", "driver-bound"), 1
    )
    assert len(played["base"]) == len(played["uncapped"]) == 2
    own = [played[label][0] for label in played if len(played[label]) == 1]
    low, spikes, idle, two, driver = own
    assert {(case.treatment.scaled, case.treatment.ranked) for case in own} == {(False, True)}
    assert 3400 < low.load.curve(1).cumulative(3600.0) < 3800
    assert (two.job.beside, low.job.beside) == (("idle",), ())
    most = capacity(load_job("base"), 20)
    assert idle.load.curve(1).rate(600.0) == pytest.approx(0.28 * most, rel=1e-5)
    assert idle.load.curve(1).rate(3600.0 + 12_000.0) == 0.0
    assert spikes.load.curve(1).rate(3.0) == pytest.approx(1.75 * most, rel=1e-5)
    # one executor carries three times the load of the driver-bound job, in spite of 24 s of planning in batches of 30 s
    assert driver.job.driver.planning_s == 24.0
    assert driver.load.curve(1).rate(60.0) == pytest.approx(0.3 * capacity(driver.job, 1), rel=1e-5)


def test_a_job_without_a_batch_cap_has_no_uncapped_variant():
    assert "uncapped" not in {each.label for each in variants_of("base", {"batch_cap": None}, Treatment())}


def test_a_portable_command_has_no_folders_of_files():
    told = portable_command(["compare", "--trace", "/some/where/a.csv,../b.csv", "--page", "docs/benchmarks.md"])
    assert told == "rheostat compare --trace a.csv,b.csv --page docs/benchmarks.md"


# ----------------------------------------------------------------------------------------------- reports


def test_the_report_stands_alone_and_holds_every_table_and_reason(found, tmp_path):
    text = write_comparison(tmp_path / "report.html", found).read_text(encoding="utf-8")
    assert re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=", text) == []
    for expected in ("Rankings", "sine:1..6@900 on plain", "(plan with margin)", "SLA_VIOLATED", "How to read this"):
        assert expected in text
    assert text.count("Plotly.newPlot(") == 1, "one figure, for the case that was to be drawn"


def test_the_report_of_one_run_lists_every_change(found, tmp_path):
    entry = found.entries[0]
    reactive = replace(entry, runs=entry.runs[1:2])
    text = write_simulation(tmp_path / "report.html", reactive).read_text(encoding="utf-8")
    assert text.count("<td>applied</td>") == sum(act.outcome == "applied" for act in entry.runs[1].series.acts) > 0
