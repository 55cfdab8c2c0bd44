"""Slow executors, slow nodes and uneven partitions: values worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheostat.analyze.assess import analyze
from rheostat.analyze.executors import _find_slow, partition_heat, partition_skew, slow_factors, task_times
from rheostat.analyze.state import AnalysisSettings, AnalysisState, Counters, Machines, OffsetHistory
from rheostat.model import (
    Assessment,
    Cluster,
    Executor,
    NodeReading,
    Nodes,
    Observation,
    Offsets,
    PartitionOffsets,
    QueryReading,
)

WINDOW_S = 60.0
SETTINGS = AnalysisSettings(objective_lag_s=30.0, rate_window_s=WINDOW_S)
EVEN = (600, 600, 600, 600)
HOSTS = ("a", "a", "b", "b")


def query(at: float, sizes: Sequence[int]) -> QueryReading:
    """Each partition has had its size of records in every window, and all but the last window's are committed."""
    windows = at / WINDOW_S
    parts = tuple(
        PartitionOffsets("t", n, int(size * windows), int(size * windows), int(size * max(0, windows - 1)))
        for n, size in enumerate(sizes)
    )
    return QueryReading("q", "r", "q", 10.0, offsets=Offsets.of(at, parts))


def looks(
    windows: Sequence[Sequence[float | None]],
    sizes: Sequence[int] = EVEN,
    hosts: Sequence[str] = HOSTS,
    cores: int = 1,
    slots: int | None = None,
) -> list[Assessment]:
    """What is said at the end of each window. In each, ten tasks end on every executor; given is what each takes, s.

    None: the tasks that were running go on running. Every executor has ended a task before the first one.
    """
    state, said = AnalysisState(), []
    busy, done = [1.0] * len(hosts), [1] * len(hosts)
    for number in range(len(windows) + 1):
        for place, task_s in enumerate(windows[number - 1] if number else ()):
            if task_s is not None:
                busy[place] += 10 * task_s
                done[place] += 10
        at = number * WINDOW_S
        executors = [
            Executor(str(n), hosts[n], cores, 1, 0, done[n], busy[n], 0.0, slots=slots) for n in range(len(hosts))
        ]
        seen, state = analyze(Observation(at, (query(at, sizes),), Cluster.of(at, tuple(executors))), state, SETTINGS)
        said.append(seen)
    return said[1:]


ALIKE = (2.0, 2.1, 1.9, 2.0)
SLOW = (2.0, 6.0, 2.0, 2.0)


@pytest.mark.parametrize(
    ("windows", "slow", "factor"),
    [
        pytest.param([ALIKE] * 3, [(), (), ()], None, id="all alike"),
        pytest.param([SLOW] * 3, [(), ("executor 1 on a",), ("executor 1 on a",)], 3.0, id="slow in two windows"),
        pytest.param([SLOW, ALIKE, SLOW], [(), (), ()], None, id="slow now and then is not slow"),
        pytest.param([(2.0, 3.9, 2.0, 2.0)] * 2, [(), ()], None, id="under twice as slow"),
        pytest.param([(2.0, 4.0, 2.0, 2.0)] * 2, [(), ("executor 1 on a",)], 2.0, id="twice as slow"),
        pytest.param([(6.0, 6.0, 2.0, 2.0)] * 2, [(), ("node a",)], 3.0, id="all of one node"),
        pytest.param(
            [(6.0, 2.0, 6.0, 2.0)] * 2, [(), ("executor 0 on a", "executor 2 on b")], 3.0, id="one on each of two nodes"
        ),
        pytest.param([SLOW, SLOW, ALIKE], [(), ("executor 1 on a",), ()], None, id="it has recovered"),
        pytest.param([(4.0, 12.0, 4.0, 4.0)] * 2, [(), ("executor 1 on a",)], 3.0, id="costlier records, one slow"),
        pytest.param([(2.0, None, 2.0, 2.0)] * 2, [(), ("executor 1 on a",)], 30.0, id="tasks that never end"),
        pytest.param(
            [SLOW, SLOW, (None, None, None, None)],
            [(), ("executor 1 on a",), ("executor 1 on a",)],
            3.0,
            id="a window in which no task ends tells nothing new",
        ),
    ],
)
def test_who_is_slow(windows, slow, factor):
    said = looks(windows)
    assert [seen.slow for seen in said] == slow
    assert said[-1].slow_factor == (None if factor is None else pytest.approx(factor))
    assert said[-1].skew == 1.0


