import re
from pathlib import Path

import pytest

from rheostat.errors import InputError
from rheostat.journal.records import DecisionRecord, OutcomeRecord, Record
from rheostat.model import Action, Assessment, Decision, Outcome, OutcomeStatus, Reason, ReasonCode, Recommendation
from rheostat.report.html import Page, write_report
from rheostat.report.score import Series


def cycle(at: float, number: int, current: int, target: int, text: str = "why") -> DecisionRecord:
    action = Action.HOLD if current == target else Action.UP if target > current else Action.DOWN
    reason = Reason(ReasonCode.STEADY if action is Action.HOLD else ReasonCode.SLA_VIOLATED, text)
    seen = Assessment(at, executors=current, requested=current, arrival_rate=100.0 * number, backlog=7, lag_s=1.5)
    return DecisionRecord.of(
        None, seen, Decision(at, number, action, current, target, reason, Recommendation(target, reason))
    )


def applied(number: int, target: int) -> OutcomeRecord:
    reason = Reason(ReasonCode.APPLIED, f"{target} executors registered")
    return OutcomeRecord(1012.0, Outcome(1012.0, number, OutcomeStatus.APPLIED, reason, target))


RUN: list[Record] = [
    cycle(1000.0, 1, 1, 1),
    cycle(1010.0, 2, 1, 3, "load < 5 & rising"),
    applied(2, 3),
    cycle(1020.0, 3, 3, 3),
]


def test_a_journal_becomes_columns():
    run = Series(RUN)
    assert (run.start, run.at) == (1000.0, [0.0, 10.0, 20.0])
    assert run.column("arrival_rate") == [100.0, 200.0, 300.0]
    assert (run.column("executors"), run.targets()) == ([1, 1, 3], [1, 3, 3])
    [(decision, outcome)] = run.changes
    assert (decision.decision_id, outcome and outcome.status) == (2, "applied")


def test_a_decision_without_an_outcome_is_shown_as_such(tmp_path):
    run = Series([RUN[0], RUN[1]])
    assert run.changes[0][1] is None
    assert "no end recorded: a later change" in write_report(tmp_path / "r.html", Page("t", "v"), run, 10.0).read_text()


def test_a_cycle_that_saw_nothing_leaves_gaps():
    failed = Decision(
        1005.0,
        9,
        Action.HOLD,
        None,
        None,
        Reason(ReasonCode.CYCLE_FAILED, "no"),
        Recommendation(None, Reason(ReasonCode.CYCLE_FAILED, "no")),
    )
    run = Series([RUN[0], DecisionRecord.of(None, None, failed)])
    assert [run.column(name) for name in ("lag_s", "backlog", "executors")] == [[1.5, None], [7, None], [1, None]]


def test_the_report_stands_alone_and_says_what_it_was_told(tmp_path):
    page = Page("Run <1>", "34% saved", notes=["a & b"], score={"lag_p95_s": 1.25, "excess_time": None})
    text = write_report(tmp_path / "deep" / "report.html", page, Series(RUN), 20.0).read_text(encoding="utf-8")
    assert re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=", text) == []
    for expected in ("Run &lt;1&gt;", "34% saved", "a &amp; b", "load &lt; 5 &amp; rising", "1.250", "not measured"):
        assert expected in text


def test_a_place_that_cannot_be_written_is_a_fault(tmp_path):
    taken = tmp_path / "file"
    taken.write_text("")
    with pytest.raises(InputError) as caught:
        write_report(taken / "report.html", Page("t", "v"), Series(RUN), 20.0)
    assert caught.value.faults[0].field == "out"
    assert Path(taken).read_text() == ""
