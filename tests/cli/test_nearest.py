"""A command that there is not: what exists is hinted."""

from __future__ import annotations

import json

import pytest

from rheostat.cli import build, main
from rheostat.cli.common import commands_meant


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        pytest.param(["check"], "rheostat config check", id="of a group"),
        pytest.param(["check", "job.yaml"], "rheostat config check", id="of a group, with its file"),
        pytest.param(["sim"], "rheostat simulate", id="the beginning"),
        pytest.param(["simulat"], "rheostat simulate", id="mistyped"),
        pytest.param(["config", "job.yaml"], "rheostat config check job.yaml", id="a group with a file"),
        pytest.param(["config", "a b/c"], "rheostat config check 'a b/c'", id="a path with a blank"),
        pytest.param(["config", "chek"], "rheostat config check", id="mistyped in a group"),
        pytest.param(["job.yaml"], "rheostat config check job.yaml", id="settings alone"),
        pytest.param(["app.py"], "rheostat run app.py", id="a script alone"),
        pytest.param(["load.csv"], "rheostat simulate --trace load.csv", id="a trace alone"),
        pytest.param(["lab", "start"], "rheostat lab up", id="as others call it"),
        pytest.param(["stop"], "rheostat lab down", id="as others call it, at the root"),
        pytest.param(["version"], "rheostat --version", id="a flag as a command"),
        pytest.param(["config", "help"], "rheostat config --help", id="help of a group"),
    ],
)
def test_a_near_miss_gets_a_hint(arguments, hint, capsys):
    assert main([*arguments, "--json"]) == 2
    (fault,) = json.loads(capsys.readouterr().out.splitlines()[-1])["faults"]
    assert fault["message"].endswith(f"; did you mean: {hint}")


def test_a_word_like_no_command_gets_only_the_list(capsys):
    assert main(["config", "qqq", "--json"]) == 2
    (fault,) = json.loads(capsys.readouterr().out.splitlines()[-1])["faults"]
    assert fault["message"] == "there is no command 'qqq'"
    assert fault["allowed"] == "check | reference; see: rheostat config --help"


def test_a_folder_is_assumed_to_be_a_journal(tmp_path):
    assert commands_meant(str(tmp_path), [], []) == [f"explain {tmp_path}"]


def test_every_hint_is_a_command_that_exists():
    from typer.main import get_command

    from rheostat.cli.common import _ALIKE, _OF_FILES, commands_in

    known = commands_in(get_command(build()))
    for text in (*_ALIKE.values(), *_OF_FILES.values()):
        assert text.startswith("--") or any(text.startswith(command) for command in known)
