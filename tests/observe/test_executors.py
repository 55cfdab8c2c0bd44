"""Executors as Spark lists them."""

import pytest
from tests.observe.recorded import EXECUTOR

from rheostat.model import Executor
from rheostat.observe.parse import parse_executors

AS_A_VALUE = Executor("2", "10.1.2.3", 1, 1, 2, 27, 30.166, 1795834386.046)


def test_an_executor_in_the_status_store_of_the_driver():
    assert parse_executors([EXECUTOR]) == (AS_A_VALUE,)


def test_an_executor_over_rest_has_a_date():
    assert parse_executors([EXECUTOR | {"addTime": "2026-11-28T02:53:06.046GMT"}]) == (AS_A_VALUE,)


def test_an_executor_that_has_just_registered_has_a_host_and_no_port():
    (found,) = parse_executors([EXECUTOR | {"hostPort": "10.1.2.3"}])
    assert found.host == "10.1.2.3"


def test_the_driver_and_dead_executors_are_left_out():
    assert parse_executors([EXECUTOR | {"id": "driver"}, EXECUTOR | {"isActive": False}]) == ()


def test_executors_are_in_the_order_of_their_start():
    listed = [EXECUTOR | {"id": number} for number in ("10", "9", "1")]
    assert [found.executor_id for found in parse_executors(listed)] == ["1", "9", "10"]


def test_impossible_figures_are_passed_on():
    (found,) = parse_executors([EXECUTOR | {"activeTasks": -1, "totalDuration": float("nan")}])
    assert found.active_tasks == -1
    assert found.busy_s != found.busy_s


@pytest.mark.parametrize("broken", [{"id": "1"}, EXECUTOR | {"totalDuration": None}], ids=["no figures", "null"])
def test_an_executor_that_is_not_understood_is_an_error_of_value(broken):
    with pytest.raises(ValueError, match="an executor that is not understood"):
        parse_executors([broken])


def test_slots_are_told_where_they_are_not_the_cores():
    """With spark.task.cpus=4, Spark lists 4 cores and 1 task at most."""
    four, two = parse_executors([EXECUTOR | {"totalCores": 4, "maxTasks": 1}, EXECUTOR | {"id": "3", "totalCores": 1}])
    assert (four.cores, four.slots, two.slots) == (4, 1, None)


def test_garbage_collection_is_part_of_the_task_time():
    (told,) = parse_executors([EXECUTOR | {"totalGCTime": 1_512}])
    assert (told.gc_s, told.busy_s, AS_A_VALUE.gc_s) == (1.512, 30.166, None)


@pytest.mark.parametrize(
    ("said", "excluded"),
    [
        pytest.param({}, False, id="nothing said"),
        pytest.param({"isExcluded": False, "excludedInStages": [], "isBlacklisted": False}, False, id="it works"),
        pytest.param({"isExcluded": True, "excludedInStages": []}, True, id="from the application"),
        pytest.param({"isExcluded": False, "excludedInStages": [7]}, True, id="from a stage that runs"),
        pytest.param({"isBlacklisted": True}, True, id="by its old name"),
    ],
)
def test_executors_that_get_no_task(said, excluded):
    assert [each.excluded for each in parse_executors([EXECUTOR | said])] == [excluded]
