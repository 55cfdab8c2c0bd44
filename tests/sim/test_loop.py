"""The production loop on the simulated job: the same loop, decisions, analysis and journal as beside a real Spark."""

import pytest
from tests.sim.jobs import plain, simulated

from rheostat.config.loading import load_settings
from rheostat.journal.records import DecisionRecord, OutcomeRecord
from rheostat.journal.store import MemoryJournal
from rheostat.judge.cases import load_job
from rheostat.load.curves import Pieces, staircase
from rheostat.loop.build import build_decision_settings
from rheostat.loop.clock import ManualClock
from rheostat.loop.loop import Loop
from rheostat.model import OutcomeStatus, ReasonCode
from rheostat.sim.capacity import capacity_curve
from rheostat.sim.job import SimulatedJob

pytestmark = pytest.mark.slow

LOAD = Pieces([(0, 50), (60, 50), (160, 700), (300, 700), (400, 50), (700, 50)])


def run(job, load=LOAD, policy="reactive", executors=1, events=(), **settings):
    """To the end of the load and until all is drained: the loop, the job and the journal."""
    given = {"objective": job.objective, "executors": list(job.executors), "policy": policy}
    made = load_settings({**given, "profile": "demo", "sample_s": job.decide_every_s, **settings})
    sim = SimulatedJob(job, load, 1, executors, events=events)
    clock, journal = ManualClock(), MemoryJournal()
    loop = Loop(sim, build_decision_settings(made), sim, journal, clock, made)
    while not sim.drained and clock.at < load.duration + 1000:
        loop.cycle()
        clock.wait(made.sample_s)
    assert loop.status().last_failure is None
    return sim, journal


def steps(sim):
    return [value for _, value in sim.history.target]


def small(**changes):
    """100/s for each of up to 8 executors; decisions each 2 s."""
    stages = [{"name": "read", "cost_ms": 10.0, "task_ms": 10.0}]
    driver = {"planning_s": 0.1, "commit_s": 0.1}
    return plain(partitions=24, stages=stages, driver=driver, batch_cap=4000, decide_every_s=2.0, **changes)


def test_reactive_follows_a_load_up_and_down_and_loses_nothing():
    sim, _ = run(small())
    path = steps(sim)
    assert (path[0], path[-1]) == (1, 1)
    assert max(path) == 8
    assert path[: path.index(8) + 1] == sorted(path[: path.index(8) + 1])
    assert sim.history.records_in == sim.history.records_out == 191000
    assert sim.history.paid[-1][1] == sim.history.ready[-1][1] == path[-1]


def test_the_same_seed_gives_the_same_run():
    first, again = run(small(batch_noise_cv=0.1))[0].history, run(small(batch_noise_cv=0.1))[0].history
    assert (first.commits, first.target, first.ready) == (again.commits, again.target, again.ready)


def test_static_never_changes_and_catches_up_after_an_overload():
    """100/s at most against 300/s for 20 s; the rest is worked off in the calm."""
    sim, _ = run(small(), staircase([(60, 50), (20, 300), (200, 20)]), "static", policy_options={"executors": 1})
    assert sim.history.target == [(0.0, 1)]
    assert max(before for _, _, before, _ in sim.history.commits) > 20
    assert sim.history.commits[-1][2] < 5


def test_a_cluster_without_room_backs_off_and_tells():
    sim, journal = run(small(rescale={"room": 3}))
    outcomes = [record.outcome for record in journal.records if isinstance(record, OutcomeRecord)]
    assert OutcomeStatus.NO_ROOM in {outcome.status for outcome in outcomes}
    assert max(value for _, value in sim.history.ready) == 3
    assert sim.history.records_in == sim.history.records_out


def test_unknown_figures_never_take_executors_away():
    """The offsets are missing in the calm, when the number would go down."""
    event = plain(events=[{"kind": "metrics", "at_s": 395, "for_s": 200, "missing": ["offsets"]}]).events
    sim, journal = run(small(), events=event)
    blind = [value for at, value in sim.history.target if 397 < at < 595]
    assert blind == []
    codes = {
        record.decision.reason.code
        for record in journal.records
        if isinstance(record, DecisionRecord) and 400 < record.at < 590
    }
    assert codes == {ReasonCode.METRICS_MISSING}


def test_a_dead_executor_that_nobody_replaces_is_asked_for_again():
    event = plain(events=[{"kind": "dead", "at_s": 250, "replaced_after_s": None}]).events
    sim, journal = run(small(), events=event)
    codes = [r.decision.reason.code for r in journal.records if isinstance(r, DecisionRecord) and r.decision.acts]
    assert ReasonCode.REPLACING_LOST in codes
    assert sim.history.records_in == sim.history.records_out


def test_asking_for_lost_executors_again_is_no_increase_that_a_decrease_has_to_wait_for():
    """One dies each 100 s, from 250 s on; the load falls to a fifth at 200 s."""
    deaths = [{"kind": "dead", "at_s": at, "replaced_after_s": None} for at in range(250, 1200, 100)]
    guard = {"warm_up_batches": 1, "hold_fallback_s": 30.0, "cooldown_down_s": 60.0}
    load = staircase([(200, 500), (1000, 100)])
    _, journal = run(small(), load, "hpa", executors=6, events=plain(events=deaths).events, guard=guard)
    made = [record.decision for record in journal.records if isinstance(record, DecisionRecord)]
    assert ReasonCode.REPLACING_LOST in {each.reason.code for each in made}
    assert min(each.target for each in made if each.target is not None) < 6


def test_a_record_at_a_time_job_is_scaled_by_the_same_loop():
    pause = {"rescale.pause": {"median_s": 10.0, "p95_s": 20.0}}
    job = load_job("gesscale", {"decide_every_s": 15.0, "executors": [1, 6], "objective": "lag < 60s", **pause})
    peak = 0.8 * capacity_curve(job)[6]
    load = Pieces([(0, 30), (300, 30), (900, peak), (1500, peak), (2100, 30), (3000, 30)])
    sim, _ = run(job, load, profile="default")
    path = steps(sim)
    assert (path[0], max(path) >= 5, path[-1] <= 3) == (1, True, True)
    assert sim.history.records_in == sim.history.records_out


def test_it_is_seen_as_a_source_should_be():
    from tests.observe.contract import closes, looks

    sim = simulated(plain())
    for at in (0.0, 2.5, 3.5, 40.0):
        looks(sim, at)
    closes(sim)
