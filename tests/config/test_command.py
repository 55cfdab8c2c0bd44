"""``rheostat config check`` and ``rheostat config reference``."""

from __future__ import annotations

import json

import pytest
import typer

from rheostat.cli import config as command
from rheostat.config import PROFILES, reference
from rheostat.errors import InputError


def run(*arguments):
    app = typer.Typer()
    command.register(app)
    app(["config", *map(str, arguments)], standalone_mode=False)


def test_a_right_file_is_shown_with_everything_filled_in(tmp_path, capsys):
    file = tmp_path / "job.yaml"
    file.write_text("objective: lag < 30s\nexecutors: [1, 4]\npolicy: static\n")
    run("check", file, "--json")
    shown = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert shown["schema"] == "rheostat.config/1"
    assert shown["settings"]["executors"] == [1, 4]
    assert shown["settings"]["guard"]["hold_fallback_s"] == 240.0


def test_without_json_nothing_goes_to_standard_output(tmp_path, capsys):
    file = tmp_path / "job.yaml"
    file.write_text("objective: lag < 30s\n")
    run("check", file)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "watch: lag < 30 s for 99%" in captured.err


def test_a_wrong_file_raises_every_fault(tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text("objective: soon\nsample_s: 0\n")
    with pytest.raises(InputError) as caught:
        run("check", file)
    assert [fault.field for fault in caught.value.faults] == ["objective", "sample_s"]


def test_the_options_of_the_policy_are_checked_too(tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text("objective: lag < 30s\npolicy_options:\n  samples_to_shrnk: 4\n")
    with pytest.raises(InputError, match="samples_to_shrink"):
        run("check", file)


@pytest.mark.parametrize("profile", list(PROFILES))
def test_the_policy_takes_what_each_profile_gives_it(tmp_path, profile):
    file = tmp_path / "job.yaml"
    file.write_text(f"objective: lag < 30s\nprofile: {profile}\n")
    run("check", file)


def test_the_reference_goes_to_standard_output_or_into_a_file(tmp_path, capsys):
    run("reference")
    assert capsys.readouterr().out == reference()
    run("reference", "--out", tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == reference()
    assert capsys.readouterr().out == ""


def test_the_reference_as_json_is_one_object(capsys):
    run("reference", "--json")
    assert json.loads(capsys.readouterr().out)["markdown"] == reference()


def test_a_file_in_no_folder_is_an_input_error(tmp_path):
    page = tmp_path / "none" / "page.md"
    with pytest.raises(InputError) as caught:
        run("reference", "--out", page)
    [fault] = caught.value.faults
    assert (fault.field, fault.given) == ("out", str(page))
    assert fault.message == "the page cannot be written: No such file or directory"


def test_settings_policy_and_options_are_told_together(tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text("objective: soon\npolicy: hpa:quick\npolicy_options: {tolerance: -1}\nsample_s: 0\nsample_s: 1\n")
    with pytest.raises(InputError) as caught:
        run("check", file)
    assert {fault.field for fault in caught.value.faults} == {
        "objective",
        "sample_s",
        "policy_options.preset",
        "policy_options.tolerance",
    }
