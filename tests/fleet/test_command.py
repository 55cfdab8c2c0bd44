"""The commands, without a JVM: what is asked wrongly is told at once."""

from __future__ import annotations

import json

import pytest
from tests.journal.synthetic import write_cycles

from rheostat.cli import main


def last_json(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    shown: dict[str, object] = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    return shown


def test_training_names_every_fault_before_a_session_starts(tmp_path, capsys):
    (tmp_path / "file").touch()
    asked = ["--history", str(tmp_path / "none"), "--out", str(tmp_path / "file"), "--jobs", "0", "--set", "seed=-1"]
    assert main(["fleet", "train", *asked, "--set", "degree=3", "--json"]) == 2
    faults = {fault["field"]: fault for fault in last_json(capsys)["faults"]}  # type: ignore[attr-defined]
    assert set(faults) == {"history", "out", "jobs", "seed", "degree"}
    assert "did you mean 'degrees'?" in faults["degree"]["message"]


def test_a_job_that_is_not_there_is_named_with_one_that_is(tmp_path, capsys):
    write_cycles(tmp_path / "journal", 20)
    history = ["--history", str(tmp_path / "history")]
    assert main(["fleet", "collect", str(tmp_path / "journal"), *history, "--job", "clicks", "--json"]) == 0
    capsys.readouterr()
    asked = ["--out", str(tmp_path / "out"), "--job", "click", "--master", "local", "--jobs", "2"]
    assert main(["fleet", "train", *history, *asked, "--json"]) == 2
    faults = {fault["field"]: fault for fault in last_json(capsys)["faults"]}  # type: ignore[attr-defined]
    assert set(faults) == {"job", "jobs"}
    assert faults["job"]["message"] == "there is no such job; did you mean 'clicks'?"


def test_the_collected_samples_are_reported(tmp_path, capsys):
    write_cycles(tmp_path / "journal", 20)
    assert main(["fleet", "collect", str(tmp_path / "journal"), "--history", str(tmp_path / "history"), "--json"]) == 0
    source = {"source": str(tmp_path / "journal"), "job": "journal", "rows": 3, "fault": None}
    assert last_json(capsys) == {
        "schema": "rheostat.history/1",
        "history": str(tmp_path / "history"),
        "sources": [source],
    }


def test_collecting_names_every_fault(tmp_path, capsys):
    (tmp_path / "file").touch()
    asked = [str(tmp_path / "a"), str(tmp_path / "b"), "--history", str(tmp_path / "file"), "--job", "x", "--json"]
    assert main(["fleet", "collect", *asked]) == 2
    shown = last_json(capsys)["faults"]
    assert [fault["field"] for fault in shown] == ["sources", "sources", "job", "history"]  # type: ignore[attr-defined]
