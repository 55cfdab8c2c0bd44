"""The benchmark of the rivals without a cluster: order, figures of journals, targets, page, and how it goes on."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from tests.judge.journals import journal as make_journal
from tests.judge.journals import write_known_journal

from rheostat.cli import main
from rheostat.config.loading import load_settings
from rheostat.errors import InputError, RheostatError
from rheostat.journal.records import DecisionRecord
from rheostat.journal.store import JournalWriter
from rheostat.model import Action, Assessment, Decision, Observation, Reason, ReasonCode, Recommendation
from rheostat.research.bench import rivals
from rheostat.research.bench.harness import Bench, section, update_page
from rheostat.research.bench.rivals import RIVALS, Rates, order_turns, run_rivals
from rheostat.research.bench.rivals_figures import (
    Curve,
    Figures,
    Finished,
    _start_of,
    compare_rankings,
    compare_with,
    draw_rivals,
    figures_of,
    means_table,
    rivals_bench,
    simulate_loads,
)

RATES = Rates(50.0, 500.0, 40.0, 0.5)


# The order and the plans


def test_a_round_goes_there_and_back_and_those_beside_run_once_in_the_middle():
    half = ["static", "dynamic-allocation", "reactive", "rheostat"]
    assert [turn.rival for turn in order_turns(["bursts"], 1)] == half + half[::-1]
    beside = ["dynamic-allocation-defaults", "mst", "router"]
    turns = order_turns(["demo", "day"], 2)
    assert [turn.rival for turn in turns if turn.load == "demo"] == 2 * (half + beside + half[::-1])
    assert len({turn.name for turn in turns}) == len(turns) == 22 + 16


@pytest.mark.parametrize("load", rivals.LOADS)
def test_every_load_begins_and_ends_low_and_stays_within_the_rates(load):
    plan = rivals._plan(rivals.Turn(load, 1, 1, "rheostat"), RATES)
    curve = plan.curve()
    seen = [curve.rate(second) for second in range(int(curve.duration))]
    assert seen[0] == seen[-1] == 50.0
    assert 250.0 <= max(seen) <= 500.0
    assert 120 <= plan.seconds <= 240


def test_all_rivals_have_the_same_load_pipeline_and_objective(tmp_path):
    plans = [rivals._plan(rivals.Turn("demo", 1, 1, rival), RATES) for rival in rivals.ALL]
    assert len({plan.load for plan in plans}) == 1
    assert len({str(plan.pipeline(tmp_path, "broker", "topic")) for plan in plans}) == 1
    settings = [load_settings(plan.settings(tmp_path)) for plan in plans]
    assert len({(each.objective, each.sample_s, str(each.guard)) for each in settings}) == 1


def test_reactive_runs_as_the_demo_runs_it_and_static_at_the_peak(tmp_path):
    found = {
        rival: rivals._plan(rivals.Turn("day", 1, 1, rival), RATES).settings(tmp_path)
        for rival in ("reactive", "static")
    }
    assert found["reactive"]["policy_options"] == {"wait_limit": 0.4, "settle_batches": 3}
    assert (found["static"]["executors"], found["static"]["policy_options"]) == ([6, 6], {"executors": 6})


@pytest.mark.parametrize("rival", ["dynamic-allocation", "dynamic-allocation-defaults"])
def test_rheostat_only_watches_what_spark_scales_itself(tmp_path, rival):
    plan = rivals._plan(rivals.Turn("day", 1, 1, rival), RATES)
    assert load_settings(plan.settings(tmp_path)).mode == "watch"
    assert plan.session_conf()["spark.dynamicAllocation.enabled"] == "true"


# Figures of one run


def cycle(at, executors, lag, backlog=100):
    seen = Assessment(at=at, executors=executors, requested=6, lag_s=lag, backlog=backlog)
    steady = Reason(ReasonCode.STEADY, "steady")
    decision = Decision(at, int(at), Action.HOLD, executors, 6, steady, Recommendation(None, steady))
    return DecisionRecord.of(Observation(at), seen, decision)


def test_only_registered_executors_count_from_the_begin_until_nothing_waits():
    records = [
        cycle(0.0, 1, 1.0),
        cycle(10.0, 1, 5.0),
        cycle(20.0, 3, 30.0),
        cycle(30.0, 2, 5.0),
        cycle(40.0, 2, 1.0, backlog=0),
        cycle(50.0, 6, 99.0),
    ]
    assert figures_of(records, 10.0, 35.0, 20.0) == Figures(
        seconds=30.0, executor_s=10 + 30 + 20, over=1 / 3, lag_p95_s=30.0, changes=2, executors_max=3
    )


def test_a_run_that_is_never_drained_counts_to_its_last_look():
    records = [cycle(float(at), 2, 25.0) for at in range(0, 101, 10)]
    assert figures_of(records, 0.0, 60.0, 20.0).seconds == 100.0


def test_what_was_not_seen_is_no_figure():
    with pytest.raises(RheostatError, match="lag_p95_s"):
        figures_of([cycle(0.0, 1, None), cycle(10.0, 1, None)], 0.0, 10.0, 20.0)


# Pairs, targets and rankings


def finished(rival, executor_s, over=0.0, *, load="demo", number=1, half=1, changes=0):
    figures = Figures(seconds=180.0, executor_s=executor_s, over=over, lag_p95_s=9.0, changes=changes, executors_max=6)
    return Finished(
        load=load, pair=(load, number, half), rival=rival, figures=figures, began=0.0, journal=Path("none"), busy=0.5,
        drained=True,
    )  # fmt: skip


def six(rival, costs, over=0.0):
    places = [(load, half) for load in rivals.LOADS for half in (1, 2)]
    return [finished(rival, cost, over, load=load, half=half) for cost, (load, half) in zip(costs, places, strict=True)]


def test_fewer_executor_seconds_at_no_more_time_over_meets_both_targets():
    runs = six("rheostat", [700, 690, 710, 705, 650, 660]) + six("reactive", [800, 790, 840, 800, 800, 760])
    ratio, more = compare_with(runs, "reactive")
    assert ratio.value == pytest.approx(0.86, abs=0.02)
    assert ratio.ci95 is not None
    assert ratio.ci95[1] < 1
    assert (ratio.met, ratio.n, more.value, more.met) == (True, 6, 0.0, True)


def test_a_ratio_whose_interval_reaches_one_is_missed():
    runs = six("rheostat", [700, 690, 710, 705, 900, 950]) + six("reactive", [800, 790, 800, 800, 800, 760])
    ratio, _ = compare_with(runs, "reactive")
    assert ratio.value is not None
    assert ratio.ci95 is not None
    assert ratio.value < 1 < ratio.ci95[1]
    assert ratio.met is False


def test_more_time_over_the_objective_is_missed():
    runs = six("rheostat", [700] * 6, over=0.01) + six("reactive", [800] * 6)
    assert [each.met for each in compare_with(runs, "reactive")] == [True, False]


def test_without_three_pairs_there_is_no_interval_and_no_target_is_met():
    runs = [finished("rheostat", 700.0), finished("reactive", 800.0), finished("static", 1000.0, half=2)]
    ratio, _ = compare_with(runs, "reactive")
    assert ratio.value == pytest.approx(0.875)
    assert (ratio.ci95, ratio.n, ratio.met) == (None, 1, False)
    assert [each.met for each in compare_with(runs, "dynamic-allocation")] == [False, False]
    assert [each.met for each in compare_with(runs, "static", judged=False)] == [None, None]


def simulated(**costs):
    return {("demo", rival): [finished(rival, cost).figures] for rival, cost in costs.items()}


def test_a_pair_counts_only_beyond_the_spread_of_equal_runs():
    runs = [finished("static", 1000.0, half=half) for half in (1, 2)]
    runs += [finished("rheostat", 600.0, half=1), finished("rheostat", 640.0, half=2)]
    runs += [finished("reactive", 630.0, half=1), finished("reactive", 610.0, half=2)]
    found = compare_rankings(runs, simulated(static=900.0, rheostat=700.0, reactive=650.0))
    assert found.told == (("demo", "rheostat", "static"), ("demo", "reactive", "static"))
    assert (found.unknown, found.otherwise) == (1, ())
    assert found.spread == pytest.approx(0.029, abs=0.002)
    upside_down = compare_rankings(runs, simulated(static=500.0, rheostat=700.0, reactive=450.0))
    assert upside_down.otherwise == (("demo", "rheostat", "static"),)


def test_without_equal_runs_no_pair_can_be_told_apart():
    runs = [finished("static", 1000.0), finished("rheostat", 100.0)]
    found = compare_rankings(runs, simulated(static=1.0, rheostat=2.0))
    assert (found.spread, found.told, found.unknown) == (None, (), 1)
    assert found.metrics()[0].value is None


def test_the_cost_has_a_price_for_changes_and_for_time_over_the_objective():
    assert finished("static", 700.0, over=0.5, changes=2).figures.cost(6.0) == 700 + 2 * 60 + 6 * 90


# The page and the plot


def test_the_table_has_the_means_of_equal_runs():
    runs = [finished("rheostat", 600.0, 0.1), finished("rheostat", 700.0, 0.0, half=2, changes=3)]
    header, row = means_table(runs, simulated(rheostat=640.0), "demo")
    assert dict(zip(header[1:], row[1:], strict=True)) == {
        "runs": "2",
        "executor-seconds": "650",
        "over the objective": "5.0%",
        "lag p95": "9.0 s",
        "changes": "1.5",
        "simulated: executor-seconds": "640",
    }


def test_the_page_has_the_tables_and_the_plot_beside_it(tmp_path):
    page = tmp_path / "docs" / "benchmarks.md"
    page.parent.mkdir()
    result = Bench("rivals", [], ["a note"], {"Means": [["", "cost"], ["static", "7"]]}, {"rivals.svg": "<svg/>"})
    update_page(page, result)
    assert "Means:\n\n|  | cost |\n|---|---|\n| static | 7 |\n" in page.read_text()
    assert "![rivals](rivals.svg)" in page.read_text()
    assert (page.parent / "rivals.svg").read_text() == "<svg/>"
    assert result.to_json()["tables"] == {"Means": [["", "cost"], ["static", "7"]]}


def test_the_plot_is_xml_with_a_line_for_each_rival_in_both_panels():
    curve = Curve(executors=[(0.0, 1.0), (90.0, 6.0)], lag=[(0.0, 2.0), (90.0, 24.0)])
    drawn = draw_rivals({"static": curve, "rheostat": curve}, "a < b", 20.0)
    picture = ElementTree.fromstring(drawn)  # noqa: S314
    texts = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"a < b", "static", "rheostat", "executors", "lag, s"} <= set(texts)
    lines = [each for each in picture.iter("{http://www.w3.org/2000/svg}path") if each.get("fill") == "none"]
    assert len(lines) == 1 + 2 * 2


# Runs, repeats, and going on


class Stage:
    """Plays plans without a cluster: the journal is that of a known simulated run."""

    def __init__(self, journal, *fails):
        self.journal, self.played, self.fails = journal, [], list(fails)

    def __call__(self, plan, folder, _say, _show):
        self.played.append(folder.name)
        if folder.name in self.fails:
            self.fails.remove(folder.name)
            raise RheostatError("the broker died")
        shutil.copytree(self.journal, folder / "journal")
        load = SimpleNamespace(go_at=10.0, seconds=45.0)
        machine = replace(plan, base_rate=40.0, peak_rate=400.0, rise_s=50.0) if folder.name == "sizing" else plan
        return SimpleNamespace(plan=machine, load=load, drained=True, score={"valid": True})


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    """A minute of a run on disk, made once."""
    session, *others = make_journal(shape="ramp:40..120@30+constant:60@30", steps=[[0, 1], [20, 3], [40, 2]])
    writer = JournalWriter(tmp_path_factory.mktemp("journal") / "journal", forced=False)
    writer.start(session.header)
    for record in others:
        writer.record(record, dict)
    writer.close()
    return writer.folder


@pytest.fixture
def unsimulated(monkeypatch):
    monkeypatch.setattr(rivals, "simulate_loads", lambda *_: "not here")


@pytest.mark.usefixtures("unsimulated")
def test_finished_runs_are_not_run_again(tmp_path, journal):
    stage = Stage(journal, *2 * ["bursts-1-2-rheostat"])
    with pytest.raises(RheostatError, match="the broker died"):
        run_rivals(loads=["bursts"], out=tmp_path, play=stage)
    assert stage.played[:2] == ["sizing", "bursts-1-1-static"]
    assert "reactive | 1 |" in (tmp_path / "rivals.md").read_text()
    first, again = len(stage.played), Stage(journal)
    result = run_rivals(loads=["bursts"], out=tmp_path, play=again)
    assert again.played == [f"bursts-1-2-{rival}" for rival in reversed(list(RIVALS))]
    assert first == 1 + 4 + 2
    assert {each.name: each.n for each in result.metrics}["time over the objective, rheostat − reactive"] == 2
    done = Stage(journal)
    run_rivals(loads=["bursts"], out=tmp_path, play=done)
    assert done.played == []


@pytest.mark.usefixtures("unsimulated")
def test_a_run_that_failed_is_said_and_repeated_once(tmp_path, journal):
    told, stage = [], Stage(journal, "day-1-1-reactive", "sizing")
    run_rivals(lambda *words: told.append(words[2]), loads=["day"], out=tmp_path, play=stage)
    assert stage.played.count("day-1-1-reactive") == stage.played.count("sizing") == 2
    assert "day-1-1-reactive failed and is repeated: the broker died" in told


@pytest.mark.usefixtures("unsimulated")
def test_a_run_whose_records_are_lost_is_no_figure(tmp_path, journal):
    def lose(plan, folder, say, show):
        return SimpleNamespace(
            **{**vars(Stage(journal)(plan, folder, say, show)), "score": {"valid": folder.name == "sizing"}}
        )

    with pytest.raises(RheostatError, match="day-1-1-static: the sink does not hold"):
        run_rivals(loads=["day"], out=tmp_path, play=lose)
    assert not (tmp_path / "day-1-1-static" / "run.json").exists()


@pytest.mark.usefixtures("unsimulated")
def test_a_folder_with_runs_under_another_load_is_refused(tmp_path, journal):
    run_rivals(loads=["day"], out=tmp_path, play=Stage(journal))
    kept = json.loads((tmp_path / "rates.json").read_text())
    (tmp_path / "rates.json").write_text(json.dumps({**kept, "peak": 999.0}))
    with pytest.raises(InputError, match="run under another load"):
        run_rivals(loads=["day"], out=tmp_path, play=Stage(journal))


@pytest.mark.usefixtures("unsimulated")
def test_more_rounds_go_on_with_the_first_one(tmp_path, journal):
    run_rivals(loads=["day"], out=tmp_path, play=Stage(journal))
    stage = Stage(journal)
    result = run_rivals(loads=["day"], rounds=2, out=tmp_path, play=stage)
    assert len(stage.played) == 8
    assert result.metrics[0].n == 4
    assert "rivals.svg" in result.pictures
    assert "## rivals" in section(result)


@pytest.mark.slow
def test_the_same_loads_are_simulated_with_the_settings_of_the_runs(tmp_path):
    write_known_journal(tmp_path / "journal")
    run = replace(finished("reactive", 700.0), journal=tmp_path / "journal")
    found = simulate_loads([run], {"demo": "ramp:50..300@40+constant:50@20"}, (1, 6))
    assert not isinstance(found, str)
    (figures, *others) = found["demo", "reactive"]
    assert len(others) == 2
    assert figures.executor_s >= figures.seconds * 0.99
    result = rivals_bench([run], found, {"demo": "ramp:50..300@40+constant:50@20"}, ())
    assert math.isfinite(float(result.tables["Means of equal runs under the load demo"][1][-1].replace(",", "")))


def test_the_simulated_run_begins_with_the_executors_of_the_real_one(tmp_path):
    write_known_journal(tmp_path / "journal")
    run = replace(finished("dynamic-allocation", 700.0), journal=tmp_path / "journal")
    assert [_start_of(replace(run, began=second)) for second in (5.0, 75.0, 115.0)] == [1, 2, 3]


def test_a_job_that_cannot_be_fitted_is_said(tmp_path):
    write_known_journal(tmp_path / "journal")
    lines = (tmp_path / "journal").glob("*.jsonl")
    for file in lines:
        file.write_text("".join(file.read_text().splitlines(keepends=True)[:12]))
    run = replace(finished("reactive", 700.0), journal=tmp_path / "journal")
    found = simulate_loads([run], {"demo": "constant:50@20"}, (1, 6))
    assert isinstance(found, str)


# The command


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        (["rivals", "--load", "demo,bursst", "--rounds", "0"], {"load", "rounds"}),
        (["rivals", "--load", ","], {"load"}),
        (["rivals", "--out", "/dev/null"], {"out"}),
        (["train", "--load", "demo", "--rounds", "2", "--out", "x"], {"load", "rounds", "out"}),
    ],
    ids=["a mistyped load, no round", "no load", "a device", "another benchmark"],
)
def test_every_wrong_option_is_named_before_anything_runs(capsys, arguments, fields):
    assert main(["bench", *arguments]) == 2
    said = capsys.readouterr().err
    assert all(field in said for field in fields)


def test_the_command_passes_its_options_on(tmp_path, monkeypatch):
    asked = {}

    def run(_watch, **options):
        asked.update(options)
        return Bench("rivals", [], tables={"Means": [["", "cost"], ["static", "7"]]})

    monkeypatch.setattr(rivals, "run_rivals", run)
    assert main(["bench", "rivals", "--load", "day,demo", "--rounds", "2", "--out", str(tmp_path)]) == 0
    assert asked == {"loads": ["day", "demo"], "rounds": 2, "out": tmp_path}