BEGUN_AT = 600.0


def looks_beside_a_new_one(
    known: Sequence[tuple[Any, Any]], ended: Sequence[int], busy_s: Sequence[float]
) -> list[tuple[str, ...]]:
    """Who is slow at the end of each window of 5 s: two with tasks of 0.4 s, and a new one whose counters are given.

    Args:
        known: cores and time of registration of each, the new one last.
        ended, busy_s: of the new one.
    """
    settings = AnalysisSettings(objective_lag_s=30.0, rate_window_s=5.0)
    state, said = AnalysisState(), []
    for number, counted in enumerate(zip(ended, busy_s, strict=True)):
        at, many = BEGUN_AT + 5.0 * number, 10 * number + 2
        each = ((many, 0.4 * many), (many, 0.4 * many), counted)
        executors = [
            Executor(str(place), "h", cores, 1, 0, *counters, added_at)
            for place, ((cores, added_at), counters) in enumerate(zip(known, each, strict=True))
        ]
        seen, state = analyze(Observation(at, (query(at, EVEN),), Cluster.of(at, executors)), state, settings)
        said.append(seen.slow_executors)
    return said[1:]


@pytest.mark.parametrize(
    ("cores", "ended", "busy_s", "slow"),
    [
        pytest.param(1, (0, 0, 2, 10, 20), (0.0, 0.0, 10.5, 14.0, 18.0), [(), (), (), ()], id="its first task is slow"),
        pytest.param(2, (0, 1, 3, 10, 20), (0.0, 4.0, 12.0, 14.0, 18.0), [(), (), (), ()], id="the first in each slot"),
        pytest.param(1, (0, 2, 4, 6, 8), (0.0, 5.0, 9.0, 14.0, 19.0), [(), (), ("2",), ("2",)], id="slow ever after"),
        pytest.param(1, (0,) * 15, (0.0,) * 15, [()] * 13 + [("2",)], id="its first task does not end"),
    ],
)
def test_an_executor_is_not_slow_for_its_first_tasks(
    cores: int, ended: Sequence[int], busy_s: Sequence[float], slow: Sequence[tuple[str, ...]]
) -> None:
    assert looks_beside_a_new_one([(cores, 0.0), (cores, 0.0), (cores, BEGUN_AT)], ended, busy_s) == slow


@pytest.mark.parametrize(
    ("others", "new"),
    [
        pytest.param((1, None), (1, BEGUN_AT), id="another one's registration"),
        pytest.param((None, 0.0), (1, BEGUN_AT), id="another one's cores"),
        pytest.param((math.nan, -1.0), (1, BEGUN_AT), id="another one's are impossible"),
        pytest.param((1, 0.0), (1, None), id="its own registration"),
    ],
)
def test_a_cold_executor_is_told_beside_what_is_not_known(others: tuple[Any, Any], new: tuple[Any, Any]) -> None:
    """Two windows of cold tasks in a row; without the rule it was slow after them."""
    ended, busy_s = (0, 0, 2, 4, 20), (0.0, 0.0, 10.5, 14.5, 18.0)
    assert looks_beside_a_new_one([others, (1, 0.0), new], ended, busy_s) == [()] * 4


@pytest.mark.parametrize(
    ("cores", "slots", "slow"),
    [
        pytest.param(1, None, ("1",), id="a partition for each slot"),
        pytest.param(2, None, (), id="fewer partitions than slots"),
        pytest.param(2, 1, ("1",), id="tasks of two CPUs: a partition for each slot"),
    ],
)
def test_partitions_are_compared_with_slots(cores, slots, slow):
    assert looks([SLOW] * 2, cores=cores, slots=slots)[-1].slow_executors == slow


def test_one_that_has_been_as_slow_for_twenty_minutes_is_on_a_slower_machine():
    """It is named again once it is slower still, by more than half."""
    said = looks([SLOW] * 22 + [(2.0, 8.0, 2.0, 2.0), (2.0, 10.0, 2.0, 2.0)])
    assert [seen.slow_executors for seen in said] == [()] + [("1",)] * 20 + [(), (), ("1",)]
    assert [seen.slower for seen in said] == [()] * 21 + [("1",), ("1",), ()]
    assert [seen.slow_factor for seen in said[-4:]] == [3.0, None, None, 5.0]


