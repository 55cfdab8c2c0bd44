"""The whole loop on sick sinks, slow machines and uneven partitions: the right reason in the journal, no round trip."""

from __future__ import annotations

import itertools

import pytest
from tests.sim.jobs import plain
from tests.sim.test_loop import run, small
from tests.sim.test_nodes import looped

from rheostat.journal.records import DecisionRecord
from rheostat.journal.store import JournalWriter, read_journal
from rheostat.load.curves import constant, staircase
from rheostat.model import Action, ReasonCode
from rheostat.report.replay import replay

pytestmark = pytest.mark.slow

GUARD = {"warm_up_batches": 1, "hold_fallback_s": 30.0, "cooldown_down_s": 20.0, "round_trip_cooldowns": 2.0}


def cycles(journal):
    return [record for record in journal.records if isinstance(record, DecisionRecord)]


def round_trips(sim, within_s=2 * GUARD["cooldown_down_s"]):
    """Increases and decreases that undo each other within two cooldowns."""
    changes = [(at, value) for at, value in sim.history.target]
    signs = [(at, after > before) for (_, before), (at, after) in itertools.pairwise(changes)]
    return [(a, b) for (a, up), (b, then) in itertools.pairwise(signs) if up != then and b - a < within_s]


def events(*given):
    return plain(events=list(given)).events


def test_a_sick_sink_gets_advice_and_no_executors():
    """200/s on three executors that carry 248; from 60 to 180 the sink takes 100/s."""
    sick = events({"kind": "sink", "at_s": 60, "for_s": 120, "records_per_s": 100})
    sim, journal = run(small(), constant(200, 300), executors=3, events=sick, guard=GUARD)
    while_sick = [each.decision for each in cycles(journal) if 60 <= each.at < 180]
    assert [decision for decision in while_sick if decision.acts] == []
    advice = [decision for decision in while_sick if decision.reason.code is ReasonCode.SICK_SINK]
    assert len(advice) > 20
    assert advice[0].at <= 75
    assert advice[0].reason.text == (
        "the sink is sick: the last batch took 4.2 s, 2.7 s of them after its tasks, 0.1 s of them to commit; "
        "no executor helps against that, look at what the query writes to: 3 stays"
    )
    assert advice[0].recommendation.target == 4
    healthy = [each for each in cycles(journal) if each.at < 60 or each.at > 240]
    assert all(each.assessment.sink is None for each in healthy)
    assert round_trips(sim) == []
    assert sim.history.records_in == sim.history.records_out


@pytest.mark.parametrize("seen", [0.0, 0.1])
def test_work_that_cannot_be_attributed_is_no_sick_sink(seen):
    """200/s from second 60 on, which two executors do not carry; a tenth or nothing of the tasks' time is known."""
    job = small(metrics={"work_seen": seen})
    sim, journal = run(job, staircase([(60, 60), (240, 200)]), executors=2, guard=GUARD)
    assert [each for each in cycles(journal) if each.assessment.sink is not None] == []
    assert max(value for _, value in sim.history.target) > 2
    assert all(each.assessment.useful_executors is None for each in cycles(journal))
    assert round_trips(sim) == []


def test_a_sink_that_stays_sick_is_told_for_as_long():
    sick = events({"kind": "sink", "at_s": 60, "records_per_s": 100})
    sim, journal = run(small(), constant(200, 120), executors=3, events=sick, guard=GUARD)
    assert max(value for _, value in sim.history.target) == 3
    assert {each.decision.action for each in cycles(journal) if 60 <= each.at < 120} == {Action.HOLD}


def test_one_slow_executor_is_named_and_the_job_gets_what_it_lacks():
    slow = events({"kind": "slow", "at_s": 60, "factor": 3, "executor": 1})
    sim, journal = run(small(), constant(300, 300), executors=4, events=slow, guard=GUARD)
    named = [each for each in cycles(journal) if each.assessment.slow]
    assert {each.assessment.slow for each in named} == {("executor 1 on host-1",)}
    assert 60 + 10 < named[0].at <= 60 + 3 * 10
    assert "; slow: executor 1 on host-1 (3.0 × the task time of the others)" in named[0].decision.reason.text
    assert named[0].decision.reason.figures["slow_factor"] == pytest.approx(3.0, abs=0.01)
    assert round_trips(sim) == []


