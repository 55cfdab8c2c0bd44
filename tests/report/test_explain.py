from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rheostat.cli import main
from rheostat.errors import InputError
from rheostat.journal.records import DecisionRecord, OutcomeRecord, Record
from rheostat.journal.store import read_journal
from rheostat.model import Action, Assessment, Decision, Reason, ReasonCode, Recommendation
from rheostat.report.explain import Story, explain_decision, explain_since, explain_summary
from rheostat.report.replay import replay_score
from rheostat.report.times import duration, parse_time

RECORDED = Path(__file__).parent.parent / "policies" / "recorded"

START = 1_764_324_000.0


@pytest.fixture
def story(eventful) -> Story:
    return Story(read_journal(eventful), str(eventful))


def change_up(story):
    return next(cycle for cycle in story.cycles if cycle.decision.acts and cycle.decision.target == 4)


def test_a_change_is_told_from_what_was_seen_to_what_became_of_it(story):
    cycle = change_up(story)
    told = explain_decision(cycle)
    labels = [line.split()[0] for line in told["lines"][1:]]
    assert labels[:4] == ["load", "lag", "batch", "cluster"]
    assert [label for label in labels[4:] if label != "expected"] == ["proposed", "decided", "outcome"]
    text = "\n".join(told["lines"])
    assert f"decision {cycle.record.decision_id}: 2 → 4 executors" in text
    assert "400/s arriving" in text
    assert "the objective is lag < 30 s for 99%" in text
    assert "applied: APPLIED: 4 of 4 executors registered; after 2.0 s" in text
    assert told["outcome"]["status"] == "applied"


def test_what_a_guard_changed_is_told(story):
    cycle = next(cycle for cycle in story.cycles if cycle.decision.notes)
    note = cycle.decision.notes[0]
    told = explain_decision(cycle)
    assert told["guards"][0]["step"] == note.step
    assert f"  guard     {note.step}, {note.before} → {note.after}: {note.reason.code.value}: " in "\n".join(
        told["lines"]
    )


def test_the_gathered_story_tells_what_the_policy_wanted_and_what_the_guard_made_of_it(story):
    cycle = next(cycle for cycle in story.cycles if cycle.decision.notes and cycle.changes)
    (span,) = explain_since(story, [cycle])["spans"]
    note, wanted = cycle.decision.notes[-1], cycle.decision.recommendation
    assert span["reason"].startswith(f"the policy wanted {wanted.target}: {wanted.reason.text}; ")
    assert span["reason"].endswith(f"; the guard {note.step} made it {note.after}: {note.reason.text}")


def test_a_change_that_the_journal_ends_before_says_so(story):
    cycle = replace(change_up(story), outcome=None)
    assert "2 → 4 [no outcome: the journal ends]: " in explain_since(story, [cycle])["lines"][1]
    assert explain_decision(cycle)["lines"][-1] == "  outcome   none: the journal ends"


def without_outcome(records: list[Record], decision: int) -> list[Record]:
    return [each for each in records if not (isinstance(each, OutcomeRecord) and each.outcome.decision_id == decision)]


def test_a_change_that_a_later_one_took_over_from_is_superseded(eventful):
    records = list(read_journal(eventful))
    first, second, *_ = [cycle for cycle in Story(records, "").cycles if cycle.changes]
    later = second.record.decision_id
    story = Story(without_outcome(records, first.record.decision_id), "")
    cycle = next(cycle for cycle in story.cycles if cycle.changes)
    assert explain_decision(cycle)["lines"][-1] == f"  outcome   superseded by decision {later}"
    assert explain_decision(cycle)["superseded_by"] == later
    assert f" [superseded by decision {later}]: " in explain_since(story, [cycle])["lines"][1]


def test_the_last_change_without_an_outcome_is_superseded_by_none(eventful):
    records = list(read_journal(eventful))
    last = [cycle for cycle in Story(records, "").cycles if cycle.changes][-1].record.decision_id
    story = Story(without_outcome(records, last), "")
    assert story.decision(last).superseded_by is None
    assert explain_decision(story.decision(last))["lines"][-1] == "  outcome   none: the journal ends"


def test_changes_are_counted_as_a_replay_counts_them(eventful):
    records = list(read_journal(eventful))
    assert explain_summary(Story(records, ""))["reconfigurations"] == replay_score(records)["reconfigurations"]


def test_a_start_is_a_request_and_no_change():
    """0 → 2 at the start, then 2 → 3."""
    decisions = [decision_record(15.0 * number, number, *numbers) for number, numbers in enumerate(((0, 2), (2, 3)))]
    lines = explain_summary(Story(decisions, ""))["lines"]
    assert lines[1] == "1 change of the target, 2 requests:"


def decision_record(at: float, number: int, current: int, target: int) -> DecisionRecord:
    why = Reason(ReasonCode.FIXED, "as told")
    decision = Decision(at, number, Action.UP, current, target, why, Recommendation(target, why))
    return DecisionRecord.of(None, Assessment(at=at, executors=current, requested=current), decision)


def test_a_session_without_settings_is_told_in_words(capsys):
    assert main(["explain", str(RECORDED / "click_fraud.jsonl")]) == 0
    told = capsys.readouterr().out
    assert "since 2026-11-28 04:31:19 UTC: the journal does not say under which settings\n" in told


