"""The wall clock is set while a job runs, or between two runs: that changes no decision for longer than a cycle."""

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.sim.jobs import plain, simulated

from rheostat.config.loading import load_settings
from rheostat.decide.policy import policy_names
from rheostat.journal.records import DecisionRecord, SessionRecord
from rheostat.journal.store import MemoryJournal, StateStore
from rheostat.load.curves import staircase
from rheostat.loop.build import build_decision_settings
from rheostat.loop.clock import ManualClock, SystemClock, UnstoppedClock
from rheostat.loop.loop import Loop
from rheostat.observe.wall import WallTimes
from rheostat.testing.fakes import ToyJob

HOUR = 3600.0
LOAD = staircase([(150, 100), (150, 700), (150, 400), (150, 900), (300, 100)])
EVENTS = [
    {"kind": "no-room", "room": 3, "at_s": 100.0, "for_s": 120.0},
    {"kind": "slow", "factor": 4.0, "at_s": 200.0, "for_s": 200.0},
    {"kind": "dead", "replaced_after_s": None, "at_s": 520.0},
    {"kind": "reject", "at_s": 640.0, "for_s": 60.0},
]
JOB = plain(
    partitions=8,
    stages=[{"name": "read", "cost_ms": 5.0, "task_ms": 20.0}],
    driver={"planning_s": 0.1, "commit_s": 0.1},
    events=EVENTS,
)
EVERY_WAIT = {
    "hold_s": 20.0,
    "warm_up_s": 60.0,
    "cooldown_up_s": 15.0,
    "cooldown_down_s": 30.0,
    "scale_down_hold_s": 60.0,
    "failover_return_s": 60.0,
    "no_room_backoff_s": 20.0,
    "no_room_backoff_max_s": 60.0,
    "ineffective_s": 120.0,
    "replace_slow": True,
}
OPTIONS = {"schedule": {"steps": [[0, 2], [200, 5], [500, 3]]}, "static": {"executors": 3}}


class Hands:
    """A steady clock, and a wall clock that is set once, ``by_s`` at ``at_s``."""

    def __init__(self, at_s=0.0, by_s=0.0):
        self.elapsed, self.at_s, self.by_s = 0.0, at_s, by_s

    def steady(self):
        return self.elapsed

    def show(self, at):
        return at + (self.by_s if at >= self.at_s else 0.0)

    def wall(self):
        return self.show(self.elapsed)


class AsSparkTells:
    """A simulated job whose times are those of Spark's wall clock, read by the same means as a driver's."""

    def __init__(self, job, hands):
        self._job, self._hands = job, hands
        self._times = WallTimes(hands.wall, hands.steady)

    def observe(self, at):
        seen, show = self._job.observe(at), self._hands.show
        self._times.begin(at)
        place = self._times.place
        queries = []
        for query in seen.queries:
            batch, running = query.batch, query.running
            if batch is not None:
                took_s = round(show(batch.at) - show(batch.at - batch.duration_s), 6)
                batch = self._times.place_batch(replace(batch, at=show(batch.at), duration_s=took_s))
            if running is not None and running.since is not None:
                running = replace(running, since=place(show(running.since)))
            queries.append(replace(query, batch=batch, running=running))
        roster = seen.cluster.roster
        roster = replace(roster, added_at=tuple(place(show(each), "executor") for each in roster.added_at))
        return replace(seen, queries=tuple(queries), cluster=replace(seen.cluster, roster=roster))

    def close(self):
        self._job.close()


def targets(policy, at_s=0.0, by_s=0.0):
    """The target of each decision of a run in which the wall clock is set; the failover ends in its middle."""
    hands = Hands(at_s, by_s)
    settings = load_settings(
        {
            "objective": JOB.objective,
            "executors": [1, 8],
            "policy": policy,
            "policy_options": OPTIONS.get(policy, {}),
            "profile": "demo",
            "sample_s": 5.0,
            "guard": EVERY_WAIT,
        }
    )
    job, journal, clock = simulated(JOB, LOAD), MemoryJournal(), SystemClock(hands.wall, hands.steady)
    source = AsSparkTells(job, hands)
    loop = Loop(source, build_decision_settings(settings), job, journal, clock, settings)
    while hands.elapsed < LOAD.duration:
        loop.failover(300 <= hands.elapsed < 400)
        loop.cycle()
        hands.elapsed += settings.sample_s
    assert loop.status().last_failure is None
    return [record.decision.target for record in journal.records if isinstance(record, DecisionRecord)]


@cache
def undisturbed(policy):
    return targets(policy)


