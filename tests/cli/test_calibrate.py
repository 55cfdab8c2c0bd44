"""``rheostat calibrate``: what it refuses, and what it writes."""

import json

import pytest
import yaml
from tests.judge.journals import write_known_journal

from rheostat.cli import main
from rheostat.judge.cases import load_job

pytestmark = pytest.mark.slow


def last_json(capsys):
    return json.loads(capsys.readouterr().out.strip().splitlines()[-1])


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        pytest.param([], {"journals"}, id="nothing to fit to"),
        pytest.param(
            ["a", "--out", "job.txt", "--check", "a", "--warm-up", "soon", "--scale", "-1"],
            {"out", "check", "warm_up", "scale", "journal"},
            id="options and files",
        ),
        pytest.param(
            ["a", "--profiles", "p", "--recorded", "r", "--trace", "t", "--fit-to", "x", "--out", "/dev/null/job.yaml"],
            {"journal", "profiles", "recorded", "trace", "out"},
            id="every file",
        ),
        pytest.param(["a", "--report", "r.html"], {"report", "journal"}, id="a report of nothing"),
        pytest.param(["a", "--fit-to", "x"], {"fit_to", "journal"}, id="a run to fit to, and no runs"),
        pytest.param(["--recorded", "runs.csv"], {"recorded"}, id="runs without their input"),
        pytest.param(["--profiles", "none.csv"], {"profiles"}, id="no such file"),
        pytest.param(["none"], {"journal"}, id="no such journal"),
        pytest.param(
            ["a", "b", "./a"], {"journals", "journal"}, id="a journal twice, which would count as twice the batches"
        ),
    ],
)
def test_every_fault_is_named_at_once(tmp_path, monkeypatch, capsys, arguments, fields):
    monkeypatch.chdir(tmp_path)
    assert main(["calibrate", *arguments, "--json"]) == 2
    assert {fault["field"] for fault in last_json(capsys)["faults"]} == fields


def test_several_damaged_files_are_named_together(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jsonl").write_text('{"type":"session"}\n')
    (tmp_path / "b.jsonl").write_text("[1]\n")
    (tmp_path / "p.csv").write_text("scaleOut,avgThr,isBckPres\n1,100,0\n")
    (tmp_path / "r.csv").write_text("run,second,throughput,consumer_lag,task_managers\nx,0,5,0,1\n")
    arguments = ["a.jsonl", "--check", "b.jsonl", "--profiles", "p.csv", "--recorded", "r.csv", "--trace", "/dev/zero"]
    assert main(["calibrate", *arguments, "--json"]) == 2
    faults = last_json(capsys)["faults"]
    assert [(fault["given"], fault["message"]) for fault in faults] == [
        ("a.jsonl:1", "the record lacks 'schema'"),
        ("b.jsonl:1", "the record has no type"),
        ("p.csv", "no row is saturated"),
        ("r.csv: run x", "it needs two rows at least, in the order of their seconds"),
        ("/dev/zero", "/dev/zero: cannot be read: it is a device"),
    ]


def test_all_fits_with_too_few_figures_are_named_together(tmp_path, capsys, folders):
    profiles = tmp_path / "p.csv"
    profiles.write_text("scaleOut,avgThr,isBckPres\n1,100,1\n2,200,1\n")
    fitted, other = map(str, folders)
    arguments = [fitted, "--check", other, "--profiles", str(profiles), "--warm-up", "1e5", "--json"]
    assert main(["calibrate", *arguments]) == 2
    faults = last_json(capsys)["faults"]
    assert [fault["message"] for fault in faults] == [
        "no two batches in a row were seen after the warm-up, with all executors warm",
        "only 0 batches were warm and undisturbed",
        "too little for a fit",
    ]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Two journals on disk."""
    return [write_known_journal(tmp_path_factory.mktemp(f"journal-{seed}"), seed) for seed in (1, 2)]


def test_a_job_file_is_written_and_checked_against_another_run(tmp_path, capsys, folders):
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
