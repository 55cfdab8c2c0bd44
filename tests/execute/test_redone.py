"""What counts as redone, on attempts of stages as Spark 4.2.0 told of them when executors were killed by force."""

from __future__ import annotations

import pytest

from rheostat.spark.levers import _Attempt, _redone


def complete(stage, number, tasks, failed):
    return _Attempt(stage, number, tasks, failed, complete=True)


def unfinished(stage, number, tasks, failed):
    return _Attempt(stage, number, tasks, failed, complete=False)


@pytest.mark.parametrize(
    ("attempts", "redone"),
    [
        pytest.param([], 0, id="no stage"),
        pytest.param([complete(8, 0, 5, 0), unfinished(9, 0, 4, 0)], 0, id="nothing went wrong"),
        pytest.param([complete(6, 0, 5, 2), complete(7, 0, 4, 0)], 2, id="two tasks lost in the first wave"),
        pytest.param([complete(14, 0, 5, 3)], 3, id="one task lost, and the map output of two"),
        pytest.param(
            [
                complete(23, 1, 3, 0),
                unfinished(23, 0, 4, 2),
                complete(22, 1, 3, 0),
                complete(22, 0, 5, 0),
            ],
            5,
            id="two reduce tasks could not fetch, three map tasks of the complete stage ran again",
        ),
        pytest.param(
            [complete(38, 2, 2, 0), complete(38, 1, 1, 0), complete(38, 0, 5, 0)],
            3,
            id="a complete stage ran again twice",
        ),
        pytest.param([complete(6, 1, 3, 0), unfinished(6, 0, 5, 2)], 2, id="the rest of a failed stage"),
    ],
)
def test_redone_tasks(attempts, redone):
    assert _redone(attempts) == redone