def test_a_slow_node_is_named_once():
    """Two nodes of two executors; both of the one become slow."""
    nodes = {"names": ["far", "near"], "slots": [2, 6], "round_trips_ms": [[0.0, 10.0], [10.0, 0.0]]}
    job = small(nodes=nodes, executors=[1, 4])
    slow = events(*({"kind": "slow", "at_s": 60, "factor": 3, "executor": place} for place in places(job, "near")))
    sim, journal = run(job, constant(300, 300), executors=4, events=slow, guard=GUARD)
    assert {each.assessment.slow for each in cycles(journal) if each.at < 85 and each.assessment.slow} == {
        ("node near",)
    }
    assert round_trips(sim) == []


def places(job, node):
    """The executors that begin on a node."""
    from tests.sim.jobs import simulated

    hosts = [each.host for each in simulated(job, executors=4).observe(0.0).cluster.executors]
    return [place for place, host in enumerate(hosts) if host == node]


@pytest.mark.parametrize("shares", [[20] + [1] * 23, [3, 3] + [1] * 22])
def test_uneven_partitions_are_told_apart_from_slow_executors(shares):
    """The same partition goes to the same executor in every batch, whose tasks take several times as long."""
    sim, journal = run(small(partition_shares=shares), constant(100, 200), executors=4, guard=GUARD)
    seen = [each.assessment for each in cycles(journal) if each.at > 40]
    assert {each.slow for each in seen} == {()}
    even = sum(shares) / 24
    assert next(each.skew for each in seen if each.skew is not None) == pytest.approx(max(shares) / even, rel=0.05)
    assert round_trips(sim) == []


def test_a_stage_after_a_shuffle_decides_how_many_executors_are_of_use():
    """Four partitions, but 32 tasks after the shuffle with half of the time."""
    stages = [{"name": "read", "cost_ms": 5.0}, {"name": "count", "cost_ms": 5.0, "tasks": 32}]
    job = plain(partitions=4, stages=stages, decide_every_s=2.0)
    sim, journal = run(job, constant(500, 120), executors=2, guard=GUARD)
    seen = cycles(journal)[-1].assessment
    assert (seen.useful_executors, [stage.tasks for stage in seen.stages]) == (32, [4, 32])
    assert max(value for _, value in sim.history.target) > 4


@pytest.mark.parametrize(
    ("tasks", "executor", "useful"),
    [
        pytest.param(None, {}, 8, id="a task for each partition"),
        pytest.param(None, {"cores": 4, "task_cpus": 4}, 8, id="4 cores, 4 CPUs a task"),
        pytest.param(None, {"cores": 5, "task_cpus": 2}, 4, id="5 cores, 2 CPUs a task"),
        pytest.param(64, {}, 64, id="minPartitions"),
    ],
)
def test_slots_are_not_cores_and_tasks_are_not_partitions(tasks, executor, useful):
    """Eight partitions under more than the bounds allow to carry: what is of use is asked for, and no more."""
    cost = {"cold_task_s": 0.0, "start_up": {"median_s": 4.0, "p95_s": 4.0}, **executor}
    stages = [{"name": "read", "cost_ms": 5.0, "task_ms": 0.0, "tasks": tasks}]
    job = plain(partitions=8, stages=stages, executor=cost, executors=[1, 10], decide_every_s=2.0)
    sim, journal = run(job, constant(3000, 200), executors=2, guard=GUARD | {"largest_step_up": None})
    seen = cycles(journal)[-1].assessment
    assert (seen.useful_executors, seen.slots_per_executor) == (
        useful,
        executor.get("cores", 1) // executor.get("task_cpus", 1),
    )
    assert max(value for _, value in sim.history.target) == min(10, useful)


