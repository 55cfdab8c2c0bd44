"""Figures as people read them, for the sentences of reasons."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby


def count(value: float | None) -> str:
    """A number of records, in groups of three digits.

    >>> count(3310.4), count(None)
    ('3 310', 'unknown')
    """
    return "unknown" if value is None else f"{value:,.0f}".replace(",", " ")


def batches(number: int) -> str:
    """A number of batches.

    >>> batches(1), batches(2)
    ('1 batch', '2 batches')
    """
    return several(number, "batch", "batches")


def carry(number: int) -> str:
    """What so many executors do, before a rate.

    >>> carry(1), carry(3)
    ('1 executor carries', '3 executors carry')
    """
    return several(number, "executor carries", "executors carry")


def executors(number: int) -> str:
    """A number of executors.

    >>> executors(1), executors(3)
    ('1 executor', '3 executors')
    """
    return f"{number} executor" if number == 1 else f"{number} executors"


def several(number: int, what: str, many: str | None = None) -> str:
    """A number of things; ``many``: their plural, where it is not made with an s.

    >>> several(1, "batch", "batches"), several(0, "batch", "batches"), several(1200, "task")
    ('1 batch', '0 batches', '1 200 tasks')
    """
    return f"{count(number)} {what if number == 1 else many or what + 's'}"


def names(given: Iterable[str]) -> str:
    """Names in their order; one that follows itself is counted.

    >>> names(["a", "b", "b"]), names([])
    ('a, b ×2', 'none')
    """
    runs = [(name, len(list(same))) for name, same in groupby(given)]
    return ", ".join(name if several == 1 else f"{name} ×{several}" for name, several in runs) or "none"


_MOST_NAMED = 6


def first_few(given: Sequence[str]) -> str:
    """Names, but no more than six.

    >>> first_few(["a", "b"]), first_few(["a", "b", "c", "d", "e", "f", "g"])
    ('a, b', 'a, b, c, d, e, f and 1 more')
    """
    more = len(given) - _MOST_NAMED
    return names(given[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def per_second(value: float | None) -> str:
    """A rate; small ones with a decimal.

    >>> per_second(812.2), per_second(2.25), per_second(None)
    ('812/s', '2.2/s', 'unknown')
    """
    if value is None:
        return "unknown"
    return f"{value:.1f}/s" if 0 < value < 10 else f"{count(value)}/s"


def percent(share: float | None) -> str:
    """A share in percent; ``∞`` where it has no bound.

    >>> percent(0.344), percent(math.inf)
    ('34 %', '∞ %')
    """
    if share is None:
        return "unknown"
    return "∞ %" if math.isinf(share) else f"{count(100 * share)} %"


def records(number: float | None) -> str:
    """A number of records.

    >>> records(0.6), records(3310.4), records(None)
    ('1 record', '3 310 records', 'an unknown number of records')
    """
    return "an unknown number of records" if number is None else several(round(number), "record")


def seconds(value: float) -> str:
    """A duration, to a tenth of a second below ten.

    >>> seconds(4.26), seconds(42.6)
    ('4.3 s', '43 s')
    """
    return f"{value:.1f} s" if abs(value) < 9.95 else f"{value:.0f} s"


def finite(value: float | None) -> float | None:
    """The value for a record: None where it is unknown or not finite.

    >>> finite(math.inf) is None
    True
    """
    return None if value is None or not math.isfinite(value) else value
