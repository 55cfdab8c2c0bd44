"""What failed is remembered: waits for nodes, decreases that kill executors, increases that make tasks fail."""

from itertools import pairwise

import pytest
from tests.sim.test_loop import run, small

from rheostat.journal.records import DecisionRecord
from rheostat.load.curves import staircase
from rheostat.model import ReasonCode

pytestmark = pytest.mark.slow

NAMES = ("hpa", "reactive", "keda", "ds2", "flink", "router", "mst", "proactive", "amadeus", "threshold")


QUARTERS = {"profile": "default", "sample_s": 15.0}


def policies(but=""):
    """All but one that does not come into the situation."""
    return [each for each in NAMES if each != but]


def job(**changes):
    """100/s for each executor, batches each 5 s, decisions each 15 s."""
    given = {"trigger_s": 5.0, "partitions": 48, "decide_every_s": 15.0, "executors": (1, 12)}
    return small(**changes).model_copy(update=given)


def decisions(journal):
    return [record.decision for record in journal.records if isinstance(record, DecisionRecord)]


def acts(journal):
    return [each for each in decisions(journal) if each.acts and each.current != each.target]


@pytest.mark.parametrize("policy", policies())
def test_a_request_stands_while_nodes_start_for_four_minutes(policy):
    """Executors start within 4 s, but from now on in 240 s; 450/s come, 200/s are carried."""
    late = job(events=[{"kind": "late", "at_s": 0.0, "factor": 60.0}])
    sim, journal = run(late, staircase([(60, 150), (600, 450)]), policy, executors=2, **QUARTERS)
    asked_at, asked = next((at, number) for at, number in sim.history.target if number > 2)
    came_at = next(at for at, number in sim.history.ready if number >= asked)
    assert came_at == asked_at + 240.0, "nobody called it off and asked again"
    assert all(number >= asked for at, number in sim.history.target if asked_at <= at < came_at)
    assert "stay asked for" in "".join(
        record.outcome.reason.text
        for record in journal.records
        if not isinstance(record, DecisionRecord) and hasattr(record, "outcome")
    )


@pytest.mark.parametrize("policy", policies())
def test_a_request_that_is_never_granted_is_lowered_when_nobody_needs_it(policy):
    """Room for three; 600/s for 15 minutes and then 50/s, for which one is enough."""
    sim, journal = run(
        job(rescale={"room": 3}), staircase([(300, 250), (900, 600), (3600, 50)]), policy, executors=3, **QUARTERS
    )
    assert max(number for _, number in sim.history.target) > 3
    assert sim.history.target[-1][1] <= 2
    assert len(sim.history.ready) <= 6, "what never came is not given back one by one"
    assert {each.reason.code for each in decisions(journal)} >= {ReasonCode.NO_ROOM}


@pytest.mark.parametrize("policy", policies())
def test_a_decrease_that_kills_executors_is_not_made_again_and_again(policy):
    """With fewer than six executors one dies each 30 s; 250/s need three. 189 changes were seen in 8 h."""
    starved = job(events=[{"kind": "starved", "at_s": 0.0, "fewer_than": 6, "every_s": 30.0}])
    sim, journal = run(starved, staircase([(8 * 3600, 250)]), policy, executors=6, **QUARTERS)
    changes = acts(journal)
    assert len(changes) <= 20
    below = sum(later - at for (at, number), (later, _) in pairwise(sim.history.target) if number < 6)
    assert below < 0.02 * 8 * 3600
    assert sim.history.target[-1][1] >= 6
    down = [each for each in changes if each.target < each.current]
    assert all(later.at - each.at >= 600.0 for each, later in pairwise(down)), "not before the back-off is over"
    for each in changes:
        if each.reason.code is ReasonCode.FAILED_BEFORE and each.target > each.current:
            assert "was answered by failures" in each.reason.text
            assert "died" in each.reason.text


@pytest.mark.parametrize("policy", policies("amadeus"))
def test_an_increase_that_makes_tasks_fail_is_taken_back_and_does_not_hold(policy):
    """A database takes six connections; with more half of the tasks fail. 1000/s for five minutes, then 150/s."""
    failing = job(events=[{"kind": "failing", "at_s": 0.0, "share": 0.5, "above": 6}])
    load = staircase([(300, 450), (300, 1000), (5400, 150)])
    sim, journal = run(failing, load, policy, executors=6, **QUARTERS)
    changes = acts(journal)
    broken = [at for at, number in sim.history.target if number > 6]
    assert broken, "the increase is made"
    back = next(each for each in changes if each.reason.code is ReasonCode.FAILED_BEFORE and each.target < each.current)
    assert back.at - broken[0] <= 200.0
    assert "of the tasks failed" in back.reason.text
    assert sim.history.target[-1][1] <= 3, "what was not of use is not held by the failures"
    assert sim.history.commits[-1][2] < 60.0


@pytest.mark.parametrize("policy", policies("mst"))  # it has no capacity to decrease by here
@pytest.mark.parametrize("share", [0.01, 0.2])
def test_tasks_that_always_fail_do_not_hold_decreases_for_ever(policy, share):
    """A hundredth does not count; a fifth counts for ten windows, in which a decrease might have been the reason."""
    failing = job(events=[{"kind": "failing", "at_s": 0.0, "share": share}])
    sim, journal = run(failing, staircase([(3600, 150)]), policy, executors=6, **QUARTERS)
    first = next(each.at for each in acts(journal) if each.target < each.current)
    assert first <= 1200.0 if share > 0.1 else first <= 1000.0
    assert sim.history.target[-1][1] <= 4
    assert not [each for each in acts(journal) if each.reason.code is ReasonCode.FAILED_BEFORE]


@pytest.mark.parametrize("policy", ["hpa", "reactive", "mst", "keda"])
def test_executors_that_die_now_and_then_do_not_hold_decreases_for_ever(policy):
    """One of eight dies each 45 s, at whatever number, and is replaced: 600/s for 15 minutes, then 100/s."""
    deaths = [{"kind": "dead", "at_s": float(at), "replaced_after_s": 2.0} for at in range(100, 4500, 45)]
    mortal = job(events=deaths).model_copy(update={"trigger_s": 15.0, "batch_cap": None})
    sim, journal = run(mortal, staircase([(900, 600), (3600, 100)]), policy, executors=8, **QUARTERS)
    assert sim.history.target[-1][1] <= 3
    assert not [each for each in acts(journal) if each.reason.code is ReasonCode.FAILED_BEFORE]
