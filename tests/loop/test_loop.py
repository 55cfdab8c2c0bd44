from __future__ import annotations

import dataclasses
import errno
import json
import logging
import math
import threading
from typing import Any, ClassVar

import pytest

from rheostat.config.loading import load_settings
from rheostat.errors import ActuationError, UnavailableError
from rheostat.journal.records import DecisionRecord, OutcomeRecord, SessionRecord
from rheostat.journal.store import JournalWriter, MemoryJournal, read_journal
from rheostat.loop.build import build_decision_settings, open_journal, open_store
from rheostat.loop.clock import ManualClock, SystemClock, next_due
from rheostat.loop.loop import Loop
from rheostat.model import Action, Bounds, Gap, OutcomeStatus, ReasonCode
from rheostat.testing.fakes import ToyJob

START = 1_764_280_800.0


class Rig:
    """A loop on a toy job, a manual clock and a journal in memory."""

    def __init__(self, job=None, journal=None, store=None, shedder=None, **given):
        values = {"objective": "lag < 30s", "executors": [1, 4], "profile": "demo", **given}
        self.settings = load_settings(values)
        self.job = job or ToyJob()
        self.source = self.job
        self.clock = ManualClock(START)
        self.journal = MemoryJournal() if journal is None else journal
        decision_settings = build_decision_settings(self.settings)
        self.loop = Loop(
            self.job,
            decision_settings,
            self.job,
            self.journal,
            self.clock,
            self.settings,
            store=store,
            shedder=shedder,
        )

    def cycles(self, count):
        decisions = []
        for _ in range(count):
            decisions.append(self.loop.cycle())
            self.clock.at += self.settings.sample_s
        return decisions

    @property
    def recorded(self) -> list[DecisionRecord]:
        return [record for record in self.journal.records if isinstance(record, DecisionRecord)]

    @property
    def outcomes(self):
        return [record.outcome for record in self.journal.records if isinstance(record, OutcomeRecord)]

    @property
    def sessions(self) -> list[SessionRecord]:
        return [record for record in self.journal.records if isinstance(record, SessionRecord)]


def swap(owner, name, value) -> None:
    """Break a part of the rig."""
    setattr(owner, name, value)


def codes(decisions):
    return [decision.reason.code for decision in decisions]


# ---------------------------------------------------------------------------------------- a healthy loop


def test_a_rise_and_a_fall_are_followed():
    rig = Rig()
    rig.cycles(5)
    rig.job.rate = 400.0
    rig.cycles(15)
    assert rig.job.executors == 4
    rig.job.rate = 50.0
    rig.cycles(60)
    assert rig.job.executors == 1


def test_every_cycle_is_recorded_before_it_is_executed():
    rig = Rig()
    seen = []
    swap(rig.job, "apply", lambda decision: seen.append(rig.recorded[-1].decision_id == decision.decision_id))
    rig.cycles(3)
    assert seen == [True]
    assert [record.decision_id for record in rig.recorded] == [1, 2, 3]


def test_outcomes_are_recorded_before_the_next_decision_and_refer_to_theirs():
    rig = Rig()
    rig.cycles(2)
    kinds = [type(record).__name__ for record in rig.journal.records]
    assert kinds == ["SessionRecord", "DecisionRecord", "OutcomeRecord", "DecisionRecord"]
    assert [(o.decision_id, o.status) for o in rig.outcomes] == [(1, OutcomeStatus.APPLIED)]


@pytest.mark.parametrize(
    ("executors", "requested", "code", "target", "asked"),
    [
        pytest.param(0, None, ReasonCode.START, 2, [2], id="none registered: the minimum"),
        pytest.param(3, None, ReasonCode.START, 3, [3], id="within the bounds: the present number, so that it is held"),
        pytest.param(1, None, ReasonCode.START, 2, [2], id="under the bounds: the minimum"),
        pytest.param(3, 3, ReasonCode.METRICS_MISSING, 3, [], id="asked for by somebody already"),
        pytest.param(
            9, None, ReasonCode.METRICS_MISSING, 9, [], id="over the bounds: no decrease while nothing is known"
        ),
    ],
)
def test_the_number_to_start_from(executors, requested, code, target, asked):
    rig = Rig(ToyJob(executors=executors, requested=requested), executors=[2, 4])
    [decision] = rig.cycles(1)
    assert (decision.reason.code, decision.target) == (code, target)
    assert [each.target for each in rig.job.applied] == asked


