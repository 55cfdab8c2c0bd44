"""The figures of the truth benchmark, from runs of the simulator in place of real ones."""

from pathlib import Path

import pytest
from tests.judge.journals import KNOWN, known_fit, real_run

from rheostat.calibrate.truth import replay
from rheostat.research.bench import truth

pytestmark = pytest.mark.slow

SHAPE, STEPS = "constant:80@30+ramp:80..400@30+constant:400@20+ramp:400..100@20", [[0, 2], [28, 4], [90, 2]]


@pytest.fixture(scope="module")
def measured():
    fitted = known_fit()
    runs = [real_run(shape=SHAPE, steps=STEPS, seed=seed, executors=2) for seed in (2, 3, 4)]
    replays = [replay(each, fitted.job, warm_up_s=truth.WARM_UP_S) for each in runs]
    return {each.name: each for each in truth.figures(fitted, runs, replays)}


def test_every_figure_that_is_wanted_has_a_target(measured):
    wanted = [name for name, figure in measured.items() if figure.target is not None]
    assert [name.partition(":")[0] for name in wanted] == ["backlog", "median batch time", "lag p95"] + ["backlog"] * 2


def test_the_simulator_meets_the_figures_against_itself(measured):
    assert [name for name, figure in measured.items() if figure.met is False] == []


def test_where_equal_runs_are_further_apart_than_the_target_their_distance_counts():
    loud = {**KNOWN, "batch_noise_cv": 0.5}
    runs = [real_run(job=loud, shape=SHAPE, steps=STEPS, seed=seed, executors=2) for seed in (2, 3, 4)]
    fitted = known_fit()
    replays = [replay(each, fitted.job, warm_up_s=truth.WARM_UP_S) for each in runs]
    found = truth.figures(fitted, runs, replays)
    apart = next(each.value for each in found if each.name == "three real runs, from each other: backlog")
    assert apart is not None
    assert apart > 0.15
    assert found[0].target == pytest.approx(1.5 * apart)


def test_both_timetables_begin_with_the_first_decision():
    for plan in (truth.CALIBRATION, truth.TRUTH):
        steps = plan.settings(Path("unused"))["policy_options"]["steps"]
        assert [second for second, _ in steps] == sorted({second for second, _ in steps})
        assert all(1 <= count <= 6 for _, count in steps)
