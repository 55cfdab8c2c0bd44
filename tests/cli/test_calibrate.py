"""``rheostat calibrate``: what it refuses, and what it writes."""

import json

import pytest
import yaml
from tests.judge.journals import journal

from rheostat.cli import main
from rheostat.journal import JournalWriter
from rheostat.sim.loading import load_job


def last_json(capsys):
    return json.loads(capsys.readouterr().out.strip().splitlines()[-1])


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        pytest.param([], {"journals"}, id="nothing to fit to"),
        pytest.param(
            ["a", "--out", "job.txt", "--check", "a", "--warm-up", "soon", "--scale", "-1"],
            {"out", "check", "warm_up", "scale"},
            id="everything at once",
        ),
        pytest.param(["a", "--report", "r.html"], {"report"}, id="a report of nothing"),
        pytest.param(["--recorded", "runs.csv"], {"recorded"}, id="runs without their input"),
        pytest.param(["--profiles", "none.csv"], {"profiles"}, id="no such file"),
        pytest.param(["none"], {"journal"}, id="no such journal"),
        pytest.param(["a", "b", "./a"], {"journals"}, id="a journal twice, which would count as twice the batches"),
    ],
)
def test_what_is_wrong_is_named_at_once(tmp_path, monkeypatch, capsys, arguments, fields):
    monkeypatch.chdir(tmp_path)
    assert main(["calibrate", *arguments, "--json"]) == 2
    assert {fault["field"] for fault in last_json(capsys)["faults"]} == fields


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Two journals on disk."""
    found = []
    for seed in (1, 2):
        folder = tmp_path_factory.mktemp(f"journal-{seed}")
        write(folder, journal(seed=seed))
        found.append(folder)
    return found


def write(folder, records):
    session, *others = records
    writer = JournalWriter(folder)
    writer.start(session.header)
    for record in others:
        writer.record(record, dict)
    writer.close()


def test_a_job_file_is_written_and_another_run_is_held_against_it(tmp_path, capsys, folders):
    fitted, other = folders
    out = tmp_path / "job.yaml"
    arguments = ["calibrate", str(fitted), "--out", str(out), "--check", str(other), "--warm-up", "10", "--json"]
    assert main(arguments) == 0
    result = last_json(capsys)
    assert result["schema"] == "rheostat.calibration/1"
    assert result["job"]["stages"][0]["cost_ms"] == pytest.approx(4.0, rel=0.1)
    assert result["checked"][0]["backlog"] < 0.5
    assert load_job(out).name == "calibrated"
    assert "# " in out.read_text(encoding="utf-8").splitlines()[0]
    assert yaml.safe_load(out.read_text(encoding="utf-8")) == result["job"]
