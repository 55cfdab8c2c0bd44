"""Which records an edge keeps: the share asked for, independently of other edges, without bias."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rheostat.config.shedding import WHOLE
from rheostat.model import EdgeCount
from rheostat.spark.kafka_offsets import Piece, share_tasks
from rheostat.spark.keep import count_kept, draw, draws, is_kept, keep_mask, seed_of

OFFSETS = np.arange(10**7, 10**7 + 400_000)


def within_bounds(kept: int, records: int, share: float) -> bool:
    """Within 4.9 standard deviations of a binomial: one miss in a million."""
    return abs(kept - share * records) <= 4.9 * math.sqrt(records * share * (1 - share)) + 1e-9


@pytest.mark.parametrize("keep", [0, 1, 100_000, 500_000, WHOLE - 1, WHOLE])
def test_the_share_is_kept(keep):
    for partition in range(3):
        kept = int(keep_mask(seed_of("e", "t", partition), OFFSETS, keep).sum())
        assert within_bounds(kept, len(OFFSETS), keep / WHOLE)


def test_many_draws_are_those_of_single_records():
    seed = seed_of("e", "t", 5)
    assert [int(each) for each in draws(seed, OFFSETS[:100])] == [draw(seed, int(offset)) for offset in OFFSETS[:100]]
    mask = keep_mask(seed, OFFSETS[:100], 300_000)
    assert [bool(each) for each in mask] == [is_kept(seed, int(offset), 300_000) for offset in OFFSETS[:100]]


def test_a_record_that_is_kept_is_kept_at_every_larger_share():
    seed = seed_of("e", "t", 0)
    fewer, more = keep_mask(seed, OFFSETS, 200_000), keep_mask(seed, OFFSETS, 300_000)
    assert not (fewer & ~more).any()


@pytest.mark.parametrize("other", [("f", "t", 0), ("e", "u", 0), ("e", "t", 1)])
def test_edges_topics_and_partitions_draw_independently(other):
    one = keep_mask(seed_of("e", "t", 0), OFFSETS, 800_000)
    two = keep_mask(seed_of(*other), OFFSETS, 500_000)
    assert within_bounds(int((one & two).sum()), len(OFFSETS), 0.4)


def test_shares_of_a_source_and_of_a_later_edge_multiply_as_in_figure_3_3_of_s3():
    source = keep_mask(seed_of("source", "t", 0), OFFSETS, 800_000)
    to_b = keep_mask(seed_of("b", "t", 0), OFFSETS, 500_000)
    assert within_bounds(int(source.sum()), len(OFFSETS), 0.8), "A has what the source keeps"
    assert within_bounds(int((source & to_b).sum()), len(OFFSETS), 0.4)
    of_kept = to_b[source]
    assert within_bounds(int(of_kept.sum()), len(of_kept), 0.5)


@pytest.mark.parametrize("step", [2, 3, 10, 1000, 4096])
def test_records_at_regular_distances_are_no_more_likely_to_be_kept(step):
    kept = keep_mask(seed_of("e", "t", 0), OFFSETS[::step], 500_000)
    assert within_bounds(int(kept.sum()), len(kept), 0.5)


def test_every_stretch_of_time_is_kept_alike():
    kept = keep_mask(seed_of("e", "t", 0), OFFSETS, 100_000).reshape(100, -1).sum(axis=1)
    assert all(within_bounds(int(each), OFFSETS.size // 100, 0.1) for each in kept)


@pytest.mark.parametrize("keep", [0, 1, 300_000, WHOLE])
def test_what_an_edge_keeps_of_many_records_is_counted_in_parts(keep, monkeypatch):
    monkeypatch.setattr("rheostat.spark.keep._COUNTED_AT_ONCE", 1000)
    pieces = [Piece("t", 0, 17, 5017), Piece("t", 1, 0, 3)]
    kept = [
        is_kept(seed_of("e", "t", each.partition), at, keep) for each in pieces for at in range(each.start, each.end)
    ]
    assert count_kept("e", pieces, keep) == EdgeCount("e", keep, 5003, sum(kept))


@pytest.mark.parametrize("tasks", [1, 3, 17])
def test_the_same_records_are_kept_in_however_many_tasks_a_batch_is_read(tasks):
    pieces = [Piece("t", 0, 100, 40_100), Piece("t", 1, 0, 9), Piece("u", 0, 5, 20_005)]
    kept = set[tuple[str, int, int]]()
    for piece in [each for task in share_tasks(pieces, tasks) for each in task]:
        offsets = np.arange(piece.start, piece.end)
        mask = keep_mask(seed_of("e", piece.topic, piece.partition), offsets, 300_000)
        kept |= {(piece.topic, piece.partition, int(offset)) for offset in offsets[mask]}
    whole = [(each.topic, each.partition, offset) for each in pieces for offset in range(each.start, each.end)]
    assert kept == {place for place in whole if is_kept(seed_of("e", *place[:2]), place[2], 300_000)}


@pytest.mark.parametrize("values", [2, 7, 1000])
def test_no_key_or_value_is_kept_more_than_another(values):
    """A key or value is a function of the record; here one that comes in bursts and one at random."""
    kept = keep_mask(seed_of("e", "t", 0), OFFSETS, 400_000)
    for keys in (OFFSETS // 37 % values, np.random.default_rng(5).integers(0, values, len(OFFSETS))):
        records, left = np.bincount(keys, minlength=values), np.bincount(keys, weights=kept, minlength=values)
        assert all(within_bounds(int(some), int(many), 0.4) for some, many in zip(left, records, strict=True))