def test_more_executors_than_allowed_are_given_back_once_the_job_is_known():
    rig = Rig(ToyJob(executors=6))
    decisions = rig.cycles(10)
    down = next(decision for decision in decisions if decision.action is Action.DOWN)
    assert (down.current, down.target, down.reason.code) == (6, 4, ReasonCode.AT_MAX)


# ------------------------------------------------------------------------------------------------- modes


def test_watching_records_what_it_would_do_and_does_nothing():
    rig = Rig(mode="watch")
    rig.cycles(5)
    rig.job.rate = 400.0
    rig.cycles(10)
    assert any(record.decision.acts for record in rig.recorded)
    assert rig.job.applied == []
    assert {(o.status, o.reason.code) for o in rig.outcomes} == {(OutcomeStatus.RECORDED, ReasonCode.WATCH_ONLY)}
    assert rig.loop.status().mode == "watch"


def test_watching_needs_no_bounds():
    rig = Rig(mode=None, executors=None)
    rig.cycles(5)
    rig.job.rate = 400.0
    assert any(decision.acts for decision in rig.cycles(10))
    assert rig.job.applied == []


def test_a_pause_holds_everything_back_until_it_is_resumed():
    rig = Rig()
    rig.cycles(5)
    rig.loop.pause()
    rig.job.rate = 400.0
    rig.cycles(10)
    assert len(rig.job.applied) == 1
    assert {(o.status, o.reason.code) for o in rig.outcomes[1:]} == {(OutcomeStatus.HELD, ReasonCode.PAUSED)}
    assert rig.loop.status().paused
    rig.loop.resume()
    rig.cycles(8)
    assert rig.job.executors == 4
    assert [session.note for session in rig.sessions] == [None, "paused", "resumed"]


def test_other_bounds_hold_from_the_next_cycle_and_begin_a_session():
    rig = Rig()
    rig.cycles(5)
    rig.loop.set_bounds(Bounds(3, 5))
    [decision] = rig.cycles(1)
    assert (decision.target, decision.reason.code) == (3, ReasonCode.AT_MIN)
    assert rig.sessions[-1].header.settings["executors"] == [3, 5]
    assert rig.sessions[-1].note == "bounds: 3 to 5"


def test_a_failover_holds_the_executors_and_returns_cleanly():
    """Two idle executors too many, given back before; the switch blocks it, and blocks it still for 30 s after it."""
    rig = Rig(job=ToyJob(executors=4), policy="static", policy_options={"executors": 1})
    assert codes(rig.cycles(1)) == [ReasonCode.START]
    rig.loop.failover(on=True)
    during = rig.cycles(20)
    assert {each.action for each in during} == {Action.HOLD}
    assert during[-1].reason.code is ReasonCode.FAILOVER
    rig.loop.failover(on=False)
    after = rig.cycles(20)
    first = next(number for number, each in enumerate(after) if each.action is Action.DOWN)
    assert (first, {each.reason.code for each in after[:first]}) == (14, {ReasonCode.FAILOVER})
    assert [each.note for each in rig.sessions] == [None, "failover", "the failover has ended"]
    assert [each.header.settings["guard"]["failover"] for each in rig.sessions] == [False, True, False]


# ---------------------------------------------------------------------------------------------- restarts


def overloaded(tmp_path, executors=4):
    rig = Rig(store=open_store(load_settings({"objective": "lag < 30s", "profile": "demo", "state": str(tmp_path)})))
    rig.cycles(5)
    rig.job.rate = 400.0
    rig.cycles(10)
    assert rig.job.executors == executors
    return rig


def restarted(tmp_path, job, **given):
    store = open_store(load_settings({"objective": "lag < 30s", "profile": "demo", "state": str(tmp_path), **given}))
    return Rig(job, store=store, **given)


