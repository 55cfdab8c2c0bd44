"""What is injected, worked by hand."""

import pytest
from tests.sim.jobs import close_to, plain, simulated, stage

from rheostat.load.curves import constant, staircase

LONG = constant(100, 1000)
FOUR = {"partitions": 4, "stages": stage(0.0, 1000.0)}
"""Four tasks of 1 s each: on two executors a batch takes 2 s."""


def run(job, until, executors=1, load=LONG):
    sim = simulated(job, load, executors=executors)
    sim.advance(until)
    return sim


def batches(sim):
    return close_to(sim.history.batches)


def test_a_slow_executor_stretches_its_tasks():
    """Executor 0 at a third from 2.5 on: its first task ends at 4, and the last one, which it takes then, at 7."""
    sim = run(plain(**FOUR, events=[{"kind": "slow", "at_s": 2.5, "factor": 3}]), 8.5, executors=2)
    assert batches(sim) == [(2.0, 7.0, 200, 2)]


def test_a_slow_executor_recovers():
    event = {"kind": "slow", "at_s": 2.5, "for_s": 0.75, "factor": 3}
    assert batches(run(plain(**FOUR, events=[event]), 7.5, executors=2)) == [(2.0, 4.5, 200, 2), (4.5, 6.5, 250, 2)]


def test_the_task_of_a_dead_executor_is_done_again_and_the_cluster_replaces_it():
    """Executor 1 dies at 2.5; the other does its task and the rest by 6, when a cold one has come at 6.5."""
    sim = run(plain(**FOUR, events=[{"kind": "dead", "at_s": 2.5, "executor": 1}]), 8.0, executors=2)
    assert batches(sim) == [(2.0, 6.0, 200, 2)]
    assert sim.history.ready == [(0.0, 2), (2.5, 1), (6.5, 2)]
    assert sim.history.paid == [(0.0, 2)]


def test_a_dead_executor_may_be_replaced_late_or_not_at_all():
    late = run(plain(events=[{"kind": "dead", "at_s": 3.5, "replaced_after_s": 20}]), 60.0, executors=2)
    assert late.history.ready == [(0.0, 2), (3.5, 1), (27.5, 2)]
    assert late.history.paid == [(0.0, 2), (3.5, 1), (23.5, 2)]
    never = run(plain(events=[{"kind": "dead", "at_s": 3.5, "replaced_after_s": None}]), 60.0, executors=2)
    assert never.history.ready == [(0.0, 2), (3.5, 1)]


def test_without_any_executor_a_batch_waits_for_one():
    """200 records of 5 ms from 2 on; dead at 2.5, another at 6.5 begins anew and needs 1 s."""
    sim = run(plain(events=[{"kind": "dead", "at_s": 2.5}]), 8.0)
    assert batches(sim)[0] == (2.0, 7.5, 200, 1)


def test_a_query_that_fails_does_the_same_batch_again_in_another_run():
    """The batch of 4 breaks off at 4.5; from 9.5 on the query works again, and does these 200 records first."""
    sim = run(plain(events=[{"kind": "query-fails", "at_s": 4.5, "for_s": 1, "pause_s": 5}]), 4.2)
    (before,) = sim.observe(4.4).queries
    (failed,) = sim.observe(6.0).queries
    (after,) = sim.observe(10.2).queries
    assert (before.running.batch_id, after.running.batch_id, after.run_id) == (1, 1, "run-1")
    assert failed.failed_because == after.failed_before == "injected: the query fails"
    assert after.offsets.planned == before.offsets.planned
    sim.advance(13.75)
    assert batches(sim) == [(2.0, 3.0, 200, 1), (9.5, 10.5, 200, 1), (10.5, 13.75, 650, 1)]


def test_garbage_collection_takes_its_share_of_the_task_time():
    """From 3 on half of it: the batch of 4 takes 2 s, of them 1 s in garbage collection."""
    sim = run(plain(events=[{"kind": "garbage", "at_s": 3, "share": 0.5}]), 6.0)
    assert batches(sim) == [(2.0, 3.0, 200, 1), (4.0, 6.0, 200, 1)]
    cluster = sim.observe(6.0).cluster
    assert (cluster.busy_s, cluster.gc_s) == ((pytest.approx(3.0),), (pytest.approx(1.0),))


