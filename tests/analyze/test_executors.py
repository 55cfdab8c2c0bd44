"""Executors, busy ratio and failed tasks: values worked out by hand."""

from __future__ import annotations

from math import inf, nan

import pytest

from rheostat.analyze.assess import analyze
from rheostat.analyze.state import AnalysisSettings, AnalysisState
from rheostat.model import Assessment, Cluster, Executor, Observation

SETTINGS = AnalysisSettings(objective_lag_s=30.0, rate_window_s=20.0, failure_window_s=10.0)


def executor(number, *, busy=None, done=0, active=0, failed=0, cores=2, added_at=None):
    return Executor(str(number), "host", cores, active, failed, done, busy, added_at)


def look(at, *executors, requested=None):
    return Observation(at, cluster=Cluster.of(at, executors, requested))


def run(*observations: Observation, settings=SETTINGS) -> Assessment:
    state, seen = AnalysisState(), Assessment(0.0)
    for observation in observations:
        seen, state = analyze(observation, state, settings)
    return seen


def test_the_number_is_that_of_the_registered_ones():
    seen = run(look(0.0, executor(0), executor(1), requested=3))
    assert (seen.executors, seen.requested, seen.slots_per_executor) == (2, 3, 2)


def test_all_lost_is_a_known_zero_and_no_reading_is_unknown():
    assert run(look(0.0)).executors == 0
    seen = run(Observation(0.0))
    assert seen.executors is None
    assert "executors" in seen.missing


def test_executors_of_different_sizes_count_as_the_smallest():
    assert run(look(0.0, executor(0, cores=4), executor(1, cores=1))).slots_per_executor == 1


@pytest.mark.parametrize(
    ("looks", "busy_ratio"),
    [
        pytest.param([look(0.0, executor(0, busy=5.0, done=9))], None, id="one reading"),
        pytest.param(
            [look(0.0, executor(0, busy=5.0, done=9)), look(10.0, executor(0, busy=17.0, done=19))],
            0.6,  # 12 task seconds of 10 tasks in 20 slot seconds
            id="short tasks: by their ends",
        ),
        pytest.param(
            [look(0.0, executor(0, busy=5.0, done=9)), look(10.0, executor(0, busy=5.0, done=9))], 0.0, id="idle"
        ),
        pytest.param(
            [
                look(0.0, executor(0, busy=5.0, done=9)),
                look(5.0, executor(0, busy=5.0, done=9, active=2)),
                look(10.0, executor(0, busy=5.0, done=9, active=1)),
            ],
            0.75,  # 2 of 2 slots, then 1 of 2
            id="tasks run, none ended: by sampling",
        ),
        pytest.param(
            [look(0.0, executor(0, busy=5.0, done=9, active=1)), look(10.0, executor(0, busy=65.0, done=11, active=1))],
            0.5,  # two tasks of 30 s: their time was spent before the window
            id="long tasks ended: by sampling",
        ),
        pytest.param(
            [look(0.0, executor(0, active=2)), look(10.0, executor(0, active=2))], 1.0, id="no task time: by sampling"
        ),
        pytest.param(
            [look(0.0, executor(0, busy=0.0, done=0)), look(10.0, executor(0, busy=21.0, done=10))],
            1.0,
            id="never more than 1",
        ),
        pytest.param(
            [
                look(0.0, executor(0, busy=0.0)),
                look(10.0, executor(0, busy=20.0, done=20)),
                look(31.0, executor(0, busy=41.0, done=41)),
            ],
            0.5,  # 21 of 42 slot seconds: the first interval ended before the window
            id="over the window only",
        ),
        pytest.param(
            [
                look(0.0, executor(0, busy=0.0), executor(1, busy=100.0, done=100)),
                look(10.0, executor(0, busy=10.0, done=10)),
            ],
            0.5,
            id="one vanished: it counts neither above nor below the line",
        ),
        pytest.param(
            [
                look(0.0, executor(0, busy=0.0)),
                look(10.0, executor(0, busy=10.0, done=10), executor(1, busy=8.0, done=8, added_at=5.0)),
            ],
            0.6,  # 18 task seconds in 20 + 10 slot seconds
            id="one came: it counts from its start",
        ),
        pytest.param(
            [
                look(0.0, executor(0, busy=0.0)),
                look(10.0, executor(0, busy=10.0, done=10), executor(1, busy=800.0, done=9)),
            ],
            0.5,
            id="one came, its past is unknown: not yet",
        ),
        pytest.param(
            [
                look(0.0, executor(0, busy=50.0, done=50), executor(1, busy=0.0)),
                look(10.0, executor(0, busy=1.0, done=1), executor(1, busy=5.0, done=5)),
            ],
            0.25,
            id="counters that fell belong to another executor of that name",
        ),
        pytest.param(
            [
                look(0.0, executor(0, busy=5.0, done=9)),
                look(10.0, executor(0, busy=15.0, done=19)),
                look(10.0, executor(0, busy=15.0, done=19)),
            ],
            0.5,
            id="the same reading twice",
        ),
        pytest.param(
            [look(50.0, executor(0, busy=5.0)), look(10.0, executor(0, busy=15.0))], None, id="the clock was set back"
        ),
    ],
)
def test_busy_ratio(looks, busy_ratio):
    assert run(*looks).busy_ratio == pytest.approx(busy_ratio)


