"""Alignment to partitions: the operator's tables, and what they leave out by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheostat.decide.partitions import Alignment, align, in_waves, spread_evenly, waves

EVENLY: Alignment = "evenly-spread"
UTILISATION: Alignment = "maximize-utilisation"


@pytest.mark.parametrize(
    ("current", "factor", "groups", "limits", "expected"),
    [
        pytest.param(6, 0.8, 36, (1, None), 6, id="down to 5, the next divisor is the present 6"),
        pytest.param(16, 1.5, 128, (1, None), 32, id="24 up to 32"),
        pytest.param(200, 1.3, 720, (1, None), 360, id="260 up to 360"),
        pytest.param(200, 2.0**31, 720, (1, None), 720, id="no more than groups"),
        pytest.param(10, 2.5, 128, (1, None), 32, id="25 up to 32"),
        pytest.param(6, 0.8, 720, (1, 700), 5, id="5 divides 720"),
        pytest.param(8, 0.8, 720, (8, 700), 8, id="least"),
        pytest.param(16, 1.5, 128, (60, None), 64, id="least is no divisor"),
        pytest.param(200, 2.0, 720, (1, 300), 240, id="no divisor up to most: the next below"),
        pytest.param(200, 2.0**31, 720, (1, 600), 360, id="the same from most"),
        pytest.param(6, 0.4, 15, (1, None), 3, id="15 partitions, down to 3"),
        pytest.param(7, 1.2, 15, (1, None), 15, id="15 partitions, 9 up to 15"),
        pytest.param(20, 0.9, 35, (1, 30), 18, id="35 partitions: one on 17 each, two on 1"),
        pytest.param(80, 1.4, 200, (1, 128), 100, id="200 partitions, 112 down to 100"),
        pytest.param(24, 4.0, 199, (1, None), 199, id="a prime number of partitions"),
        pytest.param(10, 2.0, 15, (1, None), 15, id="testSendingScalingLimitedEvents"),
    ],
)
def test_evenly_spread(current, factor, groups, limits, expected):
    """apache/flink-kubernetes-operator, flink-autoscaler/src/test/java/org/apache/flink/autoscaler/JobVertexScalerTest.java:

    testParallelismComputationWithAdjustment, testParallelismComputationWithLimit, testNumPartitionsAdjustment.
    """  # noqa: E501
    assert align(current, math.ceil(factor * current), groups, EVENLY, limits) == expected


@pytest.mark.parametrize(
    ("current", "wanted", "groups", "expected"),
    [
        pytest.param(10, 25, 128, 26, id="26 need 4 whole groups at most, 25 need 5"),
        pytest.param(24, 96, 199, 100, id="99 executors have two partitions, one has one"),
    ],
)
def test_maximize_utilisation(current, wanted, groups, expected):
    """The same file, expectedMaximumUtilization."""
    assert align(current, wanted, groups, UTILISATION) == expected


@pytest.mark.parametrize(
    ("current", "wanted", "groups", "limits", "mode", "expected"),
    [
        pytest.param(22, 25, 35, (20, 30), EVENLY, 22, id="up would end below: nothing"),
        pytest.param(3, 2, 7, (1, None), EVENLY, 1, id="down to the only divisor, although 2 were wanted"),
        pytest.param(30, 28, 24, (1, None), EVENLY, 24, id="down from more than there are partitions"),
        pytest.param(24, 30, 24, (1, None), EVENLY, 24, id="up beyond the partitions: nothing"),
        pytest.param(30, 40, 24, (1, None), EVENLY, 30, id="further beyond them: nothing"),
        pytest.param(4, 4, 24, (1, None), EVENLY, 4, id="nothing wanted"),
        pytest.param(1, 5, 1, (1, None), EVENLY, 1, id="one partition"),
        pytest.param(12, 9, 24, (1, None), UTILISATION, 12, id="down: 12 is the first that has no more than 2"),
        pytest.param(12, 8, 24, (1, None), UTILISATION, 8, id="down to a divisor"),
    ],
)
def test_directions_and_edges(current, wanted, groups, limits, mode, expected):
    assert align(current, wanted, groups, mode, limits) == expected


@pytest.mark.parametrize("mode", [EVENLY, UTILISATION])
def test_the_direction_is_never_turned_and_no_more_than_groups_come_out(mode):
    for groups in range(1, 40):
        for current in range(1, 45):
            for wanted in range(1, 45):
                found = align(current, wanted, groups, mode)
                assert (found - current) * (wanted - current) >= 0
                assert found == current or 1 <= found <= groups


@pytest.mark.parametrize(
    ("current", "wanted", "partitions", "slots", "most", "expected"),
    [
        pytest.param(2, 3, 8, 2, 4, 4, id="8 partitions on 3 × 2: a fourth takes the most loaded from 2 to 1"),
        pytest.param(2, 3, 8, 2, 3, 3, id="a fourth would be too many"),
        pytest.param(1, 51, 100, 1, 68, 50, id="100 on 51: 49 more would be too many, 50 are as fast"),
        pytest.param(50, 51, 100, 1, 68, 51, id="an increase stays one"),
        pytest.param(60, 51, 100, 1, 68, 51, id="a decrease takes no more away than was to go"),
        pytest.param(5, 3, 8, 2, 4, 4, id="a decrease gets smaller"),
        pytest.param(4, 3, 8, 2, 4, 3, id="a decrease is not undone"),
        pytest.param(4, 10, 8, 1, 13, 8, id="8 of 10 have a partition"),
        pytest.param(2, 4, 17, 1, 5, 5, id="17: four waves instead of five"),
        pytest.param(4, 9, 31, 1, 12, 11, id="31: three waves instead of four"),
        pytest.param(10, 40, 97, 1, 53, 49, id="97: two waves instead of three"),
    ],
)
def test_in_waves(current, wanted, partitions, slots, most, expected):
    assert in_waves(current, wanted, partitions, slots, most) == expected


numbers = st.integers(1, 120)


@given(st.sampled_from([in_waves, spread_evenly]), numbers, numbers, numbers, st.integers(1, 4), st.integers(0, 40))
def test_neither_turns_a_direction_nor_adds_more_than_allowed(fit, current, wanted, groups, slots, more):
    result = fit(current, wanted, groups, slots, wanted + more)
    if wanted == current:
        return
    assert (result > current) == (wanted > current)
    assert result != current
    assert result <= wanted + more
    assert result >= wanted or waves(groups, result * slots) == waves(groups, wanted * slots)


@given(st.sampled_from([in_waves, spread_evenly]), numbers, numbers, numbers, st.integers(1, 4))
def test_more_wanted_is_never_fewer(fit, current, wanted, groups, slots):
    more = wanted + 1
    first, second = (fit(current, each, groups, slots, int(each * 1.34)) for each in (wanted, more))
    assert wanted == current or more == current or first <= second
