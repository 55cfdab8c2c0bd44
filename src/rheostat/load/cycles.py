"""Shapes that follow the clock: daily and weekly.

A day goes from its trough at four in the morning through a busy day to its peak at seven in the evening. The heights
over the hours are ours, drawn after what sites used by people show; the load begins at midnight, a week on a Monday.
Each day, from trough to trough, has a height of its own: ``high − low`` times a normal variable of mean 1 and standard
deviation ``vary``, never below 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count, takewhile

from rheostat.load.curves import Pieces, RateCurve
from rheostat.load.kinds import SEED, Kind, Option, Part, mean_time, share_option

__all__ = ["CYCLES"]

_PROFILE = ((0, 0.0), (2, 0.1), (5, 0.75), (8, 0.8), (11, 0.75), (15, 1.0), (18, 0.75), (20, 0.45))
"""Hours since four in the morning, and the share of the height then; between them straight lines."""

_TROUGH_H = 4
_SATURDAY = 5


def _daily(part: Part) -> RateCurve:
    return _days(part, part.options["period"], lambda _: 1.0)


def _weekly(part: Part) -> RateCurve:
    weekend = part.options["weekend"]
    return _days(part, part.options["period"] / 7, lambda day: weekend if day % 7 >= _SATURDAY else 1.0)


def _days(part: Part, day_s: float, height: Callable[[int], float]) -> RateCurve:
    """Days from the one before the first on, of which only the small hours are left, to the end of the part."""
    hour, points = day_s / 24, []
    for day in takewhile(lambda day: day * day_s < part.seconds + 2 * day_s, count(-1)):
        rise = (part.high - part.low) * height(day) * max(0.0, part.random.gauss(1.0, part.options["vary"]))
        points += [(((day + 1) * 24 + hours) * hour, part.low + rise * share) for hours, share in _PROFILE]
    begin = (24 - _TROUGH_H) * hour
    return Pieces(points).between(begin, begin + part.seconds)


def _options(period: str, period_s: float, more: Mapping[str, Option]) -> dict[str, Option]:
    return {"period": mean_time(period, lambda _: period_s), **more, "vary": share_option(0.1), "seed": SEED}


CYCLES: dict[str, Kind] = {
    "daily": Kind(
        "days of `period` seconds, lowest at 4:00, highest at 19:00; their heights vary",
        _daily,
        options=_options("86400", 86_400.0, {}),
    ),
    "weekly": Kind(
        "weeks of `period` seconds, of such days; Saturday and Sunday reach `weekend` of the height",
        _weekly,
        options=_options("604800", 604_800.0, {"weekend": share_option(0.6)}),
    ),
}
"""By name."""
