"""Since when the queries have been the same runs: figures of before may be of other code."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter

from rheostat.analyze.assess import analyze
from rheostat.analyze.state import AnalysisSettings, AnalysisState
from rheostat.model import Observation, Offsets, PartitionOffsets, QueryReading

STATE = TypeAdapter(AnalysisState)
SETTINGS = AnalysisSettings(objective_lag_s=30.0, rate_window_s=60.0, failure_window_s=60.0)


def query(at: float, name: str, run: str) -> QueryReading:
    return QueryReading(name, run, None, 10.0, offsets=Offsets.of(at, (PartitionOffsets(name, 0, 10, 10, 10),)))


def since(*looks: tuple[float, dict[str, str]], restored: bool = False) -> float | None:
    """``run_since`` of the last look; ``restored``: the state is written and read before each."""
    state, found = AnalysisState(), None
    for at, runs in looks:
        readings = tuple([query(at, name, run) for name, run in runs.items()])
        seen, state = analyze(Observation(at, readings), state, SETTINGS)
        state = STATE.validate_json(STATE.dump_json(state)) if restored else state
        found = seen.run_since
    return found


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        pytest.param([(0.0, {"q": "1"}), (15.0, {"q": "1"})], None, id="the first run"),
        pytest.param([(0.0, {"q": "1"}), (15.0, {"q": "2"})], 15.0, id="started again"),
        pytest.param(
            [(0.0, {"q": "1"}), (15.0, {}), (900.0, {}), (915.0, {"q": "1"})], None, id="not seen for a while"
        ),
        pytest.param([(0.0, {"q": "1"}), (15.0, {}), (900.0, {"q": "2"})], 900.0, id="deployed within a quarter hour"),
        pytest.param([(0.0, {"q": "1"}), (15.0, {"q": "1", "r": "1"})], 15.0, id="one more query"),
        pytest.param([(0.0, {"q": "1", "r": "1"}), (15.0, {"q": "1"}), (30.0, {"q": "1"})], None, id="one not seen"),
        pytest.param([(0.0, {"q": "1", "r": "1"}), (90.0, {"q": "1"})], 90.0, id="one query less"),
        pytest.param(
            [(0.0, {"q": "1"}), *[(3600.0 + 60 * n, {"q": f"{n}"}) for n in range(2, 30)]],
            3720.0,
            id="failed, and again each minute: doubted once",
        ),
        pytest.param(
            [(0.0, {"q": "1"}), (3600.0, {"q": "2"}), (3900.0, {"q": "3"}), (4800.0, {"q": "3"})],
            3900.0,
            id="rolled back after five minutes: what was learned in them is doubted once it has lasted",
        ),
    ],
)
def test_since_when_figures_are_of_these_runs(looks, expected, restored):
    assert since(*looks, restored=restored) == expected
