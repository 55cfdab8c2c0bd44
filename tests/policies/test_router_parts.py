"""The parts of ``router``: the load, the cost of a batch, the performance table, the size; with figures by hand."""

from dataclasses import replace

import pytest
from tests.policies.samples import seen

from rheostat.model import Assessment, ReasonCode
from rheostat.policies.capacity import Figure, Learned
from rheostat.policies.router import (
    FAITHFUL,
    Bucket,
    Load,
    RouterOptions,
    Times,
    add_rate,
    apply_limits,
    is_outlier,
    size_by_partitions,
    target_rate,
)
from rheostat.policies.router_table import (
    BatchCosts,
    Table,
    add_batch,
    fixed_s,
    for_version,
    insert_row,
    learn_batch,
    make_room,
    speed_in,
    write_saturated,
)
from rheostat.policies.trend import Fit, Point, line

OPTIONS = RouterOptions.model_validate({"sigma_floor": 0.01})


def rows(*pairs: tuple[int, float]) -> Learned:
    return Learned(figures=tuple(Figure(n, rate, 1, 0.0) for n, rate in pairs))


TALK = rows((4, 10_000.0), (10, 20_000.0), (18, 35_000.0))


# ------------------------------------------------------------------------------------------------- the load


def told(rates, each_s: float = 60.0, first_s: float = 0.0) -> Load:
    load = Load()
    for place, rate in enumerate(rates):
        load = add_rate(load, first_s + each_s * place, rate, OPTIONS)
    return load


def bucket_of(load: Load) -> Bucket:
    assert load.bucket is not None
    return load.bucket


def fit_of(load: Load) -> Fit:
    assert load.fit is not None
    return load.fit


def test_four_samples_make_a_bucket():
    load = told([100.0, 110.0, 120.0, 130.0, 140.0], each_s=15.0)
    assert load.baseline == (Point(22.5, 115.0),)
    assert (bucket_of(load).samples, bucket_of(load).point) == (1, Point(60.0, 140.0))


def test_the_baseline_reaches_back_as_far_as_the_window():
    load = told([100.0 + k for k in range(20)])
    assert (load.baseline[0].at, load.baseline[-1].at, len(load.baseline)) == (540.0, 1080.0, 10)
    assert fit_of(load).at(1200.0) == pytest.approx(120.0)


def test_the_tested_point_is_left_out():
    """With it, σ of the line through all seven would be 3.5, and 10 off none of them an outlier."""
    points = [Point(x, 10 + 2 * x + e) for x, e in enumerate((1, -1, 0, 0, -1, 1))]
    far = Point(6, 22 + 10)
    assert is_outlier(line(points), far, OPTIONS)
    assert abs(far.value - line([*points, far]).at(6)) < 3 * line([*points, far]).deviation


def test_a_steady_load_has_a_floor_under_sigma():
    """No error at all: σ is 1 % of 100, so 103 is none and 103.1 is one."""
    level = line([Point(60.0 * k, 100.0) for k in range(6)])
    assert not is_outlier(level, Point(360.0, 102.9), OPTIONS)
    assert is_outlier(level, Point(360.0, 103.1), OPTIONS)


def test_a_spike_stays_out_of_the_baseline():
    load = told([100.0] * 6 + [500.0, 500.0, 100.0, 100.0])
    assert (load.outliers, load.resets) == ((), 0)
    assert [point.value for point in load.baseline] == [100.0] * 7


def test_three_outliers_in_a_row_reset_the_baseline():
    load = told([100.0] * 6 + [500.0, 510.0, 520.0, 530.0])
    assert (load.resets, load.outliers) == (1, ())
    assert [point.value for point in load.baseline] == [500.0, 510.0, 520.0]
    assert fit_of(load).at(540.0 + 60.0) == pytest.approx(540.0)