def test_the_ids_of_the_slow_are_told_too():
    assert looks([(6.0, 6.0, 2.0, 2.0)] * 2)[-1].slow_executors == ("0", "1")


def test_one_executor_has_nobody_to_be_compared_with():
    assert looks([(9.0,)] * 2, hosts=("a",))[-1].slow == ()


def test_of_two_the_slower_one():
    assert looks([(6.0, 2.0)] * 2, hosts=("a", "b"))[-1].slow == ("executor 0 on a",)


@pytest.mark.parametrize(
    ("sizes", "task_s", "skew", "slow"),
    [
        pytest.param((1800, 600, 600, 600), 6.0, 2.0, (), id="three times the records of the others: three times"),
        pytest.param((1800, 600, 600, 600), 8.9, 2.0, (), id="a little more is not told apart"),
        pytest.param((1800, 600, 600, 600), 9.0, 2.0, ("executor 1 on a",), id="much more: slow and skewed"),
        pytest.param((660, 600, 600, 540), 4.0, 1.1, ("executor 1 on a",), id="the usual unevenness"),
        pytest.param((600, 0, 0, 0), 60.0, 4.0, (), id="all in one partition explains everything"),
        pytest.param((12, 6, 6, 6), 60.0, None, (), id="too few records to know"),
    ],
)
def test_longer_tasks_of_a_larger_partition_are_not_a_slow_executor(sizes, task_s, skew, slow):
    said = looks([(2.0, task_s, 2.0, 2.0)] * 3, sizes)[-1]
    assert (said.skew, said.slow) == (skew, slow)


def test_without_partitions_nobody_is_called_slow():
    assert looks([SLOW] * 3, ())[-1].slow == ()


def test_an_executor_that_is_gone_is_slow_no_more():
    def look(at: float, numbers: Sequence[int], done: int) -> Observation:
        executors = [Executor(str(n), "h", 1, 1, 0, done, done * (5.0 if n == 1 else 1.0), 0.0) for n in numbers]
        return Observation(at, (query(at, EVEN),), Cluster.of(at, tuple(executors)))

    _, state = analyze(look(0.0, (0, 1, 2), 1), AnalysisState(), SETTINGS)
    _, state = analyze(look(60.0, (0, 1, 2), 10), state, SETTINGS)
    seen, state = analyze(look(120.0, (0, 1, 2), 20), state, SETTINGS)
    assert seen.slow == ("executor 1 on h",)
    seen, _ = analyze(look(125.0, (0, 2), 21), state, SETTINGS)
    assert (seen.slow, seen.slow_executors, seen.slow_factor) == ((), (), None)


