from __future__ import annotations

import json

import pytest

from rheostat.cli import main
from rheostat.errors import InputError
from rheostat.journal import DecisionRecord, SessionRecord, read_journal
from rheostat.model import Code
from rheostat.report.replay import replay, replay_score


def test_the_same_settings_decide_the_same_to_the_letter(eventful):
    replayed = replay(read_journal(eventful))
    assert len(replayed) > 100
    codes = {each.record.decision.reason.code for each in replayed}
    assert {Code.START, Code.RESTORED, Code.CYCLE_FAILED, Code.AT_MIN} <= codes
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
    assert f"identical: {result['identical']} of {result['decisions']}; 1 failed cycles were passed over" in out.err
    assert result["schema"] == "rheostat.score/1"


def test_the_command_says_open_loop(eventful, capsys):
    assert main(["replay", str(eventful), "--policy", "static", "--set", "policy_options.executors=2"]) == 0
    out = capsys.readouterr()
    assert "open loop" in out.err
    assert out.out == ""


def test_the_command_fails_where_decisions_differ(eventful):
    file = min(eventful.glob("*.jsonl"))
    file.write_text(file.read_text().replace('"target":4,"proposed":', '"target":3,"proposed":', 1))
    assert main(["replay", str(file)]) == 1


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
