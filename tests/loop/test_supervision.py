import threading

import pytest

from rheostat.loop.clock import ManualClock
from rheostat.loop.loop import supervise

DEATHS = [SystemExit("of a policy"), KeyboardInterrupt(), MemoryError()]


@pytest.mark.parametrize("deaths", [[], DEATHS[:1], DEATHS], ids=["returns at once", "dies once", "dies three times"])
def test_a_run_that_dies_is_begun_again_in_a_new_thread_and_told_why(deaths):
    clock, told, threads = ManualClock(), [], []

    def run(after):
        told.append(after)
        threads.append(threading.current_thread())
        if len(told) <= len(deaths):
            raise deaths[len(told) - 1]

    supervise(run, clock)

    assert told == [None, *deaths]
    assert len(set(threads)) == len(told)
    assert {(thread.name, thread.daemon, thread.is_alive()) for thread in threads} == {("rheostat-loop", True, False)}
    assert clock.waits == [1.0, 2.0, 4.0][: len(deaths)]


def test_the_pause_grows_to_a_minute():
    clock, calls = ManualClock(), []

    def run(after):
        calls.append(after)
        if len(calls) <= 8:
            raise SystemExit

    supervise(run, clock)

    assert clock.waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]


def test_nothing_is_begun_again_once_it_is_to_end():
    clock, calls = ManualClock(), []

    def run(after):
        calls.append(after)
        clock.stop()
        raise SystemExit

    supervise(run, clock)

    assert calls == [None]
