"""Tasks on slots, worked by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sim.jobs import plain

from rheostat.sim.executors import Fleet
from rheostat.sim.history import History
from rheostat.sim.tasks import Equal, Progress, count_progress, credit, makespan, place, place_one_by_one

INF = float("inf")


@pytest.mark.parametrize(
    ("work", "slots", "seconds"),
    [
        pytest.param(Equal(12, 1.5), 12, 1.5, id="a slot for each task"),
        pytest.param(Equal(12, 1.5), 5, 4.5, id="three waves, the last of two"),
        pytest.param(Equal(12, 1.5), 6, 3.0, id="two waves"),
        pytest.param(Equal(12, 1.5), 11, 3.0, id="two waves, the last of one"),
        pytest.param(Equal(12, 1.5), 40, 1.5, id="more slots than tasks"),
        pytest.param(Equal(12, 1.5), 0, INF, id="no slot"),
        pytest.param([3.0, 1.0, 1.0, 1.0], 2, 3.0, id="the long one first"),
        pytest.param([1.0, 1.0, 1.0, 3.0], 2, 4.0, id="the long one last"),
        pytest.param([2.0, 3.0, 2.0, 1.0], 3, 3.0, id="the first free slot takes the next task"),
        pytest.param([], 2, 0.0, id="nothing to do"),
    ],
)
def test_makespan(work, slots, seconds):
    assert makespan(work, slots) == seconds


def fleet(executors=1, **changes):
    made = Fleet(plain(**changes), 1, executors, History())
    made.check_settled(0.0)
    return made


def warm_slots(fleet):
    return {(each.number, core) for each in fleet.running for core, warm in enumerate(each.warm) if warm}


def spans(placed):
    """All tasks, in the order in which they are placed."""
    return [(task.begin, task.end, task.executor.number, task.well) for task in placed.tasks]


def progress_by_number(batch, at, crew):
    found = count_progress(batch, at)
    return [found.get(each, Progress()) for each in crew.running]


def test_equal_tasks_on_equal_slots_progress_as_if_each_had_been_placed():
    """5 tasks of 2 s on two executors of 2 slots: 0, 0, 1, 1, then the fifth on executor 0."""
    crew = fleet(2, executor={"cores": 2})
    placed = place([Equal(5, 2.0)], 10.0, crew.used, crew)[0]
    one_by_one = place_one_by_one([2.0] * 5, 10.0, crew.used, crew, warm_slots(crew))
    assert placed.waves == Equal(5, 2.0)
    assert (placed.end, one_by_one.end) == (14.0, 14.0)
    for at, *expected in [
        (9.0, Progress(0, 0.0, 0), Progress(0, 0.0, 0)),
        (10.0, Progress(0, 0.0, 2), Progress(0, 0.0, 2)),
        (12.5, Progress(2, 4.0, 1), Progress(2, 4.0, 0)),
        (14.0, Progress(3, 6.0, 0), Progress(2, 4.0, 0)),
    ]:
        assert progress_by_number([placed], at, crew) == progress_by_number([one_by_one], at, crew) == expected


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 40)), min_size=1, max_size=3),
    st.integers(1, 7),
    st.integers(1, 3),
    st.integers(0, 500),
)
def test_waves_progress_and_are_credited_as_if_each_task_had_been_placed(stages, executors, cores, after):
    """Stages one after the other, in quarters of a second, so that every sum is exact; also where one idles."""
    crews = [fleet(executors + 1, executor={"cores": cores}) for _ in range(2)]
    for crew in crews:
        crew.running[-1].in_use = after % 2 == 0
        crew.check_settled(0.0)
    in_waves = place([Equal(count, quarters / 4) for count, quarters in stages], 1.0, crews[0].used, crews[0])
    one_by_one, at = [], 1.0
    for placed, (count, quarters) in zip(in_waves, stages, strict=True):
        one_by_one.append(place_one_by_one([quarters / 4] * count, at, crews[1].used, crews[1], warm_slots(crews[1])))
        at = one_by_one[-1].end
        assert (placed.begin, placed.end) == (one_by_one[-1].begin, at)
    for _ in range(2):
        first, second = zip(crews, (in_waves, one_by_one), strict=True)
        assert progress_by_number(first[1], after / 8, first[0]) == progress_by_number(second[1], after / 8, second[0])
        credit(in_waves)
        credit(one_by_one)
    done = [[(each.finished, each.busy_s) for each in crew.running] for crew in crews]
    assert done[0] == done[1]


def test_of_several_that_are_free_at_once_the_lowest_number_takes_the_next_task_warm_or_not():
    """Executor 1 of three is cold: of two tasks it does the second all the same, and executor 2 none."""
    crew = fleet(3, executor={"cold_task_s": 2.0})
    crew.running[1].warm = [False]
    crew.check_settled(0.0)
    placed = place([Equal(2, 1.0)], 0.0, crew.running, crew)[0]
    assert spans(placed) == [(0.0, 1.0, 0, True), (0.0, 3.0, 1, True)]


def test_the_first_task_of_a_cold_slot_takes_longer():
    """Executor 1 is cold by 2 s: its first task ends at 3, meanwhile executor 0 does the other three."""
    crew = fleet(2, executor={"cold_task_s": 2.0})
    crew.running[1].warm = [False]
    crew.check_settled(0.0)
    placed = place([[1.0] * 4], 0.0, crew.running, crew)[0]
    assert spans(placed) == [(0.0, 1.0, 0, True), (0.0, 3.0, 1, True), (1.0, 2.0, 0, True), (2.0, 3.0, 0, True)]
    credit([placed])
    assert [each.warm for each in crew.running] == [[True], [True]]


def test_an_executor_that_registers_takes_the_next_waiting_task():
    """It is there at 1.5 and takes the third task, while executor 0 takes the fourth at 2."""
    crew = fleet(1, executor={"cold_task_s": 0.0, "start_up": {"median_s": 1.5, "p95_s": 1.5}})
    crew.request(0.0, 2)
    placed = place([[1.0] * 4], 0.0, crew.used, crew)[0]
    assert spans(placed)[2:] == [(1.5, 2.5, 1, True), (2.0, 3.0, 0, True)]
    assert placed.end == 3.0


def test_what_a_dead_executor_was_running_is_done_again_before_anything_else():
    crew = fleet(2)
    dead, alive = crew.running[0], crew.running[1]
    dead.gone_at = 1.5
    placed = place([[1.0] * 5], 0.0, [dead, alive], crew)[0]
    assert spans(placed) == [
        (0.0, 1.0, 0, True),
        (0.0, 1.0, 1, True),
        (1.0, 1.5, 0, False),
        (1.0, 2.0, 1, True),
        (2.0, 3.0, 1, True),
        (3.0, 4.0, 1, True),
    ]


def test_a_lost_task_waits_for_a_slot_that_is_free_earlier():
    """The only task left is the lost one: executor 1, idle since 1, takes it when it is lost, at 2."""
    crew = fleet(2)
    crew.running[0].gone_at = 2.0
    placed = place([[3.0, 1.0]], 0.0, crew.running, crew)[0]
    assert spans(placed)[-1] == (2.0, 5.0, 1, True)


def test_in_a_settled_fleet_no_slot_is_cold_whatever_the_work():
    """6 tasks of 1 s that are listed one by one, on three warm slots: 2 s, and not 2 s later on each."""
    crew = fleet(3, executor={"cold_task_s": 2.0})
    crew.check_settled(0.0)
    assert crew.settled
    assert place([[1.0] * 6], 0.0, crew.used, crew)[0].end == 2.0


def test_without_executors_work_does_not_end():
    crew = fleet(1)
    crew.running[0].gone_at = 1.0
    assert place([[2.0]], 0.0, crew.running, crew)[0].end == INF


def test_a_slow_window_stretches_what_falls_into_it():
    """2 s of work: 1 s until the window begins at 1, the rest at a third of the speed."""
    crew = fleet(1)
    crew.slow_down(1.0, 0, INF, 3.0)
    assert crew.finish(crew.running[0], 0.0, 2.0) == 4.0
    crew = fleet(1)
    crew.slow_down(1.0, 0, 2.5, 3.0)
    assert crew.finish(crew.running[0], 0.0, 2.0) == 3.0


def test_executors_that_start_slow_the_others_down():
    """Two start from 1 to 3, each takes a half: speed 1/2; 3 s of work end at 1 + 2 + 1."""
    crew = fleet(1, executor={"slows_neighbours": 0.5, "start_up": {"median_s": 2.0, "p95_s": 2.0}})
    crew.request(1.0, 3)
    assert crew.finish(crew.running[0], 0.0, 3.0) == 4.0
    crew.register(3.0)
    assert crew.finish(crew.running[0], 0.0, 3.0) == 4.0