def test_the_bucket_into_which_a_step_fell_is_no_slope_of_the_new_load():
    load = told([100.0] * 6 + [300.0, 500.0, 510.0, 520.0])
    assert [point.value for point in load.baseline] == [500.0, 510.0]


def test_a_trough_is_fitted_by_a_parabola():
    """(t/60 − 3)² + 500 has turned at 180 s: at 480 s it is 525, where a line would see 513."""
    load = told([(k - 3.0) ** 2 + 500 for k in range(8)])
    assert fit_of(load).at(480.0) == pytest.approx(525.0)


def test_time_that_runs_backwards_starts_anew():
    load = add_rate(told([100.0] * 6), 10.0, 7.0, OPTIONS)
    assert (load.baseline, load.fit, bucket_of(load).rate) == ((), None, 7.0)


# ------------------------------------------------------------------------------------------------ the table


@pytest.mark.parametrize(
    ("table", "rate", "size"),
    [
        pytest.param(TALK, 15_000, 7, id="half way"),
        pytest.param(TALK, 12_500, 6, id="5.5 is rounded up"),
        pytest.param(TALK, 17_500, 9, id="8.5 is rounded up"),
        pytest.param(TALK, 40_000, 21, id="above the last row: 20.57"),
        pytest.param(TALK, 20_000, 10, id="a row itself"),
        pytest.param(TALK, 5_000, 2, id="below the first row: from the origin"),
        pytest.param(TALK, 0, 1, id="no load still takes one"),
        pytest.param(rows((4, 10_000.0)), 11_000, 5, id="one row, above: 4.4"),
        pytest.param(rows((4, 10_000.0)), 5_100, 3, id="one row, below: 2.04"),
        pytest.param(rows(), 5_000, None, id="empty: nothing is known"),
        pytest.param(rows((12, 23_000.0), (13, 22_500.0), (14, 25_000.0)), 22_800, 12, id="two alike: the first"),
        pytest.param(rows((12, 23_000.0), (13, 22_500.0), (14, 25_000.0)), 24_000, 14, id="two alike: beyond both"),
    ],
)
def test_the_literal_look_up(table, rate, size):
    assert table.enough(rate) == size


@pytest.mark.parametrize(("rate", "size"), [(6_000, 4), (6_001, 5), (12_000, 10), (24_000, 21)])
def test_then_at_most_60_percent_are_used(rate, size):
    """6000 ÷ 0.6 = 10 000; 24 000 ÷ 0.6 = 40 000."""
    assert make_room(TALK, TALK.enough(rate) or 0, rate, 0.6) == size


@pytest.mark.parametrize(("rate", "size"), [(5_000, 2), (10_000, 4), (12_500, 6), (40_000, 21)])
def test_used_in_full_is_what_was_looked_up(rate, size):
    """12 500: ⌈4 + 6 × 2500 ÷ 10 000⌉; 40 000: ⌈40 000 ÷ (35 000 ÷ 18)⌉. A little less than in full comes close."""
    assert make_room(TALK, TALK.enough(rate) or 0, rate, 1.0) == size
    assert make_room(TALK, TALK.enough(rate) or 0, rate, 1 - 1e-12) == size


@pytest.mark.parametrize(
    ("new", "kept"),
    [
        pytest.param((10, 9_000.0), [(10, 9_000.0), (18, 35_000.0)], id="more carry no more: the older row goes"),
        pytest.param((4, 40_000.0), [(4, 40_000.0)], id="fewer carry more than all others"),
        pytest.param((7, 15_000.0), [(4, 10_000.0), (7, 15_000.0), (10, 20_000.0), (18, 35_000.0)], id="it fits"),
        pytest.param((10, 21_000.0), [(4, 10_000.0), (10, 21_000.0), (18, 35_000.0)], id="its own size: replaced"),
    ],
)
def test_contradictory_rows_do_not_stand_side_by_side(new, kept):
    table = insert_row(TALK, Figure(new[0], new[1], 1, 60.0))
    assert [(row.executors, row.rate) for row in table.figures] == kept