FITTED = {"mst", "mst-alpha"}
"""The batch in which the clock was set is no sample of their fit, so later decisions may differ for good."""


@given(
    policy=st.sampled_from(sorted(set(policy_names()) - FITTED)),
    at_s=st.floats(1.0, LOAD.duration - 1.0),
    by_s=st.sampled_from([-24 * HOUR, -HOUR, -90.0, 90.0, HOUR, 24 * HOUR]),
)
@example(policy="reactive", at_s=152.0, by_s=-HOUR)
@example(policy="reactive", at_s=152.0, by_s=HOUR)
@example(policy="proactive", at_s=1.0, by_s=-90.0)
def test_a_wall_clock_that_is_set_changes_no_decision_for_longer_than_a_cycle(policy, at_s, by_s):
    found, expected = targets(policy, at_s, by_s), undisturbed(policy)
    differing = [place for place, pair in enumerate(zip(found, expected, strict=True)) if len(set(pair)) > 1]
    assert len(differing) <= 1, (policy, at_s, by_s, differing, found, expected)


@pytest.mark.parametrize("policy", sorted(FITTED))
def test_a_fit_misses_no_more_than_the_batch_in_which_the_clock_was_set(policy):
    found, expected = targets(policy, 267.0, -90.0), undisturbed(policy)
    before = int(267 / 5)
    assert found[:before] == expected[:before]
    apart = [abs(one - other) for one, other in zip(found, expected, strict=True)]
    assert sum(apart) < 0.5 * sum(expected)


def test_the_undisturbed_runs_go_up_and_down():
    """Else the property would say nothing."""
    assert {(max(run) > min(run)) for run in map(undisturbed, ("reactive", "hpa", "ds2"))} == {True}


# A clock that does run back, and restarts


def rig(clock, store=None, job=None, **guard):
    given = {"objective": "lag < 30s", "executors": [1, 4], "profile": "demo", "guard": guard}
    settings, job, journal = load_settings(given), job or ToyJob(), MemoryJournal()
    return Loop(job, build_decision_settings(settings), job, journal, clock, settings, store=store), job, journal


def test_a_clock_that_runs_back_goes_on_from_where_it_was():
    clock = ManualClock(100_000.0)
    loop, job, _ = rig(clock)
    for _ in range(5):
        loop.cycle()
        clock.at += 2.0
    job.rate, clock.at = 400.0, clock.at - HOUR
    times = []
    for _ in range(15):
        times.append(loop.cycle().at)
        clock.at += 2.0
    assert times[:2] == [100_008.0, 100_010.0]
    assert job.executors == 4


@pytest.mark.parametrize("back_s", [HOUR, 24 * HOUR])
def test_what_an_earlier_run_has_kept_holds_for_no_longer_than_its_own_length(tmp_path, back_s):
    """The clock is set back between two runs, right after a change: the cooldown is 60 s, not an hour and 60 s."""
    store = StateStore(tmp_path / "state.json", "reactive")
    clock = ManualClock(100_000.0)
    loop, job, _ = rig(clock, store, cooldown_up_s=60.0)
    for _ in range(5):
        loop.cycle()
        clock.at += 2.0
    job.rate = 150.0
    while job.executors == 1:
        loop.cycle()
        clock.at += 2.0
    loop.cycle()
    job.rate = 1000.0
    clock = ManualClock(clock.at - back_s)
    loop, _, _ = rig(clock, store, job, cooldown_up_s=60.0)
    begin = clock.at
    first = loop.cycle()
    assert first.at >= 100_000.0, "the times of the first run are not in the future of the second"
    while job.executors == 2 and clock.at - first.at < 200.0:
        loop.cycle()
        clock.at += 2.0
    assert job.executors > 2
    assert begin < first.at
    assert clock.at - first.at <= 70.0


def test_a_wall_clock_that_is_set_is_told_in_the_journal():
    hands = Hands(10.0, -HOUR)
    loop, _, journal = rig(SystemClock(hands.wall, hands.steady))
    for _ in range(5):
        loop.cycle()
        hands.elapsed += 5.0
    notes = [record.note for record in journal.records if isinstance(record, SessionRecord)]
    assert notes == [None, "the wall clock was set: it is 3600 s behind the times of this journal"]


def test_waits_beside_the_loop_go_on_when_its_clock_is_stopped():
    clock = SystemClock()
    clock.stop()
    beside = UnstoppedClock(clock)
    assert clock.wait(5.0)
    assert not beside.wait(0.001)
    clock.start_from(clock.now() + HOUR)
    assert abs(beside.now() - clock.now()) < 1.0
