"""Results go to standard output, all else to standard error; with --json the object alone is on standard output."""

import json

import pytest

from rheostat.cli import main

SHORT = ["--shape", "constant:5@120"]
COMMANDS = {
    "compare": (["compare", "--policy", "static,hpa", *SHORT, "--jobs", "1"], "÷ optimum"),
    "simulate": (["simulate", "--policy", "static", *SHORT], "Decisions that changed nothing"),
    "tune": (["tune", *SHORT, "--grid", "1", "--jobs", "1"], "present, recommended"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_tables_can_be_piped(name, capsys):
    command, heading = COMMANDS[name]
    assert main(command) == 0
    got = capsys.readouterr()
    assert heading in got.out
    assert heading not in got.err


@pytest.mark.parametrize("name", COMMANDS)
def test_with_json_the_object_alone_is_on_standard_output(name, capsys):
    command, heading = COMMANDS[name]
    assert main([*command, "--json"]) == 0
    got = capsys.readouterr()
    assert len(got.out.splitlines()) == 1
    assert json.loads(got.out)["schema"].startswith("rheostat.")
    assert heading in got.err


def test_a_replay_can_be_piped(tmp_path, capsys):
    journal = str(tmp_path / "journal")
    assert main(["simulate", *SHORT, "--journal", journal]) == 0
    assert f"Journal: {journal}" in capsys.readouterr().err
    assert main(["replay", journal]) == 0
    assert capsys.readouterr().out.startswith("identical: 10 of 10\n")


def test_a_simulated_run_is_explained_in_seconds_of_the_run(tmp_path, capsys):
    journal = str(tmp_path / "journal")
    assert main(["simulate", *SHORT, "--journal", journal]) == 0
    capsys.readouterr()
    for options, said in (
        ([], "second 0 to second 135 (2 min 15 s)"),
        (["--at", "60"], "second 60, decision"),
        (["--since", "30s"], "second 105 to second 135"),
    ):
        assert main(["explain", journal, *options]) == 0
        told = capsys.readouterr().out
        assert told.startswith(said)
        assert "1970" not in told
