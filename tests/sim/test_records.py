"""A record-at-a-time job, worked by hand."""

from tests.sim.jobs import ask, close_to, simulated

from rheostat.load.curves import constant, staircase
from rheostat.model import OutcomeStatus
from rheostat.sim.jobfile import job_of

RECORD = {
    "name": "flow",
    "model": "record",
    "objective": "lag < 20s",
    "executors": [1, 4],
    "trigger_s": 0.0,
    "partitions": 1,
    "record": {"alpha": 60.0, "commit_every_s": 2.0},
    "executor": {"cold_task_s": 0.0, "start_up": {"median_s": 4.0, "p95_s": 4.0}},
    "rescale": {"mode": "restart", "pause": {"median_s": 10.0, "p95_s": 10.0}},
}


def flow(**changes):
    return job_of({**RECORD, **changes})


def rows(sim):
    return [(at, out) for at, out, _, _ in sim.history.commits[1:]]


def test_under_its_capacity_all_that_came_is_committed_at_the_end_of_each_interval():
    """30/s of 60/s: 60 records took half of the interval; record 1 comes at 1/30 and is committed at 2."""
    sim = simulated(flow(), constant(30, 20))
    seen = sim.observe(4.0)
    assert close_to(sim.history.commits)[1:] == [(2.0, 60, 1.966667, 0.0), (4.0, 120, 1.966667, 0.0)]
    reading = seen.queries[0]
    assert (reading.trigger_s, reading.batch.duration_s, reading.batch.records, reading.running.active) == (
        2.0,
        1.0,
        60,
        False,
    )
    assert (seen.cluster.executors[0].busy_s, seen.cluster.executors[0].active_tasks) == (2.0, 0)


def test_over_its_capacity_it_processes_what_it_can():
    """90/s of 60/s: 120 of 180 in each interval; record 121 came at 121/90."""
    sim = simulated(flow(), constant(90, 20))
    seen = sim.observe(4.5)
    assert rows(sim) == [(2.0, 120), (4.0, 240)]
    assert close_to(sim.history.commits)[1][2:] == (1.988889, 0.655556)
    part = seen.queries[0].offsets.partitions[0]
    assert (part.latest, part.planned, part.committed) == (405, 240, 240)
    assert (seen.queries[0].batch.duration_s, seen.queries[0].running.active) == (2.0, True)
    assert seen.cluster.executors[0].active_tasks == 1


def test_capacity_that_nobody_needed_is_lost():
    """100 records at once at 10: 60 × 2 of capacity in the interval from 10, none saved from before."""
    sim = simulated(flow(), staircase([(10, 0), (1, 200)]))
    sim.advance(20.0)
    assert rows(sim) == [(12.0, 120), (14.0, 200)]
    assert sim.drained


def test_a_fraction_of_a_record_is_kept_for_the_next_interval():
    """12.5 records in an interval of 0.5 s at 25/s: 12 and 13 in turns."""
    sim = simulated(flow(record={"alpha": 25.0, "commit_every_s": 0.5}), constant(100, 20))
    sim.advance(2.0)
    assert [out for _, out in rows(sim)] == [12, 25, 37, 50]


def test_an_interval_that_leaves_records_was_busy_throughout():
    """12 of 12.5 records are no idle time: the half one is under way."""
    sim = simulated(flow(record={"alpha": 25.0, "commit_every_s": 0.5}), constant(100, 20))
    assert sim.observe(0.5).queries[0].batch.duration_s == 0.5


def test_a_rescale_pauses_the_job_once_the_new_executors_are_there():
    """Asked for at 4, there at 8, works again at 18 with 120/s. Meanwhile: 60/s until 8, nothing until 18, 2 × 120."""
    sim = simulated(flow(), constant(90, 60))
    ask(sim, 2, 4.0)
    assert sim.observe(12.0).queries == ()
    sim.advance(20.0)
    assert rows(sim) == [(2.0, 120), (4.0, 240), (6.0, 360), (8.0, 480), (20.0, 720)]
    assert sim.history.paid == [(0.0, 1), (4.0, 2)]
    outcome = sim.poll(20.0)
    assert (outcome.at, outcome.status, outcome.method, outcome.after) == (18.0, OutcomeStatus.APPLIED, "restart", 2)
    assert sim.observe(21.0).queries[0].run_id == "run-1"


def test_a_dead_executor_restarts_the_job():
    """At 5 one of two dies; the job works again at 15, with the one that the cluster has started by 9."""
    sim = simulated(flow(events=[{"kind": "dead", "at_s": 5}]), constant(90, 60), executors=2)
    sim.advance(18.0)
    assert rows(sim) == [(2.0, 180), (4.0, 360), (6.0, 480), (16.0, 600), (18.0, 840)]
    assert sim.history.ready == [(0.0, 2), (5.0, 1), (9.0, 2)]


def test_a_slow_executor_costs_its_share():
    """One of two at half its speed: 120/s × 0.75."""
    sim = simulated(flow(events=[{"kind": "slow", "at_s": 0, "factor": 2}]), constant(300, 60), executors=2)
    sim.advance(4.0)
    assert rows(sim) == [(2.0, 180), (4.0, 360)]


def test_a_sink_limit_and_new_code_lower_the_rate():
    limited = simulated(flow(sink={"records_per_s": 25.0}), constant(300, 60))
    limited.advance(4.0)
    assert rows(limited) == [(2.0, 50), (4.0, 100)]
    event = {"kind": "code", "at_s": 0, "factor": 2, "pause_s": 0}
    slower = simulated(flow(events=[event]), constant(300, 60))
    slower.advance(4.0)
    assert rows(slower) == [(2.0, 60), (4.0, 120)]
