"""What fits to real runs have shown: tasks wait for the next record, cold executors crowd, a decrease needs a gap."""

import pytest
from tests.sim.jobs import ask, plain, simulated

from rheostat.load.curves import constant, staircase
from rheostat.sim.job import SimulatedJob
from rheostat.sim.micro_batch import batch_work, next_record_s
from rheostat.sim.tasks import Equal

WAITING = [{"name": "read", "cost_ms": 5.0, "task_ms": 0.0, "fetch_wait_s": 0.5}]


@pytest.mark.parametrize(
    ("rate", "wait_s"),
    [
        pytest.param(0.0, 0.5, id="no record comes: to the end"),
        pytest.param(2.0, 0.3160603, id="(1 − 1/e) ÷ 2"),
        pytest.param(100.0, 0.01, id="a hundredth of a second apart"),
    ],
)
def test_how_long_the_next_record_is_waited_for(rate, wait_s):
    assert next_record_s(rate, 0.5) == pytest.approx(wait_s)


def test_each_reading_task_waits_for_the_next_record_of_its_partition():
    """8 records/s in 4 partitions are 2/s in each; 10 records of 5 ms."""
    (work,) = batch_work(plain(partitions=4, stages=WAITING), [10, 10, 10, 10], 1, rate=8.0)
    assert isinstance(work, Equal)
    assert (work.count, round(work.each_s, 6)) == (4, 0.36606)


def test_where_the_rate_is_not_said_nobody_waits():
    assert batch_work(plain(stages=WAITING), [10], 1) == [Equal(1, 0.05)]


def test_batches_are_longer_after_the_load_has_ended():
    """100 records take 0.5 s; at 50/s the next one comes after 20 ms. The last 50 wait the whole half second."""
    sim = simulated(plain(stages=WAITING, trigger_s=2.0), constant(50, 5))
    sim.advance(20.0)
    took = [round(end - start, 3) for start, end, _, _ in sim.history.batches]
    assert took == [0.52, 0.52, 0.75]


def test_the_first_batch_may_begin_off_the_grid():
    """At second 1.5 there are 150 records, 0.75 s of work; the grid's second 2 has passed by then."""
    sim = SimulatedJob(plain(), constant(100, 10), 1, 1, keep_batches=True, begins_at=1.5)
    sim.advance(10.0)
    assert [start for start, *_ in sim.history.batches][:2] == [1.5, 2.25]


def test_executors_that_are_cold_together_hinder_each_other():
    """Two come at second 4: their first tasks take 1 s + 2 s × (1 + 0.5) = 4 s, those of the warm one 1 s."""
    executor = {"cold_task_s": 2.0, "crowding": 0.5, "start_up": {"median_s": 0.0, "p95_s": 0.0}}
    stages = [{"name": "read", "cost_ms": 0.0, "task_ms": 1000.0}]
    sim = simulated(plain(partitions=3, stages=stages, executor=executor), constant(30, 2.5))
    ask(sim, 3, 1.0)
    sim.advance(30.0)
    assert [(start, end) for start, end, _, _ in sim.history.batches][:1] == [(2.0, 6.0)]


def test_executors_are_taken_away_only_where_the_next_batch_does_not_begin_at_once():
    """More than two carry until second 20, then little: batch follows on batch until the backlog is gone."""
    sim = simulated(plain(executors=[1, 4]), staircase([(20, 250), (40, 10)]), executors=1)
    ask(sim, 2, 0.0)
    ask(sim, 1, 21.0)
    sim.advance(60.0)
    gone_at = next(at for at, count in sim.history.ready if count == 1 and at > 10)
    starts = {round(start, 6) for start, *_ in sim.history.batches}
    assert gone_at > 21.0
    assert round(gone_at, 6) not in starts
