"""Latest, planned and committed offsets put together."""

import pytest

from rheostat.model import Offsets, PartitionOffsets
from rheostat.observe.parse import merged, not_a_count, partition_map, partition_offsets, skip_deleted

LATEST = {("t", 0): 100, ("t", 1): 50}


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        ({"t": {"0": 15, "1": 5}, "u": {"0": 1}}, {("t", 0): 15, ("t", 1): 5, ("u", 0): 1}),
        (7, None),
        (None, None),
        ({}, None),
        ({"logOffset": 3}, None),
        ({"t": {"0": "15"}}, None),
        ({"t": {"0": True}}, None),
        ({"t": {"first": 15}}, None),
    ],
    ids=["two topics", "rate", "unknown", "empty", "files", "text", "truth", "a partition without a number"],
)
def test_only_offsets_in_the_shape_of_kafkas_count_records(offset, expected):
    assert partition_map(offset) == expected


@pytest.mark.parametrize(
    ("planned", "committed", "expected"),
    [
        ({"t": {"0": 40, "1": 50}}, {"t": {"0": 20, "1": 50}}, [(100, 40, 20), (50, 50, 50)]),
        ({"t": {"0": 40}}, {"t": {"0": 20}}, [(100, 40, 20), (50, 30, 30)]),
        ({"t": {"0": 40, "1": 45}}, {"t": {"0": 20}}, [(100, 40, 20), (50, 45, 30)]),
        ({}, {}, [(100, None, None), (50, 30, 30)]),
        (None, {"t": {"0": 20, "1": 5}}, [(100, 20, 20), (50, 5, 5)]),
        ({"t": {"0": 40, "1": 9}}, None, [(100, 40, None), (50, 9, None)]),
        (None, None, [(100, None, None), (50, None, None)]),
        ({"t": {"0": 40, "1": 9}}, {"t": {"0": 60, "1": 9}}, [(100, 60, 60), (50, 9, 9)]),
        ({"t": {"0": 40, "1": 9, "2": 3}}, {"t": {"0": 4, "1": 9, "2": 2}}, [(100, 40, 4), (50, 9, 9), (None, 3, 2)]),
    ],
    ids=[
        "a batch is running",
        "a partition is new to the query",
        "a partition is new to the running batch",
        "no topic was there before, and the start of one is not known",
        "no batch is running",
        "where the first batch began is not known",
        "nothing is known of the query",
        "the batch ended while we looked",
        "a partition has vanished from the source",
    ],
)
def test_partition_offsets(planned, committed, expected):
    found = partition_offsets(LATEST, planned, committed, {("t", 1): 30})
    assert [(each.latest, each.planned, each.committed) for each in found] == expected


@pytest.mark.parametrize(
    ("latest", "committed", "earliest", "compacted", "expected"),
    [
        (100, 20, {("t", 0): 20}, frozenset(), None),
        (100, 20, {}, frozenset({"u"}), None),
        (100, 20, {("t", 0): 21}, frozenset(), "retention"),
        (19, 20, {}, frozenset(), "topic recreated"),
        (100, 20, {}, frozenset({"t"}), "compaction"),
        (None, 20, {("t", 0): 30}, frozenset({"t"}), None),
        (100, None, {("t", 0): 30}, frozenset({"t"}), None),
    ],
    ids=[
        "whole",
        "nothing known",
        "deleted before it was read",
        "shorter than what was read",
        "compacted",
        "gone",
        "new",
    ],
)
def test_why_offsets_are_not_a_count(latest, committed, earliest, compacted, expected):
    partitions = [PartitionOffsets("t", 0, latest, committed, committed)]
    assert not_a_count(partitions, earliest, compacted) == expected


@pytest.mark.parametrize(
    ("positions", "earliest", "readable"),
    [
        ((100, 60, 40), 30, (100, 60, 40)),
        ((100, 60, 40), 50, (100, 60, 50)),
        ((100, 60, 40), 80, (100, 80, 80)),
        ((100, 60, 40), 100, (100, 100, 100)),
        ((10, 60, 40), 80, (10, 60, 40)),
        ((100, None, None), 80, (100, None, None)),
    ],
    ids=["nothing deleted", "part of the batch", "more than the batch", "all", "an older topic's", "unknown"],
)
def test_what_was_deleted_before_it_was_read_does_not_wait(positions, earliest, readable):
    (found,) = skip_deleted([PartitionOffsets("t", 0, *positions)], {("t", 0): earliest})
    assert (found.latest, found.planned, found.committed) == readable


def test_a_reason_for_which_positions_jump_goes_before_others():
    read = [Offsets.of(1.0, (), exact=False, inexact_because=why) for why in ("compaction", "topic recreated")]
    both = merged(read)
    assert both is not None
    assert both.inexact_because == "topic recreated"


def test_sources_are_merged_in_order_with_the_oldest_time_and_the_first_reason():
    one = Offsets.of(12.0, (PartitionOffsets("t", 0, 1, 1, 1), PartitionOffsets("t", 10, 2, 2, 2)))
    other = Offsets.of(11.0, (PartitionOffsets("a", 0, 3, 3, 3),), exact=False, inexact_because="retention")

    assert merged([one, other]) == Offsets.of(
        at=11.0,
        partitions=(
            PartitionOffsets("a", 0, 3, 3, 3),
            PartitionOffsets("t", 0, 1, 1, 1),
            PartitionOffsets("t", 10, 2, 2, 2),
        ),
        exact=False,
        inexact_because="retention",
    )


def test_a_topic_that_is_read_by_two_sources_is_told_apart():
    twice = merged(
        [Offsets.of(1.0, (PartitionOffsets("t", 0, 9, 5, 5),)), Offsets.of(1.0, (PartitionOffsets("t", 0, 9, 2, 2),))]
    )
    assert twice is not None
    assert [(each.topic, each.committed) for each in twice.partitions] == [("t", 5), ("t#2", 2)]


def test_nothing_merged_is_unknown():
    assert merged([]) is None
