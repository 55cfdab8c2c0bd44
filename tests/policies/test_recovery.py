import pytest
from tests.policies.samples import seen

from rheostat.policies.capacity import Recovery, follow_recovery, rescale_s

CALM = Recovery(3, 0.0, ready=True, recovered=True)


def told(samples, past=CALM, number=4):
    found = []
    for sample in samples:
        past = follow_recovery(sample, number, past, 240.0)
        found.append((past.ready, past.recovered))
    return found, past


def test_an_increase_is_measured_until_it_is_ready_and_awaited_until_the_job_has_recovered():
    samples = [
        seen(1000.0, executors=3, batches=9, backlog_excess=900.0),
        seen(1015.0, executors=4, batches=0, backlog_excess=900.0),
        seen(1030.0, executors=4, batches=1, backlog_excess=500.0),
        seen(1045.0, executors=4, batches=2, backlog_excess=0.0),
    ]
    found, past = told(samples)
    assert found == [(False, False), (False, False), (True, False), (True, True)]
    assert (past.took_s, rescale_s(past)) == ((30.0,), 30.0)


def test_a_decrease_is_awaited_and_not_measured():
    found, past = told([seen(1000.0, executors=2, batches=1)], number=2)
    assert (found, past.took_s) == ([(True, True)], ())


def test_waiting_ends_after_the_hold():
    samples = [seen(1000.0 + 60 * n, executors=3, backlog_excess=900.0) for n in range(5)]
    found, _ = told(samples)
    assert [recovered for _, recovered in found] == [False, False, False, False, True]


def test_once_recovered_a_new_excess_does_not_undo_it():
    found, _ = told([seen(executors=3, backlog_excess=900.0)], number=3)
    assert found == [(True, True)]


def test_the_last_five_increases_are_kept():
    past = Recovery(1, 0.0, recovered=True)
    for number in range(2, 9):
        at = 1000.0 * number
        past = follow_recovery(seen(at, executors=number - 1), number, past, 240.0)
        past = follow_recovery(seen(at + 10 * number, executors=number), number, past, 240.0)
    assert past.took_s == (40.0, 50.0, 60.0, 70.0, 80.0)


@pytest.mark.parametrize("executors", [None, 5])
def test_another_number_than_that_in_force_is_not_ready(executors):
    assert told([seen(executors=executors)])[0] == [(False, False)]
