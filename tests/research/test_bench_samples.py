"""What samples tell of a rescale: tables with literal figures."""

import pytest

from rheostat.research.bench.rescale import (
    Cold,
    Count,
    Sample,
    cold_batch,
    count_finished,
    find_first_end,
    find_first_start,
    longest_pause,
    lowest_share,
)


def sample(at, **executors):
    return Sample(at, {name: Count(*counts) for name, counts in executors.items()})


def done(*totals):
    """One executor that has ended so many tasks at each whole second."""
    return count_finished([sample(float(at), e0=(1, total)) for at, total in enumerate(totals)])


STARTING = [
    sample(0.0, e0=(1, 5)),
    sample(0.1, e0=(1, 6), e1=(0, 0)),
    sample(0.2, e0=(1, 6), e1=(1, 0), e2=(0, 0)),
    sample(0.3, e0=(1, 7), e1=(1, 0), e2=(0, 1)),
]


@pytest.mark.parametrize(
    ("executors", "at"),
    [
        pytest.param(["e1"], 0.2, id="registered, then with a task"),
        pytest.param(["e2"], 0.3, id="its first task ended between two looks"),
        pytest.param(["e1", "e2"], 0.3, id="the last one counts"),
        pytest.param(["e3"], None, id="never seen"),
        pytest.param([], 0.0, id="none to wait for"),
    ],
)
def test_when_executors_have_begun_to_work(executors, at):
    assert find_first_start(STARTING, executors) == at


@pytest.mark.parametrize(
    ("executors", "at"),
    [
        pytest.param(["e2"], 0.3, id="running before, ended now"),
        pytest.param(["e1"], None, id="still at its first"),
    ],
)
def test_when_executors_have_ended_a_task(executors, at):
    assert find_first_end(STARTING, executors) == at


@pytest.mark.parametrize(
    ("samples", "totals"),
    [
        pytest.param([sample(0, e0=(1, 100)), sample(1, e0=(1, 103))], [0, 3], id="tasks of before do not count"),
        pytest.param([sample(0, e0=(1, 9)), sample(1, e0=(1, 9), e1=(0, 2))], [0, 2], id="those of a new one do"),
        pytest.param([sample(0, e0=(1, 9), e1=(1, 7)), sample(1, e0=(1, 10))], [0, 1], id="one goes"),
        pytest.param(
            [sample(0, e0=(1, 9)), sample(1), sample(2, e0=(1, 11))], [0, 0, 2], id="one is not listed for a while"
        ),
    ],
)
def test_tasks_finished_so_far(samples, totals):
    assert count_finished(samples).totals == totals


@pytest.mark.parametrize(
    ("totals", "begin", "end", "share"),
    [
        pytest.param((0, 4, 8, 12, 16, 20, 24, 28, 32), 4.0, 8.0, 1.0, id="no dip"),
        pytest.param((0, 4, 8, 12, 16, 18, 20, 24, 28), 4.0, 8.0, 0.5, id="half for two seconds"),
        pytest.param((0, 4, 8, 12, 16, 16, 16, 24, 32), 4.0, 8.0, 0.0, id="nothing for two seconds"),
        pytest.param((0, 4, 8, 12, 16, 17, 20, 24, 28), 4.0, 5.0, 0.5, id="shorter than a window: 4 in 2 s"),
        pytest.param((3, 3, 3, 3, 3, 8, 9, 9, 9), 4.0, 8.0, None, id="nothing before"),
    ],
)
def test_the_lowest_share_of_the_usual_rate(totals, begin, end, share):
    assert lowest_share(done(*totals), begin, end, window_s=2.0, before_s=4.0) == share


@pytest.mark.parametrize(
    ("totals", "pause"),
    [
        pytest.param((0, 1, 2, 3, 4, 5), 1.0, id="a task each second"),
        pytest.param((0, 1, 1, 1, 2, 3), 3.0, id="none for three seconds"),
        pytest.param((0, 1, 2, 2, 2, 2), 3.0, id="none until the end"),
        pytest.param((0, 0, 0, 0, 0, 0), 4.0, id="none at all"),
    ],
)
def test_the_longest_time_without_a_finished_task(totals, pause):
    assert longest_pause(done(*totals), 1.0, 5.0) == pause


@pytest.mark.parametrize(
    ("took", "found"),
    [
        pytest.param([1.0, 3.0, 1.0, 2.0], Cold(4.5, 2.0), id="the one in which they began ÷ the median of the others"),
        pytest.param([0.5, 0.5, 4.0, 1.0], Cold(5.5, 4.0), id="those that had ended by then do not count"),
        pytest.param([1.0, 3.0], None, id="no warm batch"),
        pytest.param([1.0, 3.0, 1.0, 2.0, 50.0], Cold(4.5, 2.0), id="one that ended too late does not count"),
    ],
)
def test_the_cold_batch(took, found):
    batches = [(0.5 + sum(took[:number]), seconds) for number, seconds in enumerate(took)]
    assert cold_batch(batches, working=2.0, until=20.0) == found
