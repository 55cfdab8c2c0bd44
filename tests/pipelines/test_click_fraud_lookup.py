"""The Python stage: it waits, and its halves put together are the checksum of the ids."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheostat.load.payload import IdChecksum
from rheostat.pipelines.click_fraud import HALVES, make_lookup, split_halves


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=80))
def test_sums_of_halves_are_the_checksum(ids: list[int]) -> None:
    sums = {name: int(column.sum()) for name, column in split_halves(np.array(ids, dtype=np.int64)).items()}
    total = (sums["id_high"] << 32) + sums["id_low"]
    mixed = ((sums["mixed_high"] << 32) + sums["mixed_low"]) % 2**64
    assert IdChecksum(len(ids), total, mixed) == IdChecksum().add_many(ids)


def test_halves_are_small_enough_to_be_summed() -> None:
    columns = split_halves(np.array([-(2**63), -1, 0, 2**63 - 1], dtype=np.int64))
    assert tuple(columns) == HALVES
    assert all(abs(int(value)) <= 2**32 for column in columns.values() for value in column)


def test_the_id_is_replaced_and_the_other_columns_are_kept() -> None:
    batch = pa.RecordBatch.from_pydict({"id": [7, 8], "ip": ["a", "b"]})
    (result,) = make_lookup(0.0)([batch])
    assert result.schema.names == ["ip", *HALVES]
    assert result.column("ip").to_pylist() == ["a", "b"]
    assert result.column("id_low").to_pylist() == [7, 8]


def test_each_record_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    batches = [pa.RecordBatch.from_pydict({"id": list(range(rows))}) for rows in (500, 3)]
    assert [batch.num_rows for batch in make_lookup(2.0)(batches)] == [500, 3]
    assert waits == [1.0, 0.006]