@pytest.mark.parametrize(
    ("looks", "failed"),
    [
        pytest.param([look(0.0, executor(0, failed=7))], None, id="one reading: failures before it are not dated"),
        pytest.param([look(0.0, executor(0, failed=7)), look(5.0, executor(0, failed=7))], 0, id="none"),
        pytest.param([look(0.0, executor(0, failed=7)), look(5.0, executor(0, failed=9))], 2, id="two"),
        pytest.param(
            [look(0.0, executor(0)), look(5.0, executor(0, failed=2)), look(15.0, executor(0, failed=3))],
            1,
            id="two of them are older than the window",
        ),
        pytest.param(
            [look(0.0, executor(0, failed=7), executor(1, failed=1)), look(5.0, executor(1, failed=2))],
            1,
            id="one vanished with its counter",
        ),
        pytest.param(
            [look(0.0, executor(1)), look(5.0, executor(1), executor(2, failed=3, added_at=2.0))],
            3,
            id="failures of one that has just come",
        ),
        pytest.param([look(0.0, executor(1)), Observation(5.0), look(8.0, executor(1, failed=2))], 2, id="over a gap"),
    ],
)
def test_failed_tasks_within_the_window(looks, failed):
    assert run(*looks).failed_tasks == failed


@pytest.mark.parametrize("bad", [nan, inf, -1])
@pytest.mark.parametrize(
    ("name", "figure"),
    [("cores", "slots_per_executor"), ("active", "busy_ratio"), ("failed", "failed_tasks"), ("done", None)],
)
def test_an_impossible_counter_is_unknown_and_named(name, figure, bad):
    spelled = {"cores": "cores", "active": "active_tasks", "failed": "failed_tasks", "done": "finished_tasks"}[name]
    seen = run(look(0.0, executor(0)), look(5.0, executor(0, **{name: bad})))
    assert seen.invalid == (f"executor.{spelled}",)
    assert seen.executors == 1
    assert figure is None or getattr(seen, figure) is None


def test_an_impossible_time_of_reading_makes_the_executors_unknown():
    seen = run(Observation(5.0, cluster=Cluster.of(nan, (executor(0),))))
    assert (seen.executors, seen.invalid) == (None, ("cluster.at",))


