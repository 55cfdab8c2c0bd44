"""What holds whatever the load, the decisions and the events: records are conserved, and looking changes nothing."""

from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.sim.jobs import PLAIN, decision

from rheostat.load.curves import Pieces
from rheostat.sim.job import SimulatedJob
from rheostat.sim.jobfile import job_of
from rheostat.sim.micro_batch import MicroBatches

rates = st.lists(st.tuples(st.integers(1, 20), st.integers(0, 400)), min_size=1, max_size=5)
asked = st.lists(st.tuples(st.integers(0, 80), st.integers(1, 8)), max_size=5)
moments = st.fixed_dictionaries({"at_s": st.integers(0, 60), "for_s": st.integers(1, 30)})


def kind(name, **more):
    return moments.map(lambda when: {"kind": name, **when, **more})


def once(name, **more):
    return st.integers(0, 60).map(lambda at: {"kind": name, "at_s": at, **more})


events = st.lists(
    st.one_of(
        kind("slow", factor=3),
        once("dead", executor=1, replaced_after_s=5),
        once("dead"),
        kind("reject"),
        kind("late"),
        kind("no-room", room=2),
        kind("metrics", delay_s=7),
        kind("metrics", frozen=True, missing=["batch"]),
        kind("sink", records_per_s=90),
        kind("skew", skew=1.5),
        once("code", factor=1.5, pause_s=5),
    ),
    max_size=4,
)
jobs = st.fixed_dictionaries(
    {
        "partitions": st.sampled_from([1, 3, 8]),
        "partition_skew": st.sampled_from([0.0, 1.0]),
        "batch_cap": st.sampled_from([None, 50, 400]),
        "trigger_s": st.sampled_from([0.0, 2.0]),
        "batch_noise_cv": st.sampled_from([0.0, 0.2]),
        "rescale": st.sampled_from(
            [{}, {"room": 3}, {"mode": "restart", "pause": {"median_s": 3, "p95_s": 6}}, {"safe_moment_s": 1}]
        ),
    }
)
EXECUTOR = {"cold_task_s": 1.0, "slows_neighbours": 0.2, "start_up": {"median_s": 3.0, "p95_s": 6.0}}
MICRO = {
    "executor": EXECUTOR,
    "driver": {"planning_s": 0.1, "commit_s": 0.1},
    "stages": [
        {"name": "read", "cost_ms": 2.0, "task_ms": 10.0},
        {"name": "keep", "tasks": 4, "cost_ms": 1.0, "task_ms": 10.0, "stateful": True},
    ],
    "state": {"reload_s": 0.5},
}
RECORD = {"model": "record", "stages": [], "record": {"alpha": 90.0, "commit_every_s": 2.0}}


def curve(levels):
    points, at = [], 0
    for seconds, rate in levels:
        points += [(at, rate), (at + seconds, rate)]
        at += seconds
    return Pieces(points)


def simulated(values, load, happens):
    return SimulatedJob(job_of({**PLAIN, **values, "events": happens}), load, 3, 2, keep_batches=True)


def play(sim, asks, looks):
    """Ask and look at these times, to the end; what was seen."""
    seen = []
    times = sorted({*looks, *(at for at, _ in asks)})
    for number, at in enumerate(times):
        seen.append(sim.observe(at))
        for when, target in asks:
            if when == at:
                sim.apply(decision(target, at, number))
    for end in range(150, 20_000, 50):
        sim.advance(end)
        if sim.drained:
            break
    return seen


def known_positions(seen):
    for observation in seen:
        for query in observation.queries:
            yield from query.offsets.partitions if query.offsets else ()


@given(jobs, st.sampled_from([MICRO, RECORD]), rates, asked, events)
def test_records_are_conserved_and_positions_are_in_order(job, model, levels, asks, happens):
    sim = simulated({**job, **model}, curve(levels), happens)
    for part in known_positions(play(sim, asks, range(0, 90, 7))):
        assert 0 <= part.committed <= part.planned <= part.latest
    history = sim.history
    assert sim.drained
    assert history.records_in == history.records_out == sum(batch[2] for batch in history.batches)
    assert abs(history.records_in - curve(levels).cumulative(1e9)) <= job["partitions"]
    assert all(later[0] >= earlier[1] for earlier, later in pairwise(history.batches))
    assert all(before >= after >= 0 for _, _, before, after in history.commits)


@given(jobs, st.sampled_from([MICRO, RECORD]), rates, asked, events)
def test_looking_changes_nothing(job, model, levels, asks, happens):
    rarely, often = (simulated({**job, **model}, curve(levels), happens) for _ in range(2))
    play(rarely, asks, ())
    play(often, asks, [number / 2 for number in range(180)])
    assert rarely.history.commits == often.history.commits
    assert rarely.history.batches == often.history.batches
    assert (rarely.history.paid, rarely.history.ready) == (often.history.paid, often.history.ready)


class Anew(MicroBatches):
    """Places the running batch anew whatever has changed."""

    def _stands(self, *_):
        return False


PLAIN_ONE = {"partitions": 1, "trigger_s": 0.0}
SLOWER = {"kind": "slow", "at_s": 1, "for_s": 1, "factor": 3}


@settings(max_examples=2 * settings().max_examples)
@given(jobs, st.sampled_from([0.0, 0.2]), rates, asked, events)
@example(PLAIN_ONE, 0.0, [(1, 5)], [(0, 3)], [SLOWER])
def test_a_placement_that_stands_is_the_one_that_would_be_made_anew(job, slows, levels, asks, happens):
    executor = {**EXECUTOR, "slows_neighbours": slows, "crowding": 0.5}
    usual, anew = (simulated({**job, **MICRO, "executor": executor}, curve(levels), happens) for _ in range(2))
    anew._query.__class__ = Anew
    assert play(usual, asks, range(90)) == play(anew, asks, range(90))
    assert usual.history.batches == anew.history.batches


@given(jobs, st.sampled_from([MICRO, RECORD]), rates, asked, events)
def test_executors_are_paid_for_from_the_request_until_they_are_gone(job, model, levels, asks, happens):
    sim = simulated({**job, **model}, curve(levels), happens)
    for seen in play(sim, asks, range(90)):
        if seen.cluster is not None:
            work = [(e.busy_s, e.finished_tasks, e.active_tasks) for e in seen.cluster.executors]
            assert all(busy >= 0 and finished >= 0 and 0 <= active <= 1 for busy, finished, active in work)
    history = sim.history
    for steps in (history.paid, history.ready, history.target):
        assert all(later[0] > earlier[0] for earlier, later in pairwise(steps))
    for at, ready in history.ready:
        paid = [value for when, value in history.paid if when <= at][-1]
        assert 0 <= ready <= paid
