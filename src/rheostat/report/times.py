"""Times as text, written and read. Everything is UTC, as the names of the journal's files are.

A simulated run begins at second 0, so a time in the first ten years of the epoch is a second of a run.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from rheostat.errors import Fault, InputError

_CLOCK = re.compile(r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}))?")
_NUMBER = re.compile(r"\d+(\.\d+)?")
_PART = r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d)\s*"
_DURATION = re.compile(f"(?:{_PART})+")
_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_ALLOWED = (
    "an ISO time, seconds of the epoch (of the run, if it is simulated), HH:MM[:SS] (UTC), or a duration before the "
    "journal's end as in 10m"
)
_RUN_S = 10 * 365 * 86_400


def parse_duration(text: str) -> float | None:
    """Seconds of ``90s``, ``10m``, ``1.5h``, ``2d``, or several of them; None if it is no duration.

    >>> parse_duration("1.5h"), parse_duration("2h20m"), parse_duration("1 min 35 s"), parse_duration("soon")
    (5400.0, 8400.0, 95.0, None)
    """
    if not _DURATION.fullmatch(text.strip()):
        return None
    return sum(float(value) * _UNITS[unit] for value, unit in re.findall(_PART, text))


def parse_time(text: str, field: str, end: float) -> float:
    """Seconds of the epoch. A time of day is its last occurrence until ``end``; a duration counts back from there.

    >>> parse_time("2025-11-28T10:00:00Z", "--at", 0.0), parse_time("10m", "--at", 1764324000.0)
    (1764324000.0, 1764323400.0)

    Raises:
        InputError: it is none of these; the fault names ``field``.
    """
    text = text.strip()
    try:
        at = _parse(text, end)
        day_and_clock(at)  # raises if the time is out of the range of dates
    except (ValueError, OverflowError, OSError) as error:
        raise InputError([Fault(field, repr(text), _ALLOWED, "the time is not understood")]) from error
    return at


def clock(at: float) -> str:
    """The time of day, UTC; or seconds of a simulated run.

    >>> clock(1764324000.0), clock(1200.0)
    ('10:00:00', '1,200 s')
    """
    return f"{at:,.0f} s" if _is_of_run(at) else f"{datetime.fromtimestamp(at, UTC):%H:%M:%S}"


def day_and_clock(at: float) -> str:
    """Day and time; or the second of a simulated run.

    >>> day_and_clock(1764324000.0), day_and_clock(1200.0)
    ('2025-11-28 10:00:00 UTC', 'second 1,200')
    """
    return f"second {at:,.0f}" if _is_of_run(at) else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def duration(seconds: float) -> str:
    """A duration in the two units that matter.

    >>> duration(7.25), duration(95), duration(3700), duration(200_000)
    ('7.2 s', '1 min 35 s', '1 h 1 min', '2 d 7 h')
    """
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    if hours == 0:
        return f"{minutes} min {second} s" if second else f"{minutes} min"
    return f"{hours} h {minute} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def _is_of_run(at: float) -> bool:
    return 0 <= at < _RUN_S


def _parse(text: str, end: float) -> float:
    back = parse_duration(text)
    if back is not None:
        return end - back
    match = _CLOCK.fullmatch(text)
    if match:
        last = datetime.fromtimestamp(end, UTC)
        hour, minute, second = int(match["hour"]), int(match["minute"]), int(match["second"] or 0)
        moment = last.replace(hour=hour, minute=minute, second=second, microsecond=0)
        return (moment if moment <= last else moment - timedelta(days=1)).timestamp()
    if _NUMBER.fullmatch(text):
        return float(text)
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