def test_a_stage_that_reads_other_data_tells_it_of_each_batch():
    table = {"name": "table", "tasks": 2, "cost_ms": 0.0, "task_ms": 250.0, "reads": 5000}
    (query,) = run(plain(stages=[table, *stage()]), 3.6).observe(3.6).queries
    assert (query.batch.reread_s, query.batch.reread_least_s, query.batch.reread_records) == (0.5, 0.25, 5000)


def test_a_sink_limit_holds_batches_back_for_a_time():
    """From 3 to 7 the sink takes 50/s. The batch of 4: 150 until 7, the other 50 at once. That of 7 is free again."""
    event = {"kind": "sink", "at_s": 3, "for_s": 4, "records_per_s": 50}
    assert batches(run(plain(events=[event]), 9.0)) == [(2.0, 3.0, 200, 1), (4.0, 7.0, 200, 1), (7.0, 8.5, 300, 1)]


def test_a_skew_change_spreads_new_records_otherwise():
    """Two partitions of 50/s each; from 10 to 20 two thirds go to the first."""
    event = {"kind": "skew", "at_s": 10, "for_s": 10, "skew": 1.0}
    sim = simulated(plain(partitions=2, events=[event]), LONG)
    seen = [[part.latest for part in sim.observe(at).queries[0].offsets.partitions] for at in (10.0, 16.0, 30.0)]
    assert seen == [[500, 500], [900, 700], [1666, 1333]]


def test_new_code_stops_the_query_at_a_batchs_end_and_changes_its_cost():
    """Deployed in the batch from 2 to 3; from 13 on a record costs 10 ms: 1100 records take 11 s."""
    event = {"kind": "code", "at_s": 2.5, "factor": 2, "pause_s": 10}
    sim = simulated(plain(events=[event]), LONG)
    assert sim.observe(2.9).queries[0].run_id == "run-0"
    assert sim.observe(3.1).queries == ()
    sim.advance(24.5)
    assert batches(sim) == [(2.0, 3.0, 200, 1), (13.0, 24.0, 1100, 1)]
    assert sim.observe(24.5).queries[0].run_id == "run-1"


def test_new_code_may_change_one_stage_only():
    stages = [*stage(5.0), {"name": "write", "tasks": 1, "cost_ms": 5.0, "task_ms": 0.0}]
    event = {"kind": "code", "at_s": 0, "factor": 3, "stage": "write", "pause_s": 0}
    assert batches(run(plain(stages=stages, events=[event]), 6.0))[0][:2] == (2.0, 6.0)


def sections(seen):
    """When each section was true, None where it is missing."""
    query = seen.queries[0]
    read = (query.offsets, query.running, seen.cluster)
    return tuple(None if section is None else section.at for section in read)


def test_late_metrics_show_the_job_as_it_was():
    """A look at 10.5 would show 7.5, which is over since the look at 9: it shows 7, as the first late one would."""
    sim = simulated(plain(events=[{"kind": "metrics", "at_s": 10, "for_s": 10, "delay_s": 3}]), LONG)
    assert sections(sim.observe(9.0)) == (9.0, 9.0, 9.0)
    late = sim.observe(10.5)
    assert late.at == 10.5
    assert sections(late) == (7.0, 7.0, 7.0)
    later = sim.observe(14.0)
    assert sections(later) == (11.0, 11.0, 11.0)
    part = later.queries[0].offsets.partitions[0]
    assert (part.latest, part.planned, part.committed) == (1100, 1000, 1000)
    assert sections(sim.observe(20.0)) == (20.0, 20.0, 20.0)


def test_a_delay_is_exact_whether_or_not_outcomes_are_asked_for_first():
    sim = simulated(plain(metrics={"delay_s": 4.0}), LONG)
    for at in (15.0, 30.0, 45.0):
        assert sim.poll(at) is None
        assert sections(sim.observe(at)) == (at - 4, at - 4, at - 4)


