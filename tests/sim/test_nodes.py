"""Executors on nodes: what they carry together, where they come and go, and what happens to nodes.

α = 60, β = 0.9, γ = 0.2, as in the corrections to S2: 60 · 2^0.9 − 0.2 · 20 = 107.96 on two nodes 20 ms apart, and
60 · 3^0.9 − 0.2 · 300 = 101.27 with a third one 300 ms away.
"""

import math
from dataclasses import replace

import pytest
from tests.sim.jobs import decision, plain, simulated

from rheostat.config.loading import load_settings
from rheostat.errors import InputError
from rheostat.journal.records import DecisionRecord
from rheostat.journal.store import JournalWriter, MemoryJournal, read_journal
from rheostat.judge.cases import load_job
from rheostat.load.curves import Pieces, constant
from rheostat.load.trips import experiment_curve
from rheostat.loop.build import build_decision_settings
from rheostat.loop.clock import ManualClock
from rheostat.loop.loop import Loop
from rheostat.model import Action, NodeReading, OutcomeStatus, Placement, ReasonCode, RoundTrip
from rheostat.report.replay import replay
from rheostat.sim.capacity import best_curve, capacity_curve, demand
from rheostat.sim.history import demand_steps, integral
from rheostat.sim.job import SimulatedJob
from rheostat.sim.jobfile import NodeMap, job_of

NODES = {
    "names": ["mid", "near", "far", "next"],
    "round_trips_ms": [[0, 20, 300, 45], [20, 0, 290, 25], [300, 290, 0, 280], [45, 25, 280, 0]],
}
RECORD = {"alpha": 60.0, "beta": 0.9, "gamma": 0.2, "commit_every_s": 1.0}
FOG = {
    "name": "fog",
    "model": "record",
    "objective": "lag < 60s",
    "executors": [1, 4],
    "decide_every_s": 10.0,
    "trigger_s": 0.0,
    "partitions": 4,
    "record": RECORD,
    "nodes": NODES,
    "executor": {"cold_task_s": 0.0, "start_up": {"median_s": 2.0, "p95_s": 2.0}},
}


def fog(nodes=NODES, **changes):
    return job_of({**FOG, "nodes": nodes, **changes})


def placed(target, use, add=(), leave=(), at=0.0, number=1):
    return replace(decision(target, at, number), placement=Placement(tuple(sorted(use)), tuple(add), tuple(leave)))


def hosts(sim, at):
    return [each.host for each in sim.observe(at).cluster.executors]


def used(sim, at):
    return {node.name: (node.used, node.free) for node in sim.observe(at).nodes.nodes}


def looped(job, load, policy="reactive", executors=1, events=(), seed=None, journal=None, until=None, **settings):
    """The production loop: the job, and the decisions that it acted on."""
    given = {"objective": job.objective, "executors": list(job.executors), "policy": policy, "profile": "demo"}
    made = load_settings({**given, "sample_s": job.decide_every_s, **settings})
    sim = SimulatedJob(job, load, 1, executors, events=events)
    clock, journal = ManualClock(), journal or MemoryJournal()
    loop = Loop(sim, build_decision_settings(made, seed=seed), sim, journal, clock, made)
    while clock.at < (until or load.duration):
        loop.cycle()
        clock.wait(made.sample_s)
    assert loop.status().last_failure is None
    return sim, journal


def decisions(journal):
    return [record.decision for record in journal.records if isinstance(record, DecisionRecord)]


ALL = {"policy": "static", "policy_options": {"executors": 4}}


