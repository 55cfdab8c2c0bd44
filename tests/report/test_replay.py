from __future__ import annotations

import json

import pytest

from rheostat.cli import main
from rheostat.errors import InputError
from rheostat.journal.records import DecisionRecord, SessionRecord
from rheostat.journal.store import read_journal
from rheostat.model import ReasonCode
from rheostat.report.replay import replay, replay_score


def test_the_same_settings_decide_the_same_to_the_letter(eventful):
    replayed = replay(read_journal(eventful))
    assert len(replayed) > 100
    codes = {each.record.decision.reason.code for each in replayed}
    assert {ReasonCode.START, ReasonCode.RESTORED, ReasonCode.CYCLE_FAILED, ReasonCode.AT_MIN} <= codes
    for each in replayed:
        if each.decision is not None:
            assert each.decision.reason.text == each.record.decision.reason.text
            assert each.decision.decision_id == each.record.decision_id
            assert [note.step for note in each.decision.notes] == [note.step for note in each.record.decision.notes]


def test_a_replay_can_begin_at_any_file(eventful):
    for file in sorted(eventful.glob("*.jsonl")):
        result = replay_score(read_journal(file))
        assert result["differences"] == []
        assert result["identical"] == result["decisions"] > 0


def test_a_replay_is_the_same_byte_for_byte(eventful):
    first, second = (json.dumps(replay_score(read_journal(eventful))) for _ in range(2))
    assert first == second


def test_the_score_of_the_run_stands_beside_it(eventful):
    result = replay_score(read_journal(eventful))
    assert (result["policy"], result["job"], result["engine"]) == ("reactive", "toy", "spark")
    assert result["failed_cycles"] == 1
    assert result["executors_max"] == 4
    assert result["records_in"] is None
    assert not result["open_loop"]


def test_another_policy_is_an_open_loop(eventful):
    result = replay_score(read_journal(eventful), {"policy": "static", "policy_options.executors": 3})
    assert result["open_loop"]
    assert result["policy"] == "static"
    assert result["lag_p95_s"] is None
    assert result["differences"] != []
    day = [record for record in read_journal(eventful) if isinstance(record, DecisionRecord)]
    # one executor until the first metrics are known, then three to the end
    span = day[-1].at - day[0].at
    assert result["executor_hours"] == pytest.approx(3 * span / 3600, rel=0.01)


def test_a_key_inside_a_setting_that_has_none_is_refused_with_all_other_faults(eventful, capsys):
    changes = ["--set", "executors.0=1", "--set", "mode.x=2", "--set", "guard.cooldown=3"]
    code = main(["replay", str(eventful), *changes, "--json"])

    faults = json.loads(capsys.readouterr().out.splitlines()[-1])["faults"]
    assert code == 2
    assert [(fault["field"], fault["allowed"].split(",")[0]) for fault in faults][:2] == [
        ("executors.0", "executors as a whole"),
        ("mode.x", "mode as a whole"),
    ]
    assert [fault["field"] for fault in faults] == ["executors.0", "mode.x", "guard.cooldown"]


def test_another_setting_changes_decisions(eventful):
    result = replay_score(read_journal(eventful), {"guard.cooldown_up_s": 60.0})
    assert {"COOLDOWN_UP"} <= {each["replayed"]["code"] for each in result["differences"]}


def test_a_tampered_journal_shows_its_differences(eventful):
    file = min(eventful.glob("*.jsonl"))
    text = file.read_text()
    changed = text.replace('"target":4,"proposed":', '"target":3,"proposed":', 1)
    assert changed != text
    file.write_text(changed)
    [difference] = replay_score(read_journal(file))["differences"]
    assert (difference["recorded"]["target"], difference["replayed"]["target"]) == (3, 4)


@pytest.mark.parametrize(
    ("overrides", "field"),
    [
        pytest.param({"policy": "reactiv"}, "policy", id="no such policy"),
        pytest.param({"guard.cooldown_upp_s": 3.0}, "guard.cooldown_upp_s", id="no such setting"),
        pytest.param({"sample_s": -1.0}, "sample_s", id="a wrong value"),
        pytest.param({"policy": "hpa:quick"}, "policy_options.preset", id="no such preset"),
        pytest.param({"policy_options.headrom": 0.8}, "policy_options.headrom", id="no such option"),
        pytest.param({"profile": "faithful"}, "profile", id="a profile, whose values the journal has"),
        pytest.param({"queries": ["clicks"]}, "queries", id="queries, which were chosen when they were looked at"),
        pytest.param({"journal": "elsewhere"}, "journal", id="a journal, which a replay does not write"),
        pytest.param({"state": "elsewhere"}, "state", id="a state, which a replay does not keep"),
        pytest.param({"allow_redone_work": True}, "allow_redone_work", id="redone work, which a replay does not cause"),
    ],
)
def test_a_wrong_override_is_a_fault(eventful, overrides, field):
    with pytest.raises(InputError) as error:
        replay(read_journal(eventful), overrides)
    assert [fault.field for fault in error.value.faults] == [field]


