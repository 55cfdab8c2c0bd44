"""Tasks on slots, worked by hand."""

from itertools import compress, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sim.jobs import plain

from rheostat.sim.chains import Chains
from rheostat.sim.fleet import Fleet
from rheostat.sim.history import History
from rheostat.sim.tally import Equal
from rheostat.sim.tasks import _Crew, _one_by_one, credit, makespan, run, told

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
    made.look(0.0)
    return made


def warm_slots(fleet):
    return {slot for each in fleet.running for slot in compress(each.slots, each.warm)}


def spans(placed):
    """All tasks, in the order in which they are placed."""
    if isinstance(placed[2], Chains):
        spans = [(*span, each.executors, True) for each in placed[2].each for span in pairwise(each.times)]
        return sorted((begin, end, one.number, well) for begin, end, who, well in spans for one in who)
    return [(begin, end, executor.number, well) for begin, end, executor, well in placed[2]]


def test_equal_tasks_on_equal_slots_are_told_as_if_each_had_been_placed():
    """5 tasks of 2 s on two executors of 2 slots: 0, 0, 1, 1, then the fifth on executor 0."""
    crew = fleet(2, executor={"cores": 2})
    placed = run([Equal(5, 2.0)], 10.0, crew.used, crew, set())[0]
    one_by_one = _one_by_one([2.0] * 5, 10.0, _Crew(crew, crew.used, warm_slots(crew), 10.0))
    assert (placed[1], one_by_one[1]) == (14.0, 14.0)
    for at, expected in [
        (9.0, ((0, 0), (0.0, 0.0), (0, 0))),
        (10.0, ((0, 0), (0.0, 0.0), (2, 2))),
        (12.5, ((2, 2), (4.0, 4.0), (1, 0))),
        (14.0, ((3, 2), (6.0, 4.0), (0, 0))),
    ]:
        assert told([placed], at, crew) == told([one_by_one], at, crew) == expected


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 40)), min_size=1, max_size=3),
    st.integers(1, 7),
    st.integers(1, 3),
    st.integers(0, 500),
)
def test_waves_are_told_and_counted_as_if_each_task_had_been_placed(stages, executors, cores, after):
    """Stages one after the other, in quarters of a second, so that every sum is exact; also where one idles."""
    crews = [fleet(executors + 1, executor={"cores": cores}) for _ in range(2)]
    for crew in crews:
        crew.running[-1].in_use = after % 2 == 0
        crew.look(0.0)
    in_waves, one_by_one, at = [], [], 1.0
    for count, quarters in stages:
        in_waves.append(run([Equal(count, quarters / 4)], at, crews[0].used, crews[0], set())[0])
        one_by_one.append(
            _one_by_one([quarters / 4] * count, at, _Crew(crews[1], crews[1].used, warm_slots(crews[1]), at))
        )
        assert in_waves[-1][:2] == one_by_one[-1][:2]
        at = in_waves[-1][1]
    for _ in range(2):
        assert told(in_waves, after / 8, crews[0]) == told(one_by_one, after / 8, crews[1])
        credit(in_waves, crews[0])
        credit(one_by_one, crews[1])
    assert crews[0].tally.counted() == crews[1].tally.counted()


