"""Changing the number of executors: what is asked for, what comes, when, and what the outcome says."""

import pytest
from tests.execute import contract
from tests.sim.jobs import ask, decision, plain, simulated, stage

from rheostat.errors import ActuationError
from rheostat.load.curves import constant
from rheostat.model import OutcomeStatus, ReasonCode

LONG = constant(100, 1000)
SLOW_START = {"cold_task_s": 0.0, "start_up": {"median_s": 50.0, "p95_s": 50.0}}


def told(sim, at):
    """The outcome that is known at a time: when, status, code, before and after, method, waited."""
    outcome = sim.poll(at)
    if outcome is None:
        return None
    return outcome.at, outcome.status, outcome.reason.code, outcome.before, outcome.after, outcome.method


@pytest.mark.parametrize("rule", contract.RULES, ids=lambda rule: rule.__name__)
def test_it_keeps_the_contract_of_actuators(rule):
    rule(contract.Case(simulated(plain())))


def test_more_executors_are_paid_for_from_the_request_and_ready_after_their_start_up():
    sim = simulated(plain(), LONG, executors=2)
    ask(sim, 4, 10.0)
    assert told(sim, 13.9) is None
    assert told(sim, 20.0) == (14.0, OutcomeStatus.APPLIED, ReasonCode.APPLIED, 2, 4, "request")
    history = sim.history
    assert (history.target, history.paid, history.ready) == (
        [(0.0, 2), (10.0, 4)],
        [(0.0, 2), (10.0, 4)],
        [(0.0, 2), (14.0, 4)],
    )


def test_those_that_start_together_take_longer_where_they_crowd():
    """Two at once, each adds a half to the other: 4 × 1.5 s."""
    sim = simulated(plain(executor={"start_up": {"median_s": 4.0, "p95_s": 4.0}, "crowding": 0.5}), LONG)
    ask(sim, 3, 10.0)
    assert told(sim, 60.0)[0] == 16.0


def test_the_newest_are_removed_in_the_gap_after_the_running_batch():
    """A batch runs from 2 to 3; Spark lists a removed executor for 5 s more, then the outcome is known."""
    sim = simulated(plain(), LONG, executors=4)
    ask(sim, 2, 2.5)
    assert [executor.executor_id for executor in sim.observe(2.9).cluster.executors] == ["0", "1", "2", "3"]
    assert [executor.executor_id for executor in sim.observe(3.0).cluster.executors] == ["0", "1"]
    assert told(sim, 7.9) is None
    outcome = sim.poll(8.0)
    assert (outcome.at, outcome.status, outcome.method, outcome.waited_s) == (3.0, OutcomeStatus.APPLIED, "gap", 0.5)
    assert sim.history.paid == [(0.0, 4), (3.0, 2)]


def test_the_roster_lists_an_executor_once_it_is_registered():
    sim = simulated(plain(), LONG, executors=2)
    first, second = (sim.observe(at).cluster.roster for at in (1.0, 9.0))
    assert first == second
    ask(sim, 3, 10.0)
    assert sim.observe(13.9).cluster.roster == second
    third = sim.observe(14.0).cluster.roster
    assert (third.ids, third.added_at, third.cores) == (("0", "1", "2"), (0.0, 0.0, 14.0), (1, 1, 1))


def test_while_one_batch_follows_another_executors_go_later_and_while_idle():
    """Overloaded: batches from 2, 5, 9.5 and 16.25. Only the end at 16.25 is more than 10 s after 3."""
    sim = simulated(plain(stages=stage(15.0)), LONG, executors=2)
    ask(sim, 1, 3.0)
    outcome = sim.poll(22.0)
    assert (outcome.at, outcome.status, outcome.method, outcome.waited_s) == (
        16.25,
        OutcomeStatus.APPLIED,
        "idle",
        13.25,
    )
    assert sim.history.ready == [(0.0, 2), (16.25, 1)]


