"""Each batch is told once, however many end between two looks."""

import pytest
from tests.sim.jobs import plain, simulated

from rheostat.analyze.assess import analyze
from rheostat.analyze.state import AnalysisSettings, AnalysisState
from rheostat.load.curves import constant

SETTINGS = AnalysisSettings(objective_lag_s=30.0)
LOAD = constant(100, 100.0)


def looked_at(sim, every_s, until):
    """The assessments, and the ids of the batches in each observation."""
    state, assessments, ids = AnalysisState(), [], []
    for number in range(1, int(until / every_s) + 1):
        seen = sim.observe(number * every_s)
        query = seen.queries[0]
        ids.append([batch.batch_id for batch in (*query.ended, *([] if query.batch is None else [query.batch]))])
        assessment, state = analyze(seen, state, SETTINGS)
        assessments.append(assessment)
    return assessments, ids


@pytest.mark.parametrize("every_s", [0.7, 5.0, 15.0])
def test_every_batch_that_ended_is_assessed_once_with_its_stages(every_s):
    sim = simulated(plain(), LOAD)
    assessments, _ = looked_at(sim, every_s, 60.0)
    ended = [batch for each in assessments for batch in each.ended]
    assert [batch.batch_id for batch in ended] == list(range(len(ended)))
    assert len(ended) == len([1 for _, end, _, _ in sim.history.batches if end <= assessments[-1].at])
    assert all(batch.stages[0].busy_s == pytest.approx(1.0) for batch in ended)


def test_no_observation_repeats_an_earlier_batch():
    _, ids = looked_at(simulated(plain(), LOAD), 5.0, 60.0)
    told = [number for each in ids for number in each]
    assert told == list(range(len(told)))


def test_with_delayed_metrics_none_is_lost():
    assessments, _ = looked_at(simulated(plain(metrics={"delay_s": 20.0}), LOAD), 5.0, 80.0)
    told = [batch.batch_id for each in assessments for batch in each.ended]
    assert told == list(range(29)), "those that ended by 60 s"


def test_the_newest_32_are_told():
    assessments, _ = looked_at(simulated(plain(trigger_s=0.2), LOAD), 60.0, 60.0)
    assert len(assessments[0].ended) == 33
    assert assessments[0].ended[0].batch_id > 0


def test_records_that_arrived_between_two_looks():
    assessments, _ = looked_at(simulated(plain(), LOAD), 7.0, 70.0)
    assert [each.arrived for each in assessments] == [None, *[700] * 9]


def test_since_when_the_running_batch_runs():
    """Batches begin every 2 s and take 1 s."""
    assessments, _ = looked_at(simulated(plain(), LOAD), 1.25, 7.5)
    assert [each.running_since for each in assessments] == [None, 2.0, None, None, 6.0, None]