def test_what_other_numbers_would_have_carried_is_told(story):
    cycle = next(cycle for cycle in reversed(story.cycles) if any(p.capacity for p in cycle.decision.projections))
    lines = [line for line in explain_decision(cycle)["lines"] if line.startswith("  expected")]
    assert len(lines) == len(cycle.decision.projections)
    assert "/s" in lines[0]


def test_a_failed_cycle_says_that_nothing_was_seen(story):
    cycle = next(cycle for cycle in story.cycles if cycle.decision.reason.code == "CYCLE_FAILED")
    lines = explain_decision(cycle)["lines"]
    assert "nothing: the cycle failed" in lines[1]
    assert "observe failed: TypeError" in "\n".join(lines)


def test_a_hold_is_explained_like_a_change(story):
    lines = explain_decision(story.cycles[3])["lines"]
    assert "hold at 1" in lines[0]
    assert lines[-1].split(maxsplit=1)[1] == "nothing was to be done"


def test_why_at_a_time_is_the_decision_that_was_in_force(story):
    assert story.at(START + 3.9, "--at").record.at == START + 2.0
    with pytest.raises(InputError, match="does not cover that time"):
        story.at(START - 1.0, "--at")


def test_since_a_time_holds_are_gathered_and_changes_stand_alone(story):
    spans = explain_since(story, story.since(START, "--since"))["spans"]
    assert sum(span["decisions"] for span in spans) == len(story.cycles)
    changes = [span for span in spans if span["action"] != "hold" and span["outcome"]["status"] == "applied"]
    assert {span["decisions"] for span in changes} == {1}
    assert len(changes) == sum(cycle.changes for cycle in story.cycles)
    assert len(spans) < len(story.cycles) / 2


def test_the_summary_counts_everything_once(story):
    summary = explain_summary(story)
    assert summary["decisions"] == len(story.cycles)
    told = len(summary["changes"]) + sum(summary["holds"].values()) + sum(summary["withheld"].values())
    assert told == len(story.cycles)
    assert summary["withheld"] == {"PAUSED": sum(cycle.withheld is not None for cycle in story.cycles)}
    assert all(change["outcome"]["code"] != "PAUSED" for change in summary["changes"])
    assert summary["holds"]["CYCLE_FAILED"] == 1
    assert len(summary["gaps"]) == 2
    text = "\n".join(summary["lines"])
    assert "no record from" in text
    assert "(paused)" in text
    assert "2 to 4 executors" in text
    assert "[held]: " in text


def test_an_empty_journal_is_a_fault():
    with pytest.raises(InputError, match="no decision yet"):
        Story([], "here")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("2025-11-28T10:00:00Z", START, id="ISO"),
        pytest.param("2025-11-28 10:00", START, id="ISO without a zone is UTC"),
        pytest.param("2025-11-28T11:00:00+01:00", START, id="ISO with a zone"),
        pytest.param("1764324000", START, id="epoch"),
        pytest.param("10:00", START, id="a time of day before the end"),
        pytest.param("10:00:30", START - 86_370.0, id="a time of day after the end is yesterday's"),
        pytest.param("10m", START - 580.0, id="a duration back from the end"),
    ],
)
def test_times(text, expected):
    assert parse_time(text, "--at", START + 20.0) == expected


@pytest.mark.parametrize("text", ["", "soon", "25:00", "10 parsecs", "-5"])
def test_what_is_no_time_is_a_fault(text):
    with pytest.raises(InputError) as error:
        parse_time(text, "--since", START)
    assert error.value.faults[0].field == "--since"


def test_durations_are_readable():
    assert [duration(s) for s in (0.42, 59.6, 60, 3599, 7200)] == ["0.4 s", "60 s", "1 min", "59 min 59 s", "2 h 0 min"]


@pytest.mark.parametrize(
    ("options", "key"),
    [
        pytest.param([], "holds", id="summary"),
        pytest.param(["--at", "10:00:20"], "proposed", id="at"),
        pytest.param(["--since", "1d"], "spans", id="since"),
        pytest.param(["--decision", "5"], "proposed", id="decision"),
    ],
)
def test_the_command_prints_words_or_json(eventful, capsys, options, key):
    assert main(["explain", str(eventful), *options]) == 0
    words = capsys.readouterr().out
    assert main(["explain", str(eventful), *options, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert key in result
    assert words.splitlines() == result["lines"]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        pytest.param(["--at", "soon"], "--at", id="no time"),
        pytest.param(["--at", "2020-01-01"], "--at", id="before the journal"),
        pytest.param(["--since", "2030-01-01"], "--since", id="after the journal"),
        pytest.param(["--decision", "99999"], "--decision", id="no such decision"),
        pytest.param(["--at", "10:00", "--since", "1h"], "--since", id="two questions"),
    ],
)
def test_a_wrong_question_is_a_fault(eventful, capsys, options, field):
    assert main(["explain", str(eventful), *options, "--json"]) == 2
    assert [f["field"] for f in json.loads(capsys.readouterr().out.splitlines()[-1])["faults"]] == [field]


def test_no_journal_is_a_fault(tmp_path, capsys):
    assert main(["explain", str(tmp_path), "--json"]) == 2
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["faults"][0]["field"] == "journal"


@pytest.mark.parametrize("text", ["9" * 400, "9" * 30 + "d", "0001-01-01T00:00:00+14:00"])
def test_a_time_beyond_the_calendar_is_a_fault(text):
    with pytest.raises(InputError):
        parse_time(text, "--since", START)
