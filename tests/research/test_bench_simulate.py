"""What is timed of a simulated day: the training of models apart from all else."""

import pytest

from rheostat.policies import mst as mst_learning
from rheostat.policies import proactive
from rheostat.research.bench.speed import case_of, measure_run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def hours():
    return case_of("daily:1..5@7200")


@pytest.mark.parametrize("policy", ["proactive", "mst"])
def test_training_is_timed_where_a_policy_has_models_made(policy, hours):
    took = measure_run(policy, *hours)
    assert took.training_s > 0
    assert took.seconds > 0


def test_a_policy_without_a_model_has_no_training(hours):
    assert measure_run("static", *hours).training_s == 0


def test_nothing_is_timed_any_more_afterwards(hours):
    before = vars(proactive)["check"], vars(mst_learning)["fit"]
    measure_run("mst", *hours)
    assert (vars(proactive)["check"], vars(mst_learning)["fit"]) == before
