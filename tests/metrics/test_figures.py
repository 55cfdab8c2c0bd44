"""What a scrape tells: literal samples, and none for what is not known."""

import dataclasses
import math

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from tests.metrics.cycles import START, WHOLE, cycle, reading

from rheostat.analyze.assess import analyze
from rheostat.analyze.state import AnalysisSettings, AnalysisState
from rheostat.journal.records import DecisionRecord
from rheostat.journal.store import MemoryJournal
from rheostat.metrics import NAMES, CountingJournal, JobMetrics
from rheostat.model import (
    Action,
    Assessment,
    EdgeCount,
    EdgeLoad,
    Observation,
    Reason,
    ReasonCode,
    SheddingPlan,
    SinkAccuracy,
)


def scraped(metrics):
    """Every sample of a scrape, as a parser of the format reads it: name and sorted labels → value."""
    registry = CollectorRegistry()
    registry.register(metrics)
    families = list(text_string_to_metric_families(generate_latest(registry).decode()))
    samples = [sample for family in families for sample in family.samples]
    found = {(each.name, *sorted(each.labels.items())): each.value for each in samples}
    assert len(found) == len(samples)
    return found


def told(*records):
    metrics = JobMetrics()
    journal = CountingJournal(MemoryJournal(), metrics)
    for record in records:
        journal.record(record, dict)
    return scraped(metrics)


def test_a_whole_cycle():
    query = reading(("orders", 0, 110, 100, 90), ("orders", 1, 200, 200, 200))
    assert told(cycle(WHOLE, query)) == {
        ("rheostat_backlog_records",): 12_000,
        ("rheostat_healthy_backlog_records",): 9_999.5,
        ("rheostat_lag_seconds",): 7.25,
        ("rheostat_arrival_records_per_second",): 700,
        ("rheostat_processed_records_per_second",): 1000,
        ("rheostat_busy_ratio",): 0.75,
        ("rheostat_occupancy_ratio",): 1.5,
        ("rheostat_registered_executors",): 3,
        ("rheostat_requested_executors",): 4,
        ("rheostat_metrics_age_seconds",): 0.5,
        ("rheostat_target_executors",): 4,
        ("rheostat_last_cycle_timestamp_seconds",): START,
        ("rheostat_latest_offset_records", ("partition", "0"), ("query", "clicks"), ("topic", "orders")): 110,
        ("rheostat_latest_offset_records", ("partition", "1"), ("query", "clicks"), ("topic", "orders")): 200,
        ("rheostat_committed_offset_records", ("partition", "0"), ("query", "clicks"), ("topic", "orders")): 90,
        ("rheostat_committed_offset_records", ("partition", "1"), ("query", "clicks"), ("topic", "orders")): 200,
        ("rheostat_decisions_total", ("action", "up"), ("code", "UNDERSIZED")): 1,
        ("rheostat_failed_cycles_total",): 0,
    }


def test_the_exposition_is_text_with_type_and_help():
    registry = CollectorRegistry()
    metrics = JobMetrics()
    metrics.count(cycle(), written=True)
    registry.register(metrics)
    lines = generate_latest(registry).decode().splitlines()
    assert lines[:3] == [
        "# HELP rheostat_backlog_records Records in the sources that are not committed.",
        "# TYPE rheostat_backlog_records gauge",
        "rheostat_backlog_records 12000.0",
    ]
    assert lines[-3:] == [
        "# HELP rheostat_failed_cycles_total Cycles that failed: they hold.",
        "# TYPE rheostat_failed_cycles_total counter",
        "rheostat_failed_cycles_total 0.0",
    ]


def test_before_the_first_cycle_only_the_failures_are_known():
    assert told() == {("rheostat_failed_cycles_total",): 0}


def test_what_is_unknown_has_no_series():
    query = reading(("orders", 0, None, 100, 90), ("orders", 1, 200, None, None))
    seen = Assessment(at=START, backlog=5, lag_s=math.inf, busy_ratio=math.nan)
    found = told(cycle(seen, query, target=None, action=Action.HOLD, code=ReasonCode.METRICS_MISSING))
    assert found == {
        ("rheostat_backlog_records",): 5,
        ("rheostat_last_cycle_timestamp_seconds",): START,
        ("rheostat_latest_offset_records", ("partition", "1"), ("query", "clicks"), ("topic", "orders")): 200,
        ("rheostat_committed_offset_records", ("partition", "0"), ("query", "clicks"), ("topic", "orders")): 90,
        ("rheostat_decisions_total", ("action", "hold"), ("code", "METRICS_MISSING")): 1,
        ("rheostat_failed_cycles_total",): 0,
    }


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(dataclasses.replace(WHOLE, backlog=None), id="no backlog"),
        pytest.param(dataclasses.replace(WHOLE, backlog_excess=None), id="no excess"),
    ],
)
def test_the_healthy_backlog_needs_both_figures(seen):
    assert ("rheostat_healthy_backlog_records",) not in told(cycle(seen))