class TestCapacity:
    def test_of_the_nearest_nodes_falls_where_the_far_one_joins(self):
        job = fog(
            {**NODES, "names": ["mid", "near", "far"], "round_trips_ms": [[0, 20, 300], [20, 0, 290], [300, 290, 0]]},
            executors=[1, 3],
        )
        assert [round(each, 1) for each in capacity_curve(job)] == [0.0, 60.0, 108.0, 101.3]
        assert (demand(job, 105.0), demand(job, 61.0), demand(job, 60.0)) == (2, 2, 1)

    def test_of_the_first_nodes_nearest_first(self):
        assert fog().nodes.nearest(4) == ("mid", "near", "next", "far")
        assert fog({**NODES, "first": "far"}).nodes.nearest(3) == ("far", "next", "near")
        assert fog({**NODES, "slots": [2, 1, 1, 1]}).nodes.nearest(3) == ("mid", "mid", "near")

    def test_the_best_placement_carries_no_less_than_any(self):
        """next, near and mid are the three nearest to one another; near and next, 25 ms apart, are not the best two."""
        assert [fog().nodes.least_ms(n) for n in range(1, 5)] == [0.0, 20.0, 25.0, 280.0]
        assert all(best >= each for best, each in zip(best_curve(fog()), capacity_curve(fog()), strict=True))

    @pytest.mark.parametrize(
        ("use", "rate"),
        [(["mid"], 60.0), (["mid", "near"], 107.96), (["far", "mid"], 51.96), (["far", "mid", "near"], 101.27)],
        ids=["one", "two near", "two far", "a far third"],
    )
    def test_is_that_of_the_nodes_in_use(self, use, rate):
        sim = simulated(fog(), constant(300, 400))
        sim.apply(placed(len(use), use, [name for name in use if name != "mid"]))
        before = sim.observe(100.0).queries[0].offsets.partitions
        after = sim.observe(200.0).queries[0].offsets.partitions
        done = sum(part.committed for part in after) - sum(part.committed for part in before)
        assert done / 100 == pytest.approx(rate, abs=0.05)


class TestWhere:
    def test_at_the_start_executors_are_near_one_another(self):
        sim = simulated(fog(), executors=3)
        assert hosts(sim, 0.0) == ["mid", "near", "next"]
        assert used(sim, 0.0) == {"far": (0, 1), "mid": (1, 0), "near": (1, 0), "next": (1, 0)}

    def test_they_come_and_go_as_the_decision_says(self):
        sim = simulated(fog(), executors=1)
        sim.apply(placed(3, ["mid", "far", "near"], ["far", "near"]))
        assert used(sim, 1.0)["far"] == (1, 0)
        assert hosts(sim, 3.0) == ["mid", "far", "near"]
        sim.apply(placed(1, ["near"], leave=["far", "mid"], at=3.0, number=2))
        assert hosts(sim, 20.0) == ["near"]

    def test_a_request_that_names_no_node_takes_the_first_with_room(self):
        sim = simulated(fog(), executors=1)
        sim.apply(decision(3))
        assert hosts(sim, 3.0) == ["mid", "near", "far"]

    def test_a_node_that_has_vanished_meanwhile_is_no_room(self):
        sim = simulated(
            fog(), executors=1, events=fog(events=[{"kind": "node-lost", "at_s": 0, "node": "near"}]).events
        )
        sim.apply(placed(2, ["mid", "near"], ["near"]))
        sim.advance(0.0)
        outcome = sim.poll(60.0)
        assert (outcome.status, outcome.after) == (OutcomeStatus.NO_ROOM, 1)

    def test_another_decision_calls_off_what_is_still_starting(self):
        sim = simulated(fog(), executors=1)
        sim.apply(placed(3, ["mid", "near", "next"], ["near", "next"]))
        sim.advance(1.0)
        sim.apply(placed(2, ["mid", "near"], leave=["next"], at=1.0, number=2))
        assert hosts(sim, 5.0) == ["mid", "near"]


