"""The data that training is judged on, and the judgements."""

import json
from itertools import pairwise

import numpy as np
import pytest

from rheostat.cli import main
from rheostat.research.bench import training as train
from rheostat.research.bench.training import FluidJob, bell, explore, read_recorded, simulate_samples, spoil, two_waves

pytestmark = pytest.mark.slow


def test_exploration_adds_one_after_a_violation_and_drops_the_next_240_seconds():
    rows = explore(FluidJob(), bell, 450, seed=1)
    changes = [(before, after) for before, after in pairwise(rows) if before.executors != after.executors]

    assert len(changes) >= 3
    for before, after in changes:
        assert after.at - before.at == 15.0 * 17
        assert (after.executors > before.executors) == (before.slow >= 0.1)
        assert abs(after.executors - before.executors) == 1


def test_exploration_is_the_same_for_the_same_seed():
    job = FluidJob(costs=(1.0, 10.0))

    assert explore(job, two_waves, 50, seed=4) == explore(job, two_waves, 50, seed=4)
    assert explore(job, two_waves, 50, seed=4) != explore(job, two_waves, 50, seed=5)
    assert {len(sample.workload) for sample in explore(job, two_waves, 50, seed=4)} == {2}


def test_what_is_spoiled_is_told():
    clean = explore(FluidJob(), bell, 450, seed=1)
    dirty, rows = spoil(clean, seed=2)

    assert {row for row in range(450) if dirty[row] != clean[row]} == rows
    assert 10 < len(rows) < 50
    for row in rows:
        assert dirty[row].slow >= clean[row].slow + 0.2 or dirty[row].workload != clean[row].workload


def test_a_simulated_run_gives_samples_that_are_not_of_a_change():
    rows = simulate_samples("ramp:1..6@1800", seed=1)

    assert len(rows) > 20
    assert len({sample.executors for sample in rows}) >= 3
    changes = [after.at - before.at for before, after in pairwise(rows) if before.executors != after.executors]
    assert min(changes) >= 60.0


CSV = """run,second,throughput,consumer_lag,task_managers
one,0,100,0,2
one,20,100,0,2
one,40,100,50,2
one,60,100,100,2.5
one,80,100,100,3
one,100,100,100,3
one,120,150,0,3
one,140,150,,3
"""


def test_recorded_runs_are_read(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text(CSV, encoding="utf-8")

    (rows,) = read_recorded(path).values()

    assert [(sample.at, sample.executors) for sample in rows] == [(20.0, 2), (40.0, 2), (100.0, 3)]
    assert [sample.workload[0] for sample in rows] == pytest.approx([107.5, 107.5, 85.0])
    assert [sample.slow for sample in rows] == pytest.approx([0.0, 150 / 2150, 300 / 1700])


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        pytest.param(["train", "--recorded", "no-such.csv"], "recorded", id="there is no file"),
        pytest.param(["decision", "--recorded", "runs.csv"], "recorded", id="another benchmark takes none"),
        pytest.param(["trian", "--recorded", "runs.csv"], "name", id="there is no such benchmark"),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_measured(arguments, field, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs.csv").write_text(CSV, encoding="utf-8")

    assert main(["bench", *arguments, "--json"]) == 2
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["faults"][0]["field"] == field


def test_the_rule_as_printed_passes_what_blocks_show_to_explode():
    fit = train._fit_degree(explore(FluidJob(), bell, 450, seed=1), 8)

    assert fit.literal < 0.05
    assert fit.blocks > 1
    assert fit.error > 0.05


def test_a_rule_is_judged_by_what_passes():
    lost = np.array([0.0, 0.05, 0.01, 0.5])

    wrong, well = train._rule("rule", [True, True, False, False], lost)
    assert (wrong.value, wrong.n, well.value, well.n) == (0.5, 2, 0.5, 2)
    none, _ = train._rule("rule", [False] * 4, lost)
    assert (none.value, none.n) == (None, 0)


def test_far_out_is_what_a_fit_leaves():
    rows = explore(FluidJob(), bell, 450, seed=1)

    assert any(rows[row].slow >= 0.1 for row in train._far_out(rows)), "the usual way takes violations for outliers"


def test_a_small_run_has_every_figure(monkeypatch):
    monkeypatch.setattr(train, "_SEEDS", range(1, 2))
    monkeypatch.setattr(train, "_SHAPES", ())
    monkeypatch.setattr(train, "_RUNS", 1)
    monkeypatch.setattr(train, "_DEGREES", (1, 8))
    said = []

    result = train.run_train(lambda *told: said.append(told), {"one": explore(FluidJob(), bell, 300, seed=7)})

    assert [told[:2] for told in said] == [(step, 7) for step in range(7)]
    figures = {metric.name: metric for metric in result.metrics}
    assert len(figures) == len(result.metrics)
    assert [name for name, metric in figures.items() if metric.target is not None] == [
        "training, both phases of the check, a prediction",
        "outliers: spoiled, error with the search ÷ without",
        "outliers: clean, error with the search ÷ without",
        "two topics: error by the vector ÷ by the sum",
    ]
    assert figures["outliers: spoiled, error with the search ÷ without"].met
    assert figures["two topics: error by the vector ÷ by the sum"].met
    assert figures["recorded: blocks ≤ 0.05: of those that pass, too wrong"].n > 0
    json.dumps(result.to_json(), allow_nan=False)
