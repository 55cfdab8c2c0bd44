"""``rheostat config check`` and ``rheostat config reference``."""

from __future__ import annotations

import json

import pytest
import typer

from rheostat.cli import config as command
from rheostat.config.models import PROFILES
from rheostat.config.reference import reference
from rheostat.errors import InputError


def run(*arguments):
    app = typer.Typer()
    app.add_typer(command.config, name="config")
    app(["config", *map(str, arguments)], standalone_mode=False)


def test_a_right_file_is_shown_with_everything_filled_in(tmp_path, capsys):
    file = tmp_path / "job.yaml"
    file.write_text("objective: lag < 30s\nexecutors: [1, 4]\npolicy: static\n")
    run("check", file, "--json")
    shown = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert shown["schema"] == "rheostat.config/1"
    assert shown["settings"]["executors"] == [1, 4]
    assert shown["settings"]["guard"]["hold_fallback_s"] == 240.0


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        pytest.param("", "watch: lag < 30 s for 99%, no bounds, policy reactive", id="no bounds"),
        pytest.param(
            "executors: [1, 4]\npolicy: static\n",
            "act: lag < 30 s for 99%, 1 to 4 executors, policy static, actuator executors",
            id="bounds",
        ),
    ],
)
def test_without_json_one_line_and_nothing_on_standard_output(tmp_path, capsys, settings, line):
    file = tmp_path / "job.yaml"
    file.write_text(f"objective: lag < 30s\n{settings}")
    run("check", file)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert " ".join(captured.err.split()) == f"✓ {line}"


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


JOB = """schema: rheostat.job/1
name: three
objective: lag < 60s
executors: [1, 6]
stages: [{name: read, cost_ms: 1}]
"""


def test_a_job_file_is_checked_as_a_job(tmp_path, capsys):
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    run("check", file, "--json")
    captured = capsys.readouterr()
    shown = json.loads(captured.out.splitlines()[-1])
    assert shown["schema"] == "rheostat.config/1"
    assert (shown["job"]["name"], shown["job"]["executors"], shown["job"]["trigger_s"]) == ("three", [1, 6], 10.0)
    assert "a job file: three, lag < 60s; rheostat simulate --job FILE runs it" in " ".join(captured.err.split())


def test_every_fault_of_a_job_file_is_one_of_a_job(tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(JOB.replace("executors", "executers") + "trigger_s: -1\n")
    with pytest.raises(InputError) as caught:
        run("check", file)
    assert {fault.field for fault in caught.value.faults} == {"executers", "executors", "trigger_s"}


def test_another_version_of_a_job_file_is_told_as_that(tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(JOB.replace("job/1", "job/2"))
    with pytest.raises(InputError) as caught:
        run("check", file)
    assert [(fault.field, fault.given) for fault in caught.value.faults] == [("schema", "'rheostat.job/2'")]


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


def test_the_folder_of_a_page_is_made(tmp_path):
    run("reference", "--out", tmp_path / "new" / "page.md")
    assert (tmp_path / "new" / "page.md").exists()


def test_a_page_that_cannot_be_written_is_an_input_error(tmp_path):
    (tmp_path / "file").touch()
    page = tmp_path / "file" / "page.md"
    with pytest.raises(InputError) as caught:
        run("reference", "--out", page)
    [fault] = caught.value.faults
    assert (fault.field, fault.given) == ("out", str(page))
    assert fault.message == "the page cannot be written: File exists"


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


def test_what_has_no_effect_is_told_with_the_reason(tmp_path, capsys):
    file = tmp_path / "job.yaml"
    file.write_text("objective: lag < 30s\nexecutors: [1, 4]\nworkers: {backup: 3}\n")
    run("check", file, "--json")
    captured = capsys.readouterr()
    assert "! workers.backup: has no effect, because the actuator is executors" in captured.err
    why = "the actuator is executors: say actuator: workers"
    assert json.loads(captured.out)["no_effect"] == [{"field": "workers.backup", "given": "3", "why": why}]


@pytest.mark.parametrize(
    ("line", "field", "message"),
    [
        pytest.param("metrics: {host: 'a:9090'}", "metrics.host", "say host: a and port: 9090", id="a port in it"),
        pytest.param("metrics: {host: 'http://a'}", "metrics.host", "no address alone", id="a scheme in it"),
        pytest.param("queries: []", "queries", "no query would be looked after", id="no query"),
    ],
)
def test_what_is_surely_wrong_is_a_fault(tmp_path, line, field, message):
    file = tmp_path / "job.yaml"
    file.write_text(f"objective: lag < 30s\nexecutors: [1, 4]\n{line}\n")
    with pytest.raises(InputError) as caught:
        run("check", file)
    assert [fault.field for fault in caught.value.faults] == [field]
    assert message in caught.value.faults[0].message