def test_after_a_restart_the_last_target_is_asked_for_again(tmp_path):
    overloaded(tmp_path)
    rig = restarted(tmp_path, ToyJob(executors=1))
    [decision] = rig.cycles(1)
    assert (decision.action, decision.current, decision.target) == (Action.UP, 1, 4)
    assert decision.reason.code is ReasonCode.RESTORED
    assert [each.target for each in rig.job.applied] == [4]
    assert rig.sessions[0].note == "the state of the run before was taken over"


@pytest.mark.parametrize(
    ("executors", "bounds", "code"),
    [
        pytest.param(4, [1, 4], ReasonCode.START, id="it is there already"),
        pytest.param(1, [1, 3], ReasonCode.START, id="it is out of the new bounds"),
        pytest.param(5, [1, 6], ReasonCode.START, id="more are there: never a decrease"),
    ],
)
def test_a_last_target_that_is_not_asked_for_again(tmp_path, executors, bounds, code):
    overloaded(tmp_path)
    rig = restarted(tmp_path, ToyJob(executors=executors), executors=bounds)
    [decision] = rig.cycles(1)
    assert (decision.reason.code, decision.target) == (code, executors)


@pytest.mark.parametrize("damage", ["{", '{"schema": "rheostat.state/0"}', None], ids=["torn", "old", "other policy"])
def test_a_state_that_does_not_fit_is_left_and_said_once(tmp_path, caplog, damage):
    overloaded(tmp_path)
    given = {}
    if damage is None:
        given = {"policy": "static", "policy_options": {}}
    else:
        (tmp_path / "state.json").write_text(damage)
    with caplog.at_level(logging.WARNING, "rheostat"):
        rig = restarted(tmp_path, ToyJob(), **given)
        rig.cycles(3)
    assert [record.message for record in caplog.records if "without the state" in record.message] != []
    assert len(caplog.records) == 1
    assert "without the state" in (rig.sessions[0].note or "")


def test_a_damaged_state_of_version_0_1_is_left(tmp_path):
    overloaded(tmp_path)
    document = json.loads((tmp_path / "state.json").read_text())
    document["state"] = {"plan": None, "analysis": {}, "own": {}}
    (tmp_path / "state.json").write_text(json.dumps(document))
    rig = restarted(tmp_path, ToyJob())
    rig.cycles(1)
    note = rig.sessions[0].note or ""
    assert note.startswith("started without the state of the run before: the state does not fit")
    assert note.endswith("plan is not a mapping")


