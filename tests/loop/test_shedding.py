"""A loop that drops records: on a toy job with more load than its greatest number of executors carries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.loop.test_loop import Rig as LoopRig

from rheostat.config.shedding import WHOLE
from rheostat.decide.decide import decide
from rheostat.errors import ActuationError
from rheostat.execute.shedding import KeepOrders
from rheostat.journal.records import DecisionRecord
from rheostat.journal.store import JournalWriter, MemoryJournal, read_journal
from rheostat.loop.build import build_decision_settings
from rheostat.metrics import CountingJournal, JobMetrics
from rheostat.model import (
    Assessment,
    Bounds,
    EdgeCount,
    Observation,
    OutcomeStatus,
    Reason,
    ReasonCode,
    SheddingPlan,
    Threshold,
)
from rheostat.report.explain import Story, explain_decision
from rheostat.report.replay import replay
from rheostat.report.score import count_edges
from rheostat.spark.orders import parse_orders
from rheostat.testing.fakes import ToyJob

START = 1_764_280_800.0
EDGE = "source>report"
STEADY = Reason(ReasonCode.STEADY, "as told")
GRAPH = {"sinks": [{"name": "report", "priority": 3, "minimum_accuracy": 0.3}]}


class SheddingJob(ToyJob):
    """A toy job that carries fewer records, and keeps the share that it was ordered to."""

    keep = WHOLE
    failing = False

    def order(self, plan: SheddingPlan | None) -> None:
        if self.failing:
            raise ActuationError("the disk is full")
        self.keep = WHOLE if plan is None else plan.keep.get(EDGE, WHOLE)

    def observe(self, at: float) -> Observation:
        """As a toy job: dropped records cost nothing, so more are done with in a second."""
        share = self.keep / WHOLE
        self.capacity = 120.0 / share
        seen = super().observe(at)
        (query,) = seen.queries
        assert query.batch is not None
        offered = query.batch.records or 0
        count = EdgeCount(EDGE, self.keep, offered, round(offered * share))
        return replace(seen, queries=(replace(query, batch=replace(query.batch, edges=(count,))),))


class Rig(LoopRig):
    """A loop on a job that may drop, with two executors at most."""

    job: SheddingJob

    def __init__(self, journal=None, **given):
        job = SheddingJob()
        super().__init__(job, journal, shedder=job, **{"executors": [1, 2], "shedding": GRAPH, **given})


def test_overload_at_the_greatest_number_is_answered_by_shedding_and_nothing_else():
    rig = Rig()
    rig.cycles(10)
    rig.job.rate = 400.0
    rig.cycles(20)
    decisions = rig.cycles(40)
    shares = [decision.shedding.keep[EDGE] / WHOLE for decision in decisions]
    assert rig.job.executors == 2
    assert {decision.shedding.reason.code for decision in decisions} == {ReasonCode.SHEDDING}
    assert min(shares) >= 0.3
    assert 0.5 < sum(shares) / len(shares) < 0.62, "two executors carry 240/s of 400/s"
    last = decisions[-1]
    assert last.reason.code is ReasonCode.SHEDDING, "figures of batches that dropped records decide nothing"
    assert (rig.loop.status().lag_s or 0.0) < 30.0


def test_shedding_ends_and_executors_are_given_back_after_the_load():
    rig = Rig()
    rig.cycles(10)
    rig.job.rate = 400.0
    rig.cycles(40)
    rig.job.rate = 50.0
    rig.cycles(120)
    assert (rig.job.keep, rig.job.executors) == (WHOLE, 1)


def test_nothing_is_dropped_while_executors_can_be_added():
    rig = Rig(executors=[1, 8])
    rig.cycles(10)
    rig.job.rate = 400.0
    assert not any(decision.shedding.keep for decision in rig.cycles(60))
    assert rig.job.executors >= 4


def test_nothing_is_ordered_while_paused_or_watching():
    for rig in (Rig(), Rig(mode="watch")):
        rig.cycles(5)
        rig.job.executors = 2
        rig.loop.pause()
        rig.job.rate = 400.0
        rig.cycles(40)
        assert rig.job.keep == WHOLE


def test_orders_that_fail_are_a_failure_and_no_end():
    rig = Rig()
    rig.job.failing = True
    rig.cycles(3)
    assert rig.loop.status().failures == 3
    assert "the disk is full" in (rig.loop.status().last_failure or "")


def test_a_replay_decides_the_same_shares(tmp_path):
    journal = JournalWriter(tmp_path)
    rig = Rig(journal)
    rig.cycles(10)
    rig.job.rate = 400.0
    decisions = rig.cycles(40)
    journal.close()
    records = list(read_journal(tmp_path))
    replayed = [each.decision for each in replay(records)]
    assert [each.shedding for each in replayed if each is not None][-40:] == [each.shedding for each in decisions]
    story = Story(records, "here")
    told = explain_decision(story.cycles[-1])
    keep = told["shedding"]["keep"][EDGE]
    assert keep == rig.job.keep
    assert any(line.startswith("  accuracy  report: ") and "30 % promised" in line for line in told["lines"])


def test_a_batch_that_several_looks_saw_is_counted_once():
    rig = Rig()
    rig.cycles(3)
    records = [record for record in rig.journal.records if isinstance(record, DecisionRecord)]
    counted = count_edges(records)
    assert counted == count_edges([*records, records[-1]])
    assert [each.edge for each in counted] == [EDGE]


def test_metrics_tell_promised_wanted_and_measured_accuracy():
    metrics = JobMetrics()
    rig = Rig(CountingJournal(MemoryJournal(), metrics))
    rig.cycles(10)
    rig.job.rate = 400.0
    (*_, before, _) = rig.cycles(40)
    samples = {
        (sample.name, *sample.labels.values()): sample.value for each in metrics.collect() for sample in each.samples
    }
    assert samples["rheostat_sink_minimum_accuracy_ratio", "report"] == 0.3
    assert samples["rheostat_sink_wanted_accuracy_ratio", "report"] < 0.8
    measured = samples["rheostat_sink_measured_accuracy_ratio", "report"]
    assert measured == pytest.approx(before.shedding.sinks[0].wanted, abs=0.01)
    assert samples["rheostat_kept_records_total", EDGE] < samples["rheostat_offered_records_total", EDGE]


def test_where_shedding_is_no_longer_declared_nothing_of_it_remains():
    rig = Rig()
    rig.cycles(10)
    rig.job.rate = 400.0
    rig.cycles(30)
    (before,) = rig.cycles(1)
    assert before.shedding.keep
    without = replace(build_decision_settings(rig.settings), shedding=None, bounds=Bounds(1, 20))
    _, state = decide(Assessment(rig.clock.at), rig.loop._state, without)
    _, state = decide(Assessment(rig.clock.at, executors=2, requested=2, queries=1), state, without)
    assert state.shedding.wanted is None


def test_a_quota_that_is_used_up_lets_shedding_begin():
    rig = Rig(executors=[1, 8], guard={"quota_cores": 2})
    rig.cycles(10)
    rig.job.rate = 400.0
    decisions = rig.cycles(60)
    assert rig.job.executors == 2
    assert decisions[-1].shedding.keep


# The file of orders


def test_orders_are_written_once_there_is_something_to_drop_and_taken_back_at_the_end(tmp_path: Path):
    file = tmp_path / "new" / "orders.json"
    orders = KeepOrders(file, sample_s=15.0)
    orders.order(SheddingPlan((), {}, STEADY))
    assert not file.exists()
    orders.order(SheddingPlan((), {EDGE: 400_000}, STEADY, {EDGE: Threshold(0.1, 7)}))
    first = parse_orders(file.read_text(encoding="utf-8"))
    assert (first.keep, first.above) == ({EDGE: 400_000}, {EDGE: Threshold(0.1, 7)})
    assert first.until_ms - first.number == 60_000
    orders.close()
    last = parse_orders(file.read_text(encoding="utf-8"))
    assert (last.keep, last.number >= first.number) == ({}, True)


def test_orders_stay_in_force_when_the_clock_is_set_back(tmp_path: Path, monkeypatch):
    file, now_s = tmp_path / "orders.json", [2000.0]
    monkeypatch.setattr("rheostat.spark.orders.time.time_ns", lambda: int(now_s[0] * 1e9))
    orders = KeepOrders(file, sample_s=15.0)
    orders.order(SheddingPlan((), {EDGE: 100_000}, STEADY))
    before = parse_orders(file.read_text(encoding="utf-8"))
    now_s[0] -= 600
    orders.order(SheddingPlan((), {}, STEADY))
    assert parse_orders(file.read_text(encoding="utf-8")).number > before.number


def test_orders_that_cannot_be_written_are_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ActuationError, match="cannot be written"):
        KeepOrders(tmp_path / "file" / "orders.json", 15.0).order(SheddingPlan((), {EDGE: 0}, STEADY))


def test_a_refused_request_lets_shedding_begin():
    rig = Rig(executors=[1, 8])
    rig.job.room = 2
    rig.cycles(10)
    rig.job.rate = 400.0
    decisions = rig.cycles(80)
    assert any(each.reason.code is ReasonCode.NO_ROOM for each in decisions)
    assert any(each.shedding.keep for each in decisions)
    outcomes = [getattr(record, "outcome", None) for record in rig.journal.records]
    assert any(outcome is not None and outcome.status is OutcomeStatus.NO_ROOM for outcome in outcomes)
