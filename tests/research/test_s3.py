"""The scenarios of Stream Economics: what they show, and that what they show can be missed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rheostat.cli import main
from rheostat.decide.qod import QodPlan, Readings
from rheostat.decide.qod_model import Place, edge_shares
from rheostat.research.papers import s3
from rheostat.research.papers.s3 import STATEMENTS, Run, Scenario, play
from rheostat.research.papers.s3_rivals import balance_sic, shed_at_random

_SCENARIOS = {"1": s3.scenario_1, "2": s3.scenario_2, "3": s3.scenario_3, "4": s3.scenario_4}


def keep_half(scenario: Scenario) -> Run:
    """A controller that lets every sink have half of its records, whatever happens."""
    graphs = {name: app.graph for name, app in scenario.apps.items()}
    desired = {Place(name, sink): 0.5 for name, graph in graphs.items() for sink in graph.sinks}
    keep = {name: edge_shares(graph, dict.fromkeys(graph.sinks, 0.5)) for name, graph in graphs.items()}

    def decide(_readings: Readings) -> QodPlan:
        return QodPlan(desired, keep)

    return Run(scenario, play(scenario, decide=decide))


@pytest.mark.parametrize(
    "missed",
    ["1 order", "1 moves", "1 promises", "2 KNN", "2 sinks", "2 move", "3 correlation", "3 lag", "4 lag", "4 spikes"],
)
def test_a_controller_that_does_not_look_is_found_out(missed):
    part = missed[0]
    scenario = _SCENARIOS[part](1)
    if part == "3":
        scenario = replace(scenario, seconds=300.0)
    run = keep_half(scenario)
    (statement,) = (each for each in STATEMENTS[part] if each.id == missed)
    constant_accuracy = missed == "3 correlation"
    if constant_accuracy:
        with pytest.raises(Exception, match="constant"):  # one accuracy correlates with nothing
            statement.check({"with shedding": run, "without": run})
    else:
        assert not statement.check({"with shedding": run, "without": run})[0]


def test_the_command_prints_every_statement_and_writes_the_page(tmp_path, capsys):
    assert main(["experiment", "s3", "--part", "4,fairness", "--seed", "1", "--out", str(tmp_path), "--json"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["schema"] == "rheostat.experiment/1"
    assert {each["id"]: each["holds"] for each in result["results"]} == {
        statement.id: True for part in ("4", "fairness") for statement in STATEMENTS[part]
    }
    assert "Accuracy of the sinks" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_failures_and_a_controller_that_is_away_lose_no_record_and_break_no_promise_for_long():
    runs = {"with shedding": Run(scenario := s3.kills_scenario(7), play(scenario))}
    assert all(statement.check(runs)[0] for statement in STATEMENTS["kills"])


def test_rivals_share_what_there_is_and_know_no_promise():
    scenario = replace(s3.fairness_scenario(3), seconds=60.0)
    graphs = {name: app.graph for name, app in scenario.apps.items()}
    for rival in (shed_at_random, balance_sic):
        run = Run(scenario, play(scenario, decide=rival(graphs)))
        assert run.cycles[-1].plan is not None
        shares = list(run.cycles[-1].plan.desired.values())
        assert max(shares) - min(shares) < 0.05
        assert shares[0] == pytest.approx(0.5, abs=0.05)  # the machines carry half
        early, last = (max(run.cycles[place].lag_s.values()) for place in (3, -1))
        assert last < early + 0.5  # it does not grow; neither works off what waits
