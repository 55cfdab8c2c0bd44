"""Batches one after the other, worked by hand."""

import pytest
from tests.sim.jobs import ask, close_to, plain, simulated, stage

from rheostat.load.curves import constant, staircase
from rheostat.sim.micro_batch import batch_end, batch_work
from rheostat.sim.tasks import Equal


def batches(sim, until):
    sim.advance(until)
    return close_to(sim.history.batches)


def test_lag_is_a_sawtooth():
    """100/s, a batch each 2 s takes 1 s. Record 1 comes at 0.01, is committed at 3; record 201 is 0.99 s old then."""
    sim = simulated(plain())
    sim.advance(7.5)
    assert close_to(sim.history.commits) == [
        (0.0, 0, 0.0, 0.0),
        (3.0, 200, 2.99, 0.99),
        (5.0, 400, 2.99, 0.99),
        (7.0, 600, 2.99, 0.99),
    ]
    assert round(sim.history.lag_at(4.5), 6) == 2.49
    assert close_to(sim.history.lag_spans(0.0, 4.0)) == [(0.01, 3.0, 0.0), (3.0, 4.0, 0.99)]


def test_lag_is_0_from_the_last_commit_to_the_next_arrival():
    """100/s until 2, nothing until 10: the batch of 2 ends at 3, the next record comes at 10.01."""
    sim = simulated(plain(), staircase([(2, 100), (8, 0), (2, 100)]))
    sim.advance(20.0)
    assert close_to(sim.history.lag_spans(0.0, 11.0)) == [(0.01, 3.0, 0.0), (10.01, 11.0, 0.0)]
    assert sim.history.commits[1][3] == 0.0
    assert sim.history.lag_at(9.0) == 0.0


def test_without_records_no_batch_runs():
    sim = simulated(plain(), staircase([(3, 0), (2, 100), (7, 0), (1, 100)]))
    assert batches(sim, 60.0) == [(4.0, 4.5, 100, 1), (6.0, 6.5, 100, 1), (14.0, 14.5, 100, 1)]
    assert sim.drained


def test_a_late_batch_is_followed_by_the_next_at_once_and_then_by_the_grid():
    """300 records take 3 s, from 2 to 5; the 30 that came meanwhile start at 5; the next is due at 6."""
    sim = simulated(plain(stages=stage(10.0)), staircase([(2, 150), (20, 10)]))
    assert batches(sim, 9.0) == [(2.0, 5.0, 300, 1), (5.0, 5.3, 30, 1), (6.0, 6.1, 10, 1), (8.0, 8.2, 20, 1)]


def test_without_a_cap_an_overloaded_query_takes_ever_longer_batches():
    """15 ms a record at 100/s: each batch takes 1.5 × as long as the one before."""
    sim = simulated(plain(stages=stage(15.0)))
    assert batches(sim, 16.5) == [(2.0, 5.0, 200, 1), (5.0, 9.5, 300, 1), (9.5, 16.25, 450, 1)]


def test_with_a_trigger_of_0_a_batch_follows_the_one_before():
    """The first record starts a batch of its own; the next takes what has come by its end."""
    sim = simulated(plain(trigger_s=0.0, driver={"planning_s": 0.25, "commit_s": 0.25}))
    assert batches(sim, 2.0)[:2] == [(0.01, 0.515, 1, 1), (0.515, 1.265, 50, 1)]


def test_the_parts_of_a_batch_add_up():
    """0.5 planning; 4 partitions on 3 executors: two waves of 0.02 + 50 × 0.01; 10 tasks of 0.1 in four; 0.3 commit."""
    stages = [
        {"name": "read", "cost_ms": 10.0, "task_ms": 20.0},
        {"name": "write", "tasks": 10, "cost_ms": 0.0, "task_ms": 100.0},
    ]
    job = plain(stages=stages, partitions=4, driver={"planning_s": 0.5, "commit_s": 0.2}, state={"commit_s": 0.1})
    sim = simulated(job, executors=3)
    sim.advance(3.0)
    seen = sim.observe(6.0).queries[0].batch
    assert seen is not None
    figures = (seen.at, seen.duration_s, seen.planning_s, seen.add_batch_s, seen.commit_s, seen.records)
    assert close_to([figures]) == [(4.24, 2.24, 0.5, 1.44, 0.3, 200)]


def test_stages_without_a_barrier_share_the_slots():
    """Two inputs of 2 tasks of 1 s each on 4 slots: together 1 s, one after the other 2 s."""
    stages = [
        {"name": "left", "tasks": 2, "cost_ms": 0.0, "task_ms": 1000.0},
        {"name": "right", "tasks": 2, "cost_ms": 0.0, "task_ms": 1000.0, "barrier": False},
    ]
    assert batches(simulated(plain(stages=stages), executors=4), 3.5)[0][1] == 3.0
    stages[1]["barrier"] = True
    assert batches(simulated(plain(stages=stages), executors=4), 4.5)[0][1] == 4.0


def test_a_skewed_stage_lasts_as_long_as_its_largest_task():
    """Shares of 2/3 and 1/3 of 200 records at 5 ms: 0.667 s on two slots."""
    sim = simulated(plain(stages=stage(tasks=2, skew=1.0)), executors=2)
    assert batches(sim, 3.0)[0][:3] == (2.0, 2.666667, 200)