def test_sessions_of_one_run_agree_with_the_replay(eventful):
    notes = [record.note for record in read_journal(eventful) if isinstance(record, SessionRecord)]
    taken = "the state of the run before was taken over"
    assert notes == [None, "paused", "resumed", "bounds: 2 to 4", taken, taken]


def test_the_command_says_identical(eventful, capsys):
    assert main(["replay", str(eventful), "--json"]) == 0
    out = capsys.readouterr()
    result = json.loads(out.out.splitlines()[-1])
    assert f"identical: {result['identical']} of {result['decisions']}; 1 failed cycle skipped" in out.err
    assert result["schema"] == "rheostat.score/1"


def test_the_command_says_open_loop(eventful, capsys):
    assert main(["replay", str(eventful), "--policy", "static", "--set", "policy_options.executors=2"]) == 0
    out = capsys.readouterr()
    assert "open loop" in out.out
    assert out.err == ""


def test_the_command_fails_where_decisions_differ(eventful):
    file = min(eventful.glob("*.jsonl"))
    file.write_text(file.read_text().replace('"target":4,"proposed":', '"target":3,"proposed":', 1))
    assert main(["replay", str(file)]) == 1


def test_an_objective_that_no_number_of_executors_keeps_is_refused_as_when_attaching(eventful):
    with pytest.raises(InputError) as error:
        replay(read_journal(eventful), {"objective": "lag < 1s"})
    [fault] = error.value.faults
    assert (fault.field, fault.given) == ("objective", "lag < 1 s")
    assert fault.message == (
        "records wait up to a trigger and then for their batch: no number of executors keeps this objective"
    )


def test_another_objective_decides_otherwise_or_is_held_against_the_lag_that_was_seen(eventful):
    tight = replay_score(read_journal(eventful), {"objective": "lag < 10s"})
    assert tight["open_loop"]
    assert tight["differences"] != []
    assert tight["violation_share"] is None
    other = replay_score(read_journal(eventful), {"objective": "lag < 30s for 90%"})
    recorded = replay_score(read_journal(eventful))
    assert not other["open_loop"]
    assert other["violation_share"] == recorded["violation_share"] is not None


def test_a_policy_may_be_named_with_its_preset(eventful, capsys):
    assert main(["replay", str(eventful), "--policy", "hpa:faithful", "--json"]) == 0
    faithful = json.loads(capsys.readouterr().out.splitlines()[-1])
    by_option = replay_score(read_journal(eventful), {"policy": "hpa", "policy_options.preset": "faithful"})
    assert faithful["policy"] == by_option["policy"] == "hpa:faithful"
    assert faithful["differences"] == by_option["differences"] != []


def test_the_journal_the_policy_and_every_setting_are_told_together(tmp_path, capsys):
    file = tmp_path / "j.jsonl"
    file.write_text('{"type":"session"}\n')
    changes = ["--set", "nothing", "--set", "sample_s=0", "--set", "profile=demo", "--set", "policy_options.x=1"]
    assert main(["replay", str(file), "--policy", "reactive:quick", *changes, "--json"]) == 2
    faults = json.loads(capsys.readouterr().out.splitlines()[-1])["faults"]
    assert [(fault["field"], fault["given"]) for fault in faults] == [
        ("--set", "nothing"),
        ("journal", f"{file}:1"),
        ("profile", "'demo'"),
        ("sample_s", "0"),
        ("policy_options.preset", "'quick'"),
        ("policy_options.x", "'x'"),
    ]


@pytest.mark.parametrize("command", ["explain", "replay", "calibrate"])
def test_every_command_that_reads_a_journal_names_its_damaged_line(command, eventful, capsys):
    file = min(eventful.glob("*.jsonl"))
    lines = file.read_text().splitlines()
    lines[3] = '{"at":1.0}'
    file.write_text("\n".join(lines) + "\n")
    assert main([command, str(file), "--json"]) == 2
    faults = json.loads(capsys.readouterr().out.splitlines()[-1])["faults"]
    assert faults == [
        {
            "field": "journal",
            "given": f"{file}:4",
            "allowed": "a line of a journal (rheostat.journal/1)",
            "message": "the record has no type",
        }
    ]


def test_a_session_that_does_not_fit_this_version_is_a_fault_of_the_journal(eventful):
    file = min(eventful.glob("*.jsonl"))
    file.write_text(file.read_text().replace('"analysis":', '"analyses":', 1))
    with pytest.raises(InputError) as error:
        replay(read_journal(file))
    [fault] = error.value.faults
    assert (fault.field, fault.given) == ("journal", "the session of second 1764324000")
    assert fault.message == "the state does not fit this version or the policy reactive: analysis: this key is required"


def test_every_wrong_setting_is_named(eventful, capsys):
    assert (
        main(
            [
                "replay",
                str(eventful),
                "--set",
                "sample_s",
                "--set",
                "=3",
                "--set",
                "a..b=1",
                "--set",
                "x=2025-13-45",
                "--json",
            ]
        )
        == 2
    )
    faults = json.loads(capsys.readouterr().out.splitlines()[-1])["faults"]
    assert [fault["given"] for fault in faults] == ["sample_s", "=3", "a..b=1", "x=2025-13-45"]
