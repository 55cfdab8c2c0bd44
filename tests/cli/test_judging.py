import json

import pytest

from rheostat.cli import main
from rheostat.cli.common import show_rows, show_table
from rheostat.judge.report import table_of

pytestmark = pytest.mark.slow

SHORT = ["--shape", "constant:5@120"]


def last_json(capsys):
    return json.loads(capsys.readouterr().out.strip().splitlines()[-1])


def test_simulate_prints_a_score_and_writes_a_report(tmp_path, capsys):
    assert main(["simulate", "--policy", "static", *SHORT, "--seed", "4", "--out", str(tmp_path), "--json"]) == 0
    score = last_json(capsys)
    assert (score["schema"], score["engine"], score["policy"], score["seed"]) == (
        "rheostat.score/1",
        "sim",
        "static",
        4,
    )
    assert score["valid"] is True
    assert json.loads((tmp_path / "score.json").read_text()) == score
    assert score["holds"]["FIXED"]["text"] in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "static, constant:5@120 on base, seed 4" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_simulate_leaves_a_journal_that_is_explained_and_replayed(tmp_path, capsys):
    journal = str(tmp_path / "journal")
    assert main(["simulate", *SHORT, "--journal", journal, "--json"]) == 0
    assert last_json(capsys)["valid"] is True
    assert main(["replay", journal, "--json"]) == 0
    replayed = last_json(capsys)
    assert (replayed["identical"], replayed["decisions"]) == (10, 10)
    assert main(["explain", journal, "--json"]) == 0
    told = last_json(capsys)
    assert (told["from"], told["to"], told["decisions"]) == (0.0, 135.0, 10)
    assert main(["simulate", *SHORT, "--policy", "ractive", "--journal", journal, "--json"]) == 2
    assert {fault["field"] for fault in last_json(capsys)["faults"]} == {"policy", "journal"}


def test_simulate_shows_why_nothing_was_changed(capsys):
    options = [
        "--policy",
        "reactive",
        "--shape",
        "constant:6000@1200",
        "--as-is",
        "--set",
        "job.sink.records_per_s=3000",
    ]
    main(["simulate", *options, "--json"])
    held = last_json(capsys)["holds"]["SICK_SINK"]
    assert held["count"] > 10
    assert "the sink is sick" in held["text"]


def test_simulate_shows_where_executors_are_on_a_job_with_nodes(capsys):
    options = ["--job", "gesscale", "--policy", "static", "--shape", "constant:100@180", "--as-is"]
    assert main(["simulate", *options, "--json"]) == 0
    captured = capsys.readouterr()
    score = json.loads(captured.out.strip().splitlines()[-1])
    [placed] = score["placements"]
    assert placed == {"at": 0.0, "before": 2, "after": 2, "use": ["n1", "n5"], "add": [], "leave": [], "slow": []}
    assert "2 → 2" in captured.err
    assert "n1, n5" in captured.err


def test_compare_prints_one_score_a_policy_and_updates_a_page(tmp_path, capsys):
    page = tmp_path / "page.md"
    assert main(["compare", "--policy", "static,reactive", *SHORT, "--page", str(page), "--jobs", "1", "--json"]) == 0
    shown = last_json(capsys)
    assert shown["schema"] == "rheostat.compare/1"
    assert [run["policy"] for run in shown["runs"]] == ["static", "reactive"]
    assert page.read_text(encoding="utf-8").count("\n## compare\n") == 1


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        pytest.param(["simulate"], {"trace"}, id="simulate without a load"),
        pytest.param(["simulate", "--policy", "hpa,keda", *SHORT], {"policy"}, id="two policies for one run"),
        pytest.param(
            ["compare", "--policy", "reactiv", "--sort", "coast", "--jobs", "0", "--trace", "none.csv"],
            {"policy", "sort", "jobs", "trace"},
            id="policy, column, processes and trace",
        ),
        pytest.param(["compare", *SHORT, "--set", "job.triger_s=5"], {"triger_s"}, id="an unknown key of the job"),
        pytest.param(["compare", *SHORT, "--worst-case"], {"shape"}, id="a load beside a search for loads"),
    ],
)
def test_wrong_input_ends_with_two_and_names_every_fault(arguments, fields, capsys):
    assert main([*arguments, "--json"]) == 2
    shown = last_json(capsys)
    assert {fault["field"] for fault in shown["faults"]} == fields
    assert all(fault["given"] and fault["allowed"] for fault in shown["faults"])


@pytest.mark.parametrize("command", ["simulate", "compare"])
def test_a_report_that_cannot_be_written_is_a_fault_before_anything_runs(command, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("rheostat.judge.compare.compare", lambda *_, **__: pytest.fail("it was run"))
    (tmp_path / "file").write_text("")
    assert main([command, *SHORT, "--out", str(tmp_path / "file"), "--seed", "x", "--json"]) == 2
    assert {fault["field"] for fault in last_json(capsys)["faults"]} == {"out", "seed"}


def score(cost):
    names = ["executor_hours", "reconfigurations", "violation_share", "lag_p95_s", "lag_max_s", "excess_time"]
    names += ["provisioning_accuracy_o", "provisioning_accuracy_u", "timeshare_o", "timeshare_u"]
    return {**dict.fromkeys(names, 0.0), "total_cost": cost, "optimum_cost": 1.0, "valid": True}


def test_a_narrow_terminal_gets_fewer_columns_and_a_note(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    show_table("title", table_of({"a": [score(2.0)], "b": [score(3.0)]}, {}), ["a note"])
    text = capsys.readouterr().err
    assert "2.000" in text
    assert "excess" not in text
    assert "a note" in text
    assert "more columns on a wider terminal" in text


def test_a_file_gets_every_column(monkeypatch, capsys):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    show_table("title", table_of({"a": [score(2.0)]}, {}), [])
    text = capsys.readouterr().err
    assert "excess time" in text
    assert "2.00*" in text


def test_words_in_brackets_are_shown_as_they_are(capsys):
    show_rows("title", [["policy", "why"], ["a", "[bold]"]])
    assert "[bold]" in capsys.readouterr().err
