"""``rheostat tune``: what it refuses, and what it writes."""

import json

import pytest
import yaml
from tests.judge.journals import write_known_journal

from rheostat.cli import main

SHORT = ["--shape", "constant:5@120"]


def last_json(capsys):
    return json.loads(capsys.readouterr().out.strip().splitlines()[-1])


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        pytest.param([], {"trace"}, id="no load"),
        pytest.param([*SHORT, "--policy", "reactive"], {"policy"}, id="a policy without gains"),
        pytest.param([*SHORT, "--policy", "proactive,hpa", "--shape", "constant:6@60"], {"policy", "load"}, id="two"),
        pytest.param(
            ["--grid", "0,1", "--jobs", "0", "--seed", "x", "--out", "/dev/null/a", "--trace", "no", "--job", "bas"],
            {"grid", "jobs", "seed", "out", "trace", "job"},
            id="every option",
        ),
        pytest.param([*SHORT, "--journal", "no", "--last", "soon"], {"shape", "last", "journal"}, id="a journal and"),
        pytest.param([*SHORT, "--set", "policy_options.gain_up=2"], {"policy_options.gain_up"}, id="present gains"),
    ],
)
def test_wrong_input_ends_with_two_and_names_every_fault(arguments, fields, capsys):
    assert main(["tune", *arguments, "--json"]) == 2
    faults = last_json(capsys)["faults"]
    assert {fault["field"] for fault in faults} == fields
    assert all(fault["given"] and fault["allowed"] for fault in faults)


def test_the_load_of_a_journal_is_not_scaled_and_the_settings_file_is_valid(tmp_path, capsys):
    out = tmp_path / "gains.yaml"
    folder = write_known_journal(tmp_path / "journal")
    arguments = ["tune", "--journal", str(folder), "--last", "2m", "--grid", "1", "--jobs", "1", "--out", str(out)]
    assert main([*arguments, "--set", "policy_options.gain_down=0.5", "--json"]) == 0
    told = last_json(capsys)
    assert (told["schema"], told["load"], told["seeds"]) == ("rheostat.tune/1", "journal", [1])
    assert told["present"] == told["recommended"] == {"gain_up": 0.9, "gain_down": 0.5}
    assert 100 <= told["held_out"]["to_s"] <= 120
    assert [each["gain_up"] for each in told["candidates"]] == [0.9, 1.0]
    text = out.read_text(encoding="utf-8")
    assert text.startswith("# Made by rheostat tune: the present gains stay: ")
    values = yaml.safe_load(text)
    assert values["policy_options"] == {"gain_down": 0.5, "gain_up": 0.9}
    assert main(["config", "check", str(out)]) == 0


def test_the_table_marks_the_present_and_the_recommended_gains(capsys):
    assert main(["tune", *SHORT, "--grid", "1", "--jobs", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("α 0.9, β 0.4" in line and "present, recommended" in line for line in lines)
    assert any("α 1, β 1" in line and "present" not in line for line in lines)
