"""The relative change of the lag (S4, section 4.1): what an autoscaler that knows one number may scale up on.

::

    R = 1 + m · d(total lag)/dt ÷ consumed                                         (3), m = 1
    value = R where the total lag is above the threshold, −R below it              (4)

The derivative is that of PromQL's ``deriv`` over a minute: the slope of a straight line through the samples. With m = 1
R is arrival ÷ consumed. Gaps that the document leaves [ours]: nothing consumed (a restart's pause, no input) makes (3)
unknown; at the threshold (4) is 0 ÷ 0, and the metric abstains. The total lag is exact here; the document's estimate,
Σ lag_max × assigned partitions (2), is never less.
"""

from __future__ import annotations

from collections.abc import Sequence

from rheostat.analyze.regression import Point, line

__all__ = ["gated", "relative_change", "slope"]


def slope(samples: Sequence[tuple[float, float]]) -> float | None:
    """The slope of the straight line through ``(s, value)`` with the least squares, per second; None before two.

    >>> slope([(0.0, 100.0), (15.0, 130.0), (30.0, 160.0)])
    2.0
    """
    fit = line([Point(at, value) for at, value in samples]) if len(samples) > 1 else None
    return None if fit is None or fit.spread1 == 0 else fit.c1


def relative_change(per_second: float, consumed: float, overshoot: float = 1.0) -> float | None:
    """R of equation 3; None where nothing is consumed.

    Args:
        per_second: change of the total lag, records/s.
        consumed: records/s.
        overshoot: m, a multiplier of the change.

    >>> relative_change(50.0, 100.0), relative_change(50.0, 100.0, overshoot=1.2), relative_change(50.0, 0.0)
    (1.5, 1.6, None)
    """
    return 1 + overshoot * per_second / consumed if consumed > 0 else None


def gated(relative: float, lag: float, threshold: float) -> float | None:
    """Equation 4: negative below the threshold, so that the largest of several metrics is another; None at it.

    >>> gated(1.5, 900.0, 1000.0), gated(1.5, 1100.0, 1000.0), gated(1.5, 1000.0, 1000.0)
    (-1.5, 1.5, None)
    """
    if lag == threshold:
        return None
    return relative if lag > threshold else -relative
