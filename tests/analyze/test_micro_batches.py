"""A micro-batch job in miniature: a healthy one reads as healthy, an overloaded one does not."""

from __future__ import annotations

import pytest

from rheostat.analyze.assess import analyze
from rheostat.analyze.state import AnalysisSettings, AnalysisState
from rheostat.model import Batch, Cluster, Executor, Observation, Offsets, PartitionOffsets, QueryReading, RunningBatch

SETTINGS = AnalysisSettings(objective_lag_s=30.0, rate_window_s=20.0)
PARTITIONS = 4


class Job:
    """Records arrive evenly at ``rate``; a batch takes ``fixed_s`` and ``per_record_s`` for each that had arrived."""

    def __init__(self, rate: float, *, trigger_s: float, per_record_s: float, fixed_s: float = 0.0) -> None:
        self.rate, self.trigger_s = rate, trigger_s
        self.per_record_s, self.fixed_s = per_record_s, fixed_s
        self.committed, self.planned, self.batch_id = 0, 0, -1
        self.started = 0.0
        self.last: Batch | None = None

    def look(self, at: float) -> Observation:
        """Run until ``at`` and look."""
        while self.ends <= at:
            self._finish()
        active = self.started <= at
        planned = self.planned if active else self.committed
        rows = tuple(
            PartitionOffsets("t", i, *(count // PARTITIONS for count in (int(at * self.rate), planned, self.committed)))
            for i in range(PARTITIONS)
        )
        running = RunningBatch(at, active, self.batch_id + 1, self.started if active else None)
        query = QueryReading("q", "r", None, self.trigger_s, (), Offsets.of(at, rows), self.last, running)
        return Observation(at, (query,), Cluster.of(at, (Executor("0", "h", 1, int(active)),)))

    @property
    def ends(self) -> float:
        self.planned = int(self.started * self.rate)
        return self.started + self.fixed_s + (self.planned - self.committed) * self.per_record_s

    def _finish(self) -> None:
        ended = self.ends
        self.batch_id += 1
        self.last = Batch(ended, self.batch_id, ended - self.started, records=self.planned - self.committed)
        self.committed = self.planned
        tick = (self.started // self.trigger_s + 1) * self.trigger_s if self.trigger_s else ended
        self.started = max(ended, tick)


def assessments(job, *, until, every):
    state = AnalysisState()
    for step in range(1, int(until / every) + 1):
        seen, state = analyze(job.look(step * every), state, SETTINGS)
        yield seen


@pytest.mark.parametrize("every", [0.7, 1.3, 2.0, 5.1])
def test_a_healthy_job_at_90_percent_has_no_excess(every):
    job = Job(1000.0, trigger_s=2.0, per_record_s=1.8 / 2000)
    late = [each for each in assessments(job, until=200.0, every=every) if each.at > 30]
    for each in late:
        assert each.arrival_rate == pytest.approx(1000.0, rel=0.01)
        assert each.processed_rate == pytest.approx(1000.0, rel=0.01)
        assert each.batch_s == pytest.approx(1.8)
        assert each.occupancy == pytest.approx(0.12)
        assert each.backlog_excess <= 10  # 0.01 s of records
        assert each.lag_s <= 3.81
        assert each.waiting + each.in_flight == each.backlog
    assert max(each.backlog for each in late) > 1500  # it has a backlog, as every micro-batch job


@pytest.mark.parametrize("every", [0.3, 2.0])
def test_a_healthy_job_without_a_trigger_interval_has_no_excess(every):
    """Batches of 1 s run back to back: half of it is fixed, half is for the 1000 records that came meanwhile."""
    job = Job(1000.0, trigger_s=0.0, fixed_s=0.5, per_record_s=0.5 / 1000)
    late = [each for each in assessments(job, until=200.0, every=every) if each.at > 30]
    assert max(each.backlog for each in late) > 1000
    assert max(each.backlog_excess for each in late) <= 10
    assert max(each.lag_s for each in late) <= 2.01


def test_an_overloaded_job_shows_ever_more_excess_and_lag():
    job = Job(1000.0, trigger_s=2.0, per_record_s=1.5 / 1000)
    seen = list(assessments(job, until=240.0, every=2.0))
    at = {each.at: each for each in seen}
    assert [at[time].missing for time in (60.0, 120.0, 240.0)] == [(), (), ()]
    assert at[240.0].backlog_excess > at[120.0].backlog_excess > at[60.0].backlog_excess > 0
    assert at[240.0].lag_s > 30 > at[30.0].lag_s
    assert at[240.0].arrival_rate == pytest.approx(1000.0, rel=0.01)
    assert at[240.0].processed_rate == pytest.approx(1 / 0.0015, rel=0.05)
    assert at[240.0].draining is False
    assert at[240.0].drain_s is None
    assert at[240.0].occupancy > 1


def test_lag_is_a_sawtooth_between_batch_time_and_trigger_plus_batch_time():
    job = Job(1000.0, trigger_s=2.0, per_record_s=1.8 / 2000)
    late = [each for each in assessments(job, until=100.0, every=0.1) if each.at > 20]
    assert min(each.lag_s for each in late) == pytest.approx(1.8, abs=0.11)
    assert max(each.lag_s for each in late) == pytest.approx(3.8, abs=0.11)
