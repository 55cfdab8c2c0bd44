"""`mst` and `mst-alpha` (S2): Algorithms 1 to 4 by hand, on nodes, with several queries; and what is ours."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policies.closed_loop import run
from tests.policies.options import documented, expected
from tests.policies.samples import decision_settings, outcome, seen

from rheostat.analyze.state import AnalysisSettings
from rheostat.config.loading import load_settings
from rheostat.decide.decide import DecisionSettings, decide, learn
from rheostat.decide.placement import Choice, Placing
from rheostat.decide.policy import PolicyContext, load_policy
from rheostat.judge.cases import load_job
from rheostat.learn.throughput import MstModel, Point
from rheostat.model import (
    Assessment,
    Bounds,
    NodeReading,
    Nodes,
    Objective,
    OutcomeStatus,
    QueryLoad,
    ReasonCode,
    RoundTrip,
)
from rheostat.policies.mst import (
    Demand,
    MstAlphaPolicy,
    MstOptions,
    MstPolicy,
    MstState,
    QueryModel,
    Reach,
    enough_below,
    least_above,
    reach,
)
from rheostat.policies.threshold import ThresholdNearPolicy, ThresholdPolicy

NO_HOLD = {"hold_s": 0.0, "hold_both": False}
"""Guard settings beside the profile ``faithful``, which brings the hold of S1: S2 has none."""


def mst(preset: str = "faithful", name: str = "mst", **options: Any) -> MstPolicy:
    policy = load_policy(name, {"preset": preset, **options}, PolicyContext(Objective(30.0), 15.0))
    assert isinstance(policy, MstPolicy)
    return policy


def knows(model: MstModel | None, *points: Point, query: str = "") -> MstState:
    return MstState((QueryModel(query, points, model=model),))


def first(state: MstState) -> Any:
    """What is known of the query seen last."""
    return state.queries[0]


def at_rest(rate: float, executors: int, **changes: Any) -> Assessment:
    """A sample without overload."""
    return seen(executors=executors, arrival_rate=rate, processed_rate=rate, pressure=0.0, **changes)


def saturated(rate: float, n: int, *, at: float = 1000.0, arrival: float = 5000.0, **changes: Any):
    figures = {
        "arrival_rate": arrival,
        "processed_rate": rate,
        "throughput": rate,
        "batch_s": 12.0,
        "last_batch_s": 12.0,
    }
    more = {"backlog": 90_000, "backlog_excess": 60_000.0, "busy_ratio": 1.0, "pressure": 1.0}
    return seen(at, **{**figures, **more, "executors": n, **changes})


LINEAR = MstModel(alpha=100.0, points=3)
FAR = MstModel(alpha=60.0, beta=0.9, gamma=0.2, points=3)


# ---------------------------------------------------------------------------------------- Algorithms 2 and 4


@pytest.mark.parametrize(
    ("rate", "threshold", "target"),
    [
        pytest.param(210.0, 10.0, 3, id="the check of SOURCES: 6 → 3, DT 30 % there"),
        pytest.param(270.0, 10.0, 3, id="exactly T left over"),
        pytest.param(271.0, 10.0, 4, id="a little less than T"),
        pytest.param(300.0, 0.0, 3, id="T = 0: down to the rate itself, the text of the document"),
        pytest.param(301.0, 0.0, 4, id="T = 0: never below the rate"),
        pytest.param(541.0, 10.0, 6, id="DT is under T: nothing"),
        pytest.param(0.0, 10.0, 1, id="no load: to the last one, never to none"),
    ],
)
def test_several_leave_in_one_step(rate, threshold, target):
    answer, _ = mst(dt_threshold=threshold).recommend(at_rest(rate, 6), knows(LINEAR))
    assert answer.target == target
    assert answer.reason.code is (ReasonCode.OVERSIZED if target < 6 else ReasonCode.STEADY)


def test_the_sentence_has_the_figures():
    answer, _ = mst().recommend(at_rest(210.0, 6), knows(LINEAR))
    assert answer.reason.text == (
        "arrival 210/s, processed 210/s with a margin of 10 % needs 3 executors; "
        "MST of 6 is 600/s, 65 % of it not used: 6 → 3"
    )
    assert answer.reason.figures["mst"] == 600.0


def test_t_is_no_less_than_the_error_of_the_model():
    """MST 400 leaves 25 % over at 300/s, which is less than an error of 30 %."""
    sure, unsure = LINEAR, replace(LINEAR, error=0.3)
    targets = [mst().recommend(at_rest(300.0, 6), knows(model))[0].target for model in (sure, unsure)]
    assert targets == [4, 5]


def test_the_same_number_is_a_hold():
    decision, _ = decide(
        at_rest(541.0, 6), replace_policy(decision_settings(mst()), knows(LINEAR)), decision_settings(mst())
    )
    assert (decision.acts, decision.target) == (False, 6)


def replace_policy(made, state):
    return replace(made.initial(), policy=state)


def test_without_a_saturated_sample_nothing_is_given_up():
    answer, state = mst().recommend(at_rest(1.0, 6), MstState())
    assert (answer.target, answer.reason.code) == (6, ReasonCode.CAPACITY_UNKNOWN)
    assert state.queries[0].model is None


def test_the_default_waits_for_as_many_samples_in_a_row():
    policy, state = mst("default", samples_to_shrink=3), knows(LINEAR, Point(6, 0.0, 600.0))
    targets = []
    for step in range(4):
        answer, state = policy.recommend(at_rest(210.0, 6, at=1000.0 + 15 * step), state)
        targets.append(answer.target)
    assert targets == [6, 6, 3, 3]


# ---------------------------------------------------------------------------------------- Algorithms 1 and 3


def test_an_overload_is_a_measurement_and_one_more():
    answer, state = mst().recommend(saturated(200.0, 2), MstState())
    assert (answer.target, answer.reason.code) == (3, ReasonCode.SLA_VIOLATED)
    assert state.queries[0].points == (Point(2.0, 0.0, 200.0, at=1000.0),)
    assert first(state).model.alpha == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("pressure", "target"), [(0.5, 2), (0.51, 3)], ids=["half of the time is not overloaded", "more is"]
)
def test_back_pressure_must_be_more_than_a_half(pressure, target):
    answer, state = mst().recommend(saturated(200.0, 2, pressure=pressure), MstState())
    assert answer.target == target
    assert bool(state.queries[0].points) is (target == 3)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"executors": 2, "requested": 3}, id="executors are on their way"),
        pytest.param({"batches": 0}, id="no batch has finished at this number"),
        pytest.param({"throughput": None}, id="no two batches that began at it"),
        pytest.param({"pressure": None}, id="the window has just begun"),
    ],
)
@pytest.mark.parametrize("preset", ["faithful", "default"])
def test_what_overlaps_a_reconfiguration_is_no_measurement(preset, changes):
    _, state = mst(preset).recommend(saturated(200.0, 2, **changes), MstState())
    assert state.queries[0].points == ()


def test_a_stall_is_no_measurement_of_ours():
    _, state = mst("default").recommend(saturated(200.0, 2, busy_ratio=0.3), MstState())
    assert state.queries[0].points == ()


def test_ours_jumps_to_what_is_needed():
    """(700 + 6000 ÷ 60) ÷ (1 − 0.1) = 889/s, at 100/s each."""
    sample = saturated(200.0, 2, arrival=700.0, backlog_excess=6000.0)
    targets = [mst(preset).recommend(sample, MstState())[0].target for preset in ("faithful", "default")]
    assert targets == [3, 9]


def test_ours_lets_a_backlog_be_worked_off():
    """3000 records at 100/s more than arrive: 30 s of the 60 s that are allowed."""
    sample = saturated(400.0, 4, arrival=300.0, backlog_excess=3000.0)
    answer, _ = mst("default").recommend(sample, MstState())
    assert (answer.target, answer.reason.code) == (4, ReasonCode.CATCHING_UP)
    assert mst().recommend(sample, MstState())[0].target == 5


def test_ours_grows_before_the_overload():
    state = knows(LINEAR, Point(4, 0.0, 400.0))
    answer, _ = mst("default").recommend(at_rest(450.0, 4), state)
    assert (answer.target, answer.reason.code) == (5, ReasonCode.UNDERSIZED)
    assert mst("default").recommend(at_rest(399.0, 4), state)[0].target == 4
    only_shown = knows(LINEAR)
    assert mst("default").recommend(at_rest(450.0, 4), only_shown)[0].target == 4


def test_the_faithful_one_looks_each_minute():
    policy, state, targets = mst(), MstState(), []
    for step in range(6):
        answer, state = policy.recommend(saturated(200.0, 2, at=1000.0 + 15 * step), state)
        targets.append(answer.target)
    assert targets == [3, 2, 2, 2, 3, 2]
    assert state.queries[0].points[0].count == 2


def test_the_faithful_one_decides_on_a_whole_minute_after_a_reconfiguration():
    """Executors come at 1015 s, figures are missing at 1030 s: the next sample that counts is that of 1090 s."""
    policy, state = mst(), MstState()
    _, state = policy.recommend(saturated(200.0, 2), state)
    _, state = policy.recommend(saturated(200.0, 2, at=1015.0, requested=3), state)
    _, state = policy.recommend(seen(1030.0, missing=("lag_s",)), state)
    targets = []
    for at in (1045.0, 1060.0, 1075.0, 1090.0):
        answer, state = policy.recommend(saturated(290.0, 3, at=at, requested=3), state)
        targets.append(answer.target)
    assert targets == [3, 3, 3, 4]
    assert [point.throughput for point in state.queries[0].points] == [200.0, 290.0]


# ------------------------------------------------------------------------------------------------- learning


def test_healthy_samples_raise_what_is_known_by_default():
    """600/s in 6 s of each 10 s: 1000/s while a batch runs, on 3 executors; three samples must agree."""
    policy, state = mst("default"), MstState()
    for step in range(2):
        _, state = policy.recommend(at_rest(600.0, 3, at=1000.0 + 15 * step), state)
    answer, state = policy.recommend(at_rest(600.0, 3, at=1030.0), state)
    assert first(state).model.alpha == pytest.approx(1000.0 / 3)
    assert state.queries[0].points == ()
    assert answer.reason.code is ReasonCode.SURPLUS_COUNTING
    faithful = MstState()
    for step in range(3):
        _, faithful = mst(check_every_s=None).recommend(at_rest(600.0, 3, at=1000.0 + 15 * step), faithful)
    assert faithful.queries[0].model is None


def test_it_forgets_where_the_job_has_changed():
    """From 100/s an executor to 50/s: two residuals of 50 % in a row are a change point, and only the new one stays."""
    policy, state = mst("default"), MstState()
    for step, (n, rate) in enumerate([(2, 200.0), (3, 300.0), (4, 400.0), (4, 200.0), (4, 200.0)]):
        _, state = policy.recommend(saturated(rate, n, at=1000.0 + 100 * step), state)
    known = first(state)
    assert (known.forgot_at, known.points) == (1400.0, (Point(4.0, 0.0, 200.0, at=1400.0),))
    assert known.model.mst(2) == pytest.approx(100.0)


def test_a_single_measurement_that_is_far_off_is_not_believed():
    policy, state = mst("default"), MstState()
    for step, (n, rate) in enumerate([(2, 200.0), (4, 400.0), (4, 200.0), (4, 400.0)]):
        _, state = policy.recommend(saturated(rate, n, at=1000.0 + 100 * step), state)
    assert [point.throughput for point in state.queries[0].points] == [200.0, 400.0]


def test_what_two_configurations_could_not_know_is_no_change():
    """β was not known before: 62.5/s an executor at 8, after 100/s at 2."""
    policy, state = mst("default"), MstState()
    for step, (n, rate) in enumerate([(2, 200.0), (8, 500.0), (8, 500.0)]):
        _, state = policy.recommend(saturated(rate, n, at=1000.0 + 100 * step), state)
    assert state.queries[0].forgot_at is None
    assert first(state).model.beta == pytest.approx(0.661, abs=0.001)


def test_the_document_never_forgets():
    policy, state = mst(check_every_s=None), MstState()
    for step, (n, rate) in enumerate([(2, 200.0), (3, 300.0), (4, 400.0), (4, 200.0), (4, 200.0)]):
        _, state = policy.recommend(saturated(rate, n, at=1000.0 + 100 * step), state)
    assert [point.executors for point in state.queries[0].points] == [2.0, 3.0, 4.0]


def test_the_capacity_is_that_of_the_last_distance():
    state = replace(knows(FAR), distance_ms=20.0)
    assert mst().capacity(2, state) == pytest.approx(108.0, abs=0.05)
    assert mst().capacity(2, MstState()) is None
    two = MstState((QueryModel("a", model=LINEAR), QueryModel("b", model=LINEAR)))
    assert mst().capacity(2, two) is None


# ---------------------------------------------------------------------------------------------------- nodes

TRIPS = (RoundTrip("a", "b", 20.0), RoundTrip("a", "c", 300.0), RoundTrip("b", "c", 300.0))


def nodes(a: tuple[int, int], b: tuple[int, int], c: tuple[int, int], trips=TRIPS) -> Nodes:
    there = (NodeReading("a", *a), NodeReading("b", *b), NodeReading("c", *c))
    return Nodes(1000.0, there, trips)


def test_the_distance_of_each_candidate_set():
    assert reach(nodes((1, 0), (1, 0), (0, 1)), Choice()).distances == (0.0, 0.0, 20.0, 300.0)
    assert reach(None, Choice()) == Reach()
    far_first = Choice(first=("a",), slow=frozenset("a"))
    assert reach(nodes((1, 0), (1, 0), (1, 0)), far_first).distances == (0.0, 0.0, 300.0, 300.0)
    unknown = reach(nodes((1, 0), (1, 0), (0, 1), TRIPS[:2]), Choice())
    assert (unknown.distances, unknown.unknown) == ((0.0, 0.0, 20.0, 300.0), True)


def test_a_far_node_that_lowers_it_is_warned_of_and_by_default_left_alone():
    """108.0 at (2, 20 ms), 101.3 at (3, 300 ms)."""
    sample = saturated(108.0, 2, arrival=200.0, nodes=nodes((1, 0), (1, 0), (0, 1)))
    state = knows(FAR, Point(2, 20.0, 108.0, 9))
    warning = "warning: 3 executors lower MST, 108/s → 101/s (round trip 20 → 300 ms)"
    faithful, _ = mst().recommend(sample, replace(state, queries=exact(state)))
    ours, _ = mst("default").recommend(sample, replace(state, queries=exact(state)))
    assert (faithful.target, ours.target) == (3, 2)
    assert warning in faithful.reason.text
    assert warning in ours.reason.text


def test_a_loss_by_distance_is_not_expected_far_beyond_the_distances_that_were_measured():
    """FAR says 101.3 at (3, 300 ms); between 0 and 20 ms nothing is known of 300: it counts as 40 ms, and is tried."""
    near = tuple(Point(n, nd, FAR.mst(n, nd), 9) for n, nd in [(1, 0.0), (2, 20.0), (4, 20.0), (3, 0.0)])
    sample = saturated(108.0, 2, arrival=120.0, nodes=nodes((1, 0), (1, 0), (0, 1)))
    state = knows(FAR, *near)
    ours, then = mst("default").recommend(sample, state)
    assert ours.target == 3
    assert "round trips beyond 40 ms were not measured" in ours.reason.text
    model = first(then).model
    assert model.mst(3, 300.0) == model.mst(3, 40.0) == pytest.approx(FAR.mst(3, 40.0), rel=0.01)
    assert model.needed(150.0, 300.0) == model.needed(150.0, 40.0)
    faithful, _ = mst().recommend(sample, state)
    assert "warning: 3 executors lower MST" in faithful.reason.text


def exact(state: MstState):
    """Points that the fit turns into FAR again."""
    points = tuple(Point(n, nd, FAR.mst(n, nd), 9) for n, nd in [(1, 0.0), (2, 20.0), (4, 20.0), (3, 300.0)])
    return (replace(state.queries[0], points=points),)


def test_the_far_node_is_given_up_even_where_the_next_near_one_would_not_do():
    """MST(3, 300) = 101.3 and MST(2, 20) = 108.0 carry 90/s with 10 %, MST(1, 0) = 60 does not."""
    sample = at_rest(90.0, 3, nodes=nodes((1, 0), (1, 0), (1, 0)))
    answer, _ = mst().recommend(sample, knows(FAR))
    assert answer.target == 2
    decision, _ = decide(sample, replace_policy(decision_settings(mst()), knows(FAR)), decision_settings(mst()))
    assert decision.placement is not None
    assert decision.placement.leave == ("c",)


@pytest.mark.parametrize(("preset", "target"), [("default", 2), ("faithful", 3)])
def test_algorithm_2_asks_for_a_surplus_and_ours_for_nodes_that_carry_more(preset, target):
    """MST(3, 400) = 100 and DT = 0; MST(2, 10) = 195."""
    model = MstModel(alpha=100.0, gamma=0.5)
    trips = (RoundTrip("a", "b", 10.0), RoundTrip("a", "c", 400.0), RoundTrip("b", "c", 400.0))
    sample = at_rest(100.0, 3, nodes=nodes((1, 0), (1, 0), (1, 0), trips))
    answer, _ = mst(preset=preset, dt_threshold=10.0, samples_to_shrink=1).recommend(sample, knows(model))
    assert answer.target == target


def test_the_nearest_is_added_first():
    sample = saturated(60.0, 1, arrival=200.0, nodes=nodes((1, 0), (0, 1), (0, 1)))
    decision, _ = decide(sample, decision_settings(mst()).initial(), decision_settings(mst()))
    assert decision.placement is not None
    assert (decision.target, decision.placement.add) == (2, ("b",))


def test_no_free_node_is_a_hold_that_says_so():
    sample = saturated(108.0, 2, nodes=nodes((1, 0), (1, 0), (0, 0)))
    answer, _ = mst().recommend(sample, MstState())
    assert (answer.target, answer.reason.code) == (2, ReasonCode.NO_ROOM)
    assert "no node has room for one more, 2 stays" in answer.reason.text


def test_a_missing_round_trip_is_said():
    sample = saturated(108.0, 2, nodes=nodes((1, 0), (1, 0), (0, 1), TRIPS[:1]))
    answer, state = mst().recommend(sample, MstState())
    assert "a round trip is unknown, the longest known one stands for it" in answer.reason.text
    assert state.queries[0].points[0].distance_ms == 20.0


def test_algorithm_4_stops_at_the_first_set_that_does_not_do_and_ours_looks_on():
    """8 executors at 400 ms, 7 at 400 ms, then two of 0 ms: of 100·n − ND, 7 carry 300, 6 carry 600."""
    model = MstModel(alpha=100.0, gamma=1.0)
    reached = Reach((0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 400.0, 400.0))
    demands = [Demand(model, 8.0, 350.0)]
    assert enough_below(demands, 8, reached, in_turn=True) == 8
    assert enough_below(demands, 8, reached, in_turn=False) == 4


def test_growing_passes_over_what_does_not_carry_enough():
    model = MstModel(alpha=100.0, gamma=1.0)
    reached = Reach((0.0, 0.0, 0.0, 150.0, 150.0, 600.0))
    assert least_above([Demand(model, 2.0, 240.0)], 2, reached) == (4, True)
    assert least_above([Demand(model, 2.0, 900.0)], 2, reached) == (4, False)
    assert least_above([Demand(model, 4.0, 900.0)], 4, reached) == (4, False), "the fifth would lower it"


def test_on_the_simulated_nodes_it_measures_what_is_true_and_takes_the_nearest():
    """C(n, ND) = 75 n^0.9 − 0.2 ND, eight nodes, a restart of 120 s for each change, of which no measurement knows."""
    settings = load_settings({"objective": "lag < 60s", "profile": "faithful", "policy": "mst", "guard": NO_HOLD})
    made = DecisionSettings(mst(), Bounds(1, 8), settings.guard, Objective(60.0), 15.0)
    load = [(0.0, 80.0), (300.0, 80.0), (1200.0, 200.0)]
    cycles = run(load_job("gesscale"), load, made, AnalysisSettings(60.0))
    acts = [cycle.decision for cycle in cycles if cycle.decision.acts]
    assert [act.placement and act.placement.add for act in acts[:4]] == [("n5",), ("n3",), ("n7",), ("n6",)]
    found = [act.recommendation.reason.figures["mst"] for act in acts[:4]]
    true = [75 * n**0.9 - 0.2 * distance for n, distance in [(1, 0), (2, 20), (3, 45), (4, 80)]]
    assert found == pytest.approx(true, rel=0.03)


# ------------------------------------------------------------------------------------------- several queries


def loads(one: Any, other: Any, executors: int, **changes: Any) -> Assessment:
    both = [one.arrival_rate + other.arrival_rate, one.processed_rate + other.processed_rate]
    figures = {"executors": executors, "arrival_rate": both[0], "processed_rate": both[1], "queries": 2}
    worst = max(one.pressure, other.pressure)
    return seen(**{**figures, "pressure": worst, "by_query": (one, other), **changes})


def query(name: str, rate: float, batch_s: float, pressure: float = 0.0, processed: float | None = None) -> QueryLoad:
    done = rate if processed is None else processed
    excess = 9000.0 if pressure else 0.0
    held = done if pressure else None
    return QueryLoad(name, rate, done, excess, batch_s, 10.0, 15.0, pressure, held, batches=9, capped=False)


def test_the_application_has_the_sum_of_what_its_queries_need():
    """a needs 2.33 of 100/s each, b 1.17 of 200/s each: 3.5, so 4; each alone would round up to 3 + 2."""
    state = MstState((QueryModel("a", model=LINEAR), QueryModel("b", model=MstModel(alpha=200.0))))
    answer, _ = mst().recommend(loads(query("a", 210.0, 5.0), query("b", 210.0, 5.0), 8), state)
    assert answer.target == 4
    assert answer.reason.text == "arrival 420/s, processed 420/s with a margin of 10 % needs 4 executors: 8 → 4"


def test_each_query_is_measured_by_itself():
    """b is saturated, with 10 of the 15 s in which batches run: 6 of 9 executors are its own."""
    sample = loads(query("a", 210.0, 5.0), query("b", 900.0, 10.0, 1.0, 600.0), 9, busy_ratio=1.0)
    answer, state = mst().recommend(sample, MstState())
    known = {each.query: each.points for each in state.queries}
    assert known == {"a": (), "b": (Point(6.0, 0.0, 600.0, at=1000.0),)}
    assert answer.target == 10


def test_a_query_without_a_model_keeps_what_it_has():
    """a is not known and has a third of 9; b asks for (900 + 9000 ÷ 60) ÷ 0.9 at 100/s: 3 + 11.7 → 15."""
    unknown = Demand(None, 3.0, 210.0)
    assert least_above([unknown, Demand(LINEAR, 6.0, 1050.0 / 0.9)], 9, Reach()) == (15, True)
    assert enough_below([unknown, Demand(LINEAR, 6.0, 270.0)], 9, Reach(), in_turn=True) == 6


# ---------------------------------------------------------------------------------- the family, and the page


def test_mst_alpha_knows_nothing_of_distance():
    policy, state = mst(name="mst-alpha", check_every_s=None), MstState()
    for step, (n, rate, where) in enumerate([(2, 150.0, (1, 1, 0)), (3, 150.0, (1, 1, 1))]):
        there = nodes(*((used, 1 - used) for used in where))
        _, state = policy.recommend(saturated(rate, n, at=1000.0 + 100 * step, nodes=there), state)
    model = first(state).model
    assert (model.beta, model.gamma) == (1.0, 0.0)
    assert isinstance(policy, MstAlphaPolicy)


@pytest.mark.parametrize(
    ("policy", "placing"),
    [
        (MstPolicy, Placing.NEAREST),
        (MstAlphaPolicy, Placing.ANY),
        (ThresholdPolicy, Placing.ANY),
        (ThresholdNearPolicy, Placing.NEAREST),
    ],
)
def test_who_knows_of_nodes(policy, placing):
    assert policy.placing is placing


@pytest.mark.parametrize("name", ["threshold", "threshold-near"])
def test_both_threshold_policies_are_the_same_rule(name):
    policy: Any = load_policy(name, {"preset": "faithful"}, PolicyContext(Objective(30.0), 15.0))
    answer, _ = policy.recommend(seen(executors=3, busy_ratio=0.95), policy.initial())
    assert (answer.target, policy.name) == (4, name)


def test_the_faithful_preset():
    assert mst().options == MstOptions(
        dt_threshold=10.0,
        check_every_s=60.0,
        increase="one",
        grow_at=None,
        catch_up_lags=None,
        settle_batches=0,
        samples_to_shrink=1,
        lower_bounds=False,
        shun_far=False,
        beta_from=3,
        residual_limit=None,
        residuals_in_a_row=2,
    )


def test_with_the_profile_faithful_and_without_its_hold_several_leave_at_once_after_a_change():
    """A minute after a change: S1's hold would last for 240 s."""
    settings = load_settings({"objective": "lag < 30s", "profile": "faithful", "policy": "mst", "guard": NO_HOLD})
    assert settings.preset == "faithful"
    made = DecisionSettings(mst(), Bounds(1, 20), settings.guard, Objective(30.0), 60.0)
    state = replace_policy(made, knows(LINEAR))
    state = learn(outcome(OutcomeStatus.APPLIED, 6, 5, 6, at=940.0), state, made)
    decision, _ = decide(at_rest(210.0, 6), state, made)
    assert (decision.target, decision.notes) == (3, ())


@pytest.mark.parametrize("name", ["mst"])
def test_the_page_has_its_options(name):
    assert documented(name) == expected(MstPolicy, "faithful")


@given(st.floats(0.0, 3000.0), st.integers(1, 30), st.booleans())
def test_without_nodes_it_is_as_with_nodes_that_are_all_in_one_place(rate, number, in_turn):
    demands, here = [Demand(MstModel(alpha=100.0, beta=0.9), 2.0, rate)], Reach(distances=(0.0,) * (number + 1))
    found = enough_below(demands, number, Reach(), in_turn=in_turn)
    assert found == enough_below(demands, number, here, in_turn=in_turn)
