"""The experiments of S1: the parts that they are made of, on runs of minutes."""

import json

import pytest

from rheostat.cli import main
from rheostat.judge.experiments.page import rows_of, write_experiment
from rheostat.judge.experiments.results import Experiment, Part, Result
from rheostat.judge.experiments.s1 import modes
from rheostat.judge.experiments.s1_setting import INTERVAL_S, SLA, bell, settings, the_job, world_cup
from rheostat.judge.experiments.trial import Look, Trial, run
from rheostat.load.curves import Pieces
from rheostat.model import Code
from rheostat.plan.proactive import ProactiveState


def look(number: int, code: Code, counts: bool = True, **more: float) -> Look:
    values = {"executors": 1, "target": 1, "slow": 0.0, **more}
    figures = {"residual": 0.01} if code is Code.FORECAST else {}
    return Look(
        5.0 * number, 100.0, int(values["executors"]), values["slow"], counts, code, int(values["target"]), figures
    )


@pytest.fixture(scope="module")
def trial() -> Trial:
    """After the hold of the start, 1000/s rise to 2000/s within five minutes; one executor carries 1300/s."""
    load = Pieces([(0.0, 1000.0), (300.0, 1000.0), (600.0, 2000.0), (700.0, 2000.0)])
    chosen = settings("proactive:faithful", 5.0, explore_every_s=5.0)
    return run(the_job(), load, chosen, executors=1, seed=1, interval_s=INTERVAL_S)


class TestATrial:
    def test_it_has_a_row_for_each_look_but_those_without_executors(self, trial):
        assert [each.at for each in trial.looks] == [5.0 * number for number in range(141)]
        assert trial.failures == 0

    def test_the_step_up_follows_the_first_violation(self, trial):
        ups = [each for each in trial.looks if each.target > each.executors]
        first = next(each for each in trial.counted if each.slow is not None and each.slow >= SLA)
        assert [(each.at, each.executors, each.target, each.code) for each in ups] == [
            (first.at, 1, 2, Code.SLA_VIOLATED)
        ]
        assert 390.0 < first.at < 450.0  # the capacity is met at 390 s

    def test_the_hold_of_240_s_after_it_does_not_count(self, trial):
        up = next(each.at for each in trial.looks if each.target > each.executors)
        assert [each.at for each in trial.counted if up < each.at <= up + 240] == []
        counted = [each.executors for each in trial.counted]
        assert {1, 2} == set(counted)
        assert trial.violations(SLA) == 1
        assert trial.executors_per_sample == sum(counted) / len(counted)

    def test_it_ends_with_what_the_policy_knows(self, trial):
        assert isinstance(trial.policy, ProactiveState)
        assert trial.rows == trial.policy.data.rows
        assert len(trial.rows) == len(trial.counted)


def test_modes_in_their_order():
    codes = [Code.STEADY, Code.SLA_VIOLATED, Code.FORECAST, Code.FORECAST, Code.CHANGE_POINT, Code.STEADY]
    looks = tuple(look(number, code) for number, code in enumerate(codes))
    held = look(9, Code.METRICS_MISSING, counts=False)
    found = modes(Trial((looks[0], held, *looks[1:]), None, (), 0))
    assert found == [(1, "exploration"), (3, "control"), (5, "change point"), (6, "exploration")]


def test_an_answer_to_a_violation_in_control_is_no_exploration():
    caught = look(3, Code.SLA_VIOLATED)._replace(figures={"residual": 0.2})
    looks = (look(1, Code.STEADY), look(2, Code.FORECAST), caught, look(4, Code.FORECAST))
    assert modes(Trial(looks, None, (), 0)) == [(1, "exploration"), (2, "control")]


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
    }


def test_the_page_has_each_statement_and_the_plots(tmp_path, trial):
    found = Experiment("s1", [Part("5.3: control", [RESULT], {"ours": trial}), Part("5.5", [RESULT])])
    text = write_experiment(tmp_path / "report.html", found).read_text(encoding="utf-8")
    assert "2 of 2 statements" in text
    assert all(words in text for words in ("1.79 v 1.83", "Slow records, a share", "5.3: control"))
    assert len(rows_of(found)) == 3


def test_every_fault_of_the_command_is_named(capsys, tmp_path):
    missing = tmp_path / "none.csv"
    arguments = ["experiment", "s9", "--part", "5.3,9", "--seed", "1,2", "--trace", str(missing), "--json"]
    assert main(arguments) == 2
    faults = json.loads(capsys.readouterr().out.splitlines()[-1])["faults"]
    assert [fault["field"] for fault in faults][:3] == ["name", "part", "seed"]
    assert len(faults) == 4
    assert "none.csv" in json.dumps(faults[3])
