"""``router``: the chain, each stage's rules, and runs on a simulated job."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from pydantic import TypeAdapter
from tests.policies.closed_loop import Cycle, job, run
from tests.policies.options import documented, expected
from tests.policies.samples import seen

from rheostat.analyze.state import AnalysisSettings
from rheostat.config.models import GuardSettings
from rheostat.decide.decide import DecisionSettings
from rheostat.decide.policy import PolicyContext, load_policy
from rheostat.judge.cases import Case, LoadSpec, PolicySpec, Treatment, load_job
from rheostat.judge.compare import run_one
from rheostat.model import Action, Assessment, Bounds, Objective, ReasonCode, Recommendation
from rheostat.policies.capacity import Figure, Learned, Recovery
from rheostat.policies.router import CHAIN, Load, RouterOptions, RouterPolicy, RouterState, Turn, add_rate
from rheostat.policies.router_table import Table
from rheostat.sim.jobfile import JobFile

CONTEXT = PolicyContext(Objective(30.0), 15.0)
OPTIONS = RouterOptions.model_validate({})


def router(preset: str = "default", **options: Any) -> RouterPolicy:
    policy = load_policy("router", {"preset": preset, **options}, CONTEXT)
    assert isinstance(policy, RouterPolicy)
    return policy


def table(each: float = 300.0) -> Table:
    return Table(rows=Learned(figures=tuple(Figure(n, each * n, 5, 0.0) for n in (1, 8))))


def loaded(*rates: float) -> Load:
    """One rate each minute, the last one before 970, which is where the window of a sample at 1000 has its middle."""
    load = Load()
    for place, rate in enumerate((*rates, rates[-1])):
        at = 960.0 + 60 * (place - len(rates))
        load = add_rate(load, at, rate, OPTIONS)
    return load


def known(*rates: float, **changes: Any) -> RouterState:
    """Rows of 300/s for each executor, three of them in force for long, and a load of these rates each minute."""
    return replace(RouterState(load=loaded(*(rates or (610.0,) * 9)), table=table(), sizes=((0.0, 3),)), **changes)


def asked(policy: RouterPolicy, sample: Assessment, state: RouterState | None = None) -> Recommendation:
    return policy.recommend(sample, known() if state is None else state)[0]


def test_the_stages_in_order():
    assert [stage.__name__ for stage in CHAIN] == ["collect", "pre_decision", "decide", "size", "post_decision"]


@pytest.mark.parametrize(
    ("changes", "target", "code"),
    [
        pytest.param({}, 3, ReasonCode.STEADY, id="610/s are more than two carry"),
        pytest.param(
            {"occupancy": 1.0, "batch_s": 15.0, "processed_rate": 590.0}, 4, ReasonCode.SLA_VIOLATED, id="utilization"
        ),
        pytest.param({"occupancy": 0.99}, 3, ReasonCode.STEADY, id="just under the safe threshold"),
        pytest.param(
            {"backlog": 26_000, "processed_rate": 590.0}, 4, ReasonCode.SLA_VIOLATED, id="26 s of backlog ≥ 25.5 s"
        ),
        pytest.param({"backlog": 25_000, "processed_rate": 590.0}, 3, ReasonCode.STEADY, id="25 000 need 25.4 s"),
        pytest.param({"backlog": 26_000}, 3, ReasonCode.STEADY, id="as much, but neither growing nor in excess"),
        pytest.param({"arrival_rate": 944.0}, 3, ReasonCode.STEADY, id="within 5 % of what three carry"),
        pytest.param({"arrival_rate": 946.0}, 4, ReasonCode.UNDERSIZED, id="beyond 5 %: before there is any lag"),
        pytest.param(
            {"occupancy": 1.0, "processed_rate": 590.0, "backlog_excess": 60_000.0}, 6, ReasonCode.SLA_VIOLATED,
            id="60 000 in 60 s beside 610/s: 1610/s",
        ),
        pytest.param(
            {"occupancy": 1.0, "batch_s": 15.0, "processed_rate": 800.0, "backlog": 24_000, "backlog_excess": 9e3},
            3, ReasonCode.CATCHING_UP,
            id="at 200/s more it is gone in 45 s of 60 s",
        ),
        pytest.param(
            {"occupancy": 1.0, "batch_s": 15.0, "sink": "commits take 9 s"}, 3, ReasonCode.SICK_SINK, id="a sick sink"
        ),
        pytest.param({"arrival_rate": 946.0, "sink": "commits take 9 s"}, 3, ReasonCode.SICK_SINK, id="sick, rise"),
        pytest.param(
            {"occupancy": 1.0, "capped": True, "batch_s": 8.0, "lag_s": 28.0},
            3, ReasonCode.USELESS_EXECUTORS, id="batch cap limits",
        ),
        pytest.param(
            {"arrival_rate": 300.0, "lag_s": 28.0, "backlog_excess": 10.0}, 3, ReasonCode.CATCHING_UP,
            id="lag: no decrease",
        ),
        pytest.param({"failed_tasks": 2}, 3, ReasonCode.STEADY, id="failures: the guard blocks decreases"),
        pytest.param({"failed_tasks": 2, "arrival_rate": 946.0}, 4, ReasonCode.UNDERSIZED, id="failures in a surge"),
        pytest.param({"batches": 1}, 3, ReasonCode.WARMING_UP, id="the first batch is cold"),
        pytest.param({"executors": 2, "requested": 3, "occupancy": 1.0}, 3, ReasonCode.WARMING_UP, id="one on its way"),
        pytest.param({"missing": ("lag_s",)}, None, ReasonCode.METRICS_MISSING, id="a sample that does not count"),
    ],
)  # fmt: skip
def test_decisions_of_the_default(changes, target, code):
    answer = asked(router(), seen(**changes))
    assert (answer.target, answer.reason.code) == (target, code), answer.reason.text


def test_a_decrease_asks_four_times_and_carries_the_interval():
    policy, state, answers = router(), known(*(400.0,) * 9), list[Recommendation]()
    for place in range(4):
        answer, state = policy.recommend(seen(1000.0 + 15 * place, arrival_rate=400.0), state)
        answers.append(answer)
    assert [answer.target for answer in answers] == [3, 3, 3, 2]
    assert [answer.reason.code for answer in answers[2:]] == [ReasonCode.SURPLUS_COUNTING, ReasonCode.OVERSIZED]


def test_noise_keeps_what_a_smooth_load_gives_back():
    """Both come to 550/s on average, where two carry 600/s: σ of the second is 111/s."""
    smooth, noisy = known(*(550.0,) * 9), known(*(450.0, 650.0) * 4, 550.0)
    policy, sample = router(samples_to_shrink=1, sigma_floor=10.0), seen(arrival_rate=550.0)
    assert [asked(policy, sample, state).target for state in (smooth, noisy)] == [2, 3]


def test_a_rise_is_anticipated():
    """20/s each minute: 900/s within 30 s of now are all that three carry; 960/s are not."""
    rising = [known(*(first + 20.0 * k for k in range(9))) for first in (640.0, 780.0)]
    answers = [
        asked(router(), seen(arrival_rate=rate), state) for rate, state in zip((800.0, 940.0), rising, strict=True)
    ]
    assert [answer.target for answer in answers] == [3, 4]
    assert answers[1].reason.code is ReasonCode.UNDERSIZED


def test_an_empty_table_takes_one_more_and_none_less():
    state = known(table=Table(version=""))
    overloaded = seen(occupancy=1.0, batch_s=15.0, processed_rate=590.0, busy_ratio=0.1)
    assert asked(router(), overloaded, state).target == 4
    assert asked(router(), seen(arrival_rate=1.0, busy_ratio=0.1), state).reason.code is ReasonCode.CAPACITY_UNKNOWN


def test_below_the_first_row_it_goes_down_by_half():
    """One row, of 5 executors: what one carries is a guess, so 100/s take it to 2 first."""
    row = Table(rows=Learned(figures=(Figure(5, 1500.0, 5, 0.0),)))
    state = known(*(100.0,) * 9, table=row, sizes=((0.0, 5),))
    sample = seen(arrival_rate=100.0, executors=5)
    assert asked(router(samples_to_shrink=1), sample, state).target == 2


def test_another_version_keeps_decreases_waiting():
    state = known(*(100.0,) * 9)
    idle = seen(arrival_rate=100.0, busy_ratio=0.1)
    assert asked(router(samples_to_shrink=1), idle, state).target == 1
    assert asked(router(samples_to_shrink=1, version="2"), idle, state).reason.code is ReasonCode.CAPACITY_UNKNOWN


# ------------------------------------------------------------------------------------------------- faithful

FULL = {"busy_ratio": 0.9, "backlog": 40_000, "processed_rate": 900.0, "backlog_excess": 20_000.0}
"""40 000 ÷ (900/s × 10 ÷ 6) = 27 s; with a significant wait of 0.8 × 30 s that is significant lag."""


def faithful(**options: Any) -> RouterPolicy:
    return router("faithful", **{"significant_wait": 0.8, **options})


def test_a_row_is_keyed_by_the_size_at_the_metrics_own_time():
    """At 1200 figures are of 1020 … 1080: three were in force then, though four are since 1100."""
    sizes = ((0.0, 3), (1100.0, 4))
    sample = seen(1200.0, executors=4, requested=4, **FULL)
    _, held = faithful().recommend(sample, known(sizes=sizes, table=Table()))
    assert held.table.rows.figures == ()
    _, written = faithful(unsettled="rise", settle_batches=0).recommend(
        replace(sample, at=1300.0), known(sizes=sizes, table=Table())
    )
    assert written.table.rows.figures == (Figure(4, 900.0, 1, 1180.0),)


def test_no_decision_while_figures_are_of_before_the_change():
    sample = seen(1200.0, executors=4, requested=4, **FULL)
    answer = asked(faithful(), sample, known(sizes=((0.0, 3), (1100.0, 4))))
    assert (answer.target, answer.reason.code) == (4, ReasonCode.WARMING_UP)


@pytest.mark.parametrize(
    ("changes", "saturated", "both"),
    [
        pytest.param(FULL, 1, 1, id="lag and utilization"),
        pytest.param({**FULL, "busy_ratio": 0.79}, 1, 0, id="lag alone"),
        pytest.param({**FULL, "backlog": 20_000}, 1, 0, id="utilization alone"),
        pytest.param({**FULL, "backlog": 20_000, "busy_ratio": 0.79}, 0, 0, id="no reason to go up"),
        pytest.param({**FULL, "failed_tasks": 1}, 0, 0, id="after failures"),
        pytest.param({**FULL, "batches": 0}, 0, 0, id="still cold"),
        pytest.param({**FULL, "sink": "commits take 9 s"}, 0, 0, id="a sick sink"),
    ],
)
def test_when_a_row_is_written(changes, saturated, both):
    """S5 has two slides on it; the faithful preset takes the one with which a job comes down again."""
    for options, rows in (({}, saturated), ({"rows": "both"}, both)):
        _, state = faithful(**options).recommend(seen(2000.0, **changes), known(table=Table()))
        assert len(state.table.rows.figures) == rows


def test_as_published_a_job_that_goes_up_by_utilization_comes_down_again():
    shape = "constant:3000@1800+constant:12000@3600+constant:3000@7200"
    base, load = load_job("base", {"start_executors": 6}), LoadSpec(shape, shape=shape)
    done = run_one(Case(base, "base", load, 1, Treatment(scaled=False)), PolicySpec("router", "faithful"))
    assert done.score["executors_final"] < done.score["executors_max"]


def test_a_decision_each_minute_and_a_bucket_all_the_same():
    policy, state, codes = faithful(), RouterState(), list[str]()
    for place in range(8):
        answer, state = policy.recommend(seen(1000.0 + 15 * place), state)
        codes.append(answer.reason.text)
    assert [place for place, text in enumerate(codes) if not text.startswith("a decision each")] == [0, 4]
    assert [point.value for point in state.load.baseline] == [600.0]


def test_any_rise_beyond_sigma_forbids_a_decrease():
    rising = known(*(200.0 + 30 * k for k in range(9)))
    answer = asked(faithful(), seen(1120.0, arrival_rate=440.0), rising)
    assert (answer.target, answer.reason.code) == (3, ReasonCode.FORECAST)


def test_at_most_60_percent_are_used():
    """What comes in the pause of 180 s is caught up in 60 s too: 4 × 45/s ÷ 0.6 = 300/s, one executor; 4 × 46/s two."""
    state = known(*(45.0,) * 9, sizes=((0.0, 8),))
    idle = seen(1120.0, executors=8, arrival_rate=45.0, backlog=0)
    assert asked(faithful(), idle, state).target == 1
    busier = known(*(46.0,) * 9, sizes=((0.0, 8),))
    assert asked(faithful(), replace(idle, arrival_rate=46.0), busier).target == 2


# ------------------------------------------------------------------------------------------------- as a whole


def test_the_state_goes_through_json():
    policy, state = router(), known()
    for place in range(20):
        figures = {"last_batch_id": place, "last_batch_records": 4000 + 100 * place, "last_batch_s": 4.0 + place % 5}
        _, state = policy.recommend(seen(1000.0 + 15 * place, **figures), state)
    adapter = TypeAdapter(RouterState)
    assert adapter.validate_json(adapter.dump_json(state)) == state


def is_up(cycle: Cycle) -> bool:
    return cycle.decision.acts and cycle.decision.action is Action.UP


def on_a_job(
    load: list[tuple[float, float]], executors: int, plain: JobFile | None = None, **options: Any
) -> list[Cycle]:
    policy = load_policy("router", options, PolicyContext(Objective(10.0), 5.0, rate_window_s=15.0))
    decision_settings = DecisionSettings(policy, Bounds(1, 16), GuardSettings(), Objective(10.0), 5.0)
    return run(plain or job(), load, decision_settings, AnalysisSettings(10.0, 15.0), executors)


@pytest.mark.slow
def test_on_a_wave_it_follows_without_a_round_trip_and_without_a_miss():
    """400 to 2400/s and back within an hour, an executor carries about 375/s."""
    load = [(0.0, 400.0), (300.0, 400.0), (1500.0, 2400.0), (2100.0, 2400.0), (3300.0, 400.0), (3900.0, 400.0)]
    cycles = on_a_job(load, 2)
    lags = sorted(cycle.assessment.lag_s or 0.0 for cycle in cycles)
    assert lags[-1] < 12
    assert lags[int(0.99 * len(lags))] < 10
    assert max(cycle.registered for cycle in cycles) <= 10
    assert cycles[-1].registered <= 2
    assert round_trips(cycles, 120.0) == []


def round_trips(cycles: list[Cycle], within_s: float) -> list[float]:
    """Times of a decrease soon after an increase."""
    acts = [(cycle.assessment.at, cycle.decision.action) for cycle in cycles if cycle.decision.acts]
    return [
        later
        for (at, first), (later, second) in pairwise(acts)
        if first is Action.UP and second is Action.DOWN and later - at < within_s
    ]


@pytest.mark.slow
def test_eager_is_earlier_than_lag():
    load = [(0.0, 400.0), (300.0, 400.0), (1500.0, 2400.0), (1800.0, 2400.0)]
    eager, late = (max(c.assessment.lag_s or 0.0 for c in on_a_job(load, 2, eager=each)) for each in (True, False))
    assert eager < late


@pytest.mark.parametrize(
    ("rate", "state", "target"),
    [
        pytest.param(946.0, known(), 3, id="an outlier: 5 % too much for 210 s are 11 s, of 25.5 s"),
        pytest.param(1000.0, known(), 3, id="11 % are 23 s, and what waits takes 1 s"),
        pytest.param(1040.0, known(), 4, id="16 % are 33 s: no time to see whether it stays"),
        pytest.param(946.0, known(*(946.0,) * 9), 4, id="no outlier"),
    ],
)
def test_a_spike_is_ridden_out_where_there_is_time_to_see_whether_it_stays(rate, state, target):
    # Neither a batch that is too short to show a speed nor its few records hide the time that there is.
    short: dict[str, Any] = {"last_batch_records": 900, "last_batch_s": 1.0, "batch_s": 1.0}
    for sample in (seen(arrival_rate=rate, backlog=1000), seen(arrival_rate=rate, backlog=1000, **short)):
        assert asked(router(ride_out=True), sample, state).target == target
        assert asked(router(), sample, state).target == 4


@pytest.mark.parametrize("rate", [10.0, 80.0, 600.0])
def test_a_load_that_has_fallen_asks_for_no_more_executors(rate):
    """Three carry 900/s; 2000/s arrived until now, and 3000/s were next."""
    for rates in ((2000.0,) * 9, tuple(1000.0 + 200 * k for k in range(9))):
        assert asked(router(), seen(arrival_rate=rate), known(*rates)).target == 3


def test_nor_does_its_backlog_ask_for_what_the_load_was():
    """60 s of records at 900/s are to be caught up in two lags; 2000/s no longer come."""
    late = seen(arrival_rate=80.0, processed_rate=900.0, backlog=54_000, backlog_excess=54_000.0, batch_s=60.0)
    steady, fallen = (asked(router(), late, known(*(rate,) * 9)).target or 0 for rate in (80.0, 2000.0))
    assert fallen == steady


@pytest.mark.slow
@pytest.mark.parametrize("low", [3.0, 30.0, 300.0])
def test_it_never_goes_up_when_the_load_has_fallen(low):
    """An executor carries about 375/s; batches vary by 10 %."""
    load = [(0.0, 3000.0), (900.0, 3000.0), (905.0, low), (1800.0, low)]
    cycles = on_a_job(load, 9, job(batch_noise_cv=0.1))
    ups = [cycle.decision.reason.text for cycle in cycles if cycle.assessment.at > 905 and is_up(cycle)]
    assert ups == []
    assert cycles[-1].registered <= 2


@pytest.mark.slow
@pytest.mark.parametrize("rate", [300.0, 1500.0])
def test_an_ample_start_is_given_back(rate):
    cycles = on_a_job([(0.0, rate), (1800.0, rate)], 16, job(batch_noise_cv=0.1))
    assert cycles[-1].registered <= rate / 375 + 2


def test_how_long_increases_take_is_without_the_delay_of_the_figures():
    past = Recovery(took_s=(150.0,))
    turns = [
        Turn(
            assessment=seen(),
            n=3,
            options=RouterOptions.model_validate({}),
            context=CONTEXT,
            state=known(recovery=past),
            own_at=1000.0 - age_s,
            target=3,
        )
        for age_s in (0.0, 100.0, 140.0)
    ]
    assert [turn.horizon_at for turn in turns] == [1150.0, 1050.0, 1030.0]


def test_the_table_of_options():
    assert documented("router") == expected(RouterPolicy, "faithful")
