"""The experiments of S1: the parts that they are made of, on runs of minutes."""

import json
from dataclasses import replace

import pytest

from rheostat.cli import main
from rheostat.learn.slow_records import LoadRange, Polynomial, SlowModel
from rheostat.load.curves import Pieces
from rheostat.model import ReasonCode
from rheostat.policies.proactive import ProactiveState
from rheostat.research.papers.results import (
    Experiment,
    Part,
    Result,
    SeedResult,
    judge_seeds,
    rows_of,
    write_experiment,
)
from rheostat.research.papers.s1 import (
    SLA,
    Cost,
    Costs,
    Cycle,
    LoopTask,
    Trial,
    bell,
    cost_results,
    count_alarms,
    measure_loop,
    modes,
    part_of,
    run,
    settings,
    world_cup,
)


def cycle(number: int, code: ReasonCode, counts: bool = True, **more: float) -> Cycle:
    values = {"executors": 1, "target": 1, "slow": 0.0, **more}
    figures = {"residual": 0.01} if code is ReasonCode.FORECAST else {}
    return Cycle(
        5.0 * number, 100.0, int(values["executors"]), values["slow"], counts, code, int(values["target"]), figures
    )


@pytest.fixture(scope="module")
def trial() -> Trial:
    """After the hold of the start, 1000/s rise to 2000/s within five minutes; one executor carries 1300/s."""
    load = Pieces([(0.0, 1000.0), (300.0, 1000.0), (600.0, 2000.0), (700.0, 2000.0)])
    chosen = settings("proactive:faithful", 5.0, explore_every_s=5.0)
    return run(load, chosen, seed=1)


class TestATrial:
    def test_it_has_a_row_for_each_look_but_those_without_executors(self, trial):
        assert [each.at for each in trial.cycles] == [5.0 * number for number in range(141)]
        assert trial.failures == 0

    def test_the_step_up_follows_the_first_violation(self, trial):
        ups = [each for each in trial.cycles if each.target > each.executors]
        first = next(each for each in trial.counted if each.slow is not None and each.slow >= SLA)
        assert [(each.at, each.executors, each.target, each.code) for each in ups] == [
            (first.at, 1, 2, ReasonCode.SLA_VIOLATED)
        ]
        assert 390.0 < first.at < 450.0  # the capacity is met at 390 s

    def test_the_hold_of_240_s_after_it_does_not_count(self, trial):
        up = next(each.at for each in trial.cycles if each.target > each.executors)
        assert [each.at for each in trial.counted if up < each.at <= up + 240] == []
        counted = [each.executors for each in trial.counted]
        assert {1, 2} == set(counted)
        assert trial.violations(SLA) == 1
        assert trial.executors_per_sample == sum(counted) / len(counted)

    def test_it_ends_with_what_the_policy_knows(self, trial):
        assert isinstance(trial.policy, ProactiveState)
        assert trial.samples == trial.policy.data.rows
        assert len(trial.samples) == len(trial.counted)


def test_modes_in_their_order():
    codes = [
        ReasonCode.STEADY,
        ReasonCode.SLA_VIOLATED,
        ReasonCode.FORECAST,
        ReasonCode.FORECAST,
        ReasonCode.CHANGE_POINT,
        ReasonCode.STEADY,
    ]
    cycles = tuple(cycle(number, code) for number, code in enumerate(codes))
    held = cycle(9, ReasonCode.METRICS_MISSING, counts=False)
    found = modes(Trial((cycles[0], held, *cycles[1:]), None, (), 0))
    assert found == [(1, "exploration"), (3, "control"), (5, "change point"), (6, "exploration")]


def test_an_answer_to_a_violation_in_control_is_no_exploration():
    caught = cycle(3, ReasonCode.SLA_VIOLATED)._replace(figures={"residual": 0.2})
    cycles = (cycle(1, ReasonCode.STEADY), cycle(2, ReasonCode.FORECAST), caught, cycle(4, ReasonCode.FORECAST))
    assert modes(Trial(cycles, None, (), 0)) == [(1, "exploration"), (2, "control")]