class TestTheLoop:
    RISE = Pieces([(0, 30), (60, 30), (61, 150), (300, 150), (301, 20), (900, 20)])

    def test_takes_the_near_node_first_and_gives_the_far_one_up_first(self):
        steps = [[0, 1], [30, 2], [60, 4], [200, 2], [300, 1]]
        sim, journal = looped(fog(), constant(50, 400), policy="schedule", policy_options={"steps": steps})
        moves = [each.placement for each in decisions(journal) if each.placement is not None]
        assert [move.add for move in moves if move.add] == [("near",), ("next", "far")]
        assert [move.leave for move in moves if move.leave] == [("far", "next"), ("near",)]
        assert hosts(sim, 400.0) == ["mid"]

    def test_replaces_what_vanished_on_another_node(self):
        job = fog(events=[{"kind": "node-lost", "at_s": 100, "node": "near", "for_s": 300}])
        sim, journal = looped(job, constant(80, 200), executors=2, policy="static", policy_options={"executors": 2})
        assert used(sim, 200.0) == {"far": (0, 1), "mid": (1, 0), "next": (1, 0)}
        [again] = [each for each in decisions(journal) if each.reason.code is ReasonCode.REPLACING_LOST]
        assert again.placement == Placement(("mid", "next"), ("next",), ())
        assert again.reason.text.endswith("asked for again; added on next, greatest round trip 0 ms → 45 ms")
        assert used(sim, 500.0)["near"] == (0, 1)

    def test_asks_again_for_what_vanished_where_there_is_no_room_for_the_increase(self):
        """Four on mid and near when near is lost, a fifth is wanted when figures come again; far has room for two."""
        rooms = {"names": ["mid", "near", "far"], "slots": [2, 2, 2]}
        rooms["round_trips_ms"] = [[0, 20, 300], [20, 0, 290], [300, 290, 0]]
        job = fog(rooms, executors=[1, 6], events=[{"kind": "node-lost", "at_s": 99, "node": "near"}])
        steps = [[0, 4], [100, 5]]
        sim, journal = looped(job, constant(80, 200), executors=4, policy="schedule", policy_options={"steps": steps})
        [again] = [each for each in decisions(journal) if each.reason.code is ReasonCode.REPLACING_LOST]
        assert (again.at, again.action, again.current, again.target) == (130.0, Action.UP, 2, 4)
        assert again.placement == Placement(("far", "far", "mid", "mid"), ("far", "far"), ())
        assert again.reason.text.startswith("2 of 4 executors registered for 30 s: asked for again; added on far ×2")
        assert used(sim, 200.0) == {"far": (2, 0), "mid": (2, 0)}
        holds = [each for each in decisions(journal) if each.reason.code is ReasonCode.NO_FREE_NODE]
        assert {(each.target, each.reason.text) for each in holds} == {
            (4, "4 → 5: no node has room for 1 more, greatest round trip 300 ms")
        }

    def test_a_cluster_that_replaces_takes_the_first_node_with_room(self):
        job = fog(events=[{"kind": "node-lost", "at_s": 50, "node": "near", "replaced_after_s": 0}])
        sim, _ = looped(job, constant(80, 80), executors=2, policy="static", policy_options={"executors": 2})
        assert hosts(sim, 80.0) == ["mid", "far"]

    def test_passes_over_a_full_node_and_says_when_none_is_free(self):
        full = [{"kind": "node-full", "at_s": 0, "node": name} for name in ("near", "far")]
        sim, journal = looped(fog(events=full), constant(100, 300), **ALL)
        assert hosts(sim, 300.0) == ["mid", "next"]
        last = decisions(journal)[-1]
        assert (last.action, last.target, last.reason.code) == (Action.HOLD, 2, ReasonCode.NO_FREE_NODE)
        assert last.notes[-1].step == "placement"
        assert "no node has room for" in last.reason.text

    def test_takes_a_node_without_entry_last_and_says_so(self):
        sim, journal = looped(fog({**NODES, "unmeasured": ["near"]}), constant(100, 300), **ALL)
        assert hosts(sim, 300.0) == ["mid", "next", "far", "near"]
        said = [each.reason.text for each in decisions(journal) if each.placement and "near" in each.placement.add]
        assert said[0].endswith("greatest round trip 0 ms → unknown, the round trip to near is not known")

    def test_without_a_sight_of_nodes_decides_without_them(self):
        unseen = [{"kind": "metrics", "at_s": 0, "for_s": 200, "missing": ["nodes"]}]
        sim, journal = looped(fog(events=unseen), constant(100, 150), **ALL)
        assert hosts(sim, 150.0) == ["mid", "near", "far", "next"]
        assert {each.placement for each in decisions(journal)} == {None}
        looks = [record.observation for record in journal.records if isinstance(record, DecisionRecord)]
        assert {gap.section for look in looks if look is not None for gap in look.gaps} == {"nodes", "batch"}

    def test_a_journal_of_it_replays_and_the_same_run_writes_the_same_bytes(self, tmp_path):
        for folder in ("first", "again"):
            journal = JournalWriter(tmp_path / folder)
            looped(fog(), self.RISE, seed=5, journal=journal, until=450)
            journal.close()
        first, again = (next((tmp_path / folder).glob("*.jsonl")).read_bytes() for folder in ("first", "again"))
        assert first == again
        replayed = replay(read_journal(tmp_path / "first"))
        assert all(each.same for each in replayed)
        decided = [each.decision for each in replayed if each.decision is not None]
        assert sum(each.placement is not None for each in decided) > 3
        assert [each.reason.text for each in decided] == [each.record.decision.reason.text for each in replayed]


