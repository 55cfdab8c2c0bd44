"""What a batch costs: the model finds a known job, doubts what it has not seen, and forgets another job."""

from __future__ import annotations

import doctest
import math
import random
from dataclasses import replace

import pytest

from rheostat.learn import batch_cost
from rheostat.learn.batch_cost import Batch, BatchCost, Cold, Costs, fit, freshness, learn_batch, learn_cold

DRIVER_S, READ, AGGREGATE = 0.5, 24, 120


def test_examples_in_docstrings():
    assert doctest.testmod(batch_cost).failed == 0


def run(executors: int, records: float, cost_ms: float = 0.5, exponent: float = 0.0, factor: float = 1.0) -> Batch:
    """A batch of a job with two stages, 20 ms a task, and slots that hinder each other."""
    hinders = executors**exponent / 1000
    busy = [0.02 * tasks + share * cost_ms * hinders * records for tasks, share in ((READ, 0.1), (AGGREGATE, 0.9))]
    duration_s = sum(math.ceil(tasks / executors) / tasks * b for tasks, b in zip((READ, AGGREGATE), busy, strict=True))
    busy_s = tuple([factor * each for each in busy])
    return Batch(executors, executors, records, DRIVER_S + factor * duration_s, (READ, AGGREGATE), busy_s, DRIVER_S)


def learn(batches: list[Batch], model: BatchCost | None = None) -> BatchCost:
    model = model or BatchCost()
    for batch in batches:
        model = fit(learn_batch(model, batch, is_first=False), model.count)
    return model


def predict(model: BatchCost, executors: int, records: float) -> float:
    return Costs(model).duration_s(executors, records)


VARIED = [run(n, 1000.0 * n * size) for n in (2, 3, 5, 8) for size in (8, 14, 20, 26)]


@pytest.mark.parametrize(("executors", "records"), [(2, 30_000), (5, 60_000), (8, 200_000)])
def test_a_known_job_is_recovered(executors, records):
    truth = run(executors, records).duration_s
    assert predict(learn(VARIED), executors, records) == pytest.approx(truth, rel=0.01)


def test_waves_of_tasks_are_known_at_numbers_that_no_batch_has_run_at():
    model = replace(learn(VARIED), ratios=())
    assert predict(model, 12, 240_000) == pytest.approx(run(12, 240_000).duration_s, rel=0.02)
    assert model.raw(13)[1] == pytest.approx(model.raw(12)[1], rel=0.02)  # ten waves of 120 tasks on either


def test_slots_that_hinder_each_other_show_in_the_exponent():
    model = learn([run(n, 1000.0 * n * size, exponent=0.2) for size in range(8, 28) for n in (2, 4, 8)])
    assert model.exponent == pytest.approx(0.2, abs=0.04)
    assert learn(VARIED * 4).exponent == pytest.approx(0.0, abs=0.021)


def test_one_batch_is_enough_to_begin_with():
    model = learn([run(3, 40_000)])
    assert predict(model, 3, 80_000) == pytest.approx(run(3, 80_000).duration_s, rel=0.05)


def test_numbers_never_seen_are_doubted_the_more_the_farther_away():
    model = learn([run(4, 1000.0 * size) for size in range(20, 60, 4)])
    truth = [run(n, 20_000.0 * n).duration_s for n in (5, 8, 16)]
    found = [predict(model, n, 20_000.0 * n) / true for n, true in zip((5, 8, 16), truth, strict=True)]
    assert found == sorted(found)
    assert 1.0 < found[0] < 1.06
    assert 1.05 < found[1] < 1.2


def test_a_day_at_one_number_does_not_make_the_others_forgotten():
    model = learn([run(8, 160_000)] * 500, learn(VARIED))
    assert predict(model, 3, 60_000) == pytest.approx(run(3, 60_000).duration_s, rel=0.02)


def test_noise_averages_out():
    draws = random.Random(4)
    batches = [
        run(n, 1000.0 * n * draws.uniform(8, 26), factor=math.exp(draws.gauss(0, 0.15)))
        for _ in range(60)
        for n in (3, 6)
    ]
    assert predict(learn(batches), 6, 90_000) == pytest.approx(run(6, 90_000).duration_s, rel=0.1)


def test_another_job_is_learned_from_two_batches():
    slower = [run(5, 60_000 + 1000 * number, cost_ms=1.0) for number in range(2)]
    model = learn(slower, learn(VARIED))
    assert predict(model, 5, 70_000) == pytest.approx(run(5, 70_000, cost_ms=1.0).duration_s, rel=0.05)
    assert predict(model, 8, 70_000) == pytest.approx(run(8, 70_000, cost_ms=1.0).duration_s, rel=0.15)


def test_a_batch_of_a_few_records_teaches_nothing():
    model = learn(VARIED)
    assert learn([run(8, 3)], model).stages == model.stages


def test_a_cold_batch_counts_only_until_the_next_and_where_it_is_far_slower():
    cold = learn_batch(BatchCost(), run(3, 40_000, factor=1.5), is_first=True)
    assert cold.is_cold
    assert not learn([run(3, 40_000)], cold).is_cold
    known = learn(VARIED)
    assert learn_batch(known, run(5, 90_000, factor=1.1), is_first=True) == known
    slow = learn_batch(known, run(5, 90_000, factor=2.0), is_first=True)
    assert predict(slow, 5, 90_000) > 1.6 * predict(known, 5, 90_000)


def warming_up(executors: int, records: float, after_s: float, warm_up: float) -> Batch:
    """A batch so long after executors joined that are slower by ``warm_up`` at first."""
    fresh = freshness(after_s)
    return run(executors, records, factor=1 + warm_up * fresh)._replace(fresh=fresh)