def test_the_time_over_the_sla_has_the_samples_of_holds():
    """Over it from 5 to 15 s, of which the second half is a hold, and at 20 s, from where on nothing is known."""
    slow = (0.0, 0.1, 0.3, 0.09, 0.2)
    cycles = [cycle(number, ReasonCode.STEADY, number != 2, slow=share) for number, share in enumerate(slow)]
    found = Trial(tuple(cycles), None, (), 0)
    assert (found.late_s, found.violations(SLA)) == (10.0, 2)


def test_without_the_model_what_it_says_does_not_count():
    """A model of which every load is a violation on one executor; 500/s are well within the capacity."""
    always = Polynomial(degree=1, centers=(0.0, 0.0), scales=(1.0, 1.0), coefficients=(1.0, 0.0, 0.0))
    model = SlowModel(always, (1.0,), (LoadRange(1, 0.0, 1e4),), w_max=1300.0, top=1.0, objective=SLA)
    begin = ProactiveState(mode="control", model=model)
    load, chosen = Pieces([(0.0, 500.0), (400.0, 500.0)]), settings("proactive:faithful", 5.0)
    with_it, without = (run(load, chosen, 1, begin, without_model=without) for without in (False, True))
    assert max(each.target for each in with_it.cycles) == 2
    assert max(each.target for each in without.cycles) == 1


@pytest.mark.slow
def test_a_healthy_day_has_no_alarm_but_with_any_difference_as_a_residual():
    """Two days of an hour and a half each."""
    options, shape = {"check_every": 100}, "daily:1..5@10800,period=5400"
    ours = count_alarms(1, options, shape)
    assert ours.in_control > 300
    assert ours.number == 0
    assert count_alarms(1, {**options, "one_sided": False}, shape).number > 0


def test_the_bell_is_as_high_and_as_long_as_the_document_says():
    load = bell(4500, 5 * 3600, None, 1)
    assert load.duration == 18_000
    assert load.cumulative(18_000) == pytest.approx(4500 * 3000 * (2 * 3.14159) ** 0.5, rel=0.02)


def test_without_a_trace_there_is_a_stand_in_of_three_hours():
    assert world_cup(None, 1).duration == 3 * 3600


def test_a_short_trace_is_taken_whole(tmp_path):
    trace = tmp_path / "short.csv"
    trace.write_text("second,events_per_second\n" + "".join(f"{60 * n},{100 + n}\n" for n in range(30)))
    assert world_cup(trace, 1).duration == 1800


RESULT = Result("5.3 x", "it holds", "1.79 v 1.83", "1.81 v 1.84", holds=True, why="for a reason")


def test_the_json_is_as_the_design_has_it():
    found = Experiment("s1", [Part("5.3", [RESULT])]).to_json()
    assert found == {
        "schema": "rheostat.experiment/1",
        "name": "s1",
        "results": [
            {
                "id": "5.3 x",
                "statement": "it holds",
                "ours": "1.79 v 1.83",
                "document": "1.81 v 1.84",
                "holds": True,
                "why": "for a reason",
            }
        ],
        "seeds": [1],
        "by_seed": [],
        "notes": [],
    }


@pytest.mark.parametrize(("held", "holds"), [(5, True), (4, True), (3, False), (0, False)])
def test_a_statement_holds_over_seeds_if_it_does_with_four_of_five(held, holds):
    seen = [SeedResult(seed, "2", seed <= held) for seed in range(1, 6)]
    found = judge_seeds(RESULT, seen)
    assert (found.holds, found.ours) == (holds, f"1.79 v 1.83; in {held} of 5 seeds")
    listed = Experiment("s1", [Part("5.3", [found])], (1, 2, 3, 4, 5)).to_json()
    assert listed["seeds"] == [1, 2, 3, 4, 5]
    assert listed["by_seed"][4] == {"id": "5.3 x", "seed": 5, "ours": "2", "holds": held == 5}


