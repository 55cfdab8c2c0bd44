"""Times of the wall clock, placed on the loop's clock."""

import pytest

from rheostat.model import Batch
from rheostat.observe.wall import WallTimes

HOUR = 3600.0
START = 1_764_280_800.0


class Clocks:
    """A steady clock since the start of a machine, and its wall clock."""

    def __init__(self):
        self.elapsed, self.ahead_s = 0.0, START
        self.times = WallTimes(lambda: self.elapsed + self.ahead_s, lambda: self.elapsed)

    def look(self, elapsed):
        self.elapsed = elapsed
        self.times.begin(START + elapsed)
        return self.times


def test_a_clock_that_is_not_set_tells_the_loops_time():
    assert Clocks().look(60.0).place(START + 55.0) == START + 55.0


@pytest.mark.parametrize("by_s", [-24 * HOUR, -HOUR, HOUR, 24 * HOUR])
def test_events_of_before_and_after_the_clock_was_set(by_s):
    clocks = Clocks()
    clocks.look(60.0)
    clocks.ahead_s += by_s  # at second 70
    times = clocks.look(75.0)
    assert times.place(START + 69.0) == START + 69.0
    assert times.place(START + by_s + 72.0) == START + 72.0


@pytest.mark.parametrize("by_s", [-HOUR, HOUR])
def test_a_batch_during_which_the_clock_was_set_has_its_duration_and_no_parts(by_s):
    clocks = Clocks()
    clocks.look(60.0)
    clocks.ahead_s += by_s  # at second 70
    told = Batch(START + by_s + 73.0, 7, 8.0 + by_s, planning_s=0.2, add_batch_s=7.5 + by_s, commit_s=0.1, records=10)
    placed = clocks.look(75.0).place_batch(told)
    assert (placed.at, placed.duration_s, placed.records) == (START + 73.0, 8.0, 10)
    assert (placed.planning_s, placed.add_batch_s, placed.commit_s) == (None, None, None)


def test_what_was_placed_stays_there_also_where_the_wall_clock_shows_its_time_once_more():
    clocks = Clocks()
    clocks.look(60.0).place(START + 50.0)
    clocks.ahead_s -= 90.0
    for elapsed in range(75, 400, 15):
        assert clocks.look(float(elapsed)).place(START + 50.0) == START + 50.0


def test_a_loop_whose_clock_begins_later_than_the_wall_clock():
    """As after a restart on a machine whose clock was set back meanwhile."""
    clocks = Clocks()
    clocks.elapsed = 60.0
    clocks.times.begin(START + HOUR + 60.0)
    assert clocks.times.place(START + 55.0) == START + HOUR + 55.0