def test_a_state_that_cannot_be_kept_costs_a_line_in_the_log_and_nothing_else(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    settings = load_settings({"objective": "lag < 30s", "state": str(tmp_path / "file" / "state")})
    rig = Rig(store=open_store(settings))
    decisions = rig.cycles(3)
    assert ReasonCode.CYCLE_FAILED not in codes(decisions)
    assert len([record for record in caplog.records if "state failed" in record.message]) == 1


def test_lost_executors_are_asked_for_again_after_a_while():
    rig = Rig(ToyJob(executors=3), policy="static", policy_options={"executors": 3})
    rig.cycles(5)
    rig.job.executors, rig.job.room = 2, 2
    decisions = rig.cycles(60)
    asked = [decision for decision in decisions if decision.reason.code is ReasonCode.REPLACING_LOST]
    assert [(each.current, each.target) for each in asked] == [(2, 3), (2, 3)]
    assert asked[0].at - (START + 10.0) == 30.0
    assert asked[1].at - asked[0].at >= 60.0


class Losing(ToyJob):
    """What was granted is gone before anybody looks, and there is no room for more."""

    def poll(self, at):
        outcome = super().poll(at)
        if outcome is not None:
            self.executors = self.room = 2
        return outcome


def test_executors_that_were_lost_before_the_next_look_are_asked_for_again():
    """All three came, as the outcome says, and one was gone again when the cycle looked."""
    rig = Rig(Losing(executors=2), executors=[3, 4])
    asked = [each for each in rig.cycles(60) if each.reason.code is ReasonCode.REPLACING_LOST]
    assert (asked[0].current, asked[0].target) == (2, 3)


def test_executors_that_never_came_are_not_lost():
    rig = Rig(ToyJob(executors=1, room=1), executors=[3, 4])
    assert ReasonCode.REPLACING_LOST not in codes(rig.cycles(60))


# ------------------------------------------------------------------------------------------------ faults


def raises(error):
    def broken(*_args):
        raise error

    return broken


def without(**sections):
    """A look at the job in which something is missing."""

    def look(real, at):
        seen = real(at)
        query = dataclasses.replace(seen.queries[0], **{k: v for k, v in sections.items() if k != "cluster"})
        cluster = None if "cluster" in sections else seen.cluster
        return dataclasses.replace(seen, queries=(query,), cluster=cluster, gaps=(Gap("offsets", "no answer"),))

    return look


def frozen(real, at):
    seen = real(START + 4.0)
    return dataclasses.replace(seen, at=at)


def not_a_number(real, at):
    seen = real(at)
    batch = dataclasses.replace(seen.queries[0].batch, commit_s=math.nan)
    return dataclasses.replace(seen, queries=(dataclasses.replace(seen.queries[0], batch=batch),))


def nothing(real, at):
    return dataclasses.replace(real(at), queries=())


def failing(_real, _at):
    raise UnavailableError("the driver does not answer")


def nonsense(_real, _at):
    return 42


@pytest.mark.parametrize(
    ("look", "code"),
    [
        pytest.param(without(offsets=None), ReasonCode.METRICS_MISSING, id="no offsets"),
        pytest.param(without(cluster=None), ReasonCode.METRICS_MISSING, id="no executors"),
        pytest.param(frozen, ReasonCode.METRICS_STALE, id="the same reading again and again"),
        pytest.param(not_a_number, ReasonCode.METRICS_INVALID, id="a commit of NaN seconds"),
        pytest.param(nothing, ReasonCode.NO_QUERY, id="no query"),
        pytest.param(failing, ReasonCode.CYCLE_FAILED, id="the source raises"),
        pytest.param(nonsense, ReasonCode.CYCLE_FAILED, id="the source returns nonsense"),
    ],
)
def test_what_cannot_be_seen_is_a_hold_and_the_loop_goes_on(look, code):
    rig = Rig(ToyJob(executors=3, rate=30.0))
    rig.cycles(3)
    real = rig.job.observe
    swap(rig.job, "observe", lambda at: look(real, at))
    rig.cycles(2)
    applied = len(rig.job.applied)
    decisions = rig.cycles(30)
    assert set(codes(decisions)) == {code}
    assert {decision.action for decision in decisions} == {Action.HOLD}
    assert len(rig.job.applied) == applied
    assert codes(record.decision for record in rig.recorded[5:]) == [code] * 30
    swap(rig.job, "observe", real)
    assert any(decision.action is Action.DOWN for decision in rig.cycles(30))


def test_a_failing_stage_is_logged_once_with_what_to_do(caplog):
    rig = Rig()
    swap(rig.job, "observe", raises(UnavailableError("the driver does not answer")))
    rig.cycles(5)
    assert len(caplog.records) == 1
    assert "observe failed: UnavailableError: the driver does not answer" in caplog.text
    assert "look whether the application and its sources answer" in caplog.text
    status = rig.loop.status()
    assert (status.cycles, status.failures) == (5, 5)
    assert status.last_failure == "observe failed: UnavailableError: the driver does not answer"


def test_a_policy_that_raises_is_a_hold():
    class Broken:
        name: ClassVar[str] = "broken"
        self_managed_steps: ClassVar[frozenset[str]] = frozenset()
        state_type = int

        def initial(self) -> int:
            return 0

        def recommend(self, _seen, state):
            return 1 / state

        def capacity(self, _executors, _state):
            return None

    broken: Any = Broken()
    rig = Rig(ToyJob(executors=3))
    rig.cycles(2)
    rig.loop._decision_settings = dataclasses.replace(rig.loop._decision_settings, policy=broken)
    rig.loop._state = dataclasses.replace(rig.loop._state, policy=0)
    decisions = rig.cycles(3)
    assert codes(decisions) == [ReasonCode.CYCLE_FAILED] * 3
    assert [decision.target for decision in decisions] == [3, 3, 3]
    assert [record.decision_id for record in rig.recorded] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(ActuationError("refused by the master"), ReasonCode.REQUEST_REJECTED, id="the cluster refuses"),
        pytest.param(RuntimeError("py4j is gone"), ReasonCode.CYCLE_FAILED, id="something else"),
    ],
)
def test_an_actuator_that_raises_is_a_failed_outcome(error, code, caplog):
    rig = Rig()
    rig.cycles(5)
    swap(rig.job, "apply", raises(error))
    rig.job.rate = 400.0
    decisions = rig.cycles(20)
    assert ReasonCode.CYCLE_FAILED not in codes(decisions)
    assert {(o.status, o.reason.code) for o in rig.outcomes[1:]} == {(OutcomeStatus.FAILED, code)}
    assert ReasonCode.NO_ROOM in codes(decisions), "it backs off"
    assert len(caplog.records) == 1