def test_between_two_batches_they_are_removed_at_once():
    sim = simulated(plain(), LONG, executors=2)
    ask(sim, 1, 3.5)
    assert sim.history.ready == [(0.0, 2), (3.5, 1)]


def test_without_a_gap_in_time_a_decrease_is_given_up():
    """A batch of 200 records at 0.3 s runs from 2 to 32 on two of 2 partitions; nothing for 5 s after 3."""
    job = plain(partitions=2, stages=stage(300.0), rescale={"safe_moment_s": 5.0})
    sim = simulated(job, LONG, executors=2)
    ask(sim, 1, 3.0)
    assert told(sim, 60.0) == (8.0, OutcomeStatus.HELD, ReasonCode.NOTHING_IDLE, 2, 2, "none")
    assert sim.history.target == [(0.0, 2), (3.0, 1), (8.0, 2)]
    assert sim.history.ready == [(0.0, 2)]


@pytest.mark.parametrize(
    ("room", "status", "after"),
    [pytest.param(2, OutcomeStatus.NO_ROOM, 2, id="none"), pytest.param(3, OutcomeStatus.PARTIAL, 3, id="for one")],
)
def test_a_cluster_without_room(room, status, after):
    """The one that there is room for comes at 14; 15 s after the last arrival this is told. The request stands."""
    sim = simulated(plain(rescale={"room": room}), LONG, executors=2)
    ask(sim, 4, 10.0)
    given_up = 25.0 if room == 2 else 29.0
    assert told(sim, 60.0) == (given_up, status, ReasonCode.NO_ROOM, 2, after, "request")
    assert sim.history.target == [(0.0, 2), (10.0, 4)]
    assert sim.observe(60.0).cluster.requested == 4


def test_executors_whose_wait_was_in_vain_come_all_the_same():
    """Start-ups of 4 s take 120 s meanwhile: told after 15 s, there after 120."""
    events = plain(events=[{"kind": "late", "at_s": 0, "factor": 30.0}]).events
    sim = simulated(plain(), LONG, executors=2, events=events)
    ask(sim, 4, 10.0)
    assert told(sim, 60.0)[:3] == (25.0, OutcomeStatus.NO_ROOM, ReasonCode.NO_ROOM)
    assert len(sim.observe(131.0).cluster.roster.ids) == 4


def test_room_that_appears_in_time_is_used():
    events = plain(events=[{"kind": "no-room", "at_s": 0, "for_s": 18, "room": 2}]).events
    sim = simulated(plain(), LONG, executors=2, events=events)
    ask(sim, 3, 10.0)
    assert told(sim, 60.0) == (22.0, OutcomeStatus.APPLIED, ReasonCode.APPLIED, 2, 3, "request")


def test_a_later_decision_calls_off_those_on_their_way():
    """Four are on their way from 10; at 12 only two of them are wanted, and the newest go."""
    sim = simulated(plain(), LONG, executors=2)
    ask(sim, 6, 10.0, number=1)
    ask(sim, 4, 12.0, number=2)
    assert sim.poll(20.0).decision_id == 2
    assert sim.poll(20.0) is None
    assert sim.history.paid == [(0.0, 2), (10.0, 6), (12.0, 4)]
    assert sim.history.ready == [(0.0, 2), (14.0, 4)]


def test_a_decrease_calls_off_those_on_their_way_too():
    sim = simulated(plain(executor=SLOW_START), LONG, executors=2)
    ask(sim, 6, 10.0)
    ask(sim, 1, 11.5)
    sim.advance(100.0)
    assert sim.history.ready == [(0.0, 2), (11.5, 1)]
    assert sim.history.paid == [(0.0, 2), (10.0, 6), (11.5, 1)]


def test_a_rejected_request_changes_nothing():
    events = plain(events=[{"kind": "reject", "at_s": 5, "for_s": 10}]).events
    sim = simulated(plain(), LONG, events=events)
    ask(sim, 3, 10.0)
    assert told(sim, 10.0) == (10.0, OutcomeStatus.FAILED, ReasonCode.REQUEST_REJECTED, 1, None, "none")
    assert sim.history.target == [(0.0, 1)]
    ask(sim, 3, 15.0, number=2)
    assert told(sim, 30.0)[:2] == (19.0, OutcomeStatus.APPLIED)