def test_frozen_metrics_stay_as_they_were():
    sim = simulated(plain(events=[{"kind": "metrics", "at_s": 10, "for_s": 60, "frozen": True}]), LONG)
    assert [sections(sim.observe(at))[0] for at in (5.0, 20.0, 60.0, 70.0)] == [5.0, 10.0, 10.0, 70.0]


@pytest.mark.parametrize("section", ["offsets", "batch", "running"])
def test_a_missing_section_has_its_gap(section):
    sim = simulated(plain(events=[{"kind": "metrics", "at_s": 10, "missing": [section]}]), LONG)
    seen = sim.observe(20.0)
    assert getattr(seen.queries[0], section) is None
    assert [(gap.section, gap.query_id) for gap in seen.gaps] == [(section, "plain")]


def test_a_missing_cluster_and_missing_queries_have_their_gaps():
    sim = simulated(plain(events=[{"kind": "metrics", "at_s": 10, "missing": ["cluster", "queries"]}]), LONG)
    seen = sim.observe(20.0)
    assert (seen.queries, seen.cluster) == ((), None)
    assert sorted(gap.section for gap in seen.gaps) == ["cluster", "queries"]


def test_what_happens_may_be_given_beside_the_job():
    event = plain(events=[{"kind": "dead", "at_s": 3.5, "replaced_after_s": None}]).events
    sim = simulated(plain(), staircase([(10, 100)]), executors=2, events=event)
    sim.advance(20.0)
    assert sim.history.ready == [(0.0, 2), (3.5, 1)]


STARVED = {"kind": "starved", "at_s": 10.0, "fewer_than": 3, "every_s": 10.0}


def test_starved_executors_die_one_after_the_other_and_are_replaced():
    """Two where three are needed: one dies at 10, its place is taken at 14; the next at 20."""
    sim = simulated(plain(events=[STARVED]), LONG, executors=2)
    assert [sim.observe(at).cluster.roster.ids for at in (9.0, 10.0, 14.0, 20.0)] == [
        ("0", "1"),
        ("1",),
        ("1", "2"),
        ("2",),
    ]


def test_enough_executors_do_not_starve():
    sim = simulated(plain(events=[STARVED]), LONG, executors=3)
    assert sim.observe(100.0).cluster.roster.ids == ("0", "1", "2")


@pytest.mark.parametrize(
    ("executors", "failed", "finished", "batch_s"),
    [pytest.param(1, 0, 1, 1.0, id="no more than may be"), pytest.param(2, 1, 2, 2.0, id="more: each fails once")],
)
def test_tasks_that_fail_with_too_many_executors(executors, failed, finished, batch_s):
    """A batch has 200 records of one partition, 5 ms each; half of the attempts fail."""
    event = {"kind": "failing", "at_s": 0, "share": 0.5, "above": 1}
    sim = simulated(plain(events=[event]), LONG, executors=executors)
    before, after = sim.observe(11.9), sim.observe(13.9)
    assert sum(after.cluster.failed_tasks) - sum(before.cluster.failed_tasks) == failed
    assert sum(after.cluster.finished_tasks) - sum(before.cluster.finished_tasks) == finished
    assert after.queries[0].batch.duration_s == pytest.approx(batch_s)


def test_a_cost_drifts_in_steps_of_a_minute_without_another_run():
    """A batch of 200 records takes 1 s at first; over 120 s the cost doubles, in two equal steps, and then it stays."""
    sim = simulated(plain(events=[{"kind": "drift", "at_s": 9.5, "over_s": 120, "factor": 2}]), LONG)
    runs = {sim.observe(at).queries[0].run_id for at in (1.0, 9.0, 300.0)}
    took = {start: round(end - start, 3) for start, end, *_ in batches(sim)}
    assert [took[at] for at in (8.0, 10.0, 68.0, 70.0, 290.0)] == [1.0, 1.414, 1.414, 2.0, 2.0]
    assert runs == {"run-0"}
