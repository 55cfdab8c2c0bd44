"""Offsets of the Kafka source, what a batch takes, and how tasks share it."""

from __future__ import annotations

import doctest
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheostat.observe.parse import partition_map
from rheostat.spark import kafka_offsets
from rheostat.spark.kafka_admin import Place
from rheostat.spark.kafka_offsets import (
    BATCH_KEY,
    BatchPlan,
    Piece,
    admit_records,
    offset_to_json,
    pieces_between,
    plan_of,
    positions_of,
    share_tasks,
)

A0: Place = ("a", 0)
A1: Place = ("a", 1)
B0: Place = ("b", 0)

pieces_given = st.lists(st.integers(1, 10_000), min_size=1, max_size=8).map(
    lambda sizes: [Piece("t", number, 7, 7 + size) for number, size in enumerate(sizes)]
)


def test_examples_in_docstrings():
    assert doctest.testmod(kafka_offsets).failed == 0


def test_an_offset_is_that_of_sparks_own_source():
    offset = offset_to_json({B0: 7, A1: 1, A0: 5})
    assert offset == {"a": {"0": 5, "1": 1}, "b": {"0": 7}}
    assert list(offset) == ["a", "b"]
    assert positions_of(offset) == {A0: 5, A1: 1, B0: 7}
    assert plan_of(offset) == BatchPlan()


def test_what_holds_for_a_batch_is_part_of_the_offset_at_which_it_ends():
    plan = BatchPlan(begin={A1: 3}, read_tasks=4, keep={"source": 500_000}, number=9)
    offset = offset_to_json({A0: 5, A1: 9}, plan)
    assert plan_of(offset) == plan
    assert positions_of(offset) == {A0: 5, A1: 9}
    assert partition_map(offset) == {("a", 0): 5, ("a", 1): 9}, "observe reads positions only"
    assert BATCH_KEY in offset


def test_a_batch_begins_at_the_first_record_of_a_new_partition():
    start = offset_to_json({A0: 5, B0: 2})
    end = offset_to_json({A0: 8, A1: 9, B0: 2}, BatchPlan(begin={A1: 3}))
    assert pieces_between(start, end) == [Piece("a", 0, 5, 8), Piece("a", 1, 3, 9)]


def test_a_topic_made_anew_is_read_from_its_first_record():
    end = offset_to_json({A0: 4}, BatchPlan(begin={A0: 0}))
    assert pieces_between(offset_to_json({A0: 900}), end) == [Piece("a", 0, 0, 4)]


def test_a_capped_batch_is_shared_in_proportion_and_starves_no_partition():
    begin, latest = {A0: 0, A1: 10, B0: 5}, {A0: 9000, A1: 11, B0: 5}
    assert admit_records(begin, latest, None) == latest
    assert admit_records(begin, latest, 100) == {A0: 99, A1: 11, B0: 5}


@given(pieces_given, st.none() | st.integers(1, 20), st.none() | st.integers(1, 500))
def test_tasks_read_every_record_once_and_in_order(pieces, tasks, most):
    shared = share_tasks(pieces, tasks, most)
    read = sorted(piece for task in shared for piece in task)
    for piece in pieces:
        parts = [each for each in read if each.partition == piece.partition]
        assert parts[0].start == piece.start
        assert parts[-1].end == piece.end
        assert all(one.end == other.start for one, other in pairwise(parts))
    assert all(list(task) == sorted(task) for task in shared)


@given(pieces_given, st.integers(1, 20))
def test_there_are_as_many_tasks_as_asked_for_where_there_are_records_enough(pieces, tasks):
    records = sum(piece.records for piece in pieces)
    assert len(share_tasks(pieces, tasks)) == min(tasks, records)


@pytest.mark.parametrize(("most", "parts"), [(None, 2), (25, 6), (1000, 2)])
def test_a_task_reads_at_most_so_many_records(most, parts):
    shared = share_tasks([Piece("a", 0, 0, 100), Piece("a", 1, 0, 50)], None, most)
    assert len(shared) == parts
    assert most is None or max(piece.records for (piece,) in shared) <= most
