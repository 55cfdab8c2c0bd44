"""What is put into a job is found again in its journal, and what a journal does not tell is not made up."""

import dataclasses

import numpy as np
import pytest
import yaml
from scipy.optimize import least_squares  # type: ignore[import-untyped]
from tests.judge.journals import KNOWN, VISITS, journal, known_run, real_run

from rheostat.calibrate.fit import Point, _batch_costs, _fit_robustly, calibrate, fit_batches
from rheostat.calibrate.measured import run_of
from rheostat.errors import InputError
from rheostat.judge.cases import load_job
from rheostat.sim.jobfile import job_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def fitted():
    return calibrate([known_run()], name="found", warm_up_s=10.0)


def estimate(calibration, key):
    return next(each for each in calibration.estimates if each.key == key)


@pytest.mark.parametrize(
    ("key", "put_in", "tolerance"),
    [
        ("stages.0.cost_ms", 4.0, 0.05),
        ("stages.0.fetch_wait_s", 0.5, 0.001),
        ("stages.1.task_ms", 600.0, 0.1),
        ("driver.planning_s", 0.05, 0.001),
        ("driver.commit_s", 0.01, 0.001),
        ("executor.start_up.median_s", 2.5, 0.2),
        ("executor.cold_task_s", 3.0, 0.2),
        ("batch_noise_cv", 0.05, 0.5),
    ],
)
def test_what_was_put_into_a_job_is_found_in_its_journal(fitted, key, put_in, tolerance):
    found = estimate(fitted, key)
    assert found.identified
    assert found.value == pytest.approx(put_in, rel=tolerance)


def test_an_interval_holds_the_truth(fitted):
    low, high = estimate(fitted, "stages.0.cost_ms").interval
    assert low <= 4.0 <= high


def test_what_the_run_does_not_tell_is_left_at_its_default_and_says_why(fitted):
    left = {each.key: each for each in fitted.estimates if not each.identified}
    assert left["stages.1.cost_ms"].value == 0.0
    assert left["state.reload_s"].why == "batches after a decrease do not show it (1 seen)"


def test_what_the_journal_tells_as_it_is_is_taken_over(fitted):
    job = fitted.job
    assert (job.name, job.trigger_s, job.partitions, job.batch_cap) == ("found", 2.0, 12, 2400)
    assert (job.executors, job.executor.cores, job.objective) == ((1, 6), 1, "lag < 20s")


def test_the_values_are_a_job_file(fitted, tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(fitted.values), encoding="utf-8")
    assert load_job(path) == fitted.job


def test_one_size_alone_does_not_tell_what_an_executor_shortens():
    calibration = calibrate([real_run(shape="ramp:40..150@80", steps=[[0, 1]])], warm_up_s=10.0)
    left = {each.key for each in calibration.estimates if not each.identified}
    assert {"stages.0.task_ms", "stages.1.cost_ms", "executor.cold_task_s", "executor.start_up.median_s"} <= left


def test_a_pause_of_the_machine_weighs_little():
    """Two of some sixty batches take 20 s longer."""
    run = known_run()
    warm = [n for n, batch in enumerate(run.batches) if batch.age > 3]
    slow = {warm[3], warm[30]}
    batches = [
        dataclasses.replace(batch, tasks_s=batch.tasks_s + 20.0) if n in slow else batch
        for n, batch in enumerate(run.batches)
    ]
    found = calibrate([dataclasses.replace(run, batches=tuple(batches))], warm_up_s=10.0)
    assert estimate(found, "stages.0.cost_ms").value == pytest.approx(4.0, rel=0.1)


def test_a_journal_that_misses_every_other_batch_is_enough():
    """Looked at each 5 s, with batches of 2 s and more."""
    run = real_run(sample_s=5.0)
    assert len(run.batches) < 0.7 * len(known_run().batches)
    found = calibrate([run], warm_up_s=10.0)
    assert estimate(found, "stages.0.cost_ms").value == pytest.approx(4.0, rel=0.1)


def test_several_journals_are_one_fit():
    one = real_run(shape="ramp:40..120@60", steps=[[0, 1]])
    other = real_run(shape="ramp:100..500@60", steps=[[0, 4]], executors=4)
    found = calibrate([one, other], warm_up_s=5.0)
    assert found.batches == len(one.batches) + len(other.batches)
    assert estimate(found, "stages.0.cost_ms").value == pytest.approx(4.0, rel=0.1)


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        pytest.param(list, "nothing to fit to", id="no journal"),
        pytest.param(
            lambda: [known_run(), real_run(job={**KNOWN, "partitions": 24})], "the runs differ in it", id="two jobs"
        ),
        pytest.param(
            lambda: [real_run(shape="constant:50@10", steps=[[0, 1]])], "batches were warm", id="a run too short"
        ),
    ],
)
def test_what_cannot_be_fitted_is_refused(runs, words):
    with pytest.raises(InputError) as caught:
        calibrate(runs())
    assert words in caught.value.faults[0].message


