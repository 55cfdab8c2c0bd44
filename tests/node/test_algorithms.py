"""Which Workers are created and removed, by hand (S1, Algorithms 8 and 9)."""

import pytest

from rheostat.node.workers import address_of, to_create, to_remove


@pytest.mark.parametrize(
    ("target", "allocated", "n_max", "expected"),
    [
        pytest.param(2, set(), 5, (1, 2), id="the first two"),
        pytest.param(2, {1, 2}, 5, (3, 4), id="two more"),
        pytest.param(2, {1, 3, 4}, 5, (2, 5), id="the id of one that has gone is used again"),
        pytest.param(4, {1, 2, 3}, 5, (4, 5), id="clipped to the free ids"),
        pytest.param(9, set(), 3, (1, 2, 3), id="clipped to all there can be"),
        pytest.param(1, {1, 2, 3}, 3, (), id="none free: ignored"),
        pytest.param(0, {1}, 3, (), id="nothing asked for"),
        pytest.param(1, {2, 3, 7}, 3, (1,), id="ids beyond a lowered n_max take no place"),
    ],
)
def test_creation(target, allocated, n_max, expected):
    assert to_create(target, allocated, n_max) == expected


@pytest.mark.parametrize(
    ("allocated", "used", "free", "expected"),
    [
        pytest.param({1, 2, 3, 4, 5}, {1, 4}, 0, (2, 3, 5), id="the document's five, TM1 and TM4 used: all idle ones"),
        pytest.param({1, 2, 3, 4, 5}, {1, 4}, 1, (2, 3), id="one idle one stays"),
        pytest.param({1, 2, 3, 4, 5}, {1, 4}, 3, (), id="as many idle as are to stay"),
        pytest.param({1, 2, 3, 4, 5}, {1, 4}, 7, (), id="more to keep than idle: clipped"),
        pytest.param({1, 2}, {1, 2}, 0, (), id="all used: none goes"),
        pytest.param({1, 2}, {9}, 1, (1,), id="a used one elsewhere changes nothing"),
        pytest.param(set(), set(), 0, (), id="nothing there"),
    ],
)
def test_removal(allocated, used, free, expected):
    assert to_remove(allocated, used, free) == expected


@pytest.mark.parametrize(
    ("number", "addresses", "expected"),
    [
        pytest.param(1, ["127.0.0.1"], "127.0.0.2", id="loopback: a series"),
        pytest.param(254, ["127.0.0.1"], "127.0.0.255", id="loopback has no net of 256"),
        pytest.param(3, ["127.0.1.255"], "127.0.2.2", id="over the edge of a byte"),
        pytest.param(2, ["worker-a", "worker-b"], "worker-b", id="one for each"),
        pytest.param(2, ["10.0.0.5"], "10.0.0.5", id="one for all"),
    ],
)
def test_addresses(number, addresses, expected):
    assert address_of(number, addresses) == expected


def test_the_series_of_loopback_addresses_has_an_end():
    with pytest.raises(ValueError, match=r"127\.255\.255\.250"):
        address_of(5, ["127.255.255.250"])