def test_rows_of_another_version_size_increases_only():
    table = for_version(Table(rows=TALK, version="1"), "2")
    assert (table.rows.figures, table.aside, table.version) == ((), TALK.figures, "2")
    assert table.rows_for_increase().enough(15_000) == 7
    assert table.rows.enough(15_000) is None
    assert for_version(table, "2") is table


def test_a_row_of_the_new_version_outweighs_those_aside():
    table = for_version(Table(rows=TALK, version="1"), "2")
    table = write_saturated(table, seen(executors=5, processed_rate=6_000.0), 1.5)
    assert [(row.executors, row.rate) for row in table.rows_for_increase().figures] == [(5, 6_000.0)]


@pytest.mark.parametrize(
    ("busy", "kept"), [pytest.param(0.89, 2, id="1.48 times the cost"), pytest.param(1.0, 1, id="1.67 times")]
)
def test_rows_of_another_record_size_are_put_aside(busy, kept):
    """3 slots × 0.6 ÷ 600/s = 3 ms at first; then 4 slots × 0.89 or 1.0 ÷ 800/s."""
    table = write_saturated(Table(), seen(busy_ratio=0.6, processed_rate=600.0), 1.5)
    table = write_saturated(table, seen(executors=4, busy_ratio=busy, processed_rate=800.0), 1.5)
    assert len(table.rows.figures) == kept
    assert [row.rate for row in table.aside] == ([] if kept == 2 else [600.0])


# ------------------------------------------------------------------------------------------ what batches show


def batch(number: int, n: int, records: int, each: float = 500.0, **changes):
    """f = 0.5 s + 3 s ÷ n, then ``each`` records/s for each executor; τ is 15 s."""
    took = 0.5 + 3 / n + records / (each * n)
    figures = {"executors": n, "last_batch_id": number, "last_batch_records": records, "last_batch_s": took}
    return seen(1000.0 + 15 * number, **{**figures, **changes})


def shown(*batches) -> Table:
    table = Table()
    for each in batches:
        table = learn_batch(table, each, 10, 1.5, saturated=False)
    return table


def test_short_batches_show_what_a_batch_of_tau_would_carry():
    """At n = 2: f = 2 s, 1000/s beyond it: (15 − 2) ÷ 15 × 1000 = 866.7, whatever the length of the batches."""
    table = shown(*(batch(k, 1 + k % 3, 1500 * (2 + k % 5)) for k in range(40)))
    assert table.rows.carried(2) == pytest.approx(866.7, abs=0.5)
    assert table.rows.carried(3) == pytest.approx(1500 * 13.5 / 15, abs=1)


def test_before_that_it_is_a_lower_bound():
    """Of 3000 records in 2 + 3 s, and no more: 600/s; a shorter one does not lower it."""
    table = shown(batch(1, 2, 3000), batch(2, 2, 2000))
    assert table.rows.figures == (Figure(2, 600.0, 0, 1015.0),)


def test_batches_that_are_all_alike_tell_no_fixed_part():
    table = shown(*(batch(k, 2, 3000) for k in range(40)))
    assert [row.samples for row in table.rows.figures] == [0]


def test_a_batch_counts_once_and_a_full_one_as_it_is():
    table = shown(batch(1, 2, 3000))
    assert learn_batch(table, batch(1, 2, 3000), 10, 1.5, saturated=False) is table
    full = learn_batch(table, batch(2, 2, 6000, capped=True), 10, 1.5, saturated=False)
    assert full.rows.carried(2) == 750.0


def test_one_strange_batch_is_a_hiccup_three_are_other_records():
    table = shown(*(batch(k, 1 + k % 3, 1500 * (2 + k % 5)) for k in range(40)))
    for number, left in ((41, 3), (42, 3), (43, 1)):
        table = learn_batch(table, batch(number, 3, 9000, each=200.0), 10, 1.5, saturated=False)
        assert len(table.rows.figures) == left
    assert [row.executors for row in table.aside] == [1, 2, 3]


