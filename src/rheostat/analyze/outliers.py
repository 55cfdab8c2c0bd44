"""Slow executors and slow nodes, told apart from partitions that are loaded unevenly.

**Task time.** Of each executor, the run time of the tasks that ended in a window ÷ their number, from two of them on;
of one that ran tasks at both ends of the window and finished none in between, the length of the window, which is less
than they take. The windows are as long as the rate window and follow one another.

**Slow** is an executor whose tasks take at least ``SLOW`` times as long as those of the others (the median of the
others' task times), in two windows in a row. A slow *node* is one with several executors of which each is slow compared
with the executors of the other nodes.

**Not slow, but skewed.** Spark gives a partition to the same executor again and again, so that an executor may have
longer tasks for no fault of its own. But its mean task cannot be longer than the task of the largest partition: where
the largest has h times the records of the median one, up to h times the median task time is explained by that, and
``EXPLAINED`` × h is asked for. Where the load of the partitions is not known, nobody is called slow.

**Nor cold.** The first task in each slot of an executor takes longer for its code being loaded and its Python being
started. What a window tells of an executor counts when as many tasks as it has slots had ended on it before, or it had
been there for ``COLD_S``.

What no window contradicts stays: an executor that is slow remains so while too few tasks end to tell. A *place* is slow
while all executors on it are, and then for ``REMEMBERED_S``, unless one that works there is as fast as the others: the
next executor would be no faster there than the one that was taken away.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf
from statistics import median
from typing import Any

from rheostat.analyze.checks import largest
from rheostat.analyze.state import Counters, Machines, OffsetHistory
from rheostat.model import Cluster, Executor

__all__ = [
    "COLD_S",
    "EXPLAINED",
    "REMEMBERED_S",
    "SLOW",
    "machine_names",
    "partition_heat",
    "partition_skew",
    "slow_ones",
    "task_times",
    "watched",
]

SLOW = 2.0
"""Spark's own limit for a slow task was 1.5 times the median until 3.5 and is 3 since 4.0
(``spark.speculation.multiplier``); a mean of several tasks in two windows is steadier than one task."""

EXPLAINED = 1.5
"""How many times as long as the load of the partitions explains."""

COLD_S = 60.0
"""An executor that has been there for so long is not cold, however few tasks have ended on it."""

REMEMBERED_S = 600.0
"""How long a node counts as slow on which nobody works any more: as long as an increase that brought nothing is
remembered. Then it is tried again, which costs one change."""

_LEAST_TASKS = 2
_LEAST_RECORDS = 10


def partition_skew(history: OffsetHistory) -> float | None:
    """Share of the largest partition of a query ÷ an even share.

    By what has arrived lately and by what waits, whichever is more uneven; None where that is not known, or fewer than
    10 records for each partition arrived and wait.
    """
    return max([max(sizes) * len(sizes) / sum(sizes) for sizes in _sizes(history)], default=None)


def partition_heat(history: OffsetHistory) -> float:
    """The largest partition ÷ the median one, by the same; infinite where the median one is empty."""
    heats = [max(sizes) / middle if (middle := median(sizes)) > 0 else inf for sizes in _sizes(history)]
    return max(heats, default=1.0)


def _sizes(history: OffsetHistory) -> list[list[int]]:
    """Records of each partition: those that arrived lately, and those that wait, each where they are enough to tell."""
    if not history.complete or len(history.rows) < 2:
        return []
    last: tuple[Any, ...] = history.rows[-1]
    below = history.rows[0], history.committed
    columns = [[end - start for end, start in zip(last, first, strict=True)] for first in below]
    return [sizes for sizes in columns if sum(sizes) >= _LEAST_RECORDS * len(sizes)]


def task_times(then: Counters, now: Counters, span_s: float) -> dict[str, float]:
    """Mean task time of each executor that was there at both ends of a window of ``span_s`` seconds, where known.

    Where no task ended on any of them, nothing is known.

    >>> then = Counters(("1", "2"), (10.0, 10.0), (5, 5), (0, 0), (None, None))
    >>> task_times(then, Counters(("1", "2"), (22.0, 10.0), (11, 5), (0, 0), (None, None)), 60.0)
    {'1': 2.0, '2': 60.0}
    """
    before = dict(zip(then.ids, zip(then.busy_s, then.finished, then.idle_since, strict=True), strict=True))
    times: dict[str, float] = {}
    unended: dict[str, float] = {}
    for name, busy_s, finished, idle_since in zip(now.ids, now.busy_s, now.finished, now.idle_since, strict=True):
        busy_then, finished_then, idle_then = before.get(name, (None, None, None))
        if busy_s is None or finished is None or busy_then is None or finished_then is None:
            continue
        ended = finished - finished_then
        if ended >= _LEAST_TASKS:
            times[name] = (busy_s - busy_then) / ended
        elif ended == 0 and idle_since is None and idle_then is None:
            unended[name] = span_s
    return times | unended if times else {}


def slow_ones(times: Mapping[str, float], hosts: Mapping[str, str], limit: float) -> dict[str, float]:
    """Those whose tasks take ``limit`` times as long as the others', and how many times that is.

    >>> slow_ones({"1": 3.0, "2": 1.0, "3": 1.2}, {}, 2.0)
    {'1': 2.727272727272727}
    >>> slow_ones({"1": 3.0, "2": 3.0, "3": 1.0, "4": 1.0}, {"1": "a", "2": "a", "3": "b", "4": "b"}, 2.0)
    {'1': 3.0, '2': 3.0}
    """
    if len(times) < 2 or max(times.values()) < limit * min(times.values()):
        return {}
    found = {}
    for name, time_s in times.items():
        usual_s = median([other_s for other, other_s in times.items() if other != name])
        if 0 < limit * usual_s <= time_s:
            found[name] = time_s / usual_s
    for members, others in _nodes(times, hosts):
        usual_s = median([times[name] for name in others])
        if all(0 < limit * usual_s <= times[name] for name in members):
            found |= {name: times[name] / usual_s for name in members}
    return found


def _nodes(names: Iterable[str], hosts: Mapping[str, str]) -> Iterable[tuple[list[str], list[str]]]:
    """Of each node with several of the executors: those on it, and those on other nodes, if there are some."""
    on: dict[str, list[str]] = {}
    for name in names:
        on.setdefault(hosts.get(name, name), []).append(name)
    for host, members in on.items():
        others = [name for other, found in on.items() if other != host for name in found]
        if len(members) > 1 and others:
            yield members, others


def watched(
    past: Machines, at: float, counters: Counters, cluster: Cluster, offsets: Sequence[OffsetHistory], window_s: float
) -> Machines:
    """What is known of the executors at ``at``, with the ``offsets`` of all queries; it changes when a window ends."""
    if past.at is None or at < past.at:
        return Machines(at=at, counters=counters)
    if at - past.at < window_s:
        return past
    skew = largest([partition_skew(each) for each in offsets])
    begun = Machines(
        at=at,
        counters=counters,
        suspects=past.suspects,
        slow=past.slow,
        factor=past.factor,
        skew=past.skew if skew is None else skew,
        nodes=tuple([(place, then) for place, then in past.nodes if 0 <= at - then < REMEMBERED_S]),
    )
    times = task_times(past.counters, counters, at - past.at)
    cold = _cold(past.counters, cluster.executors, past.at)
    warm = {name: task_s for name, task_s in times.items() if name not in cold}
    if skew is None or len(warm) < 2:
        return begun
    return _judged(begun, at, warm, cluster, max([partition_heat(each) for each in offsets]))


def _cold(then: Counters, executors: Iterable[Executor], at: float) -> set[str]:
    """The executors that were cold at the begin of a window, each by what is known of itself.

    Not one of which the cores are unknown; where the time of registration is, the tasks alone tell.

    >>> then = Counters(("1", "2"), (3.0, 0.0), (2, 0), (0, 0), (None, None))
    >>> came = {"1": 0.0, "2": 0.0, "3": None}
    >>> executors = [Executor(name, "a", cores=2, active_tasks=0, added_at=at) for name, at in came.items()]
    >>> sorted(_cold(then, executors, 10.0)), sorted(_cold(then, executors, 60.0))
    (['2', '3'], ['3'])
    """
    ended = dict(zip(then.ids, then.finished, strict=True))
    return {
        each.executor_id
        for each in executors
        if each.cores is not None  # type: ignore[redundant-expr] # a source may not know them
        and (ended.get(each.executor_id) or 0) < each.cores
        and (each.added_at is None or at < each.added_at + COLD_S)
    }


def _judged(begun: Machines, at: float, times: Mapping[str, float], cluster: Cluster, heat: float) -> Machines:
    """Who is slow by the task times of a window, when the next one has begun."""
    hosts = cluster.roster.places
    found = slow_ones(times, hosts, max(SLOW, EXPLAINED * heat))
    kept = [name for name in begun.slow if name in hosts and name not in times]
    slow = tuple([name for name in found if name in begun.suspects] + kept)
    factor = max([found[name] for name in slow if name in found], default=begun.factor if kept else None)
    fast = {hosts[name] for name in times if name in hosts and name not in found}
    before = {place: then for place, then in begun.nodes if place not in fast}
    now = dict.fromkeys(_slow_places(slow, hosts), at)
    nodes = tuple(sorted((before | now).items()))
    return begun._replace(suspects=(*found, *kept), slow=slow, factor=factor, nodes=nodes)


def _slow_places(slow: Collection[str], hosts: Mapping[str, str]) -> set[str]:
    """The places where all executors are slow.

    >>> _slow_places(["1", "2"], {"1": "a", "2": "b", "3": "b"})
    {'a'}
    """
    return {hosts[name] for name in slow if name in hosts} - {
        place for name, place in hosts.items() if name not in slow
    }


def machine_names(slow: Sequence[str], hosts: Mapping[str, str]) -> tuple[str, ...]:
    """The slow ones for people: a node in place of all its executors, where it has several and is not the only one.

    >>> machine_names(["1", "2"], {"1": "a", "2": "a", "3": "b"}), machine_names(["3"], {"1": "a", "2": "a", "3": "b"})
    (('node a',), ('executor 3 on b',))
    """
    nodes = {hosts[members[0]]: members for members, _ in _nodes(hosts, hosts) if all(name in slow for name in members)}
    whole = {name for members in nodes.values() for name in members}
    single = [f"executor {name} on {hosts[name]}" for name in slow if name in hosts and name not in whole]
    return (*(f"node {host}" for host in nodes), *single)