def test_a_slow_executor_is_replaced_where_that_is_allowed():
    """One comes, and then the slow one goes, not the newest."""
    slow = events({"kind": "slow", "at_s": 60, "factor": 4, "executor": 1})
    guard = GUARD | {"replace_slow": True}
    sim, journal = run(small(), constant(250, 300), "static", executors=4, events=slow, guard=guard)
    acted = [each.decision for each in cycles(journal) if each.decision.acts and each.at > 0]
    assert [(each.target, each.reason.code, each.first) for each in acted] == [
        (5, ReasonCode.SLOW_EXECUTOR, ()),
        (4, ReasonCode.SLOW_EXECUTOR, ("1",)),
    ]
    assert "one more comes in the place of executor 1: 4 → 5; slow: executor 1 on host-1" in acted[0].reason.text
    last = cycles(journal)[-1]
    assert [each.executor_id for each in last.observation.cluster.executors] == ["0", "2", "3", "4"]
    assert last.assessment.slow == ()
    assert round_trips(sim) == []


def on_nodes(names, slots, trips, **changes):
    """A job on nodes of which ``near`` is slow from second 60 on."""
    nodes = {"names": names, "slots": slots, "round_trips_ms": trips}
    return small(nodes=nodes, events=[{"kind": "slow-node", "at_s": 60, "node": "near", "factor": 4}], **changes)


def test_a_slow_node_is_left_though_it_is_the_nearest_with_room():
    """Two executors on mid and two on near, where there is room for a third; far is 50 ms away."""
    job = on_nodes(["mid", "near", "far"], [2, 3, 4], [[0, 10, 50], [10, 0, 50], [50, 50, 0]])
    sim, journal = run(job, constant(250, 400), "static", executors=4, guard=GUARD | {"replace_slow": True})
    acted = [each.decision for each in cycles(journal) if each.decision.acts and each.at > 0]
    assert [(each.target, each.placement.add, each.placement.leave, each.first[:1]) for each in acted] == [
        (5, ("far",), (), ()),
        (4, (), ("near",), ("2",)),
        (5, ("far",), (), ()),
        (4, (), ("near",), ("3",)),
    ]
    assert {each.reason.code for each in acted} == {ReasonCode.SLOW_EXECUTOR}
    last = cycles(journal)[-1]
    hosts = [(each.executor_id, each.host) for each in last.observation.cluster.executors]
    assert hosts == [("0", "mid"), ("1", "mid"), ("4", "far"), ("5", "far")]
    assert (last.assessment.slow, last.assessment.slow_nodes) == ((), ("near",))
    assert min(value for _, value in sim.history.ready) == 4
    assert sim.history.records_in == sim.history.records_out


def test_none_comes_in_the_place_of_a_slow_one_while_a_surplus_is_counted():
    """40/s need no four executors. The slow ones are named while that is counted, and are the first to leave."""
    job = on_nodes(["mid", "near", "far"], [2, 2, 2], [[0, 10, 50], [10, 0, 50], [50, 50, 0]], executors=[1, 6])
    guard, options = GUARD | {"replace_slow": True}, {"samples_to_shrink": 40}
    _, journal = run(job, constant(40, 110), "reactive", executors=4, guard=guard, policy_options=options)
    decided = [each.decision for each in cycles(journal) if each.at > 0]
    counted = [each for each in decided if each.first == () and "slow: node near" in each.reason.text]
    assert counted[0].reason.code is ReasonCode.SURPLUS_COUNTING
    assert [(each.target, each.placement.leave) for each in decided if each.acts] == [
        (2, ("near", "near")),
        (1, ("mid",)),
    ]


def test_a_slow_node_that_was_left_gets_none_while_a_remote_one_has_room():
    """One place each. Its load doubles four minutes after the slow node was left."""
    trips = [[0, 10, 50, 300], [10, 0, 50, 300], [50, 50, 0, 300], [300, 300, 300, 0]]
    job = on_nodes(["mid", "near", "far", "remote"], [1, 1, 1, 1], trips, executors=[1, 4])
    load = staircase([(300, 120), (200, 250)])
    sim, journal = run(job, load, executors=2, guard=GUARD | {"replace_slow": True})
    placed = [each.decision.placement for each in cycles(journal) if each.decision.acts and each.at > 0]
    assert [(each.add, each.leave) for each in placed[:3]] == [(("far",), ()), ((), ("near",)), (("remote",), ())]
    assert sim.history.records_in == sim.history.records_out