@pytest.mark.parametrize("warm_up", [0.0, 1.2])
def test_the_warm_up_of_executors_is_measured_and_no_speed_of_their_number(warm_up):
    rise = [
        warming_up(n, 1000.0 * n * size, after_s, warm_up)
        for n in (2, 3, 4)
        for after_s, size in ((8.0, 20), (14.0, 18), (20.0, 16), (26.0, 15), (32.0, 15))
    ]
    model = learn([*rise, *(warming_up(6, 90_000, after_s, warm_up) for after_s in (9.0, 12.0))])
    assert model.warm_up == pytest.approx(warm_up, abs=0.2)
    assert predict(model, 6, 90_000) == pytest.approx(run(6, 90_000).duration_s, rel=0.08)


def test_batches_on_fresh_executors_are_no_sign_of_another_job():
    known = learn(VARIED)
    slow = learn([warming_up(8, 160_000, after_s, 1.5) for after_s in (9.0, 12.0, 15.0)], known)
    assert {batch.executors for batch in slow.seen} == {2, 3, 5, 8}


def test_what_joining_executors_cost_is_the_excess_of_all_batches_until_the_first_at_the_number():
    known = learn(VARIED)
    half_s = (predict(known, 3, 60_000) + predict(known, 6, 60_000)) / 2
    joining = learn_cold(known, run(6, 60_000)._replace(duration_s=half_s + 3.0), 3)
    joining = learn_cold(joining, run(6, 60_000)._replace(duration_s=half_s + 1.0), 3)
    first = run(6, 60_000)._replace(duration_s=predict(known, 6, 60_000) + 2.5)
    learned = learn_batch(joining, first, is_first=True)
    (cold,) = learned.colds
    assert cold.joined == 3
    assert cold.extra_s == pytest.approx(6.5)
    assert learned.ratios == known.ratios, "no other speed of six executors"
    again = learn_cold(learned, run(5, 60_000)._replace(duration_s=100.0), 3)
    assert len(again.colds) == 2


def test_what_batches_are_longer_by_chance_is_taken_off_by_those_that_are_shorter():
    known = learn(VARIED)
    usual_s = predict(known, 6, 60_000)
    joining = learn_cold(known, run(6, 60_000)._replace(duration_s=usual_s + 5.0), 6)
    joining = learn_cold(joining, run(6, 60_000)._replace(duration_s=usual_s - 3.0), 6)
    learned = learn_batch(joining, run(6, 60_000)._replace(duration_s=usual_s + 1.0), is_first=True)
    assert learned.colds[-1].extra_s == pytest.approx(3.0)
    below = learn_batch(joining, run(6, 60_000)._replace(duration_s=usual_s - 9.0), is_first=True)
    assert below.colds[-1].extra_s == 0.0


def test_cold_executors_are_learned_less_surely_where_batches_vary():
    def learn_increase(error: float) -> float:
        known = replace(learn(VARIED), error=error)
        usual_s = predict(known, 6, 60_000)
        joining = learn_cold(known, run(6, 60_000)._replace(duration_s=usual_s), 6)
        return learn_batch(joining, run(6, 60_000)._replace(duration_s=usual_s + 10.0), is_first=True).cold()[0]

    assert learn_increase(0.0001) == pytest.approx(7.0, abs=0.1)  # half-way from 4 to 10 s
    assert 4.0 < learn_increase(0.04) < 6.5


def test_two_batches_that_vary_do_not_tell_the_cost_of_a_record():
    alike = [run(8, 150_000, factor=0.8), run(8, 160_000, factor=1.1)]
    base_s, cost_s = (sum(parts) for parts in list(zip(*learn(alike, BatchCost(error=0.04)).stages, strict=True))[1:])
    assert cost_s == pytest.approx(0.0005, rel=0.15)
    assert base_s < 0.2 * cost_s * 155_000


def test_where_full_batches_are_shorter_than_they_may_be_they_are_the_limit():
    model = replace(learn([run(3, 50_000)], learn(VARIED)), cap=50_000)
    full_s = predict(model, 3, 50_000)
    assert Costs(model).capacity(3, 60.0, 2.0) == pytest.approx(50_000 / full_s)


def test_without_stages_a_batch_is_one_stage_without_waves():
    batches = [
        Batch(n, n, 400.0 * n * size, 1.0 + size, (0,), (n * (1.0 + size),), 1.0) for n in (2, 5) for size in (6, 9)
    ]
    assert predict(learn(batches), 4, 16_000) == pytest.approx(11.0, rel=0.06)


def test_how_much_batches_vary_is_measured_and_noise_is_no_other_job():
    draws = random.Random(3)
    noisy = [
        run(n, 1000.0 * n * size, factor=math.exp(draws.gauss(0.0, 0.2))) for size in range(8, 28) for n in (3, 5, 8)
    ]
    model = learn(noisy)
    assert 0.12 < model.deviation < 0.28
    assert len({batch.executors for batch in model.seen}) == 3, "nothing was forgotten"
    assert learn(VARIED).deviation < 0.03


def test_a_standard_deviation_makes_every_batch_longer_and_executors_colder():
    model = replace(learn(VARIED), error=0.04, colds=(Cold(1, 3.0), Cold(1, 7.0)))
    usual, longer = Costs(model), Costs(model, 1.0)
    assert longer.batch(4) == pytest.approx([math.exp(0.2) * part for part in usual.batch(4)])
    assert longer.cold_s(1) - usual.cold_s(1) == pytest.approx(1.0, rel=0.1)