class TestOnNodes:
    """Executors 0 and 1 on near, 2 on mid, 3 and 4 on far, each at an address of its own."""

    ON: ClassVar[dict[int, str | None]] = {0: "near", 1: "near", 2: "mid", 3: "far", 4: "far"}

    def looks(self, *windows: dict[int, float], on: Mapping[int, str | None] = ON) -> list[Assessment]:
        """What is said at the end of each window; given is how long each of the ten tasks of an executor took, s."""
        state, said, busy, done = AnalysisState(), [], dict.fromkeys(on, 1.0), dict.fromkeys(on, 1)
        rows = tuple(NodeReading(name, 1, 1) for name in ("far", "mid", "near"))
        for number, times in enumerate((windows[0], *windows)):
            for executor, task_s in times.items() if number else ():
                busy[executor] += 10 * task_s
                done[executor] += 10
            at = number * WINDOW_S
            there = [Executor(str(n), f"10.0.0.{n}", 1, 1, 0, done[n], busy[n], 0.0, on[n]) for n in times]
            cluster, nodes = Cluster.of(at, tuple(there)), Nodes(at, rows)
            seen, state = analyze(Observation(at, (query(at, EVEN),), cluster, nodes=nodes), state, SETTINGS)
            said.append(seen)
        return said[1:]

    def test_a_node_is_named_though_its_executors_have_addresses_of_their_own(self):
        slow = {0: 6.0, 1: 6.0, 2: 2.0, 3: 2.0}
        seen = self.looks(slow, slow)[-1]
        assert (seen.slow, seen.slow_executors, seen.slow_on) == (("node near",), ("0", "1"), ("near", "near"))
        assert seen.slow_nodes == ("near",)

    def test_one_of_two_is_slow_and_its_node_is_not(self):
        slow = {0: 6.0, 1: 2.0, 2: 2.0, 3: 2.0}
        seen = self.looks(slow, slow)[-1]
        assert (seen.slow, seen.slow_on, seen.slow_nodes) == (("executor 0 on near",), ("near",), ())

    def test_the_node_of_a_slow_one_that_has_gone_is_remembered(self):
        slow, gone = {0: 2.0, 2: 6.0, 3: 2.0}, {0: 2.0, 3: 2.0, 4: 2.0}
        said = self.looks(slow, slow, *[gone] * 11)
        assert [seen.slow_nodes for seen in said] == [()] + [("mid",)] * 10 + [()] * 2
        assert [seen.slow for seen in said] == [(), ("executor 2 on mid",)] + [()] * 11

    def test_it_is_forgotten_once_another_works_well_there(self):
        slow, well = {0: 2.0, 2: 6.0, 3: 2.0}, {0: 2.0, 2: 2.0, 3: 2.0}
        assert [seen.slow_nodes for seen in self.looks(slow, slow, well)] == [(), ("mid",), ()]

    def test_one_that_is_on_no_node_is_elsewhere(self):
        slow = {0: 2.0, 2: 6.0, 3: 2.0}
        seen = self.looks(slow, slow, on={**self.ON, 2: None})[-1]
        assert (seen.slow, seen.slow_on, seen.slow_nodes) == (("executor 2 on 10.0.0.2",), ("elsewhere",), ())


def test_without_nodes_no_node_is_told():
    seen = looks([(6.0, 6.0, 2.0, 2.0)] * 2)[-1]
    assert (seen.slow_on, seen.slow_nodes) == ((), ())


def test_a_single_task_is_not_a_mean():
    then = Counters(("1", "2"), (0.0, 0.0), (0, 0), (0, 0), (None, None))
    assert task_times(then, Counters(("1", "2"), (9.0, 4.0), (1, 2), (0, 0), (None, None)), 60.0) == {"2": 2.0}


def test_idle_executors_and_new_ones_have_no_task_time():
    then = Counters(("1",), (0.0,), (0,), (0,), (5.0,))
    now = Counters(("1", "2"), (0.0, 9.0), (0, 9), (0, 0), (5.0, None))
    assert task_times(then, now, 60.0) == {}


def test_tasks_that_take_no_time_are_not_compared():
    assert slow_factors({"1": 0.0, "2": 0.0, "3": 1.0}, {}, 2.0) == {}


def test_the_load_is_the_more_uneven_of_what_arrives_and_what_waits():
    """100 and 100 arrived; 100 and 300 wait: 300 of 400 in one of two, 1.5 × even, and 1.5 × the median 200."""
    history = OffsetHistory(
        ("t", "t"), (0, 1), (0.0, 60.0), ((900, 900), (1000, 1000)), (900, 700), (None, None), complete=True
    )
    assert (partition_skew(history), partition_heat(history)) == (1.5, 1.5)


def test_the_load_is_unknown_where_a_position_is():
    history = OffsetHistory(("t",), (0,), (0.0, 60.0), ((None,), (1000,)), (900,), (None,), complete=False)
    assert partition_skew(history) is None


@given(st.lists(st.floats(1.0, 1.99), min_size=2, max_size=6), st.floats(1.0, 5.0))
def test_times_that_differ_less_than_twofold_need_no_judgement(times_s, heat):
    """What the end of a window skips: whoever was suspected before, nobody is slow now, on no node."""
    times = {str(number): time_s for number, time_s in enumerate(times_s)}
    cluster = Cluster.of(60.0, [Executor(name, f"host-{int(name) % 2}", 1, 0) for name in times])
    begun = Machines(60.0, suspects=tuple(times), factor=3.0, skew=1.2)
    assert _find_slow(begun, 60.0, times, cluster, heat) == Machines(60.0, skew=1.2)