def growing(seed, there, cold, coming, cold_s):
    """So many executors, some of them cold, the newest first; others are on their way."""
    made = Fleet(
        plain(executor={"cold_task_s": cold_s, "start_up": {"median_s": 4.0, "p95_s": 9.0}}), seed, there, History()
    )
    for each in made.running[: min(cold, there)]:
        each.warm = [False]
    made.running.reverse()
    made.request(0.0, there + coming)
    made.look(0.5)
    return made


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(1, 60), st.sampled_from([0.1, 0.25, 1 / 3, 0.7])),
        min_size=1,
        max_size=3,
    ),
    st.tuples(
        st.integers(0, 20), st.integers(1, 7), st.integers(0, 4), st.integers(1, 3), st.sampled_from([0.0, 0.5, 2.1])
    ),
    st.integers(0, 300),
    st.integers(0, 9),
)
def test_chains_are_told_and_counted_as_if_each_task_had_been_placed(stages, made, after, lost):
    """To the last bit: of cold and warm ones, and of those that come meanwhile, also when one has been lost since."""
    crews = [growing(*made) for _ in range(2)]
    warm = [warm_slots(crew) for crew in crews]
    chained, listed, at = [], [], 1.1
    for longer, count, each_s in stages:
        work = [each_s + 0.3] * longer + [each_s] * count
        chained.append(run([work if longer else Equal(count, each_s)], at, crews[0].used, crews[0], warm[0])[0])
        listed.append(_one_by_one(work, at, _Crew(crews[1], crews[1].used, warm[1], at)))
        _, end, tasks = chained[-1]
        assert isinstance(tasks, Chains)
        took_s = [end - begin for begin, end, _, _ in spans(listed[-1])]
        assert (end, tasks.took_s) == (listed[-1][1], took_s)
        at = end
    assert warm[0] == warm[1]
    for crew in crews:
        crew.register(after / 10)
        crew.lose(after / 10, lost, replaced=False)
    assert told(chained, after / 10, crews[0]) == told(listed, after / 10, crews[1])
    for placed, crew in zip((chained, listed), crews, strict=True):
        credit(placed, crew)
    assert crews[0].tally.counted() == crews[1].tally.counted()


def test_of_several_that_are_free_at_once_the_lowest_number_takes_the_next_task_warm_or_not():
    """Executor 1 of three is cold: of two tasks it does the second all the same, and executor 2 none."""
    crew = fleet(3, executor={"cold_task_s": 2.0})
    crew.running[1].warm = [False]
    crew.look(0.0)
    tasks = run([Equal(2, 1.0)], 0.0, crew.running, crew, warm_slots(crew))[0][2]
    assert isinstance(tasks, Chains)
    done = {each.number: chain.times for chain in tasks.each for each in chain.executors}
    assert done == {0: [0.0, 1.0], 1: [0.0, 3.0]}


def test_the_first_task_of_a_cold_slot_takes_longer():
    """Executor 1 is cold by 2 s: its first task ends at 3, meanwhile executor 0 does the other three."""
    crew = fleet(2, executor={"cold_task_s": 2.0})
    crew.running[1].warm = [False]
    crew.look(0.0)
    warm = {0}
    placed = run([[1.0] * 4], 0.0, crew.running, crew, warm)[0]
    assert spans(placed) == [(0.0, 1.0, 0, True), (0.0, 3.0, 1, True), (1.0, 2.0, 0, True), (2.0, 3.0, 0, True)]
    assert warm == {0, 1}


def test_an_executor_that_registers_takes_the_next_waiting_task():
    """It is there at 1.5 and takes the third task, while executor 0 takes the fourth at 2."""
    crew = fleet(1, executor={"cold_task_s": 0.0, "start_up": {"median_s": 1.5, "p95_s": 1.5}})
    crew.request(0.0, 2)
    placed = run([[1.0] * 4], 0.0, crew.used, crew, {0})[0]
    assert spans(placed)[2:] == [(1.5, 2.5, 1, True), (2.0, 3.0, 0, True)]
    assert placed[1] == 3.0


def test_what_a_dead_executor_was_running_is_done_again_before_anything_else():
    crew = fleet(2)
    dead, alive = crew.running[0], crew.running[1]
    dead.gone_at = 1.5
    placed = run([[1.0] * 5], 0.0, [dead, alive], crew, warm_slots(crew))[0]
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
    placed = run([[3.0, 1.0]], 0.0, crew.running, crew, warm_slots(crew))[0]
    assert spans(placed)[-1] == (2.0, 5.0, 1, True)


def test_in_a_settled_fleet_no_slot_is_cold_whatever_the_work():
    """6 tasks of 1 s that are listed one by one, on three warm slots: 2 s, and not 2 s later on each."""
    crew = fleet(3, executor={"cold_task_s": 2.0})
    crew.look(0.0)
    assert crew.settled
    assert run([[1.0] * 6], 0.0, crew.used, crew, set())[0][1] == 2.0


def test_without_executors_work_does_not_end():
    crew = fleet(1)
    crew.running[0].gone_at = 1.0
    assert run([[2.0]], 0.0, crew.running, crew, warm_slots(crew))[0][1] == INF


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
