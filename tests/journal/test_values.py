import json

import pytest

from rheostat.journal.values import assessment_from_json, assessment_to_json
from rheostat.model import Assessment


@pytest.mark.parametrize(
    ("idle_s", "written"),
    [
        pytest.param((90.5, 90.5, 90.5, 15.0, 0.0, 0.0), [[90.5, 3], [15.0, 1], [0.0, 2]], id="as runs"),
        pytest.param((), [], id="none is idle"),
    ],
)
def test_idle_times(idle_s, written):
    seen = Assessment(12.0, executors=6, idle_s=idle_s, missing=("lag_s",))
    data = assessment_to_json(seen, 12.0)
    assert json.loads(json.dumps(data)) == {"executors": 6, "idle_s": written, "missing": ["lag_s"]}
    assert assessment_from_json(json.loads(json.dumps(data)), 12.0) == seen