def test_of_the_executors_on_a_node_those_that_are_named_leave_first():
    sim = simulated(fog({**NODES, "slots": [2, 2, 1, 1]}), executors=4)
    assert hosts(sim, 0.0) == ["mid", "mid", "near", "near"]
    sim.apply(replace(placed(2, ["mid", "near"], leave=["near", "mid"]), first=("0", "2")))
    assert [each.executor_id for each in sim.observe(20.0).cluster.executors] == ["1", "3"]


def test_without_nodes_those_that_are_named_leave_in_their_order():
    sim = simulated(plain(executors=[1, 4]), executors=4)
    sim.apply(replace(decision(3), first=("0", "2")))
    assert [each.executor_id for each in sim.observe(20.0).cluster.executors] == ["1", "2", "3"]


def test_an_executor_that_comes_to_a_slow_node_is_slow_too_while_it_lasts():
    """Tasks of 5 ms a record: on near they take four times as long, until the node has recovered."""
    slow = fog(events=[{"kind": "slow-node", "at_s": 0, "for_s": 100, "node": "near", "factor": 4}]).events
    sim = simulated(plain(nodes=NODES, executors=[1, 4], partitions=2), constant(20, 200), executors=1, events=slow)
    sim.apply(placed(2, ["mid", "near"], ["near"]))

    def ended(at):
        return [(each.busy_s or 0.0, each.finished_tasks) for each in sim.observe(at).cluster.executors]

    (mid_a, near_a), (mid_b, near_b), (mid_c, near_c), (mid_d, near_d) = map(ended, (40.0, 90.0, 120.0, 190.0))
    assert mean(near_a, near_b) == pytest.approx(4 * mean(mid_a, mid_b))
    assert mean(near_c, near_d) == pytest.approx(mean(mid_c, mid_d))


def mean(before, after):
    """Mean task time between two looks, s."""
    return (after[0] - before[0]) / (after[1] - before[1])


