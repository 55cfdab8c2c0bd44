"""One table defines every figure: what is printed and what is defined are the same names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rheostat.cli import main
from rheostat.journal.store import read_journal
from rheostat.judge.report import COLUMNS
from rheostat.report.html import FIGURES, OF_COMMANDS, WHERE, figure_rows, figures_page
from rheostat.report.replay import replay_score
from rheostat.report.score import EVERY_SCORE, RunFacts, score

PAGE = Path(__file__).parents[2] / "docs" / "figures.md"


def printed(capsys, *arguments):
    main([*arguments, "--json"])
    captured = capsys.readouterr()
    return json.loads(captured.out.strip().splitlines()[-1]), captured.err


def test_the_page_in_docs_is_not_stale():
    told = "run: rheostat config reference --figures --out docs/figures.md"
    assert PAGE.read_text(encoding="utf-8") == figures_page(), told


def test_the_command_prints_the_page(capsys):
    assert main(["config", "reference", "--figures"]) == 0
    assert capsys.readouterr().out == figures_page()


def test_every_score_has_the_figures_of_the_table_in_its_order():
    assert list(score(RunFacts("1", "spark", "static", 30.0), ())) == list(EVERY_SCORE)


@pytest.mark.parametrize(
    ("options", "left_out"),
    [
        pytest.param(["--shape", "constant:5@120"], {"placements"}, id="a job without nodes"),
        pytest.param(["--job", "gesscale", "--shape", "constant:100@60", "--as-is"], set(), id="a job with nodes"),
    ],
)
def test_simulate_prints_what_is_defined(options, left_out, capsys):
    told, screen = printed(capsys, "simulate", "--policy", "static", *options)
    assert told.keys() == EVERY_SCORE.keys() | OF_COMMANDS["simulate"].keys() - left_out
    assert WHERE in screen


def test_compare_prints_what_is_defined_in_each_run(capsys):
    told, screen = printed(capsys, "compare", "--policy", "static", "--shape", "constant:5@120", "--jobs", "1")
    assert [run.keys() for run in told["runs"]] == [EVERY_SCORE.keys() | OF_COMMANDS["compare"].keys()]
    assert WHERE in screen


def test_every_column_of_compare_is_the_column_of_a_figure():
    columns = {each.column for each in EVERY_SCORE.values() if each.column}
    assert {column.title.split(",")[0] for column in COLUMNS} == columns


def test_replay_prints_what_is_defined(eventful):
    assert replay_score(read_journal(eventful)).keys() == EVERY_SCORE.keys() | OF_COMMANDS["replay"].keys()


@pytest.mark.parametrize("command", ["simulate", "compare", "replay", "demo"])
def test_the_help_of_each_command_says_where_figures_are_defined(command, capsys):
    main([command, "--help"])
    assert "rheostat config reference --figures" in capsys.readouterr().out


def test_every_figure_has_a_meaning_and_a_row_shows_it():
    assert all(each.meaning for each in FIGURES.values())
    head, row = figure_rows({"lag_p95_s": 1.5}, explained=True)
    assert head == ["figure", "value", "unit", "what it is"]
    assert row == ["lag_p95_s", "1.500", "s", "the same for 95 % of the time"]
