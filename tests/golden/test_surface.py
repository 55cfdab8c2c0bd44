"""The public names and the help are the recorded ones. The reference pages have their tests beside what makes them."""

import pytest
import typer
from tests.golden.files import RECORD, golden_file, read_golden
from tests.golden.surface import COMMANDS, help_of, public_names

from rheostat.cli import build


@pytest.fixture(autouse=True, scope="module")
def _recorded():
    if read_golden("public") is None:
        pytest.skip(f"no {golden_file('public').name}: {RECORD} makes it")


def test_the_public_names_have_the_recorded_signatures():
    assert public_names() == read_golden("public")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_is_the_recorded_one(command, tmp_path):
    assert help_of(command, tmp_path).splitlines() == read_golden("help")[command]


def test_the_help_of_no_command_was_left_out():
    root = typer.main.get_command(build())
    found = {""}
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        found |= {name, *(f"{name} {below}" for below in getattr(command, "commands", {}))}
    assert found == set(COMMANDS)