class TestTheMap:
    def test_everything_that_is_wrong_is_named_at_once(self):
        with pytest.raises(InputError) as caught:
            fog(
                {
                    "names": ["a", "b", "a"],
                    "slots": [1, 0, 1],
                    "first": "x",
                    "unmeasured": ["y"],
                    "round_trips_ms": [[0, 5, 6], [5, 1, 7], [6, 8, 0]],
                }
            )
        assert {fault.field for fault in caught.value.faults} == {
            f"nodes.{field}"
            for field in ("names.2", "slots", "first", "unmeasured.0", "round_trips_ms.1.1", "round_trips_ms.1.2")
        }

    @pytest.mark.parametrize(
        ("key", "given", "fields"),
        [
            pytest.param("slots", [1, 10**9, 1, 1], ["slots"], id="room for a billion"),
            pytest.param(
                "round_trips_ms",
                [[0, 10**400], [10**400, 0]],
                ["round_trips_ms.0", "round_trips_ms.1"],
                id="beyond a float, in both rows",
            ),
        ],
    )
    def test_a_number_that_is_too_large_is_refused(self, key, given, fields):
        with pytest.raises(InputError) as caught:
            fog({**NODES, key: given})
        assert [fault.field for fault in caught.value.faults] == [f"nodes.{field}" for field in fields]

    def test_much_room_costs_nothing(self):
        nodes = fog({**NODES, "slots": [100_000] * 4}, executors=[1, 4]).nodes
        assert [nodes.least_ms(n) for n in (1, 100_000, 100_001, 400_000, 400_001)] == [0.0, 0.0, 20.0, 280.0, math.inf]

    def test_what_does_not_fit_the_job_is_named(self):
        with pytest.raises(InputError) as caught:
            fog(
                executors=[1, 5],
                record={**RECORD, "round_trip_ms": 20.0},
                events=[{"kind": "node-lost", "at_s": 1, "node": "nowhere"}],
            )
        fields = {fault.field for fault in caught.value.faults}
        assert fields == {"executors", "record.round_trip_ms", "events.0.node"}

    def test_is_seen_sorted_and_without_what_is_not_there(self):
        job = fog({**NODES, "unmeasured": ["far"]}, events=[{"kind": "node-lost", "at_s": 5, "node": "near"}])
        nodes = simulated(job, executors=2).observe(6.0).nodes
        assert nodes.nodes == (NodeReading("far", 0, 1), NodeReading("mid", 1, 0), NodeReading("next", 0, 1))
        assert nodes.round_trips == (RoundTrip("mid", "next", 45.0),)

    def test_survives_json(self):
        nodes = fog({**NODES, "slots": [2, 1, 1, 1]}).nodes
        assert NodeMap.model_validate_json(nodes.model_dump_json()) == nodes


def test_the_experiment_of_gesscale_needs_as_many_replicas_as_its_table_says():
    """Costs and accuracies of its Table III give a mean demand of 3.13 (Gesscale) to 3.32 (MDL-NLUnaware)."""
    job, load = load_job("gesscale"), experiment_curve()
    steps = demand_steps(load, capacity_curve(job), job.n_min, job.n_max)
    assert load.cumulative(load.duration) / load.duration == pytest.approx(174, abs=1)
    assert 3.1 <= integral(steps, 0.0, load.duration) / load.duration <= 3.3
    assert max(number for _, number in steps) < job.n_max


def test_batches_go_on_without_the_executors_of_a_node_that_vanishes():
    """5 ms a record, two tasks of 300 records on two nodes at second 0; one node vanishes at second 1."""
    job = plain(nodes=NODES, executors=[1, 4], partitions=2, trigger_s=6.0)
    lost = fog(events=[{"kind": "node-lost", "at_s": 13, "node": "near"}]).events
    sim = simulated(job, Pieces([(0, 100), (12, 100), (12, 0), (60, 0)]), executors=2, events=lost)
    assert hosts(sim, 12.5) == ["mid", "near"]
    assert hosts(sim, 60.0) == ["mid"]
    assert [(round(begin, 2), round(end, 2), records) for begin, end, records, _ in sim.history.batches] == [
        (6.0, 7.5, 600),
        (12.0, 15.0, 600),
    ]
    assert sim.history.records_out == sim.history.records_in == 1200


def test_each_change_of_it_stops_the_job_for_two_minutes():
    sim = SimulatedJob(load_job("gesscale"), constant(100, 1000), 1, 1)
    sim.apply(placed(2, ["n1", "n5"], ["n5"], at=0.0))
    outcome = sim.poll(120.0)
    assert outcome is not None
    assert (outcome.status, outcome.method, outcome.took_s) == (OutcomeStatus.APPLIED, "restart", 120.0)
    assert sim.history.records_out == 0
    assert sim.history.records_in == 12_000
