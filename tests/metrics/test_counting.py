"""What is remembered of the journal, and that listening changes nothing of it."""

import pytest
from tests.metrics.cycles import START, WHOLE, cycle

from rheostat.config.loading import load_settings
from rheostat.errors import JournalError
from rheostat.journal.records import DecisionRecord, Header, OutcomeRecord, SessionRecord
from rheostat.journal.store import JournalWriter, MemoryJournal
from rheostat.loop.build import build_decision_settings
from rheostat.loop.clock import ManualClock
from rheostat.loop.loop import Loop
from rheostat.metrics import CountingJournal, JobMetrics
from rheostat.model import Action, Outcome, OutcomeStatus, Reason, ReasonCode
from rheostat.testing.fakes import ToyJob


def overheard():
    metrics, journal = JobMetrics(), MemoryJournal()
    return metrics, journal, CountingJournal(journal, metrics)


def held(number):
    return cycle(WHOLE, number=number, action=Action.HOLD, code=ReasonCode.STEADY)


def failed(number):
    return cycle(None, number=number, action=Action.HOLD, code=ReasonCode.CYCLE_FAILED)


def test_the_last_record_is_kept_and_decisions_are_counted_by_action_and_code():
    metrics, journal, listening = overheard()
    records = [held(1), cycle(number=2), held(3), failed(4)]
    for record in records:
        listening.record(record, dict)
    assert list(journal.records) == records
    assert metrics.state.last is records[-1]
    assert metrics.state.decisions == {
        (Action.HOLD, ReasonCode.STEADY): 2,
        (Action.UP, ReasonCode.UNDERSIZED): 1,
        (Action.HOLD, ReasonCode.CYCLE_FAILED): 1,
    }
    assert metrics.state.failed == 1


def test_an_outcome_changes_nothing_of_what_is_known():
    metrics, journal, listening = overheard()
    listening.record(held(1), dict)
    known = metrics.state
    outcome = Outcome(START, 1, OutcomeStatus.APPLIED, Reason(ReasonCode.APPLIED, "done"), 4)
    listening.record(OutcomeRecord(START, outcome), dict)
    assert metrics.state is known
    assert len(journal.records) == 2


def test_what_was_read_before_a_record_stays_as_it_was():
    metrics, _, listening = overheard()
    listening.record(held(1), dict)
    before = metrics.state
    listening.record(held(2), dict)
    assert before.decisions == {(Action.HOLD, ReasonCode.STEADY): 1}


def test_a_record_that_cannot_be_written_leaves_nothing_known_and_is_no_decision():
    metrics, journal, listening = overheard()
    listening.record(held(1), dict)
    journal.broken = "no space left"
    for record in (held(2), failed(2)):
        with pytest.raises(JournalError, match="no space left"):
            listening.record(record, dict)
    assert (metrics.state.last, metrics.state.failed) == (None, 1)
    assert metrics.state.decisions == {(Action.HOLD, ReasonCode.STEADY): 1}


def test_it_is_the_journal_to_the_loop(tmp_path):
    inner = JournalWriter(tmp_path)
    inner.start(Header("0", {}))
    inner.record(held(7), dict)
    inner.close()
    inner = JournalWriter(tmp_path)
    listening = CountingJournal(inner, JobMetrics())
    assert (listening.last_id, listening.folder) == (7, tmp_path)
    listening.close()
    JournalWriter(tmp_path).close()


def test_a_loop_is_overheard_and_decides_the_same():
    settings = load_settings({"objective": "lag < 30s", "executors": [1, 4], "profile": "demo"})

    def run(journal):
        job, clock = ToyJob(rate=300.0), ManualClock(START)
        loop = Loop(job, build_decision_settings(settings), job, journal, clock, settings)
        for _ in range(20):
            loop.cycle()
            clock.at += settings.sample_s
        return loop.status()

    plain = MemoryJournal()
    metrics, inner, listening = overheard()
    assert run(listening) == run(plain)
    assert [type(record) for record in inner.records] == [type(record) for record in plain.records]
    assert isinstance(inner.records[0], SessionRecord)
    decisions = [record for record in inner.records if isinstance(record, DecisionRecord)]
    assert sum(metrics.state.decisions.values()) == len(decisions) == 20
    assert metrics.state.last is decisions[-1]
