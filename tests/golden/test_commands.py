"""Every command that needs no Java prints what was recorded, and a journal of version 0.1 is decided as it was."""

import json

import pytest
from tests.golden.commands import COMMANDS, WRITTEN_BY, fill_folder, golden_command, run_command, unpack_journal
from tests.golden.files import RECORD, golden_file, read_golden


@pytest.fixture(scope="module")
def recorded():
    if read_golden("commands") is None:
        pytest.skip(f"no {golden_file('commands').name}: {RECORD} on a tree that is known to be right makes it")
    return read_golden("commands"), read_golden("command-sentences")


COMPARES = [name for name in COMMANDS if name.startswith("compare")]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in COMPARES else []) for name in COMMANDS]
)
def test_a_command_prints_what_was_recorded(name, tmp_path, recorded):
    fill_folder(tmp_path)
    figures, sentences = golden_command(COMMANDS[name], tmp_path)
    assert figures == recorded[0].get(name), f"the figures differ, or are not recorded: {RECORD}"
    assert sentences == recorded[1][name], "only the sentences differ"


@pytest.mark.parametrize("name", WRITTEN_BY)
def test_a_journal_of_version_0_1_is_read_and_decided_on(name, tmp_path):
    """Some decisions are others now (decision record 026); which, is recorded with the command ``replay``."""
    unpack_journal(name, tmp_path / name)
    code, out, _ = run_command(["replay", name, "--json"], tmp_path)
    shown = json.loads(out)
    assert (code, shown["failed_cycles"]) == (1, 0)
    assert shown["decisions"] > 150
    assert shown["identical"] + len(shown["differences"]) == shown["decisions"]


def test_no_command_was_left_out(recorded):
    assert [*recorded[0]] == [*recorded[1]] == [*COMMANDS]