def test_skewed_partitions_keep_their_records():
    """Shares 3 : 1 of 200 records: tasks of 150 and 50 on two slots, 0.75 s."""
    sim = simulated(plain(partitions=2, partition_shares=[3, 1]), executors=2)
    assert batches(sim, 3.0)[0][:3] == (2.0, 2.75, 200)
    latest = [part.latest for part in sim.observe(4.0).queries[0].offsets.partitions]
    assert latest == [300, 100]


@pytest.mark.parametrize(
    ("committed", "latest", "cap", "planned"),
    [
        pytest.param([0, 0, 0], [600, 300, 100], 100, [60, 30, 10], id="by what waits"),
        pytest.param([10, 20, 30], [610, 320, 130], 100, [70, 50, 40], id="from where each stands"),
        pytest.param([0, 0, 0], [997, 2, 1], 100, [99, 1, 1], id="none is starved"),
        pytest.param([0, 0], [7, 7], 5, [2, 2], id="rounded down"),
        pytest.param([0, 0], [3, 2], 5, [3, 2], id="all of it"),
        pytest.param([5, 5], [5, 25], 10, [5, 15], id="nothing waits in one"),
        pytest.param([0, 0], [3, 2], None, [3, 2], id="no cap"),
    ],
)
def test_a_cap_is_shared_out_as_by_sparks_kafka_source(committed, latest, cap, planned):
    assert batch_end(tuple(committed), tuple(latest), cap) == tuple(planned)


def test_a_capped_query_runs_batches_of_the_cap_on_the_grid():
    """100/s against batches of 120 each 2 s: 80 more wait after each."""
    sim = simulated(plain(batch_cap=120))
    assert batches(sim, 7.0) == [(2.0, 2.6, 120, 1), (4.0, 4.6, 120, 1), (6.0, 6.6, 120, 1)]
    reading = sim.observe(7.0).queries[0]
    assert (reading.offsets.partitions[0].latest, reading.offsets.partitions[0].committed) == (700, 360)


def test_equal_shares_sum_to_what_was_offered_at_every_moment():
    sim = simulated(plain(partitions=7), constant(10, 20))
    for at, total in [(0.05, 0), (0.1, 1), (0.35, 3), (1.0, 10), (1.25, 12)]:
        assert sum(part.latest for part in sim.observe(at).queries[0].offsets.partitions) == total


def test_fewer_records_than_partitions_are_read_by_as_many_tasks():
    """3 records in 4 partitions: three tasks of 1 s on one slot."""
    sim = simulated(plain(partitions=4, stages=stage(0.0, 1000.0)), staircase([(1, 3)]))
    assert batches(sim, 10.0) == [(2.0, 5.0, 3, 1)]


def test_executors_hinder_each_other_below_an_exponent_of_1():
    """4 partitions on 4 slots with exponent 0.5: each record costs twice as much; 50 records × 10 ms."""
    sim = simulated(plain(partitions=4, exponent=0.5), executors=4)
    assert batches(sim, 3.0)[0][:2] == (2.0, 2.5)


def test_executors_join_the_batch_in_flight_and_are_cold_once():
    """8 tasks of 1 s. Asked for at 3, there at 7: it takes the seventh task, 2 s longer; then it is warm."""
    job = plain(
        partitions=8,
        stages=stage(0.0, 1000.0),
        executor={"cold_task_s": 2.0, "start_up": {"median_s": 4.0, "p95_s": 4.0}},
    )
    sim = simulated(job, constant(100, 60))
    ask(sim, 2, 3.0)
    assert batches(sim, 14.0) == [(2.0, 10.0, 200, 1), (10.0, 14.0, 800, 2)]
    one, other = sim.observe(14.0).cluster.executors
    assert (one.finished_tasks, other.finished_tasks, one.busy_s, other.busy_s) == (11, 5, 11.0, 7.0)


def test_a_look_into_a_batch_tells_what_runs():
    """4 tasks of 1 s on 2 executors, from 2 to 4."""
    sim = simulated(plain(partitions=4, stages=stage(0.0, 1000.0)), executors=2)
    seen = sim.observe(3.5)
    reading = seen.queries[0]
    assert (reading.running.active, reading.running.batch_id, reading.running.since) == (True, 0, 2.0)
    assert reading.batch is None
    assert [(gap.section, gap.query_id) for gap in seen.gaps] == [("batch", "plain")]
    assert [(e.active_tasks, e.finished_tasks, e.busy_s) for e in seen.cluster.executors] == [(1, 1, 1.0)] * 2
    parts = [(part.latest, part.planned, part.committed) for part in reading.offsets.partitions]
    assert parts == [(87, 50, 0), (87, 50, 0), (88, 50, 0), (88, 50, 0)]


def test_a_slow_partition_takes_longer_to_read_and_nothing_else_does():
    """Four partitions of 100 records of 5 ms each: 0.5 s, and 2 s for the slow one; the stage after it is as before."""
    read, group = stage(5.0)[0], {"name": "group", "tasks": 4, "cost_ms": 5.0, "task_ms": 0.0}
    job = plain(partitions=4, stages=[read, group])
    assert batch_work(job, [100] * 4, 4, slow={2: 4.0}) == [[0.5, 0.5, 2.0, 0.5], Equal(4, 0.5)]
    assert batch_work(job, [100] * 4, 4, slow={}) == [Equal(4, 0.5), Equal(4, 0.5)]
