"""No row is lost and none is there twice, whatever happens between a put and the state that knows of it."""

import pytest
from pydantic import TypeAdapter

from rheostat.errors import JournalError
from rheostat.learn.slow_records import Sample
from rheostat.policies.proactive import TrainingRows, add_row, drop_rows, read_rows
from rheostat.sample_store import MemorySampleStore


def row(number: int) -> Sample:
    return Sample(float(number), (100.0,), 1, 0.0)


def collected(numbers, store, data=None):
    data = TrainingRows() if data is None else data
    for number in numbers:
        data = add_row(row(number), data, store)
    return data


def times(data, store, most=100_000):
    return [each.at for each in read_rows(data, store, most)]


@pytest.mark.parametrize("count", [1, 999, 1000, 1001, 2500])
def test_every_row_is_there_once(count):
    store = MemorySampleStore()
    data = collected(range(count), store)
    assert times(data, store) == list(range(count))
    assert len(data.rows) < 1000


def test_the_newest_are_taken():
    store = MemorySampleStore()
    data = collected(range(1500), store)
    assert times(data, store, 700) == list(range(800, 1500))
    assert times(data, store, 300) == list(range(1200, 1500))


def test_a_crash_between_the_sample_store_and_the_state_loses_and_doubles_nothing():
    """Row 999 is put into the sample store; the state of before is what comes back, and another row is seen instead."""
    store, adapter = MemorySampleStore(), TypeAdapter(TrainingRows)
    before = collected(range(999), store)
    kept = adapter.dump_json(before)
    add_row(row(999), before, store)
    restored = adapter.validate_json(kept)
    assert restored == before
    data = collected(range(1005, 1805), store, restored)
    assert times(data, store) == [*range(999), *range(1005, 1805)]


def test_without_a_sample_store_the_oldest_go():
    data = collected(range(2500), None)
    assert times(data, None) == list(range(1501, 2500))


def test_dropped_rows_do_not_come_back():
    store = MemorySampleStore()
    data = drop_rows(collected(range(1500), store), 1500.0)
    assert times(data, store) == []
    data = collected(range(1500, 2700), store, data)
    assert times(data, store) == list(range(1500, 2700))


class Full(MemorySampleStore):
    """A disk that is full."""

    def put(self, first, rows):  # noqa: ARG002
        raise JournalError("no room")


def test_a_sample_store_that_takes_nothing_costs_the_oldest_rows_and_says_how_many():
    store = Full()
    data = collected(range(1500), store)
    assert (len(data.rows), data.lost, data.archived) == (999, 501, 0)
    assert times(data, store) == list(range(501, 1500))
