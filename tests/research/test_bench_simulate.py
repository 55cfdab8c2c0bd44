"""What is timed of a simulated day: the training of models apart from all else."""

import pytest

from rheostat.policies import mst as mst_learning
from rheostat.policies import proactive
from rheostat.policies.rheostat import RheostatPolicy
from rheostat.research.bench.speed import case_of, measure_run, recommend_times_ms

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


def test_each_decision_of_rheostat_is_timed_and_none_afterwards(hours):
    recommend = RheostatPolicy.recommend
    times = recommend_times_ms(*hours)
    assert len(times) >= 7200 / 15
    assert sum(times) > 0
    assert RheostatPolicy.recommend is recommend