def test_one_seed_speaks_for_itself():
    found = judge_seeds(RESULT, [SeedResult(7, "1.80 v 1.79", holds=False)])
    assert (found.ours, found.holds, found.by_seed) == ("1.80 v 1.79", False, ())


def test_what_a_loop_takes_is_measured_without_the_simulated_job():
    load = Pieces([(0.0, 1000.0), (300.0, 1000.0)])
    cost = measure_loop(LoopTask(settings("proactive:faithful", 15.0), load, 1, None))
    assert cost.share == pytest.approx(cost.seconds * 21 / 300)
    assert 0 < cost.seconds < 15
    assert cost.memory_mb > 10
    assert cost.bytes_s > 0


def test_a_cost_above_that_of_the_document_does_not_hold():
    quiet, learned = Cost(0.002, 0.0001, 100.0, 200.0), Cost(0.01, 1.0, 110.0)
    found = cost_results(Costs(quiet, learned, learned, quiet._replace(bytes_s=600.0)))
    assert [each.holds for each in found] == [True] * 5
    assert [each.ours for each in found] == [
        "0.002 s at 0.01 % CPU, 100 MB",
        "0.010 s at 100 % CPU, 110 MB",
        "0.010 s at 100 % CPU, 110 MB",
        "0.002 s at 0.01 % CPU, 100 MB",
        "0.20 and 0.60 KB/s",
    ]
    dear = quiet._replace(share=0.04, bytes_s=3000.0)
    found = cost_results(Costs(dear, learned._replace(seconds=61.0), learned._replace(memory_mb=150.0), dear))
    assert [each.holds for each in found] == [False] * 5


def test_the_page_has_each_statement_and_the_plots(tmp_path, trial):
    found = Experiment("s1", [part_of("5.3: control", [RESULT], {"ours": trial}, 1), Part("5.5", [RESULT])])
    text = write_experiment(tmp_path / "report.html", found).read_text(encoding="utf-8")
    assert "2 of 2 statements" in text
    assert all(words in text for words in ("1.79 v 1.83", "Slow records, a share", "5.3: control"))
    assert len(rows_of(found)) == 3


def test_what_never_began_in_a_run_is_told_on_the_page_and_in_json(tmp_path, trial):
    quiet = replace(trial, unready="control never began: a model needs 450 samples that count, 12 did")
    trials = {"ours": replace(trial, unready=None), "short": quiet}
    found = Experiment("s1", [part_of("5.3: control", [RESULT], trials, 1)])
    told = "5.3: control, short: control never began: a model needs 450 samples that count, 12 did"
    assert found.to_json()["notes"] == [told]
    assert told in write_experiment(tmp_path / "report.html", found).read_text(encoding="utf-8")


def test_the_page_says_which_seeds_and_has_figure_36(tmp_path, trial):
    seen = judge_seeds(RESULT, [SeedResult(3, "1.70 v 1.80", holds=True), SeedResult(8, "1.90 v 1.80", holds=False)])
    part = part_of("5.4", [seen], {"ours": trial, "unknown": replace(trial, policy=None)}, 3, shares=True)
    text = write_experiment(tmp_path / "report.html", Experiment("s1", [part], (3, 8))).read_text(encoding="utf-8")
    assert all(words in text for words in ("Seeds: 3, 8.", "Plotted: seed 3.", "1.90 v 1.80 (no)"))
    assert trial.w_max == pytest.approx(1300, rel=0.1)
    assert "ours (figure 36)" in text
    assert "unknown (figure 36)" not in text


def test_every_fault_of_the_command_is_named(capsys, tmp_path):
    missing = tmp_path / "none.csv"
    arguments = ["experiment", "s9", "--part", "5.3,9", "--seed", "x", "--jobs", "0", "--trace", str(missing), "--json"]
    assert main(arguments) == 2
    faults = json.loads(capsys.readouterr().out.splitlines()[-1])["faults"]
    assert [fault["field"] for fault in faults][:4] == ["name", "part", "seed", "jobs"]
    assert len(faults) == 5
    assert "none.csv" in json.dumps(faults[4])
