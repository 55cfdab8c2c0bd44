"""Back pressure on micro-batches: by hand, on a job in miniature, and on the records of a real run."""

import doctest
import json
from pathlib import Path

import pytest
from tests.analyze.test_micro_batches import Job, assessments

import rheostat.analyze.batches
from rheostat.analyze.assess import analyze
from rheostat.analyze.batches import find_root, has_backpressure, is_overloaded, update_backpressure
from rheostat.analyze.state import AnalysisSettings, AnalysisState, Turns
from rheostat.journal.records import DecisionRecord, assessment_from_json, assessment_to_json
from rheostat.journal.store import read_journal
from rheostat.model import Batch, Cluster, Executor, Observation, Offsets, PartitionOffsets, QueryReading

RECORDED = Path(__file__).parents[1] / "policies" / "recorded" / "click_fraud.jsonl"
LIVE = AnalysisSettings(objective_lag_s=20.0, rate_window_s=10.0, failure_window_s=10.0)


def test_examples():
    assert doctest.testmod(rheostat.analyze.batches).failed == 0


@pytest.mark.parametrize(
    ("before", "own", "expected"),
    [
        pytest.param([0.51], 0.5, True, id="strictly more than a half before, at most a half itself"),
        pytest.param([0.5], 0.0, False, id="a half is not high"),
        pytest.param([0.9], 0.51, False, id="held up itself: the root lies behind"),
        pytest.param([0.9, 0.4], 0.0, False, id="all before it must be held up"),
    ],
)
def test_algorithm_1(before, own, expected):
    assert is_overloaded(before, own) is expected


@pytest.mark.parametrize(
    ("pressure", "durations", "expected"),
    [
        pytest.param(1.0, [1.0, 6.0, 1.0], 1, id="the long one"),
        pytest.param(1.0, [6.0, 1.0, 1.0], 0, id="the first holds up nothing before it but the source"),
        pytest.param(1.0, [1.0, 1.0, 6.0], 2, id="the last is held up by none"),
        pytest.param(1.0, [4.0, 4.0], 0, id="half of the time is not high"),
        pytest.param(0.6, [1.0, 9.0], 1, id="pressed for 60 %"),
        pytest.param(0.5, [1.0, 9.0], None, id="not pressed for long enough"),
    ],
)
def test_the_root_among_the_parts_of_a_batch(pressure, durations, expected):
    assert find_root(pressure, durations) == expected


BATCH = Batch(0.0, 1, 12.0, planning_s=1.0, add_batch_s=10.5, commit_s=0.5)
DRIVER = Batch(0.0, 1, 12.0, planning_s=8.0, add_batch_s=3.5, commit_s=0.5)


@pytest.mark.parametrize(
    ("batch_s", "backlog", "excess", "last", "expected"),
    [
        pytest.param(12.0, 5000, 100.0, BATCH, True, id="back to back, with an excess"),
        pytest.param(12.0, 5000, 0.0, BATCH, False, id="back to back and healthy"),
        pytest.param(15.0, 5000, 0.0, BATCH, True, id="a batch of τ"),
        pytest.param(9.0, 5000, 100.0, BATCH, False, id="an excess between triggers: a batch cap, or a pause"),
        pytest.param(40.0, 0, 0.0, BATCH, False, id="the last batch was long, and nothing came since"),
        pytest.param(12.0, 5000, 100.0, DRIVER, False, id="the driver is slow, executors do not help"),
        pytest.param(12.0, 5000, 100.0, None, True, id="parts unknown"),
        pytest.param(None, 5000, 100.0, BATCH, None, id="batch time unknown"),
        pytest.param(12.0, None, None, BATCH, None, id="backlog unknown"),
    ],
)
def test_when_a_query_is_pressed(batch_s, backlog, excess, last, expected):
    assert has_backpressure(batch_s, 10.0, 15.0, backlog, excess, last) is expected


def told(*looks, window_s=60.0):
    """The pressures at looks (time, pressed)."""
    turns, before, found = None, 0.0, []
    for at, now_pressed in looks:
        share, turns = update_backpressure(now_pressed, turns, before, at, window_s)
        before = at
        found.append(share)
    return found


def test_a_share_of_the_window():
    looks = [(0, False), (15, False), (30, True), (45, True), (60, False), (75, False), (90, False), (105, False)]
    # over 15, 30, 45 and 60 s, then over the last 60 s: 30 of them until 75 s, of which the window loses 15 at a time
    assert told(*looks) == [None, 0.0, 0.5, pytest.approx(2 / 3), 0.5, 0.5, 0.25, 0.0]
    assert told(*looks, (120, False), (135, True))[-2:] == [0.0, 0.25]


def test_an_unknown_look_begins_anew():
    assert told((0, True), (15, True), (30, None), (45, True), (60, False)) == [None, 1.0, None, 1.0, 0.5]


