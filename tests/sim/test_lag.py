from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheostat.sim.history import History, Lag


def history(*commits):
    """Each commit: ``(at, when the oldest record arrived that it left)``."""
    found, oldest = History(), commits[0][1]
    for number, (at, left) in enumerate(commits):
        found.commits.append((at, number, max(0.0, at - oldest), max(0.0, at - left)))
        found.oldest.append(left)
        oldest = left
    return found


SAWTOOTH = history((0, 10), (30, 25), (60, inf))
"""The first record comes at second 10; the commit at 30 leaves one of second 25, the one at 60 leaves none."""


def test_a_sawtooth_by_hand():
    lag = Lag.of(SAWTOOTH, 0.0, 100.0)
    # 50 s at 0; from 0 to 20 within 20 s; from 5 to 35 within 30 s
    assert lag.greatest == 35.0
    assert lag.seconds_over(20.0) == 15.0
    assert lag.seconds_over(0.0) == 50.0
    assert lag.seconds_over(35.0) == 0.0
    assert [lag.quantile(share) for share in (0.5, 0.51, 0.6, 0.85, 0.95, 1.0)] == pytest.approx(
        [0, 1, 7.5, 20, 30, 35]
    )


@pytest.mark.parametrize(
    ("start", "end", "over", "greatest"),
    [
        pytest.param(40.0, 50.0, 5.0, 25.0, id="within a span"),
        pytest.param(0.0, 30.0, 0.0, 20.0, id="up to a commit"),
        pytest.param(60.0, 90.0, 0.0, 0.0, id="after the last one"),
        pytest.param(0.0, 5.0, 0.0, 0.0, id="before the first record"),
    ],
)
def test_a_part_of_it(start, end, over, greatest):
    lag = Lag.of(SAWTOOTH, start, end)
    assert (lag.seconds_over(20.0), lag.greatest) == (over, greatest)


def test_a_run_that_never_commits_lags_to_the_end():
    lag = Lag.of(history((0, 0)), 0.0, 80.0)
    assert (lag.greatest, lag.seconds_over(20.0), lag.quantile(0.5)) == (80.0, 60.0, 40.0)


@given(
    waits=st.lists(st.tuples(st.floats(0.5, 30), st.floats(-20, 25)), min_size=1, max_size=15),
    limit=st.floats(0, 40),
    share=st.floats(0.05, 0.99),
)
def test_a_fine_sampling_agrees(waits, limit, share):
    commits, at = [(0.0, 3.0)], 0.0
    for seconds, ago in waits:
        at += seconds
        commits.append((at, max(commits[-1][1], at - ago)))
    run = history(*commits)
    times = (np.arange(4000) + 0.5) * (at / 4000)
    sampled = np.array([run.lag_at(t) for t in times])
    lag = Lag.of(run, 0.0, at)
    assert lag.seconds_over(limit) == pytest.approx(np.mean(sampled > limit) * at, abs=at * 2e-2)
    assert np.mean(sampled <= lag.quantile(share) + 1e-9) >= share - 1e-2
    assert np.mean(sampled <= lag.quantile(share) - at * 1e-2) <= share + 1e-2