def test_an_actuator_that_cannot_be_asked_does_not_stop_the_cycle(caplog):
    rig = Rig()
    swap(rig.job, "poll", raises(RuntimeError("no answer")))
    decisions = rig.cycles(3)
    assert ReasonCode.CYCLE_FAILED not in codes(decisions)
    assert len(caplog.records) == 1


def test_an_answer_of_poll_that_is_no_outcome_is_the_actuators_fault(caplog):
    rig = Rig()
    swap(rig.job, "poll", lambda _at: "done")
    decisions = rig.cycles(3)
    assert ReasonCode.CYCLE_FAILED not in codes(decisions)
    assert rig.outcomes == []
    message = "poll failed: TypeError: the actuator executors: poll returned 'done', it must be an Outcome or None"
    assert rig.loop.status().last_failure == message
    assert len(caplog.records) == 1


def test_without_a_journal_nothing_is_done_and_nothing_is_remembered(caplog):
    rig = Rig()
    rig.cycles(5)
    states = rig.loop._state
    rig.journal.broken = "No space left on device"
    rig.job.rate = 400.0
    decisions = rig.cycles(10)
    assert codes(decisions) == [ReasonCode.CYCLE_FAILED] * 10
    assert len(rig.job.applied) == 1
    assert rig.loop._state == states
    assert len(caplog.records) == 1
    assert "nothing is changed until the journal can be written" in caplog.text
    rig.journal.broken = None
    rig.cycles(10)
    assert rig.job.executors == 4
    assert [record.decision_id for record in rig.recorded] == list(range(1, 16))


def test_an_outcome_that_could_not_be_recorded_is_learnt_later():
    rig = Rig()
    rig.cycles(1)
    rig.journal.broken = "No space left on device"
    rig.cycles(3)
    assert rig.outcomes == []
    rig.journal.broken = None
    rig.cycles(1)
    assert [outcome.decision_id for outcome in rig.outcomes] == [1]


def test_a_full_disk_under_a_real_journal(tmp_path, monkeypatch):
    rig = Rig(journal=JournalWriter(tmp_path))
    rig.cycles(5)
    with monkeypatch.context() as patch:
        patch.setattr("os.write", raises(OSError(errno.ENOSPC, "No space left on device")))
        assert codes(rig.cycles(3)) == [ReasonCode.CYCLE_FAILED] * 3
    rig.job.rate = 400.0
    rig.cycles(60)
    rig.journal.close()
    assert rig.job.executors == 4
    ids = [record.decision_id for record in read_journal(tmp_path) if isinstance(record, DecisionRecord)]
    assert ids == list(range(1, 66))


def test_numbers_go_on_where_the_journal_ended(tmp_path):
    for _ in range(2):
        rig = Rig(journal=JournalWriter(tmp_path))
        rig.cycles(3)
        rig.journal.close()
    ids = [record.decision_id for record in read_journal(tmp_path) if isinstance(record, DecisionRecord)]
    assert ids == [1, 2, 3, 4, 5, 6]


def test_no_journal_on_disk_keeps_the_last_records_in_state():
    journal = open_journal(load_settings({"objective": "lag < 30s"}))
    rig = Rig(journal=journal)
    rig.cycles(1200)
    assert len(rig.journal.records) == 1000
    assert rig.loop.status().journal is None


# -------------------------------------------------------------------------------------------------- time


