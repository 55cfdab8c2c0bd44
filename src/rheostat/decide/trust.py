"""Which of the learned figures count: those of the present runs of the queries, until a jump says otherwise.

A new run may have new code. Figures of an earlier one are *doubtful*: they are no proof against fewer executors, and
they size an increase while there are no others. The first measurement ends the doubt: where it is as they say they
count again, where it jumps they go. A rate that is only a lower bound ends it by a jump upwards alone. Within a run a
jump removes the figures that are older than an hour: something outside the job has changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeVar

from rheostat.model import Assessment

_JUMP = 1.5
"""A rate that differs by more from what was expected at its number is a jump."""
_OLD_S = 3600.0
"""Figures are old from this age on, s. Younger ones stand beside a jump: waves of tasks make jumps, too."""


class _Dated(Protocol):
    @property
    def at(self) -> float: ...


Dated = TypeVar("Dated", bound=_Dated)


def is_jump(rate: float, expected: float | None) -> bool:
    """Whether a rate is another one than expected.

    >>> is_jump(3944.0, 1970.0), is_jump(2100.0, 1970.0), is_jump(1000.0, 1970.0), is_jump(1000.0, None)
    (True, False, True, False)
    """
    return bool(expected) and not 1 / _JUMP <= rate / (expected or 1.0) <= _JUMP


def drop_old(figures: Iterable[Dated], at: float) -> tuple[Dated, ...]:
    """The figures that stand beside a jump at this time."""
    return tuple([each for each in figures if each.at >= at - _OLD_S])


class Trust(NamedTuple):
    """What is doubtful.

    Attributes:
        run: the runs that figures are learned in, by the time when they began; None: the first ones.
        since: figures of before are doubtful; None: none is.
    """

    run: float | None = None
    since: float | None = None

    def follow(self, assessment: Assessment) -> Trust:
        """With the runs of this sample.

        >>> Trust().follow(Assessment(70.0, run_since=60.0))
        Trust(run=60.0, since=60.0)
        """
        run = assessment.run_since
        return self if run is None or run == self.run else Trust(run, run)

    def trusted(self, figures: tuple[Dated, ...]) -> tuple[Dated, ...]:
        since = self.since
        return figures if since is None else tuple([each for each in figures if each.at >= since])

    def doubtful(self, figures: tuple[Dated, ...]) -> tuple[Dated, ...]:
        since = self.since
        return () if since is None else tuple([each for each in figures if each.at < since])

    def best(self, figures: tuple[Dated, ...]) -> tuple[Dated, ...]:
        """Those that size an increase: the doubtful ones while there are no others."""
        return self.trusted(figures) or figures

    def settled(self) -> Trust:
        """Without doubt: the doubtful figures have been confirmed, or are gone."""
        return self._replace(since=None)

    def confirms(self, rate: float, expected: float | None, *, measured: bool) -> bool | None:
        """Whether a new rate confirms the doubtful figures that let ``expected`` be expected; None: it says nothing.

        >>> Trust(60.0, 60.0).confirms(900.0, 1000.0, measured=True)
        True
        >>> Trust(60.0, 60.0).confirms(500.0, 1000.0, measured=False), Trust().confirms(9.0, 1.0, measured=True)
        (None, None)
        """
        if self.since is None or not expected:
            return None
        if is_jump(rate, expected):
            return False if measured or rate > expected else None
        return True if measured else None
