"""From journals and sample stores to a history: which samples count, and what a damaged source costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.journal.synthetic import START, write_cycles

from rheostat.errors import InputError
from rheostat.fleet.history import Collected, Row, collect, jobs_in, journal_rows, read_rows
from rheostat.journal.records import DecisionRecord, Header, SessionRecord
from rheostat.journal.store import JournalWriter
from rheostat.learn.slow_records import Sample
from rheostat.model import Action, Assessment, Decision, Reason, ReasonCode, Recommendation
from rheostat.sample_store import ParquetSampleStore

CALM = Assessment(
    at=0.0,
    executors=2,
    requested=2,
    arrival_rate=400.0,
    processed_rate=390.0,
    backlog_excess=0.0,
    batches=3,
)


def record(assessment: Assessment | None, at: float = 0.0) -> DecisionRecord:
    reason = Reason(ReasonCode.STEADY, "steady")
    at = at if assessment is None else assessment.at
    return DecisionRecord.of(None, assessment, Decision(at, 1, Action.HOLD, 2, 2, reason, Recommendation(2, reason)))


def sampled(*changes: Mapping[str, Any]) -> list[Row]:
    looks = [replace(CALM, at=15.0 * number, **change) for number, change in enumerate(changes)]
    return journal_rows([record(seen) for seen in looks])


def test_a_sample_has_the_rate_the_number_in_force_and_slow_records_of_fifteen_seconds():
    # excess 900 of 400/s × 15 s = 6000 records: 0.15
    assert sampled({}, {"backlog_excess": 900.0}) == [
        Row(Sample(0.0, (400.0,), 2, 0.0), 390.0),
        Row(Sample(15.0, (400.0,), 2, 0.15), 390.0),
    ]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"missing": ("arrival_rate",)}, id="figures are missing"),
        pytest.param({"invalid": ("busy_ratio",)}, id="figures are impossible"),
        pytest.param({"arrival_rate": None}, id="the rate is not known"),
        pytest.param({"backlog_excess": None}, id="the excess is not known"),
        pytest.param({"executors": 1}, id="an executor is lost"),
        pytest.param({"executors": None, "requested": None}, id="the number is not known"),
    ],
)
def test_a_sample_that_does_not_count_is_left_out(change):
    assert [row.sample.at for row in sampled({}, change, {})] == [0.0, 30.0]


def test_after_a_change_samples_count_from_the_recovery_on():
    grown = {"executors": 3, "requested": 3}
    rows = sampled(
        {},
        {"requested": 3},
        {**grown, "batches": 0},
        {**grown, "backlog_excess": 100.0},
        grown,
        {**grown, "backlog_excess": 100.0},
    )
    assert [(row.sample.at, row.sample.executors) for row in rows] == [(0.0, 2), (60.0, 3), (75.0, 3)]


def test_a_job_that_does_not_recover_counts_after_four_minutes():
    rows = sampled(*({"backlog_excess": 100.0} for _ in range(18)))
    assert [row.sample.at for row in rows] == [240.0, 255.0]


def test_a_stall_is_no_more_than_one_even_where_nothing_arrives():
    rows = sampled({}, {"backlog_excess": 9e9}, {"arrival_rate": 0.0, "backlog_excess": 1.0})
    assert [row.sample.slow for row in rows] == [0.0, 1.0, 1.0]


def test_several_topics_are_a_workload_each_and_others_begin_anew():
    two, three = (("a", 100.0), ("b", 300.0)), (("a", 100.0), ("b", 200.0), ("c", 100.0))
    rows = sampled({}, {"arrival_rates": two}, {"arrival_rates": three}, {"arrival_rates": three})
    assert [(row.sample.at, row.sample.workload) for row in rows] == [
        (30.0, (100.0, 200.0, 100.0)),
        (45.0, (100.0, 200.0, 100.0)),
    ]


def test_the_interval_of_the_slow_records_is_that_of_the_run():
    session = SessionRecord(0.0, Header("0", {"policy_options": {"slow_interval_s": 5.0}}), {})
    seen = [record(CALM), record(replace(CALM, at=5.0, backlog_excess=500.0))]
    assert [row.sample.slow for row in journal_rows([session, *seen])] == [0.0, 0.25]


def test_a_cycle_that_failed_is_no_sample():
    assert len(journal_rows([record(CALM), record(None, 15.0), record(replace(CALM, at=30.0))])) == 2


def journal(folder: Path, job: str | None, looks: int, start: float = START) -> Path:
    writer = JournalWriter(folder)
    writer.start(Header("0", {}, job=job))
    for number in range(looks):
        writer.record(record(replace(CALM, at=start + 15.0 * number)), dict)
    writer.close()
    return folder


def test_journals_and_sample_stores_become_one_history_by_job(tmp_path):
    one = journal(tmp_path / "one", "clicks", 3)
    two = journal(tmp_path / "two", None, 2)
    ParquetSampleStore(two / "samples").put(0, [Sample(1.0, (5.0,), 1, 0.0)])
    history = tmp_path / "history"
    found = collect([one, two, two / "samples"], history)
    assert found == [
        Collected(one, "clicks", 3, None),
        Collected(two, "two", 2, None),
        Collected(two / "samples", "two", 1, None),
    ]
    assert collect([one], history) == found[:1]
    rows = {job: read_rows(files) for job, files in jobs_in(history).items()}
    assert {job: len(of_job) for job, of_job in rows.items()} == {"clicks": 3, "two": 3}
    assert Row(Sample(1.0, (5.0,), 1, 0.0), None) in rows["two"]


def test_a_damaged_day_costs_the_rest_of_that_day_and_no_other_source(tmp_path):
    one = journal(tmp_path / "one", "clicks", 3)
    journal(one, "clicks", 2, START + 86_400)
    first = min(one.glob("*.jsonl"))
    lines = first.read_text().splitlines(keepends=True)
    first.write_text("".join([*lines[:-1], "{damaged\n"]))
    two = journal(tmp_path / "two", "other", 1)
    found = collect([one, two], tmp_path / "history")
    assert [(each.job, each.rows) for each in found] == [("clicks", 4), ("other", 1)]
    assert found[0].fault is not None
    assert f"{first}:{len(lines)}" in found[0].fault
    assert found[1].fault is None


def test_a_damaged_file_of_a_sample_store_is_reported(tmp_path):
    store = ParquetSampleStore(tmp_path / "job" / "samples")
    store.put(0, [Sample(1.0, (5.0,), 1, 0.0)])
    next((tmp_path / "job" / "samples").iterdir()).write_bytes(b"nothing")
    (found,) = collect([tmp_path / "job" / "samples"], tmp_path / "history")
    assert (found.job, found.rows) == ("job", 0)
    assert found.fault is not None
    assert found.fault.startswith("samples 0 to 0 are left out")


def test_every_source_that_is_none_is_named_before_anything_is_written(tmp_path):
    good = journal(tmp_path / "good", "clicks", 1)
    with pytest.raises(InputError) as caught:
        collect([good, tmp_path / "none", tmp_path], tmp_path / "history")
    assert [fault.given for fault in caught.value.faults] == [str(tmp_path / "none"), str(tmp_path)]
    assert not (tmp_path / "history").exists()


def test_a_journal_as_loops_write_it_is_collected(tmp_path):
    write_cycles(tmp_path / "journal", 40)
    (found,) = collect([tmp_path / "journal"], tmp_path / "history")
    # it never is without an excess, so samples count once 240 s have passed: by the clock's jitter, from the 18th on
    assert (found.job, found.rows, found.fault) == ("journal", 23, None)