def test_a_late_request_takes_its_factor_longer():
    events = plain(events=[{"kind": "late", "at_s": 5, "for_s": 10, "factor": 3}]).events
    sim = simulated(plain(), LONG, events=events)
    ask(sim, 2, 10.0)
    assert told(sim, 60.0)[0] == 22.0


def test_a_restart_stops_at_a_batchs_end_with_all_that_were_asked_for():
    """The second is there at 7.5, in the batch from 6 to 7.98: stopped then, on two executors again 10 s later."""
    pause = {"mode": "restart", "pause": {"median_s": 10.0, "p95_s": 10.0}}
    sim = simulated(plain(stages=stage(10.0), rescale=pause), constant(99, 1000))
    ask(sim, 2, 3.5)
    paused = sim.observe(10.0)
    assert (paused.queries, [gap.section for gap in paused.gaps]) == ((), ["queries"])
    outcome = sim.poll(20.0)
    assert (outcome.status, outcome.method, outcome.before, outcome.after) == (OutcomeStatus.APPLIED, "restart", 1, 2)
    assert round(outcome.at, 6) == 17.98
    assert sim.observe(20.0).queries[0].run_id == "run-1"
    sim.advance(40.0)
    assert sim.history.ready == [(0.0, 1), (7.5, 2)]
    batches = [(round(start, 6), executors) for start, _, _, executors in sim.history.batches]
    assert batches[:4] == [(2.0, 1), (4.0, 1), (6.0, 1), (17.98, 2)]


def test_a_restart_with_fewer_takes_them_away_at_the_stop():
    pause = {"mode": "restart", "pause": {"median_s": 10.0, "p95_s": 10.0}}
    sim = simulated(plain(rescale=pause), LONG, executors=3)
    ask(sim, 1, 2.5)
    sim.advance(20.0)
    assert sim.history.paid == [(0.0, 3), (3.0, 1)]
    assert [round(start, 6) for start, *_ in sim.history.batches][:2] == [2.0, 13.0]


def test_an_increase_without_a_number_is_refused():
    with pytest.raises(ActuationError):
        simulated(plain()).apply(decision(None))


def test_the_start_up_of_the_kth_executor_depends_on_the_seed_and_k_alone():
    job = plain(executor={"start_up": {"median_s": 10.0, "p95_s": 20.0}}, rescale={"no_room_s": 900.0})

    def start_ups(*asked, seed=1):
        sim = simulated(job, LONG, seed=seed)
        for at, target in asked:
            ask(sim, target, at)
        sim.advance(900.0)
        begins = [at for (at, n), before in zip(sim.history.paid[1:], sim.history.paid, strict=False) if n > before[1]]
        ends = [at for (at, n), before in zip(sim.history.ready[1:], sim.history.ready, strict=False) if n > before[1]]
        return [round(end - begin, 9) for begin, end in zip(begins, ends, strict=True)]

    early, late = start_ups((10.0, 2), (100.0, 3)), start_ups((200.0, 2), (300.0, 1), (400.0, 2))
    assert early == late
    assert early[0] != early[1]
    assert start_ups((10.0, 2), seed=2) != early[:1]


def test_state_is_read_again_where_its_executor_was_removed():
    """2 of 4 executors go in the gap at 3: half of the 8 stateful tasks take 1 s longer, once: 4 waves, two of 1 s."""
    stages = [{"name": "keep", "tasks": 8, "cost_ms": 0.0, "task_ms": 100.0, "stateful": True}]
    sim = simulated(plain(stages=stages, state={"reload_s": 1.0}), LONG, executors=4)
    ask(sim, 2, 3.0)
    sim.advance(8.0)
    assert [round(end - start, 6) for start, end, *_ in sim.history.batches] == [0.2, 2.4, 0.4]
