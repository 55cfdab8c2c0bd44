from __future__ import annotations

from rheostat.model import Cluster, Executor, Offsets, PartitionOffsets

PARTS = (PartitionOffsets("a", 0, 9, 7, 5), PartitionOffsets("a", 1, None, 7, 5), PartitionOffsets("b", 0, 3, None, 1))
EXECUTORS = (
    Executor("1", "near.1", 2, 1, 0, 5, 1.5, 10.0, "near"),
    Executor("2", "far", 4, 0, 1, 7, None, None, slots=2, excluded=True),
)


def test_offsets_of_rows_give_the_rows_back():
    offsets = Offsets.of(1.0, PARTS, exact=False, inexact_because="retention")
    assert (offsets.topics, offsets.numbers, offsets.latest) == (("a", "a", "b"), (0, 1, 0), (9, None, 3))
    assert offsets.partitions == PARTS
    assert (offsets.exact, offsets.inexact_because) == (False, "retention")
    assert Offsets.of(1.0, ()) == Offsets(1.0, (), (), (), (), ())


def test_a_cluster_of_rows_gives_the_rows_back():
    cluster = Cluster.of(1.0, EXECUTORS, 3)
    assert (cluster.roster.ids, cluster.roster.hosts, cluster.busy_s) == (("1", "2"), ("near.1", "far"), (1.5, None))
    assert cluster.executors == EXECUTORS
    assert cluster.roster.places == {"1": "near", "2": "far"}
    assert Cluster.of(1.0, (), 3) == Cluster(1.0, requested=3)
