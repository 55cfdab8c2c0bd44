"""Every error that Rheostat raises on purpose.

::

    RheostatError
    ├── InputError            the caller gave something wrong; carries every fault found (exit code 2)
    │   └── RefusedError      what was asked for cannot work on this session; carries every cause
    ├── UnavailableError      a service did not answer: trying again may help
    ├── ActuationError        the cluster refused or lost a change of executors
    ├── JournalError          a journal cannot be written, or a state in it does not fit
    └── PartFailedError       a process that we run has died; carries its name and the end of its log

Foreign exceptions are translated into one of these in the adapter that met them.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with an input.

    Attributes:
        field: name of the option, key or property, dotted where it is nested (``"guard.cooldown_up_s"``).
        given: what was given, as text.
        allowed: what would have been accepted, as text.
        message: one sentence that says what to do.
    """

    field: str
    given: str
    allowed: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message} (given: {self.given}; allowed: {self.allowed})"


class RheostatError(Exception):
    """Base of all errors of this package."""

    retryable: ClassVar[bool] = False
    exit_code: ClassVar[int] = 1


class InputError(RheostatError):
    """Something that the caller gave is wrong. All faults are reported at once."""

    exit_code: ClassVar[int] = 2

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(str(fault) for fault in self.faults))


class RefusedError(InputError):
    """The session cannot be scaled as asked. Each fault is one cause."""


def to_install(extras: str) -> str:
    """The words for the command that installs extras, comma separated: from a clone, as the package is in no registry.

    >>> to_install("spark,node")
    "in a clone of Rheostat: pip install '.[spark,node]'"
    """
    return f"in a clone of Rheostat: pip install '.[{extras}]'"


_EXTRAS = {
    **dict.fromkeys(("httpx", "pandas", "psutil", "pyarrow", "pyspark"), "spark"),
    **dict.fromkeys(("fastapi", "uvicorn"), "node"),
    "confluent_kafka": "kafka",
    "plotly": "plots",
    "prometheus_client": "metrics",
}
"""The extra that each optional package comes with."""


def missing_package(error: ImportError) -> str | None:
    """What to install where an optional package is missing; None where another import failed.

    >>> missing_package(ImportError(name="pyarrow.parquet"))
    "pyarrow is not installed; in a clone of Rheostat: pip install '.[spark]'"
    """
    package = (error.name or "").partition(".")[0]
    return f"{package} is not installed; {to_install(_EXTRAS[package])}" if package in _EXTRAS else None


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """The end of a message that names the closest known word, or nothing.

    >>> did_you_mean("kafak", ["kafka", "log"]), did_you_mean("x", ["kafka", "log"])
    ("; did you mean 'kafka'?", '')
    """
    close = closest(given, known)
    return "" if close is None else f"; did you mean {close!r}?"


def closest(given: str, known: Iterable[str]) -> str | None:
    """The known word that is most like what was given; None if none is."""
    return next(iter(difflib.get_close_matches(given, list(known), n=1)), None)


def attempt(read: Callable[P, T], instead: D, faults: list[Fault], *args: P.args, **kwargs: P.kwargs) -> T | D:
    """What ``read(*args)`` gives; or ``instead``, and its faults join the others, so that still others can be found.

    >>> def positive(number):
    ...     if number <= 0:
    ...         raise InputError([Fault("rate", str(number), "> 0", "it is out of range")])
    ...     return number
    >>> faults = []
    >>> attempt(positive, 1, faults, 7), attempt(positive, 1, faults, -7), [fault.given for fault in faults]
    (7, 1, ['-7'])
    """
    try:
        return read(*args, **kwargs)
    except InputError as error:
        faults += [fault for fault in error.faults if fault not in faults]
        return instead


class UnavailableError(RheostatError):
    """A service did not answer, or not in time."""

    retryable: ClassVar[bool] = True


class ActuationError(RheostatError):
    """The cluster refused or lost a change of executors."""

    retryable: ClassVar[bool] = True


class JournalError(RheostatError):
    """A journal cannot be written, or a state in it does not fit. What is damaged in one is an :class:`InputError`."""


class PartFailedError(RheostatError):
    """A process that we started has died.

    Attributes:
        part: name of the process, as shown to people (``"broker"``).
        log_tail: the last lines of its log.
    """

    def __init__(self, part: str, message: str, log_tail: str = "") -> None:
        self.part = part
        self.log_tail = log_tail
        super().__init__(f"{part}: {message}" + (f"\n{log_tail}" if log_tail else ""))
