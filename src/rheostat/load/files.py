"""Loads from files: traces and variation files, two comma-separated numbers a line.

A trace is CSV with the header ``second,events_per_second`` and a line for each bin: the second at which it begins and
its mean rate. All bins are equally wide; the first line is time 0. Between the middles of the bins the rate is a
straight line, in the first and the last half bin it is level: a coarse trace gets no steps that its source did not
have, and offers exactly Σ rate × bin records.

A variation file, as Faban reads it (S1, section 2.8), has lines of seconds and level: for how long so many threads
produce records. Every fault is reported with its line number.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

from rheostat.errors import Fault, InputError, attempt
from rheostat.files import read_text, reason_of, refuse_special
from rheostat.load.curves import Pieces, RateCurve, Sequel, add_curves, staircase

HEADER = "second,events_per_second"

_MAX_HEADER_CHARACTERS = 200
_MAX_FAULTS = 100
_MAX_BYTES = 64 * 2**20
"""Three million lines: a month of seconds."""


class Trace(Pieces):
    """A recorded load. ``bin_s``: width of a bin, in seconds, > 0."""

    def __init__(self, rates: Sequence[float], bin_s: float) -> None:
        middles = [((index + 0.5) * bin_s, rate) for index, rate in enumerate(rates)]
        super().__init__([(0.0, rates[0]), *middles, (len(rates) * bin_s, rates[-1])])
        self.bin_s = bin_s


def trace_files(path: Path) -> tuple[Path, ...]:
    """The file itself; of a folder every ``*.csv`` with the header of a trace, by name."""
    if not path.is_dir():
        return (path,)
    return tuple(file for file in sorted(path.glob("*.csv")) if _is_trace(file))


def _is_trace(file: Path) -> bool:
    try:
        refuse_special(file)
        with file.open(encoding="utf-8-sig") as lines:
            return lines.readline(_MAX_HEADER_CHARACTERS).replace(" ", "").strip() == HEADER
    except (OSError, UnicodeDecodeError):
        return False


def read_trace(path: Path) -> Trace:
    """Read one trace.

    Raises:
        InputError: with every faulty line: not two numbers, negative, NaN, out of order, or after a gap.
    """
    faults = _LineFaults(path, "trace")
    lines = _read_lines(path, "trace")
    number, header = lines[0] if lines else (1, "nothing")
    if header.replace(" ", "") != HEADER:
        faults.add(number, header, HEADER, "the file does not begin with the header of a trace")
    elif len(lines) < 2:
        faults.add(number, header, "at least one line of figures", "the trace is empty")
    rows = [] if faults.first else _read_pairs(lines[1:], HEADER, faults)
    bin_s = _bin_width(rows)
    for before, row in pairwise(rows):
        expected = before.first + bin_s * (row.place - before.place)
        if row.first <= before.first:
            faults.add(row.line, f"{row.first:g}", f"{expected:g}", f"does not come after second {before.first:g}")
        elif abs(row.first - expected) > 1e-6 * bin_s:
            message = f"a gap, or another width: bins are {bin_s:g} s wide"
            faults.add(row.line, f"{row.first:g}", f"{expected:g}", message)
    faults.raise_any()
    return Trace([row.second for row in rows], bin_s)


def read_traces(paths: Sequence[Path]) -> RateCurve:
    """Read files and folders of traces, to be played one after the other.

    Raises:
        InputError: with every faulty line of every file.
    """
    allowed = f"a folder of CSV files that begin with {HEADER}"
    faults = [Fault("trace", str(path), allowed, "has none") for path in paths if not trace_files(path)]
    files = chain.from_iterable(map(trace_files, paths))
    curves = [curve for file in files if (curve := attempt(read_trace, None, faults, file)) is not None]
    if faults or not curves:
        raise InputError(faults or [Fault("trace", "", "files or folders, comma separated", "no trace is named")])
    return curves[0] if len(curves) == 1 else Sequel(curves)


def read_variation(paths: Sequence[Path], rate_per_level: float) -> Pieces:
    """Read the load of one or more agents, which produce at the same time. ``rate_per_level``: records/s of a thread.

    Raises:
        InputError: with every faulty line of every file.
    """
    faults: list[Fault] = []
    agents = [levels for path in paths if (levels := attempt(_read_levels, None, faults, path)) is not None]
    if faults or not agents:
        raise InputError(faults or [Fault("variation", "", "files, comma separated", "no file is named")])
    return add_curves([staircase([(row.first, row.second * rate_per_level) for row in levels]) for levels in agents])


def _read_levels(path: Path) -> list[_Row]:
    faults = _LineFaults(path, "variation")
    lines = _read_lines(path, "variation")
    rows = _read_pairs(lines, "seconds, level", faults)
    for row in rows:
        if row.first == 0:
            faults.add(row.line, f"{row.first:g}", "seconds > 0", "a level must last some time")
        if row.second != int(row.second):
            faults.add(row.line, f"{row.second:g}", "a whole number ≥ 0", "a level is a number of threads")
    if not lines:
        faults.add(1, "nothing", "lines of: seconds, level", "the file is empty")
    faults.raise_any()
    return rows


# Reading lines of two numbers


class _Row(NamedTuple):
    """Two numbers; ``line``: in the file, from 1; ``place``: among the lines that are neither blank nor a comment."""

    line: int
    place: int
    first: float
    second: float


@dataclass(slots=True)
class _LineFaults:
    """Faults in the lines of a file that ``option`` names; beyond a hundred they are only counted."""

    path: Path
    option: str
    first: list[Fault] = field(default_factory=list)
    more: int = 0

    def add(self, line: int, given: str, allowed: str, message: str) -> None:
        if len(self.first) < _MAX_FAULTS:
            self.first.append(Fault(self.option, given, allowed, f"{self.path}, line {line}: {message}"))
        else:
            self.more += 1

    def raise_any(self) -> None:
        if self.more:
            message = f"{self.path}: and {self.more} faults more"
            self.first.append(Fault(self.option, str(self.path), "a file without faults", message))
        if self.first:
            raise InputError(self.first)


def _read_lines(path: Path, option: str) -> list[tuple[int, str]]:
    """Lines with their numbers from 1, without blank lines and comments (``#``)."""
    try:
        text = read_text(path, _MAX_BYTES, "utf-8-sig")
    except (OSError, ValueError) as error:
        message = f"{path}: cannot be read: {reason_of(error)}"
        raise InputError([Fault(option, str(path), "a readable text file", message)]) from error
    stripped = ((number, line.partition("#")[0].strip()) for number, line in enumerate(text.splitlines(), start=1))
    return [(number, line) for number, line in stripped if line]


def _read_pairs(lines: Iterable[tuple[int, str]], names: str, faults: _LineFaults) -> list[_Row]:
    """The lines with two finite numbers, both ≥ 0."""
    rows = []
    for place, (number, line) in enumerate(lines):
        try:
            first, second = map(float, line.split(","))
        except ValueError:
            first = second = math.nan
        if 0 <= first < math.inf and 0 <= second < math.inf:
            rows.append(_Row(number, place, first, second))
        else:
            faults.add(number, line, f"{names}: two finite numbers ≥ 0", "cannot be read")
    return rows


def _bin_width(rows: Sequence[_Row]) -> float:
    """The most common distance between two lines, unreadable ones counted; 1 s for a single line."""
    steps = Counter(round((row.first - before.first) / (row.place - before.place), 9) for before, row in pairwise(rows))
    forward = {step: count for step, count in steps.items() if step > 0}
    return max(forward, key=lambda step: (forward[step], -step)) if forward else 1.0
