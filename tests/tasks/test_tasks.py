"""The list of chores, where it must not do harm."""

import subprocess
import sys
from pathlib import Path

import pytest

TASKS = Path(__file__).parents[2] / "tasks.py"


def call(*arguments, **environment):
    return subprocess.run(
        [sys.executable, str(TASKS), *arguments], capture_output=True, text=True, cwd="/", env=environment, check=False
    )


def test_a_folder_that_is_no_environment_is_not_cleared_for_one(tmp_path):
    precious = tmp_path / "work"
    precious.write_text("years")
    done = call("setup", RHEOSTAT_VENV=str(tmp_path))
    assert (done.returncode, precious.read_text()) == (1, "years")
    assert "holds something else than an environment" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "environment", "says"),
    [
        pytest.param(["tset"], {}, "invalid choice: 'tset'", id="a mistyped chore"),
        pytest.param(["setup"], {"RHEOSTAT_VENV": str(TASKS)}, "No environment can be made at", id="a file in the way"),
        pytest.param(["lock"], {"PATH": ""}, "uv is not there: install it", id="no uv"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(arguments, environment, says):
    done = call(*arguments, **environment)
    assert done.returncode != 0
    assert says in done.stderr
    assert "Traceback" not in done.stderr
