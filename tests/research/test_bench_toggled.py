"""Blocks by turns: what attaching adds, with literal figures."""

import pytest

from rheostat.research.bench.harness import Block, abba, compare_means, compare_medians, pairs

SLOWER = [Block(attached, [204 if attached else 200] * 20) for attached in abba(4)]


def drifting(pairs_count, attached_ms):
    """Each block takes 1 ms longer than the one before, and an attached one ``attached_ms`` more."""
    return [
        Block(attached, [200 + number + (attached_ms if attached else 0)] * 20)
        for number, attached in enumerate(abba(pairs_count))
    ]


def test_the_turns_are_abba():
    assert abba(4) == [False, True, True, False, False, True, True, False]


def test_a_pair_is_given_as_without_and_with():
    without, attached = Block(attached=False, batch_ms=[1]), Block(attached=True, batch_ms=[2])
    assert pairs([without, attached, attached, without]) == [(without, attached), (without, attached)]


def test_neighbours_of_one_kind_are_an_error():
    with pytest.raises(ValueError, match="do not go by turns"):
        pairs([Block(attached=True, batch_ms=[1]), Block(attached=True, batch_ms=[1])])


@pytest.mark.parametrize(
    ("blocks", "percent"),
    [
        pytest.param(SLOWER, 2.0, id="4 of 200 ms"),
        pytest.param([Block(attached, [200] * 20) for attached in abba(4)], 0.0, id="nothing"),
        pytest.param(
            [Block(attached, [200] * 16 + [220 if attached else 200] * 4) for attached in abba(4)],
            2.0,
            id="20 ms in each fifth batch",
        ),
        pytest.param(
            [Block(attached, [200] * 20) for attached in abba(3)]
            + [Block(attached=False, batch_ms=[200] * 20), Block(attached=True, batch_ms=[900] * 20)],
            0.0,
            id="one block that was disturbed",
        ),
    ],
)
def test_what_attaching_adds(blocks, percent):
    assert compare_means(blocks).percent == pytest.approx(percent)


def test_a_drift_is_not_taken_for_a_cost():
    blocks = drifting(4, 0)
    usual = 203.5  # without: 200, 203, 204, 207
    assert compare_means(blocks).percent == pytest.approx(0.0)
    assert compare_means(blocks).ci95 == pytest.approx((-100 / usual, 100 / usual))


def test_the_interval_is_that_of_the_pairs():
    shares = [2, 4, 6, 8, 10, 12, 14, 16, 18]
    turns = abba(9)
    blocks = [
        Block(attached, [200 + (shares[number // 2] if attached else 0)] * 20) for number, attached in enumerate(turns)
    ]
    found = compare_means(blocks)
    assert found.percent == 5.0
    assert found.ci95 == pytest.approx((3.0, 7.0), abs=1.0)


def test_no_interval_of_two_pairs():
    assert compare_means(SLOWER[:4]).ci95 is None
    assert compare_medians(SLOWER[:4]).ci95 is None


@pytest.mark.parametrize(
    ("attached_ms", "percent"),
    [
        pytest.param([204] * 20, 2.0, id="all batches"),
        pytest.param([200] * 16 + [220] * 4, 0.06, id="each fifth: the median hardly feels it"),
    ],
)
def test_the_median_batch(attached_ms, percent):
    blocks = [Block(attached, attached_ms if attached else [200] * 20) for attached in abba(4)]
    assert compare_medians(blocks).percent == pytest.approx(percent, abs=0.01)
