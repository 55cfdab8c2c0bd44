from __future__ import annotations

from math import inf, nan

import pytest

from rheostat.model import Cluster, Executor, Offsets, PartitionOffsets, Roster

PARTS = (PartitionOffsets("a", 0, 9, 7, 5), PartitionOffsets("a", 1, None, 7, 5), PartitionOffsets("b", 0, 3, None, 1))
EXECUTORS = (
    Executor("1", "near.1", 2, 1, 0, 5, 1.5, 10.0, "near"),
    Executor("2", "far", 4, 0, 1, 7, None, None),
)


def test_offsets_of_rows_give_the_rows_back():
    offsets = Offsets.of(1.0, PARTS, exact=False, inexact_because="retention")
    assert (offsets.topics, offsets.numbers, offsets.latest) == (("a", "a", "b"), (0, 1, 0), (9, None, 3))
    assert offsets.partitions == PARTS
    assert (offsets.exact, offsets.inexact_because) == (False, "retention")
    assert Offsets.of(1.0, ()) == Offsets(1.0, (), (), (), (), ())


def test_a_cluster_of_rows_gives_the_rows_back():
    cluster = Cluster.of(1.0, EXECUTORS, 3)
    assert (cluster.ids, cluster.roster.hosts, cluster.busy_s) == (("1", "2"), ("near.1", "far"), (1.5, None))
    assert cluster.executors == EXECUTORS
    assert cluster.roster.places == {"1": "near", "2": "far"}
    assert Cluster.of(1.0, (), 3) == Cluster(1.0, requested=3)


@pytest.mark.parametrize(
    ("cores", "added_at", "slots"),
    [
        pytest.param((2, 4), (0.0, 7.5), (6, 2), id="all is known"),
        pytest.param((), (), (0, None), id="nobody is there"),
        pytest.param((2, None), (0.0, 7.5), (None, None), id="cores are unknown"),
        pytest.param((2, -4), (0.0, 7.5), (None, None), id="cores are negative"),
        pytest.param((2, 4), (None, 7.5), (None, None), id="when one came is unknown"),
        pytest.param((2, 4), (0.0, nan), (None, None), id="when one came is no number"),
        pytest.param((2, 4), (0.0, inf), (None, None), id="when one came is infinite"),
    ],
)
def test_slots_are_told_where_nothing_about_them_is_unknown_or_impossible(cores, added_at, slots):
    names = ("1", "2")[: len(cores)]
    roster = Roster(names, names, cores, added_at, (None,) * len(cores))
    assert (roster.slots, roster.slots_per_executor) == slots