@pytest.mark.parametrize(
    ("due", "now", "expected"),
    [
        pytest.param(100.0, 100.0, 110.0, id="on time"),
        pytest.param(100.0, 107.0, 110.0, id="a slow cycle keeps the beat"),
        pytest.param(100.0, 110.0, 120.0, id="exactly one beat late"),
        pytest.param(100.0, 137.0, 140.0, id="missed beats are skipped, not caught up"),
        pytest.param(100.0, 50.0, 60.0, id="a clock set back"),
    ],
)
def test_the_beat(due, now, expected):
    assert next_due(due, now, 10.0) == expected


def test_run_keeps_the_beat_although_cycles_take_time():
    rig = Rig()
    real, times = rig.job.observe, []

    def slow(at):
        times.append(at - START)
        rig.clock.at += 5.0 if len(times) == 3 else 0.5
        if len(times) == 6:
            rig.loop.stop()
        return real(at)

    swap(rig.job, "observe", slow)
    rig.loop.run()
    assert times == [0.0, 2.0, 4.0, 10.0, 12.0, 14.0]
    assert not rig.job.closed, "the caller closes what is the caller's"


def test_run_ends_at_once_when_stopped_from_another_thread():
    rig = Rig(sample_s=3600.0)
    clock = SystemClock()
    looked = threading.Event()
    real = rig.job.observe

    def look(at):
        looked.set()
        return real(at)

    swap(rig.job, "observe", look)
    loop = Loop(rig.job, build_decision_settings(rig.settings), rig.job, rig.journal, clock, rig.settings)
    thread = threading.Thread(target=loop.run, daemon=True)
    thread.start()
    assert looked.wait(10.0)
    loop.stop()
    thread.join(10.0)
    assert not thread.is_alive()
    assert [o.decision_id for o in rig.outcomes] == [1], "the last outcome is in the journal"


def test_status_tells_where_it_stands():
    rig = Rig()
    assert rig.loop.status().decision is None
    rig.cycles(5)
    status = rig.loop.status()
    assert (status.mode, status.policy, status.executors, status.target) == ("act", "reactive", 1, 1)
    assert (status.cycles, status.failures, status.paused, status.last_failure) == (5, 0, False, None)
    assert status.decision is not None
    assert status.decision.decision_id == 5
    assert status.lag_s == pytest.approx(5.0, abs=0.1)


# --------------------------------------------------------------------------------- a thread that has died


def test_after_its_thread_died_the_loop_goes_on_where_it_was_and_says_so(caplog):
    rig = Rig()
    rig.cycles(5)
    before = rig.recorded[-1]
    rig.clock.stop()

    rig.loop.run(after=SystemExit("enough"))
    rig.loop.run(after=SystemExit("enough"))

    went_on = rig.recorded[5:]
    assert codes(record.decision for record in went_on[::2]) == [ReasonCode.CYCLE_FAILED, ReasonCode.CYCLE_FAILED]
    assert ReasonCode.CYCLE_FAILED not in codes(record.decision for record in went_on[1::2])
    assert all(record.decision.action is not Action.DOWN for record in went_on)
    numbers = [record.decision_id for record in rig.recorded]
    assert numbers == sorted(set(numbers))
    assert went_on[0].decision_id > before.decision_id
    assert [session.note for session in rig.sessions[1:]] == ["the loop is started again: its thread had died"] * 2
    assert [record.message for record in caplog.records] == [
        "run failed: SystemExit: enough; the loop's thread died and a new one goes on; please report it with the"
        " journal if nobody ended it (logged once)"
    ]
    assert rig.loop.status().failures == 2


def test_a_query_that_can_never_be_measured_is_named_once_and_alone_nothing_is_done(caplog):
    class Ticks(ToyJob):
        def observe(self, at):
            seen = super().observe(at)
            queries = [dataclasses.replace(query, offsets=None, uncountable="rate") for query in seen.queries]
            return dataclasses.replace(seen, queries=tuple(queries))

    rig = Rig(Ticks())
    with caplog.at_level(logging.WARNING):
        decisions = rig.cycles(5)
    assert codes(decisions[1:]) == [ReasonCode.METRICS_MISSING] * 4
    assert "'rate'" in decisions[-1].reason.text
    assert [each.getMessage().count("'rate'") for each in caplog.records] == [1]
