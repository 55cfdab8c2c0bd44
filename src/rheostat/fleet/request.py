"""What is asked of the training of a fleet, checked as a whole before anything starts."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from rheostat.config.documents import read_pairs
from rheostat.config.phrases import given_of, phrase
from rheostat.errors import Fault, InputError, to_install, tried
from rheostat.fleet.history import jobs_in

if TYPE_CHECKING:
    from rheostat.learn import TrainingOptions

__all__ = ["Asked", "asked", "pyspark_faults", "training_options"]


@dataclass(frozen=True, slots=True)
class Asked:
    """A training.

    Attributes:
        jobs: name → files of its history.
        options: the same for all.
    """

    jobs: Mapping[str, Sequence[Path]]
    options: TrainingOptions


def asked(history: Path, only: Sequence[str], changes: Sequence[str], faults: list[Fault]) -> Asked:
    """The training that is meant.

    Args:
        history: its folder.
        only: names of jobs; empty: all.
        changes: options of the training as KEY=VALUE.
        faults: what else is wrong.

    Raises:
        InputError: these faults, and everything that is wrong with the rest.
    """
    faults = list(faults)
    options = tried(training_options, None, faults, changes)
    found: dict[str, list[Path]] = tried(jobs_in, {}, faults, history)
    faults += [_unknown("job", name, tuple(found)) for name in only if found and name not in found]
    if faults or options is None:
        raise InputError(faults)
    return Asked({name: found[name] for name in only} or found, options)


def training_options(changes: Sequence[str]) -> TrainingOptions:
    """Options of the training from KEY=VALUE, the others as they are by default.

    >>> training_options(["resamples=100", "degrees=[1, 2]"]).degrees
    (1, 2)

    Raises:
        InputError: everything that is wrong with them.
    """
    from rheostat.learn import TrainingOptions

    faults: list[Fault] = []
    values = dict(read_pairs(changes, faults, "option"))
    known = tuple(field.name for field in fields(TrainingOptions))
    faults += [_unknown(name, name, known) for name in values if name not in known]
    read = tried(_checked, None, faults, TrainingOptions, {name: values[name] for name in values if name in known})
    if faults or read is None:
        raise InputError(faults)
    return read


def pyspark_faults() -> list[Fault]:
    """A fault for each of PySpark and pyarrow that is not installed."""
    return [
        Fault("python", f"no {name}", f"with {name}", f"the pipeline needs it; {to_install('spark')}")
        for name in ("pyspark", "pyarrow")
        if importlib.util.find_spec(name) is None
    ]


def _checked(kind: type[TrainingOptions], values: dict[str, Any]) -> TrainingOptions:
    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        raise InputError(
            Fault(".".join(map(str, each["loc"])), given_of(each["input"]), *reversed(phrase(each)))
            for each in error.errors(include_url=False)
        ) from None


def _unknown(field: str, name: str, known: Sequence[str]) -> Fault:
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    shown = ", ".join(known[:10]) + (f" and {len(known) - 10} more" if len(known) > 10 else "")
    return Fault(field, repr(name), shown, f"there is no such {'job' if field == 'job' else 'option'}{hint}")
