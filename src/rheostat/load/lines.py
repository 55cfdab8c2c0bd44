"""Reading files of two comma-separated numbers a line, with every fault by its line number."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rheostat.errors import Fault
from rheostat.files import read_text, reason_of

__all__ = ["FaultList", "number_pairs", "read_lines"]

_MOST = 100

_MOST_BYTES = 64 * 2**20
"""Three million lines: a month of seconds."""


@dataclass(slots=True)
class FaultList:
    """Faults of one file; beyond a hundred they are only counted.

    Attributes:
        path: the file.
        option: the option that named it.
    """

    path: Path
    option: str
    _faults: list[Fault] = field(default_factory=list)
    _more: int = 0

    def add(self, line: int, given: str, allowed: str, message: str) -> None:
        """One more fault."""
        if len(self._faults) < _MOST:
            self._faults.append(Fault(self.option, given, allowed, f"{self.path}, line {line}: {message}"))
        else:
            self._more += 1

    def whole(self, message: str) -> None:
        """A fault of the file itself, not of one of its lines."""
        self._faults.append(Fault(self.option, str(self.path), "a readable text file", f"{self.path}: {message}"))

    def __iter__(self) -> Iterator[Fault]:
        yield from self._faults
        if self._more:
            message = f"{self.path}: and {self._more} faults more"
            yield Fault(self.option, str(self.path), "a file without faults", message)


def read_lines(path: Path, faults: FaultList) -> list[tuple[int, str]]:
    """The lines that say something, with their numbers from 1; blank lines and comments (``#``) are left out."""
    try:
        text = read_text(path, _MOST_BYTES, "utf-8-sig")
    except (OSError, ValueError) as error:
        faults.whole(f"cannot be read: {reason_of(error)}")
        return []
    stripped = ((number, line.partition("#")[0].strip()) for number, line in enumerate(text.splitlines(), start=1))
    return [(number, line) for number, line in stripped if line]


def number_pairs(lines: list[tuple[int, str]], names: str, faults: FaultList) -> list[tuple[int, float, float]]:
    """``(line number, first, second)`` of each line with two finite numbers, both ≥ 0; faults for the others."""
    pairs = []
    for number, line in lines:
        values = [_number(piece) for piece in line.split(",")]
        if len(values) == 2 and values[0] is not None and values[1] is not None:
            pairs.append((number, values[0], values[1]))
        else:
            faults.add(number, line, f"{names}: two finite numbers ≥ 0", "cannot be read")
    return pairs


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
