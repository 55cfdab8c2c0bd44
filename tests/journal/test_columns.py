from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheostat.journal import codec as columns

OFFSETS = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    ("values", "base", "code"),
    [
        pytest.param([5, 6, 7], [5, 6, 7], 0, id="nothing moved"),
        pytest.param([12, 13], [5, 6], 7, id="all moved alike"),
        pytest.param([6, 9], [5, 6], [1, 3], id="each its own step"),
        pytest.param([None, None], [5, 6], None, id="all unknown"),
        pytest.param([None, 9], [5, 6], {"d": [0, 3], "none": [0]}, id="one unknown"),
        pytest.param([], [], [], id="no partitions"),
        pytest.param([1.5], [0], {"=": [1.5]}, id="not an integer"),
    ],
)
def test_a_column_is_written_as_its_shortest_difference(values, base, code):
    assert columns.encode_columns(values, base)[0] == code
    assert columns.decode_columns(code, base)[0] == values


def test_many_values_are_packed_above_the_lowest():
    values = [1_000_000 + step for step in range(40)]
    code, _ = columns.encode_columns(values, [0] * 40)
    assert code.startswith("1000000:B:")
    assert len(code) == len("1000000:B:") + 56


def test_what_was_known_survives_a_gap():
    _, base = columns.encode_columns([10], [3])
    _, base = columns.encode_columns([None], base)
    assert columns.encode_columns([12], base)[0] == 2


@given(
    st.integers(0, 60).flatmap(lambda n: st.lists(st.lists(st.none() | OFFSETS, min_size=n, max_size=n), max_size=4))
)
def test_any_sequence_of_columns_comes_back_exactly(rows):
    width = len(rows[0]) if rows else 0
    writing = reading = [0] * width
    for row in rows:
        code, writing = columns.encode_columns(row, writing)
        back, reading = columns.decode_columns(json.loads(json.dumps(code)), reading)
        assert back == row


@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), max_size=40))
def test_seconds_come_back_exactly(row):
    base = [17] * len(row)
    code, _ = columns.encode_seconds(row, base)
    assert columns.decode_seconds(json.loads(json.dumps(code)), base)[0] == row
