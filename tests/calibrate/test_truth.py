"""A run replayed, and how far two runs are from each other."""

from dataclasses import replace as replace_fields

import pytest
from tests.judge.journals import KNOWN, READ, REST, journal, known_fit, real_run

from rheostat.calibrate.measured import run_of
from rheostat.calibrate.truth import (
    Moment,
    Replay,
    errors_of,
    estimate_rows,
    overlay,
    replay,
    window_of,
    write_truth,
)
from rheostat.errors import InputError
from rheostat.journal.records import DecisionRecord
from rheostat.sim.jobfile import job_of

pytestmark = pytest.mark.slow

QUIET = {**KNOWN, "batch_noise_cv": 0.0, "executor": {"start_up": {"median_s": 2.5, "p95_s": 2.5}, "cold_task_s": 3.0}}
CALM = ("constant:80@30+ramp:80..400@40+constant:400@20+ramp:400..100@40",
        [[0, 1], [28, 2], [40, 3], [50, 4], [100, 2]])  # fmt: skip


@pytest.fixture(scope="module")
def quiet_run():
    return real_run(job=QUIET, shape=CALM[0], steps=CALM[1])


def test_a_run_of_the_simulator_is_replayed_as_it_was(quiet_run):
    """The load is known at each look only, and what waited at the start came at an even rate."""
    errors = errors_of(replay(quiet_run, job_of(QUIET), warm_up_s=5.0))
    assert errors.backlog < 0.03
    assert errors.batch < 0.01
    assert errors.lag_p95 < 0.05
    assert errors.worse_than_mean > 10


def test_offsets_older_than_those_before_them_are_left_out(quiet_run):
    records = journal(job=QUIET, shape=CALM[0], steps=CALM[1])
    decided = [number for number, each in enumerate(records) if isinstance(each, DecisionRecord) and each.observation]
    number = decided[60]
    observation = records[number].observation
    queries = tuple(
        replace_fields(query, offsets=replace_fields(query.offsets, at=query.offsets.at - 5.0))
        for query in observation.queries
    )
    late = replace_fields(observation, queries=queries)
    records[number] = DecisionRecord.of(late, None, records[number].decision)
    run = run_of("late", records)
    assert len(run.snapshots) == len(quiet_run.snapshots) - 1
    assert errors_of(replay(run, job_of(QUIET), warm_up_s=5.0)).backlog < 0.03


def test_another_job_is_told_from_the_one_that_ran(quiet_run):
    stages = [{**READ, "cost_ms": 6.0}, REST]
    errors = errors_of(replay(quiet_run, job_of({**QUIET, "stages": stages}), warm_up_s=5.0))
    assert errors.backlog > 0.2


def test_what_is_fitted_to_one_run_foretells_another():
    """Noise of 5 % in each, drawn with another seed."""
    fitted = known_fit()
    other = real_run(shape=CALM[0], steps=CALM[1], seed=2)
    errors = errors_of(replay(other, fitted.job, warm_up_s=5.0))
    assert errors.backlog < 0.15
    assert errors.batch < 0.1


def test_the_window_begins_after_the_warm_up_with_a_batch_that_was_seen(quiet_run):
    first, end = window_of(quiet_run, 5.0)
    assert first.start >= quiet_run.batches[0].end + 5.0
    assert first.batch_id in {batch.batch_id for batch in quiet_run.batches}
    assert end == pytest.approx(130.0, abs=1.0)


def test_a_run_shorter_than_the_warm_up_cannot_be_replayed(quiet_run):
    with pytest.raises(InputError):
        window_of(quiet_run, 1000.0)


# ------------------------------------------------------------------------------------------------------ figures


def of(measured, simulated, batches=((0.0, 2.0, 10),), sim_batches=((0.0, 2.0, 10),)):
    def moments(values):
        return tuple(Moment(float(n), value, value, 1) for n, value in enumerate(values))

    return Replay("x", 0.0, 4.0, 20.0, moments(measured), moments(simulated), batches, sim_batches)


def test_errors_by_hand():
    """Σ|m − s| = 1 + 1 + 2 = 4 of Σm = 20; mean 5: |m − 5| = 2 + 0 + 2 + 0 = 4 … but 1 more of zero's 20."""
    errors = errors_of(of((3.0, 5.0, 7.0, 5.0), (4.0, 4.0, 5.0, 5.0), ((0.0, 2.0, 1),) * 3, ((0.0, 2.5, 1),) * 3))
    assert errors.backlog == pytest.approx(4 / 20)
    assert errors.worse_than_mean == pytest.approx((4 / 20) / (4 / 20))
    assert errors.worse_than_zero == pytest.approx(1 / (4 / 20))
    assert errors.batch == pytest.approx(0.25)
    assert errors.lag_p95 == pytest.approx(1 - 5.0 / 6.7)


def test_what_was_not_seen_does_not_count():
    errors = errors_of(of((3.0, None, 7.0), (3.0, 100.0, 5.0)))
    assert errors.backlog == pytest.approx(2 / 10)


def test_equal_runs_are_not_apart(quiet_run):
    errors = errors_of(overlay(quiet_run, quiet_run, job_of(QUIET), warm_up_s=5.0))
    assert (errors.backlog, errors.batch, errors.lag_p95) == (0.0, 0.0, 0.0)


def test_runs_with_other_noise_are_apart():
    one, other = (real_run(shape=CALM[0], steps=CALM[1], seed=seed) for seed in (3, 4))
    apart = [errors_of(overlay(a, b, job_of(KNOWN), warm_up_s=5.0)).backlog for a, b in ((one, other), (other, one))]
    assert 0.0 < sum(apart) / 2 < 0.5


def test_the_report_holds_both_runs_and_the_figures(tmp_path, quiet_run):
    pytest.importorskip("plotly")
    fitted = known_fit()
    run = replay(quiet_run, fitted.job, warm_up_s=5.0)
    path = write_truth(tmp_path / "truth.html", fitted, [(run, errors_of(run))])
    text = path.read_text(encoding="utf-8")
    assert "How true the simulator is" in text
    assert "measured" in text
    assert "stages.0.cost_ms" in text
    assert estimate_rows(fitted)[0] == ["figure", "value", "95 % interval", "n", "from"]