def test_the_journal_of_a_slow_node_replays_to_the_same_placements(tmp_path):
    job = on_nodes(["mid", "near", "far"], [1, 1, 1], [[0, 10, 50], [10, 0, 50], [50, 50, 0]], executors=[1, 3])
    journal = JournalWriter(tmp_path)
    looped(job, constant(120, 200), executors=2, journal=journal, guard=GUARD | {"replace_slow": True})
    journal.close()
    replayed = replay(read_journal(tmp_path))
    assert all(each.same for each in replayed)
    told = [(each.decision, each.record.decision) for each in replayed if each.decision is not None]
    assert sum(bool(again.first) for again, _ in told) == 1
    assert [(again.placement, again.first) for again, _ in told] == [(once.placement, once.first) for _, once in told]


def on_mixed_machines(factor, policy, **guard):
    """Half of the machines take so many times as long; which is not known. The load doubles each 15 minutes."""
    names = [f"n{number}" for number in range(8)]
    trips = [[0.0 if a == b else 1.0 for b in names] for a in names]
    slower = [{"kind": "slow-node", "at_s": 0, "node": name, "factor": factor} for name in names[1::2]]
    unknown = {"kind": "metrics", "at_s": 0, "missing": ["nodes"]}
    nodes = {"names": names, "slots": [1] * 8, "round_trips_ms": trips}
    job = small(nodes=nodes, events=[*slower, unknown], executors=[1, 8])
    sim, journal = run(job, staircase([(900, 150), (900, 300)]), policy, executors=4, guard=GUARD | guard)
    assert sim.history.records_in == sim.history.records_out
    late = [at for at, _, lag, *_ in sim.history.commits if lag >= 30.0]
    assert len(late) <= 0.1 * len(sim.history.commits), late
    return [each for each in cycles(journal) if each.at < 1800]


@pytest.mark.parametrize("policy", ["reactive", "router", "mst", "hpa"])
def test_machines_that_are_six_tenths_as_fast_are_not_slow(policy):
    seen = on_mixed_machines(1 / 0.6, policy, replace_slow=True)
    assert {each.assessment.slow for each in seen} == {()}
    assert len([each for each in seen if each.decision.acts]) <= 12


@pytest.mark.parametrize("policy", ["reactive", "router", "mst", "hpa"])
def test_slower_machines_are_not_replaced_for_ever(policy):
    """Each that was there at the beginning once; who comes after them and is as slow is on such a machine."""
    seen = on_mixed_machines(2.5, policy, replace_slow=True)
    replaced = [each.at for each in seen if each.decision.reason.code is ReasonCode.SLOW_EXECUTOR]
    assert len(replaced) <= 6
    assert len([each for each in seen if each.assessment.slow]) < 0.6 * len(seen), "one that is replaced is not named"
    assert len([each for each in seen if each.decision.acts]) <= 16


def test_slower_machines_are_known_after_a_while_and_what_they_carry_is_learned():
    seen = on_mixed_machines(2.5, "reactive")
    named = [each.at for each in seen if each.assessment.slow]
    assert (named[0] < 60, 1200 <= named[-1] < 1300) == (True, True)
    last = seen[-1]
    assert last.assessment.slower
    assert all(each.capacity is not None for each in last.decision.projections)


def test_where_the_slow_node_alone_has_room_its_executor_stays():
    job = on_nodes(["mid", "near"], [2, 3], [[0, 10], [10, 0]], executors=[1, 5])
    sim, journal = run(job, constant(150, 200), "static", executors=4, guard=GUARD | {"replace_slow": True})
    assert [value for _, value in sim.history.target] == [4]
    last = cycles(journal)[-1].decision
    assert (last.action, last.reason.code) == (Action.HOLD, ReasonCode.NO_FREE_NODE)
    assert "4 → 5: no node that is not slow has room for 1 more" in last.reason.text


def test_without_room_a_slow_executor_stays():
    slow = events({"kind": "slow", "at_s": 60, "factor": 4, "executor": 1})
    guard = GUARD | {"replace_slow": True}
    job = small(rescale={"room": 4})
    sim, journal = run(job, constant(200, 200), "static", executors=4, events=slow, guard=guard)
    assert min(value for _, value in sim.history.ready) == 4
    assert cycles(journal)[-1].assessment.slow == ("executor 1 on host-1",)


def excluded(*places, at_s=60, **more):
    return [{"kind": "excluded", "at_s": at_s, "executor": place, **more} for place in places]


