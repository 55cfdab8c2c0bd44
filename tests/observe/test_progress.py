"""Progress events as Spark sends them."""

import json

import pytest
from tests.observe import recorded

from rheostat.model import Batch, EdgeCount
from rheostat.observe.parse import parse_progress
from rheostat.spark.keep import is_kept, seed_of


def test_a_batch_ends_when_its_trigger_execution_ends():
    progress = parse_progress(recorded.RATE_PROGRESS)

    assert progress.batch == Batch(
        at=1795833709.249,
        batch_id=1,
        duration_s=0.418,
        planning_s=0.107,
        add_batch_s=0.224,
        commit_s=0.084,
        records=20,
        state_rows=0,
        dropped_late=0,
        listing_s=0.0,
    )
    assert progress.planned_at == pytest.approx(1795833708.831, abs=1e-6)
    assert progress.latest == (2,)


def test_a_source_that_reports_no_latest_offset():
    assert parse_progress(recorded.FILE_PROGRESS).latest == (None,)


def test_state_is_summed_over_operators():
    event = json.loads(recorded.RATE_PROGRESS)
    event["stateOperators"] = [{"numRowsTotal": 997, "numRowsDroppedByWatermark": 3}, {"numRowsTotal": 3}]

    batch = parse_progress(json.dumps(event)).batch

    assert batch is not None
    assert (batch.state_rows, batch.dropped_late) == (1000, 3)


ORDERS = {"startOffset": {"o": {"0": 10, "1": 0}}, "endOffset": {"o": {"0": 20, "1": 7}}}


@pytest.mark.parametrize(
    ("sources", "offsets"),
    [
        ([ORDERS], (17,)),
        ([ORDERS, {"startOffset": {"c": {"0": 5_000_000}}, "endOffset": {"c": {"0": 5_000_003}}}], (17, 3)),
        ([ORDERS | {"startOffset": {"o": {"0": 10}}}, ORDERS], (None, 17)),
        ([ORDERS | {"startOffset": None}], (None,)),
        ([ORDERS, {"startOffset": 0, "endOffset": 2}], (17, None)),
        ([{"startOffset": 0, "endOffset": 2}], ()),
    ],
    ids=["one source", "two", "a partition is new", "the first batch", "one that has no offsets", "none has"],
)
def test_offsets_of_a_batch_are_counted_for_each_source(sources, offsets):
    batch = parse_progress(json.dumps(json.loads(recorded.RATE_PROGRESS) | {"sources": sources})).batch

    assert batch is not None
    assert batch.offsets == offsets


def test_an_event_without_a_batch_is_not_taken_for_one():
    event = json.loads(recorded.RATE_PROGRESS)
    event["durationMs"] = {"latestOffset": 1, "triggerExecution": 2}

    assert parse_progress(json.dumps(event)).batch is None


def test_impossible_figures_are_passed_on():
    text = recorded.RATE_PROGRESS.replace('"triggerExecution":418', '"triggerExecution":NaN').replace(
        '"numInputRows":20,"inputRowsPerSecond":10.0,"processedRowsPerSecond":47.8,"durationMs"',
        '"numInputRows":-1,"durationMs"',
    )

    batch = parse_progress(text).batch

    assert batch is not None
    assert batch.records == -1
    assert batch.duration_s != batch.duration_s


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", recorded.RATE_PROGRESS.replace("timestamp", "time"), recorded.RATE_PROGRESS.replace("418", '"x"')],
    ids=["empty", "a list", "nothing in it", "no time", "a duration that is no number"],
)
def test_an_event_that_is_not_understood_is_an_error_of_value(text):
    with pytest.raises(ValueError, match=r".+"):
        parse_progress(text)


def test_the_edges_of_a_batch_are_counted_by_draws_and_by_spark():
    """The reader's edge has the draws of its offsets; later ones have the rows that Spark saw."""
    event = json.loads(recorded.RATE_PROGRESS)
    keep = {"clicks>parse": 250_000, "parse>alerts": 500_000}
    orders = {"keep": keep, "number": 3, "read_tasks": 0, "edge": "clicks>parse", "begin": {"clicks": {"1": 90}}}
    event["sources"] = [
        {
            "startOffset": {"clicks": {"0": 1000}},
            "endOffset": {"clicks": {"0": 3000, "1": 100}, "rheostat:batch": orders},
            "latestOffset": None,
        }
    ]
    event["observedMetrics"] = {"rheostat:parse>alerts": {"offered": 480, "kept": 236}, "records": {"records": 480}}

    batch = parse_progress(json.dumps(event)).batch

    drawn = [("clicks", 0, offset) for offset in range(1000, 3000)] + [
        ("clicks", 1, offset) for offset in range(90, 100)
    ]
    kept = sum(is_kept(seed_of("clicks>parse", topic, number), offset, 250_000) for topic, number, offset in drawn)
    assert batch is not None
    assert batch.edges == (
        EdgeCount("clicks>parse", 250_000, 2010, kept),
        EdgeCount("parse>alerts", 500_000, 480, 236),
    )


def test_without_a_shedding_graph_no_edge_is_counted():
    event = json.loads(recorded.RATE_PROGRESS)
    event["sources"] = [ORDERS | {"latestOffset": None}]
    batch = parse_progress(json.dumps(event)).batch
    assert batch is not None
    assert batch.edges == ()


def test_a_source_that_has_not_moved_shows_an_old_plan_that_does_not_count():
    event = json.loads(recorded.RATE_PROGRESS)
    old = {"keep": {"a>out": 200_000, "b>out": 200_000}, "number": 1, "edge": "a>out", "begin": {"a": {"0": 0}}}
    new = {"keep": {"a>out": 500_000, "b>out": 500_000}, "number": 2, "edge": "b>out"}
    event["sources"] = [
        {"startOffset": {"a": {"0": 9}, "rheostat:batch": old}, "endOffset": {"a": {"0": 9}, "rheostat:batch": old}},
        {"startOffset": {"b": {"0": 0}}, "endOffset": {"b": {"0": 1000}, "rheostat:batch": new}},
    ]
    batch = parse_progress(json.dumps(event)).batch
    assert batch is not None
    assert [(each.edge, each.keep, each.offered) for each in batch.edges] == [("b>out", 500_000, 1000)]


@pytest.mark.parametrize("values", [[1.0, "NaN"], [0.0, "Infinity"], None])
def test_values_that_are_no_numbers_are_not_known(values):
    event = json.loads(recorded.RATE_PROGRESS)
    event["observedMetrics"] = {"rheostat:a>b": {"offered": 2, "kept": 1, "values": values}}
    batch = parse_progress(json.dumps(event)).batch
    assert batch is not None
    assert batch.edges == (EdgeCount("a>b", 1_000_000, 2, 1),)
