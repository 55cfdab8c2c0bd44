"""The list of chores, where it must not do harm."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

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
        pytest.param([], {}, "name a chore: demo, test, setup", id="no chore"),
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


@pytest.fixture
def tasks(tmp_path, monkeypatch):
    """The chores of a project in a temporary folder, which make no environment and call no tool, but say so."""
    spec = importlib.util.spec_from_file_location("chores", TASKS)
    assert spec is not None
    assert spec.loader is not None
    tasks: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tasks)
    files = {"BUILD_LOCK": "build.lock", "DEV_LOCK": "dev.lock", "PROJECT": "pyproject.toml"}
    for name, file in files.items():
        (tmp_path / file).write_text("as it was")
        monkeypatch.setattr(tasks, name, tmp_path / file)
    tasks.done = []
    monkeypatch.setattr(tasks, "VENV", tmp_path / "venv")
    monkeypatch.setattr(tasks, "NEEDED_FREE_MB", 0)
    monkeypatch.setattr(
        tasks.venv, "create", lambda place, **_: (tasks.done.append("made"), place.mkdir(exist_ok=True))
    )
    monkeypatch.setattr(tasks, "_refuse_foreign", lambda _: None)
    monkeypatch.setattr(tasks, "_call", lambda command: tasks.done.append(Path(command[-1]).name) or 0)
    return tasks


PACKAGE = TASKS.parent.name


@pytest.mark.parametrize(
    ("changed", "done"),
    [
        pytest.param(None, [], id="nothing"),
        pytest.param("pyproject.toml", [PACKAGE], id="an entry point"),
        pytest.param("dev.lock", ["made", "build.lock", "dev.lock", PACKAGE], id="a pinned file"),
    ],
)
def test_setup_does_what_a_change_needs(tasks, tmp_path, capsys, changed, done):
    tasks.setup()
    assert tasks.done == ["made", "build.lock", "dev.lock", PACKAGE]
    if changed is not None:
        (tmp_path / changed).write_text("changed")
    tasks.done.clear()

    assert tasks.setup() == 0
    assert tasks.done == done
    assert capsys.readouterr().out.splitlines()[-1] == f"Ready: {tmp_path / 'venv' / 'bin' / 'rheostat'}"


def test_a_setup_that_failed_is_done_again(tasks, monkeypatch):
    with monkeypatch.context() as failing:
        failing.setattr(tasks, "_call", lambda _: 1)
        assert tasks.setup() == 1
    tasks.setup()
    assert tasks.done == ["made", "made", "build.lock", "dev.lock", PACKAGE]