def test_the_history_stays_bounded_and_right():
    state, seen = AnalysisState(), Assessment(0.0)
    settings = AnalysisSettings(objective_lag_s=30.0, rate_window_s=600.0, failure_window_s=600.0)
    for step in range(3000):
        at = 0.5 * step
        seen, state = analyze(look(at, executor(0, busy=at, done=step, failed=step // 10)), state, settings)
    assert len(state.cluster.intervals) <= settings.max_samples
    assert seen.busy_ratio == pytest.approx(0.5)
    assert seen.failed_tasks == pytest.approx(120, abs=4)  # an interval of 20 s counts as a whole


@pytest.mark.parametrize(
    ("looks", "idle_s"),
    [
        pytest.param([look(5.0, executor(0, done=3))], (0.0,), id="seen without a task for the first time"),
        pytest.param([look(5.0, executor(0, added_at=1.5))], (3.5,), id="new, never had a task: since its start"),
        pytest.param(
            [look(0.0, executor(0, done=3)), look(10.0, executor(0, done=3)), look(20.0, executor(0, done=3))],
            (20.0,),
            id="no task over three readings",
        ),
        pytest.param(
            [look(0.0, executor(0, done=3)), look(10.0, executor(0, done=4)), look(20.0, executor(0, done=4))],
            (10.0,),
            id="a task ended between two readings: anew from the second",
        ),
        pytest.param(
            [look(0.0, executor(0, done=3)), look(10.0, executor(0, done=3, active=1))], (), id="one that has a task"
        ),
        pytest.param([look(0.0, executor(0, done=3)), look(10.0, executor(0, done=None))], (), id="nobody knows"),
        pytest.param(
            [
                look(0.0, executor(0, done=3), executor(1, done=7)),
                look(10.0, executor(0, done=5), executor(1, done=7), executor(2, done=1, active=2)),
            ],
            (10.0, 0.0),
            id="the longest first, busy ones left out",
        ),
        pytest.param(
            [look(0.0, executor(0, done=3)), look(10.0), look(20.0, executor(0, done=3))],
            (0.0,),
            id="one that was away starts anew",
        ),
    ],
)
def test_how_long_executors_have_been_without_a_task(looks, idle_s):
    assert run(*looks).idle_s == idle_s


def test_only_the_32_longest_are_told():
    crowd = [executor(number, added_at=float(number)) for number in range(40)]
    assert run(look(100.0, *crowd)).idle_s == tuple(float(idle) for idle in range(100, 68, -1))


@pytest.mark.parametrize(
    ("observation", "tasks", "idle_s"),
    [
        pytest.param(look(0.0, executor(0, active=2), executor(1, active=1)), 3, (), id="sum of what runs"),
        pytest.param(look(0.0, executor(0, active=2), executor(1, active=None)), None, (), id="one is unknown"),
        pytest.param(look(0.0), 0, (), id="no executors"),
        pytest.param(Observation(0.0), None, None, id="no reading"),
    ],
)
def test_active_tasks(observation, tasks, idle_s):
    seen = run(observation)
    assert (seen.active_tasks, seen.idle_s) == (tasks, idle_s)


def out(number, **figures):
    return executor(number, **figures)._replace(excluded=True)


def test_excluded_executors_are_no_capacity():
    """They are counted like lost ones: not in the number, the slots, the busy ratio or the idle times."""
    seen = run(
        look(0.0, executor(0, busy=0.0), executor(1, busy=0.0), out(2, cores=1, busy=0.0), requested=3),
        look(10.0, executor(0, busy=20.0, done=20), executor(1, busy=20.0, done=20), out(2, cores=1, busy=0.0)),
    )
    assert (seen.executors, seen.excluded, seen.slots_per_executor) == (2, ("2",), 2)
    assert (seen.busy_ratio, seen.idle_s) == (1.0, (0.0, 0.0))


@pytest.mark.parametrize(
    ("at", "executors", "excluded"),
    [
        pytest.param(19.0, 1, ("1",), id="excluded within the window, as in every batch"),
        pytest.param(20.0, 2, (), id="it works again"),
    ],
)
def test_one_that_was_excluded_from_a_stage_counts_as_excluded_for_a_window(at, executors, excluded):
    seen = run(look(0.0, executor(0), out(1)), look(at, executor(0), executor(1)))
    assert (seen.executors, seen.excluded) == (executors, excluded)


def test_one_that_is_gone_is_not_excluded_any_more():
    assert run(look(0.0, executor(0), out(1)), look(5.0, executor(0), executor(2))).excluded == ()
