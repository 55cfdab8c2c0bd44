"""The shortened scenarios on a real cluster: their plans, and what is read from finished runs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rheostat.errors import InputError
from rheostat.journal.records import DecisionRecord
from rheostat.load.scenario import read_scenario
from rheostat.model import (
    Action,
    Assessment,
    Batch,
    Decision,
    EdgeCount,
    NodeReading,
    Nodes,
    Observation,
    Offsets,
    QueryReading,
    Reason,
    ReasonCode,
    Recommendation,
    SheddingPlan,
    SinkAccuracy,
)
from rheostat.research.papers.s3_accounts import Account
from rheostat.research.papers.s3_cluster import run_live
from rheostat.research.papers.s3_live import KINDS, PLANS, LiveRun, live_results

TEXT = Reason(ReasonCode.SHEDDING, "as told")


def cycle(
    at: float,
    wanted: dict[str, float],
    *,
    lag_s: float = 1.0,
    measured: dict[str, float] | None = None,
    code: ReasonCode = ReasonCode.SHEDDING,
    queries: tuple[QueryReading, ...] = (),
) -> DecisionRecord:
    """A look, by the time since the load began."""
    sinks = tuple([SinkAccuracy(name, 0.4, share, (measured or {}).get(name)) for name, share in wanted.items()])
    moves = code is ReasonCode.NODE_OVERLOADED
    decision = Decision(
        at=at,
        decision_id=round(at),
        action=Action.DOWN if moves else Action.HOLD,
        current=2,
        target=1 if moves else 2,
        reason=Reason(code, "as told"),
        recommendation=Recommendation(2, TEXT),
        shedding=SheddingPlan(sinks, {}, TEXT),
    )
    nodes = Nodes(at, (NodeReading("tm1", 1, 0), NodeReading("tm2", 1, 0)))
    return DecisionRecord.of(Observation(at, queries), Assessment(at, lag_s=lag_s, nodes=nodes), decision)


def batch(number: int, edge: str, keep: float, offered: int, kept: int) -> QueryReading:
    done = Batch(float(number), number, 1.0, edges=(EdgeCount(edge, round(keep * 1e6), offered, kept),))
    return QueryReading("q", "r", edge.partition(">")[2], 2.0, batch=done)


def held(name: str, run: LiveRun, **others: LiveRun) -> dict[str, bool]:
    return {each.id: each.holds for each in live_results({name: run, **others})}


@pytest.mark.parametrize("name", PLANS)
def test_the_load_of_a_plan_is_a_scenario(name, tmp_path):
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(PLANS[name].scenario()), encoding="utf-8")
    curves = read_scenario(path).curves()
    assert max(curve.duration for curve in curves.values()) == PLANS[name].seconds
    began, steps = PLANS[name].rates["knn" if name == "knn" else "taxi"]
    curve = curves["points" if name == "knn" else "drives-1"]
    ends = [began + sum(length for length, _ in steps[: number + 1]) for number in range(len(steps))]
    assert [curve.rate(end - 1.0) for end in ends] == [rate for _, rate in steps]


TAXI = PLANS["taxi"]


def taxi(*cycles: DecisionRecord) -> LiveRun:
    return LiveRun(TAXI, 0.0, cycles)


FULL, SOME = {"sink-1": 1.0, "sink-2": 1.0}, {"sink-1": 0.5, "sink-2": 0.7}


@pytest.mark.parametrize(
    ("cycles", "statement", "holds"),
    [
        pytest.param(
            [cycle(10, FULL), cycle(80, SOME), cycle(130, SOME, code=ReasonCode.NODE_OVERLOADED)],
            "1 order, live",
            True,
            id="dropped, then moved",
        ),
        pytest.param(
            [cycle(10, FULL, code=ReasonCode.NODE_OVERLOADED), cycle(80, SOME)],
            "1 order, live",
            False,
            id="moved first",
        ),
        pytest.param([cycle(10, FULL), cycle(80, SOME)], "1 order, live", False, id="never moved"),
        pytest.param(
            [cycle(80, SOME, queries=(batch(1, "drives-1>parse-1", 0.5, 1000, 510),))],
            "1 accuracy, live",
            True,
            id="a point",
        ),
        pytest.param(
            [cycle(80, SOME, queries=(batch(1, "drives-1>parse-1", 0.5, 1000, 560),))],
            "1 accuracy, live",
            False,
            id="six points",
        ),
        pytest.param([cycle(80, SOME)], "1 accuracy, live", False, id="nothing was dropped"),
        pytest.param(
            [cycle(at, SOME, measured={"sink-1": 0.2}) for at in (80, 100, 120)],
            "1 promises, live",
            True,
            id="40 s below",
        ),
        pytest.param(
            [cycle(at, SOME, measured={"sink-1": 0.2}) for at in (80, 100, 120, 150)],
            "1 promises, live",
            False,
            id="70 s below",
        ),
    ],
)
def test_what_the_run_of_taxi_drives_shows(cycles, statement, holds):
    assert held("taxi", taxi(*cycles))[statement] is holds


def test_the_lag_is_held_and_would_grow():
    kept, lost = (
        taxi(*[cycle(at, SOME, lag_s=12.0) for at in range(60, 110)]),
        taxi(cycle(61, FULL), cycle(62, FULL, lag_s=60.0)),
    )
    assert held("taxi", kept, **{"taxi without shedding": lost})["4 lag, live"]
    assert not held("taxi", lost, **{"taxi without shedding": lost})["4 lag, live"]
    assert not held("taxi", kept, **{"taxi without shedding": kept})["4 lag, live"]


@pytest.mark.parametrize(
    ("shares", "holds"),
    [
        pytest.param([(0.7, 1.0, 1.0), (0.4, 0.8, 1.0), (0.4, 0.4, 0.9)], True, id="by priority"),
        pytest.param([(0.4, 0.8, 1.0), (0.5, 0.8, 1.0)], False, id="Snk1 while KNN has more than its minimum"),
        pytest.param([(0.4, 0.8, 1.0), (0.4, 0.8, 0.9)], False, id="Snk2 while Snk1 has"),
        pytest.param([(0.7, 1.0, 1.0)], False, id="Snk1 never did"),
    ],
)
def test_who_sheds_first(shares, holds):
    cycles = [
        cycle(60.0 + at, dict(zip(("knn", "sink-1", "sink-2"), look, strict=True))) for at, look in enumerate(shares)
    ]
    assert held("taxi and knn", LiveRun(PLANS["taxi and knn"], 0.0, cycles))["2 order, live"] is holds


GOOD, LOST = Account(read=1000, kept=480, written=480, exact=True), Account(1000, 480, 479, exact=False)


@pytest.mark.parametrize(
    ("accounts", "holds"),
    [({"knn": GOOD, "sink-1": GOOD}, True), ({"knn": GOOD, "sink-1": LOST}, False), ({}, False)],
)
def test_every_record_has_to_be_accounted_for(accounts, holds):
    run = LiveRun(PLANS["taxi and knn"], 0.0, [cycle(10, {"knn": 0.5})], accounts)
    assert held("taxi and knn", run)["2 records, live"] is holds


FAILING = PLANS["taxi and knn with failures"]
FAILED = tuple((70.0 + number, kind) for number, kind in enumerate(KINDS))


@pytest.mark.parametrize(
    ("measured", "lags", "failures", "holds"),
    [
        pytest.param([1.0, 0.1, 0.4, 0.4, 0.4], [5, 40, 40, 40, 3], FAILED, (True, True), id="below for 25 s"),
        pytest.param([1.0, 0.1, 0.1, 0.1, 0.1], [5, 40, 40, 40, 3], FAILED, (False, True), id="below for 75 s"),
        pytest.param([1.0, 0.4, 0.4, 0.4, 0.4], [5, 5, 5, 5, 25], FAILED, (True, False), id="late at the end"),
        pytest.param([1.0, 0.4, 0.4, 0.4, 0.4], [5, 5, 5, 5, 5], FAILED[1:], (False, True), id="no driver failed"),
    ],
)
def test_what_the_run_with_failures_shows(measured, lags, failures, holds):
    looks = [
        cycle(60.0 + 25 * number, {"knn": 0.4}, lag_s=lag, measured={"knn": share})
        for number, (share, lag) in enumerate(zip(measured, lags, strict=True))
    ]
    found = held("taxi and knn with failures", LiveRun(FAILING, 0.0, looks, {"knn": GOOD}, failures))
    assert (found["kills promises, live"], found["kills lag, live"]) == holds
    assert found["kills records, live"]


def test_a_run_without_looks_shows_nothing():
    for name in ("taxi", "knn", "taxi and knn with failures"):
        empty = LiveRun(PLANS[name], 0.0, ())
        assert not any(each.holds for each in live_results({name: empty, "taxi without shedding": empty}))


def test_a_folder_with_an_earlier_run_is_refused(tmp_path):
    (tmp_path / "knn").mkdir()
    with pytest.raises(InputError, match="without an earlier run"):
        run_live(tmp_path)


def rated(at: float, share: float, latest: int, committed: int) -> DecisionRecord:
    offsets = Offsets(at, ("points",), (0,), latest=(latest,), planned=(committed,), committed=(committed,))
    query: Any = QueryReading("q", "r", "knn", 2.0, offsets=offsets)
    return cycle(at, {"knn": share}, queries=(query,))


@pytest.mark.parametrize(("falls", "holds"), [(True, True), (False, False)])
def test_accuracy_against_the_estimated_rate(falls, holds):
    cycles, latest = [], 0
    for number in range(40):
        rate = 105 + 10 * number
        share = 100 / rate if falls else 0.5 + number / 100
        cycles.append(rated(60.0 + 2 * number, share, latest, max(0, latest - 50)))
        latest += 2 * (rate + 10)
    found = held("knn", LiveRun(PLANS["knn"], 0.0, cycles))
    assert found["3 correlation, live"] is holds
    assert found["3 estimate, live"]
