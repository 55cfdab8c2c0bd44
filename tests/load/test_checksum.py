"""The order-free checksum of ids."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheostat.errors import InputError
from rheostat.load.payload import IdChecksum, splitmix64_array

INT64 = st.integers(-(2**63), 2**63 - 1)


def splitmix64(value):
    """The mixing function of the paper, on one number."""
    mixed = (value + 0x9E3779B97F4A7C15) % 2**64
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) % 2**64
    return mixed ^ (mixed >> 31)


@pytest.mark.parametrize(
    ("value", "mixed"),
    [(0, 0xE220A8397B1DCDAF), (0x9E3779B97F4A7C15, 0x6E789E6AA1B965F4), (0x3C6EF372FE94F82A, 0x06C45D188009454F)],
    ids=["first of the published sequence for seed 0", "second", "third"],
)
def test_splitmix64_gives_the_published_sequence(value, mixed):
    assert splitmix64(value) == mixed
    assert splitmix64_array(np.array([value], dtype=np.uint64)).tolist() == [mixed]


@given(st.lists(INT64, min_size=1))
def test_many_ids_are_mixed_as_one_is(ids):
    assert splitmix64_array(np.array(ids, dtype=np.int64)).tolist() == [splitmix64(i) for i in ids]


@given(st.lists(INT64, max_size=200), st.randoms())
def test_order_and_parts_do_not_matter(ids, random):
    shuffled = random.sample(ids, len(ids))
    cut = len(ids) // 3
    parts = IdChecksum().add_many(shuffled[:cut]).merge(IdChecksum().add_many(np.array(shuffled[cut:], dtype=np.int64)))
    one_by_one = IdChecksum()
    for record_id in ids:
        one_by_one = one_by_one.add_many([record_id])
    assert parts == one_by_one == IdChecksum(len(ids), sum(ids), sum(map(splitmix64, ids)) % 2**64)


@pytest.mark.parametrize(
    ("got", "differs_in"),
    [
        ([1, 2, 3, 4, 4, 6], {"total", "mixed"}),
        ([1, 2, 3, 3, 4, 5, 6], {"count", "total", "mixed"}),
        ([2, 2, 2, 5, 5, 5], {"mixed"}),
    ],
    ids=["one lost and one doubled", "one doubled", "lost and doubled so that count and sum are right"],
)
def test_a_loss_and_a_duplicate_do_not_cancel(got, differs_in):
    sent, received = IdChecksum().add_many([1, 2, 3, 4, 5, 6]), IdChecksum().add_many(got)
    differing = {name for name in ("count", "total", "mixed") if getattr(sent, name) != getattr(received, name)}
    assert differing == differs_in


def test_json_keeps_every_bit():
    checksum = IdChecksum().add_many(range(1000))
    assert checksum.to_json() == {"count": 1000, "total": 499500, "mixed": f"{checksum.mixed:016x}"}
    assert IdChecksum.from_json(checksum.to_json()) == checksum


@pytest.mark.parametrize("broken", [{}, {"count": 1, "total": 1, "mixed": "xyz"}, {"count": 1, "total": 1, "mixed": 7}])
def test_broken_json_is_an_input_error(broken):
    with pytest.raises(InputError, match="checksum"):
        IdChecksum.from_json(broken)