@pytest.mark.parametrize("policy", ["reactive", "hpa", "flink", "router", "threshold", "static"])
def test_excluded_executors_are_replaced_and_no_capacity(policy):
    """Of six, which 450/s need, three get no further task from second 60 on."""
    job = small(executors=[1, 8])
    sim, journal = run(job, constant(450, 600), policy, executors=6, events=events(*excluded(0, 1, 2)), guard=GUARD)
    assert next(each.assessment.executors for each in cycles(journal) if each.at >= 62) == 3
    named = [each.decision for each in cycles(journal) if each.decision.first]
    assert [(each.action, each.first) for each in named] == [(Action.UP, ("0", "1", "2"))]
    assert named[0].at <= 100
    last = cycles(journal)[-1].observation.cluster
    assert last.excluded == ()
    assert last.roster.ids[0] == "3"
    assert len([each for each in cycles(journal) if each.decision.acts]) <= 6
    assert round_trips(sim) == []
    assert sim.history.records_in == sim.history.records_out


def test_excluded_executors_are_replaced_within_fixed_bounds():
    job = small(executors=[6, 6])
    sim, journal = run(job, constant(400, 200), executors=6, events=events(*excluded(0, 1, 2)), guard=GUARD)
    acted = [each.decision for each in cycles(journal) if each.decision.acts and each.at > 0]
    assert [(each.current, each.target, each.reason.code) for each in acted] == [(3, 6, ReasonCode.REPLACING_LOST)]
    assert acted[0].reason.text == (
        "for 30 s only 3 of 6 executors could work, Spark has excluded 0, 1, 2 after failures: "
        "others are asked for in their place"
    )
    assert [value for _, value in sim.history.target] == [6]
    assert cycles(journal)[-1].assessment.executors == 6


def test_excluded_executors_leave_first():
    """Fifty records a second need one; the decrease comes before the replacement."""
    job, guard = small(executors=[1, 8]), GUARD | {"largest_step_down": 1}
    _, journal = run(job, constant(50, 120), executors=4, events=events(*excluded(2, at_s=6)), guard=guard)
    downs = [each.decision for each in cycles(journal) if each.decision.action is Action.DOWN]
    assert (downs[0].at < 36, downs[0].first) == (True, ("2",))
    assert all(each.executor_id != "2" for each in cycles(journal)[-1].observation.cluster.executors)


def excluded_again(policy, rate, seconds):
    """Their host fails: whatever comes as the last three of six is excluded within 40 s."""
    job = small(executors=[1, 6])
    again = events(*(event for at in range(60, seconds, 40) for event in excluded(3, 4, 5, at_s=at)))
    sim, journal = run(job, constant(rate, seconds), policy, executors=6, events=again, guard=GUARD)
    assert sim.history.records_in == sim.history.records_out
    return [each.decision for each in cycles(journal) if each.decision.acts and 60 <= each.at < seconds]


def test_executors_that_are_excluded_again_and_again_are_replaced_ever_more_rarely():
    assert [each.at for each in excluded_again("router", 400, 3600)] == [90, 210, 450, 930, 1890]


@pytest.mark.parametrize("policy", ["reactive", "hpa", "flink", "router", "mst", "threshold", "dynamic-allocation"])
def test_nothing_is_given_up_on_executors_that_will_be_excluded_again(policy):
    """Four carry 350/s and six are there while all of them work, which they do for 40 s."""
    acted = excluded_again(policy, 350, 1800)
    assert [(each.at, each.current, each.target) for each in acted if each.target < each.current] == []
    assert len(acted) <= 6


def test_no_healthy_executor_is_replaced_where_there_are_fewer_partitions_than_slots():
    """Two tasks of a second on six executors, then many short ones: four executors have only short ones."""
    stages = [
        {"name": "read", "cost_ms": 10.0, "task_ms": 500.0},
        {"name": "aggregate", "tasks": 48, "cost_ms": 0.2, "task_ms": 20.0},
    ]
    job = plain(partitions=2, stages=stages, executors=[1, 8], decide_every_s=2.0)
    guard = GUARD | {"replace_slow": True}
    sim, journal = run(job, constant(80, 400), "static", executors=6, policy_options={"executors": 6}, guard=guard)
    assert {each.assessment.slow for each in cycles(journal)} == {()}
    assert [value for _, value in sim.history.target] == [6]
