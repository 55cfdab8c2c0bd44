"""When a model no longer predicts: abruptly, gradually, or not at all. All sums are worked out by hand."""

from collections.abc import Iterable

import pytest

from rheostat.policies.trend import Detector, DetectorState


def found_at(detector: Detector, residuals: Iterable[float]) -> int | None:
    """Which residual is the change point, counted from 1; None: none is."""
    state = DetectorState()
    for number, residual in enumerate(residuals, 1):
        worsening, state = detector.watch(residual, state)
        if worsening.changed:
            return number
    return None


@pytest.mark.parametrize(
    ("residuals", "expected"),
    [
        pytest.param([0.079] * 4, None, id="under the limit"),
        pytest.param([0.01, 0.08], 2, id="at the limit, at once"),
    ],
)
def test_the_rule_of_the_document(residuals, expected):
    assert found_at(Detector(limit=0.08, in_a_row=1, allowance=None), residuals) == expected


@pytest.mark.parametrize(
    ("residuals", "expected"),
    [
        pytest.param([0.02] * 1000, None, id="what a good model has never adds up"),
        pytest.param([0.06] * 20, 10, id="10 × (0.06 − 0.02) = 5 × 0.08"),
        pytest.param([0.03] * 100, 40, id="40 × (0.03 − 0.02) = 5 × 0.08"),
        pytest.param([0.06, 0.0, 0.0] * 100, None, id="what falls back is forgotten"),
        pytest.param([50.0, 0.0, 0.0, 0.0], None, id="one wild residual does not decide"),
        pytest.param([0.005 * n for n in range(1, 40)], 17, id="a drift from 0.025 on: 0.005 · (1 + … + 13) = 0.455"),
    ],
)
def test_gradual_change(residuals, expected):
    detector = Detector(limit=0.08, in_a_row=3, allowance=0.02, patience=5.0)
    rounded = Detector(detector.limit, detector.in_a_row, detector.allowance, detector.patience - 1e-9)
    assert found_at(rounded, residuals) == expected


def test_abrupt_change_must_last_for_three_in_a_row():
    detector = Detector(limit=0.08, in_a_row=3, allowance=None)
    assert found_at(detector, [0.5, 0.5, 0.0, 0.5, 0.5, 0.5]) == 6


def test_the_score_says_which_of_the_two_it_was():
    detector = Detector(limit=0.08, in_a_row=1, allowance=0.02, patience=5.0)
    abrupt, _ = detector.watch(0.1, DetectorState())
    gradual, _ = detector.watch(0.04, DetectorState(total=0.39))
    assert (abrupt.gradual, gradual.gradual) == (False, True)
    assert [abrupt.score, gradual.score] == pytest.approx([1.25, 1.025])


@pytest.mark.parametrize(
    ("residual", "of_model", "missed"),
    [
        pytest.param(0.2, 0.01, True, id="r high, r_cap low: the workload was another"),
        pytest.param(0.2, 0.2, False, id="both high: the model is wrong"),
        pytest.param(0.05, 0.01, False, id="both low: all is well"),
    ],
)
def test_a_forecast_miss_is_no_capacity_miss(residual, of_model, missed):
    assert Detector(limit=0.08).forecast_missed(residual, of_model) is missed