def total_lag(found):
    """As the recording rule ``rheostat:total_lag:records`` has it; None: no sample."""
    ends, starts = (
        {key[1:]: value for key, value in found.items() if key[0] == f"rheostat_{what}_offset_records"}
        for what in ("latest", "committed")
    )
    if not ends or ends.keys() != starts.keys() or any(ends[key] < starts[key] for key in ends):
        return None
    return sum(ends[key] - starts[key] for key in ends)


def assessed(*looks):
    """The record of the last of these looks at partitions, after the analysis of all."""
    state, at, seen, query = AnalysisState(), START, None, None
    for at, partitions in enumerate(looks, int(START)):
        query = reading(*partitions)
        assert query.offsets is not None
        query = dataclasses.replace(query, offsets=dataclasses.replace(query.offsets, at=float(at)))
        seen, state = analyze(Observation(float(at), (query,)), state, AnalysisSettings(60.0))
    return cycle(seen, query)


@pytest.mark.parametrize(
    ("looks", "lag"),
    [
        pytest.param([[("t", 0, 9000, 8000, 8000)], [("t", 0, 9500, 9200, 8000)]], 1500, id="a backlog"),
        pytest.param([[("t", 0, 9000, 8000, 8000)], [("t", 0, 9000, 9100, 9100)]], 0, id="committed after the latest"),
        pytest.param([[("t", 0, 9000, 8000, 8000)], [("t", 0, 500, 8000, 8000)]], None, id="created anew"),
        pytest.param(
            [[("t", 0, 9000, 8000, 8000), ("u", 0, 5, 5, 5)], [("t", 0, 9000, 8000, 8000)]],
            1000,
            id="a topic gone",
        ),
        pytest.param([[("t", 0, 9000, 8000, 8000), ("u", 0, None, 5, 5)]], None, id="a latest offset unknown"),
        pytest.param([[("t", 0, 9000, 8000, 8000), ("u", 0, 5, -1, -1)]], None, id="an impossible position"),
    ],
)
def test_the_total_lag_is_that_of_the_analysis_or_has_no_sample(looks, lag):
    record = assessed(*looks)
    assert record.assessment is not None
    found = told(record)
    assert found.get(("rheostat_backlog_records",)) == lag
    assert total_lag(found) == lag


def test_zero_is_known():
    found = told(cycle(Assessment(at=START, backlog=0, processed_rate=0.0)))
    assert found["rheostat_backlog_records",] == found["rheostat_processed_records_per_second",] == 0


def test_queries_are_told_apart_and_a_nameless_one_goes_by_its_id():
    queries = reading(("t", 0, 3, 2, 1)), reading(("t", 0, 6, 5, 4), name=None, query_id="q-2")
    found = told(cycle(WHOLE, *queries))
    labels = [dict(name[1:])["query"] for name in found if name[0] == "rheostat_latest_offset_records"]
    assert labels == ["clicks", "q-2"]


def test_a_query_that_is_listed_twice_is_told_once_with_its_last_reading():
    found = told(cycle(WHOLE, reading(("t", 0, 3, 2, 1)), reading(("t", 0, 6, 5, 4))))
    assert found["rheostat_latest_offset_records", ("partition", "0"), ("query", "clicks"), ("topic", "t")] == 6


def test_text_in_labels_is_escaped():
    found = told(cycle(WHOLE, reading(('a"b\\c\nd', 0, 3, 2, 1))))
    labels = [dict(name[1:])["topic"] for name in found if name[0] == "rheostat_latest_offset_records"]
    assert labels == ['a"b\\c\nd']


def test_every_name_that_there_can_be_is_listed():
    load = EdgeLoad("q", (EdgeCount("in>out", 500_000, 10, 5),), 1.0, 5.0, 0.0, 1.0)
    counted = dataclasses.replace(WHOLE, edge_loads=(load,))
    record = cycle(counted, reading(("t", 0, 3, 2, 1)))
    plan = SheddingPlan((SinkAccuracy("out", 0.2, 0.5, 0.5),), {}, Reason(ReasonCode.SHEDDING, "because"))
    decision = dataclasses.replace(record.decision, shedding=plan)
    assert {name[0] for name in told(DecisionRecord.of(record.observation, counted, decision))} == set(NAMES)