def noisy(*numbers: int, records: int, speed: float = 500.0, spread: int = 6) -> list[Assessment]:
    """Batches on three executors, ``spread`` % apart in records and ± 10 % in time: what is fixed is hardly known."""
    batches = [batch(k, 3, records * (100 + spread * (k % 3 - 1)) // 100, speed) for k in numbers]
    return [
        replace(each, last_batch_s=(each.last_batch_s or 0.0) * (0.9 + 0.2 * (place % 2)))
        for place, each in enumerate(batches)
    ]


@pytest.mark.parametrize("records", [9, 90, 900])
def test_short_batches_of_the_same_records_are_no_other_records(records):
    table = shown(*noisy(*range(60), records=9000))
    before = table.rows.carried(3) or 0.0
    for each in noisy(*range(60, 80), records=records):
        table = learn_batch(table, each, 10, 1.5, saturated=False)
    assert table.aside == ()
    assert table.rows.carried(3) == pytest.approx(before, rel=0.1)


def test_costlier_records_are_found_where_the_fixed_part_is_hardly_known():
    table = shown(*noisy(*range(60), records=9000))
    for each in noisy(60, 61, 62, records=9000, speed=200.0):
        table = learn_batch(table, each, 10, 1.5, saturated=False)
    assert [row.executors for row in table.aside] == [3]


def test_a_lower_bound_stands_against_short_batches():
    table = shown(*noisy(*range(20), records=9000, spread=0))
    assert [row.samples for row in table.rows.figures] == [0]
    bound = table.rows.carried(3) or 0.0
    for each in noisy(*range(20, 40), records=90):
        table = learn_batch(table, each, 10, 1.5, saturated=False)
    assert (table.rows.carried(3) or 0.0) >= bound


def test_without_records_it_learns_as_reactive_does():
    """Three samples that agree: 600/s × 10 ÷ 6."""
    table = shown(*(batch(k, 3, 0, last_batch_records=None, last_batch_s=6.0) for k in range(3)))
    assert table.rows.carried(3) == pytest.approx(1000.0)


@pytest.mark.parametrize("fixed", [0.0, 1.0, 2.0])
def test_a_batch_of_tau_is_a_measurement_whatever_its_fixed_part(fixed):
    assert speed_in(15.0, 6000.0, 15.0, fixed) == pytest.approx(400.0)


def test_too_few_batches_tell_no_fixed_part():
    costs = BatchCosts()
    for number in range(12):
        assert fixed_s(costs, 2) is None
        costs = add_batch(costs, number, 2, 1000.0 * (1 + number % 4), 2.0 + (1 + number % 4))
    assert fixed_s(add_batch(costs, 13, 2, 500.0, 2.5), 2) == pytest.approx(2.0)


def test_what_scatters_tells_less_of_a_fixed_part():
    """2 s beside records at 1000/s, and 0, +0.4, −0.4 s in turn: what is left of the 2 s is what is beyond doubt."""
    sure, unsure = BatchCosts(), BatchCosts()
    for number in range(48):
        records, off = 1000.0 * (1 + number % 4), 0.4 * (number % 3 - 1)
        sure = add_batch(sure, number, 2, records, 2.0 + records / 1000)
        unsure = add_batch(unsure, number, 2, records, 2.0 + records / 1000 + off)
    assert fixed_s(sure, 2) == pytest.approx(2.0)
    assert 1.5 < (fixed_s(unsure, 2) or 0.0) < 1.85


# ------------------------------------------------------------------------------------------------- the size


def test_the_catch_up_deadline_of_sources():
    """(1000/s × (180 + 600) s + 200 k) ÷ 600 s."""
    level = line([Point(0.0, 1000.0), Point(60.0, 1000.0)])
    assert round(target_rate(level, 60.0, 200_000, Times(600.0, 600.0, 180.0))) == 1633


def test_if_the_deadline_were_the_end_of_the_restart_it_would_never_drain():
    level = line([Point(0.0, 1000.0), Point(60.0, 1000.0)])
    events = level.integral(60.0, 60.0 + 180.0) + 200_000
    assert round(events / 600) == 633


def test_a_rise_outweighs_the_recovery_rate():
    """10/s each minute: 1110 after 600 s; on the way there 1060 on average."""
    rise = line([Point(0.0, 1000.0), Point(60.0, 1010.0)])
    assert target_rate(rise, 60.0, 0.0, Times(600.0, 600.0)) == pytest.approx(1110.0)
    assert target_rate(rise, 60.0, 60_000, Times(600.0, 600.0)) == pytest.approx(1160.0)


def test_beyond_its_reach_a_rise_is_no_longer_believed():
    """10/s each minute for ten minutes, 1060/s in their mean, and 1110/s for the rest of two days."""
    rise = line([Point(0.0, 1000.0), Point(60.0, 1010.0)])
    two_days = Times(172_800.0, 30.0, reach_s=600.0)
    assert target_rate(rise, 60.0, 0.0, two_days) == pytest.approx(1110.0 - 50 * 600 / 172_800)


def test_sizes_by_partitions():
    many = seen(partitions=97, slots_per_executor=2)
    assert (size_by_partitions(many, 10.0), size_by_partitions(many, 1.0)) == (5, 49)
    assert (size_by_partitions(many, None), size_by_partitions(many, None)) == (None, None)
    unknown = replace(many, partitions=None)
    assert (size_by_partitions(unknown, 10.0), size_by_partitions(unknown, 1.0)) == (None, None)


@pytest.mark.parametrize(
    ("changes", "n", "target", "since_s", "left", "code"),
    [
        pytest.param({}, 4, 60, 1e9, 54, ReasonCode.LARGEST_STEP, id="50 at a time"),
        pytest.param({"largest_size": 20}, 4, 60, 1e9, 20, ReasonCode.AT_MAX, id="no larger than allowed"),
        pytest.param({"largest_size": 20}, 22, 30, 1e9, 22, ReasonCode.AT_MAX, id="beyond it already: it never turns"),
        pytest.param(
            {"least_partitions": 2.0}, 4, 60, 1e9, 15, ReasonCode.AT_MAX, id="30 partitions, two for each slot"
        ),
        pytest.param(
            {"most_partitions": 10.0}, 8, 1, 1e9, 3, ReasonCode.AT_MIN, id="30 partitions, at most ten for each"
        ),
        pytest.param({"most_partitions": 10.0}, 2, 1, 1e9, 2, ReasonCode.AT_MIN, id="under it already: it never turns"),
        pytest.param({"cooldown_up_s": 60.0}, 4, 5, 59.0, 4, ReasonCode.COOLDOWN_UP, id="too soon up"),
        pytest.param({"cooldown_up_s": 60.0}, 4, 5, 60.0, 5, None, id="in time up"),
        pytest.param({}, 4, 3, 59.0, 4, ReasonCode.COOLDOWN_DOWN, id="too soon down"),
        pytest.param({"largest_step_down": 2}, 9, 3, 1e9, 7, ReasonCode.LARGEST_STEP, id="two at a time down"),
    ],
)
def test_the_post_decision(changes, n, target, since_s, left, code):
    after, why = apply_limits(seen(), n, target, since_s, RouterOptions.model_validate(changes))
    assert (after, why and why.code) == (left, code)


def test_the_faithful_preset_has_what_the_talk_values():
    options = RouterOptions.model_validate(dict(FAITHFUL))
    assert (options.metrics_delay_s, options.decide_every_s, options.bucket_s) == (120.0, 60.0, 60.0)
    assert (options.deviations, options.largest_step_up) == (3.0, 50)
    assert (options.utilization_up, options.utilization_down) == (0.6, 0.6)
    assert not options.eager