def test_what_is_remembered_is_bounded():
    turns, before = Turns(0.0), 0.0
    for step in range(1, 200):
        _, turns = update_backpressure(step % 2 == 0, turns, before, 15.0 * step, 60.0)
        before = 15.0 * step
    assert len(turns.times) <= 6


def test_a_healthy_job_at_90_percent_has_no_pressure():
    """Nor has one that runs back to back by choice."""
    jobs = (
        Job(1000.0, trigger_s=2.0, per_record_s=1.8 / 2000),
        Job(1000.0, trigger_s=0.0, fixed_s=0.5, per_record_s=0.0005),
    )
    for job in jobs:
        late = [each for each in assessments(job, until=200.0, every=2.0) if each.at > 30]
        assert {each.pressure for each in late} == {0.0}


def test_an_overloaded_job_has_full_pressure():
    late = list(assessments(Job(1000.0, trigger_s=2.0, per_record_s=0.0015), until=240.0, every=2.0))
    assert {each.pressure for each in late if each.at > 90} == {1.0}


# ------------------------------------------------------------------------------------------------- real runs


def observations():
    records = [record for record in read_journal(RECORDED) if isinstance(record, DecisionRecord)]
    return [record.observation for record in records if record.observation is not None]


def assessed(seen_before):
    state, found = AnalysisState(), []
    for observation in seen_before:
        seen, state = analyze(observation, state, LIVE)
        found.append(seen)
    return found


def test_on_a_real_run_pressure_is_high_while_it_is_behind_and_gone_once_it_has_caught_up():
    """`rheostat demo` on Spark 4.2.0, its second half: full batches beyond the trigger, then 85 to 95 % of it."""
    found = [seen for seen in assessed(observations()) if seen.pressure is not None]
    behind = [seen.pressure for seen in found if seen.backlog_excess > 0 and seen.last_batch_s >= seen.trigger_s]
    assert len(behind) >= 5
    assert min(behind) > 0.5
    caught_up = [seen.pressure for seen in found if seen.at - found[0].at > 60 and seen.backlog_excess == 0]
    assert len(caught_up) >= 8
    assert max(caught_up) == 0.0


def test_the_root_of_a_real_overload_is_the_work_of_the_executors():
    batches = [query.batch for seen in observations() for query in seen.queries if query.batch is not None]
    long = [batch for batch in batches if batch.duration_s > 2.0]
    parts = [(batch.planning_s, batch.add_batch_s, batch.commit_s) for batch in long]
    assert len(parts) >= 3
    assert {find_root(1.0, each) for each in parts} == {1}


def test_samples_that_overlap_a_reconfiguration_do_not_count():
    """The same run, one executor fewer from the tenth look on: the window begins again there."""
    fewer = [
        seen
        if place < 10
        else Observation(seen.at, seen.queries, Cluster.of(seen.cluster.at, seen.cluster.executors[:-1]), seen.gaps)
        for place, seen in enumerate(observations())
    ]
    found = assessed(fewer)
    assert found[9].pressure is not None
    assert found[10].executors == found[9].executors - 1
    assert found[10].pressure is None
    counted = [seen for seen in found[10:] if seen.throughput is not None]
    assert counted[0].batches >= 1, "the batch in flight at the change is the begin of it, not a part"


# -------------------------------------------------------------------------------------------- several queries


def two(at, late):
    """Query a keeps up, query b falls behind, on the same two executors."""
    executors = tuple(Executor(str(place), "h", 1, 1) for place in range(2))

    def reading(name, committed, batch_s):
        offsets = Offsets.of(at, (PartitionOffsets(name, 0, int(100 * at), int(100 * at), committed),))
        return QueryReading(name, "run", name, 2.0, (), offsets, Batch(at, int(at), batch_s))

    return Observation(at, (reading("a", int(100 * at), 1.0), reading("b", late, 8.0)), Cluster.of(at, executors))


def test_each_query_by_itself():
    seen = assessed([two(float(at), 0) for at in range(0, 44, 4)])[-1]
    assert seen.pressure == 1.0
    first, second = seen.by_query
    assert (first.query_id, first.pressure, first.arrival_rate, first.backlog_excess) == ("a", 0.0, 100.0, 0.0)
    assert (second.query_id, second.pressure, second.arrival_rate, second.batch_s) == ("b", 1.0, 100.0, 8.0)
    assert (first.throughput, second.throughput) == (None, 0.0), "b commits nothing"
    assert second.backlog_excess == 4000 - 100 * (8 + 8) - (1 + 3 * 40)
    text = assessment_to_json(seen, seen.at)
    assert assessment_from_json(json.loads(json.dumps(text)), seen.at).by_query == seen.by_query