# ------------------------------------------------------------------------------------------------ the regression


def points(fixed=0.5, task=0.0, record=0.004, serial=0.0, slots=(1, 2, 3, 4, 6), records=(300, 800, 1500, 2400)):
    """Batches exactly as the formula has them; records come so fast that nobody waits for the next."""
    found = []
    for s in slots:
        for r in records:
            waves = -(-12 // s)
            seconds = fixed + serial * r + waves * (task + record * r / 12)
            found.append(Point(records=r, slots=s, partitions=12, rate=1e9, jobs_s=seconds, wait_s=0.5))
    return found


def test_the_formula_is_found():
    fit = fit_batches(points(task=0.1, serial=0.0002))
    assert fit is not None
    assert fit.values == pytest.approx({"record": 0.004, "fixed": 0.5, "task": 0.1, "serial": 0.0002}, rel=1e-3)
    assert set(fit.given_up) == {"fetch"}
    assert fit.noise < 1e-3


def test_with_one_size_only_the_sum_of_fixed_part_and_tasks_is_told():
    fit = fit_batches(points(task=0.1, serial=0.0002, slots=(1,), records=range(100, 2400, 200)))
    assert fit is not None
    assert set(fit.values) == {"record", "fixed"}
    assert fit.values == pytest.approx({"record": 0.0042, "fixed": 1.7}, rel=1e-3)


def test_the_scale_of_the_residuals_is_that_of_clipped_least_squares():
    """The same fit by scipy, where least squares has a value below 0."""
    random = np.random.default_rng(3)
    matrix, waited = random.uniform(0.5, 1.5, (40, 3)), np.zeros(40)
    times = matrix @ [2.0, -0.5, 2.0] + 0.1 * random.standard_t(2, 40)
    rows = matrix / times[:, None]
    lengths = np.linalg.norm(rows, axis=0)
    plain = np.linalg.lstsq(rows / lengths, np.ones(40), rcond=None)[0]
    start = np.maximum(plain, 1e-6)
    spread = 1.4826 * np.median(np.abs(1 - rows / lengths @ start))
    expected = least_squares(
        lambda x: rows / lengths @ x - 1, start, bounds=(0, np.inf), loss="soft_l1", f_scale=spread, xtol=1e-12
    )
    assert plain.min() < 0
    assert _fit_robustly(matrix, times, waited) == pytest.approx(expected.x / lengths, rel=1e-5, abs=1e-5)


def waiting(factor):
    """Batches that take so many times the expected wait for the next record, to 1 %."""
    found = []
    for number, point in enumerate(points()):
        slow = dataclasses.replace(point, rate=point.records / 20)
        seconds = point.jobs_s + factor * slow.waves * slow.fetch_s
        found.append(dataclasses.replace(slow, jobs_s=seconds * (1.01 if number % 2 else 0.99)))
    return found


@pytest.mark.parametrize(
    ("factor", "words"),
    [(1.0, "the batches do not speak against it"), (3.0, "a free fit differs")],
)
def test_the_wait_of_the_source_is_said_to_lie_in_its_interval_or_not(factor, words):
    fit = fit_batches(waiting(factor))
    assert fit is not None
    found = next(each for each in _batch_costs(known_run(), fit) if each.key == "stages.0.fetch_wait_s")
    assert found.interval is not None
    assert (found.interval[0] <= found.value <= found.interval[1]) is (factor == 1.0)
    assert words in found.why


def test_fewer_than_eight_batches_are_not_fitted():
    assert fit_batches(points(slots=(1,), records=range(100, 800, 100))) is None


# ------------------------------------------------------------------------------------------------ what was seen


def test_batches_tell_who_joined_who_was_cold_and_what_was_taken_away():
    run = known_run()
    joined = [batch for batch in run.batches if batch.joined]
    assert [(batch.executors, len(batch.joined)) for batch in joined] == [(1, 1), (2, 1), (3, 1), (4, 2)]
    assert all(batch.age == 0 for batch in joined)
    assert [batch.executors for batch in run.batches if batch.shrunk] == [2]
    assert [together for _, together in run.start_ups] == [1, 1, 1, 2, 2]


def test_a_journal_without_a_batch_is_refused():
    records = journal()[:1]
    with pytest.raises(InputError) as caught:
        run_of("empty", records)
    assert caught.value.faults[0].message == "no finished batch was seen in it"


def test_the_job_of_these_tests_is_sound():
    assert job_of(KNOWN).n_max == 6
    assert VISITS[1][0] == [0, 1]
