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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from rheostat.errors import Fault, InputError
from rheostat.files import read_text, reason_of, refuse_special
from rheostat.load.curves import Pieces, RateCurve, Sequel, Together, staircase

HEADER = "second,events_per_second"

_MAX_HEADER_CHARACTERS = 200
_MAX_FAULTS = 100
_MAX_BYTES = 64 * 2**20
"""Three million lines: a month of seconds."""


class Trace(Pieces):
    """A recorded load.

    Attributes:
        bin_s: width of a bin, in seconds; > 0.
    """

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
    faults = _FileFaults(path, "trace")
    lines = _read_lines(path, faults)
    if not faults:
        number, header = lines[0] if lines else (1, "nothing")
        if header.replace(" ", "") != HEADER:
            faults.add(number, header, HEADER, "the file does not begin with the header of a trace")
        elif len(lines) < 2:
            faults.add(number, header, "at least one line of figures", "the trace is empty")
    rows = [] if faults else _read_pairs(lines[1:], HEADER, faults)
    places = {number: index for index, (number, _) in enumerate(lines)}
    width = _bin_width(rows, places)
    _check_order(rows, places, width, faults)
    if faults:
        raise InputError(faults)
    return Trace([rate for _, _, rate in rows], width)


def read_traces(paths: Sequence[Path]) -> RateCurve:
    """Read files and folders of traces, to be played one after the other.

    Raises:
        InputError: with every faulty line of every file.
    """
    curves: list[RateCurve] = []
    faults: list[Fault] = []
    for path in paths:
        files = trace_files(path)
        if not files:
            faults.append(Fault("trace", str(path), f"a folder of CSV files that begin with {HEADER}", "has none"))
        for file in files:
            try:
                curves.append(read_trace(file))
            except InputError as error:
                faults += error.faults
    if faults or not curves:
        raise InputError(faults or [Fault("trace", "", "files or folders, comma separated", "no trace is named")])
    return curves[0] if len(curves) == 1 else Sequel(curves)


def _bin_width(rows: list[tuple[int, float, float]], places: dict[int, int]) -> float:
    """The most common distance between two lines, unreadable ones counted; 1 s for a single line."""
    steps = Counter(
        round((right[1] - left[1]) / (places[right[0]] - places[left[0]]), 9) for left, right in pairwise(rows)
    )
    forward = {step: count for step, count in steps.items() if step > 0}
    return max(forward, key=lambda step: (forward[step], -step)) if forward else 1.0


def _check_order(
    rows: list[tuple[int, float, float]], places: dict[int, int], width: float, faults: _FileFaults
) -> None:
    """Each line begins one bin after the one before; an unreadable line keeps its place."""
    for (line, before, _), (number, second, _) in pairwise(rows):
        expected = before + width * (places[number] - places[line])
        if second <= before:
            faults.add(number, f"{second:g}", f"{expected:g}", f"does not come after second {before:g}")
        elif abs(second - expected) > 1e-6 * width:
            faults.add(number, f"{second:g}", f"{expected:g}", f"a gap, or another width: bins are {width:g} s wide")


def read_variation(paths: Sequence[Path], rate_per_level: float) -> RateCurve:
    """Read the load of one or more agents, which produce at the same time.

    Args:
        paths: one file for each agent.
        rate_per_level: records/s of one producer thread.

    Raises:
        InputError: with every faulty line of every file.
    """
    agents: list[RateCurve] = []
    faults: list[Fault] = []
    for path in paths:
        try:
            levels = _read_levels(path)
        except InputError as error:
            faults += error.faults
        else:
            agents.append(staircase([(seconds, level * rate_per_level) for seconds, level in levels]))
    if faults or not agents:
        raise InputError(faults or [Fault("variation", "", "files, comma separated", "no file is named")])
    return agents[0] if len(agents) == 1 else Together(agents)


def _read_levels(path: Path) -> list[tuple[float, float]]:
    faults = _FileFaults(path, "variation")
    lines = _read_lines(path, faults)
    pairs = _read_pairs(lines, "seconds, level", faults)
    for number, seconds, level in pairs:
        if seconds == 0:
            faults.add(number, f"{seconds:g}", "seconds > 0", "a level must last some time")
        if level != int(level):
            faults.add(number, f"{level:g}", "a whole number ≥ 0", "a level is a number of threads")
    if not lines and not faults:
        faults.add(1, "nothing", "lines of: seconds, level", "the file is empty")
    if faults:
        raise InputError(faults)
    return [(seconds, level) for _, seconds, level in pairs]


# Reading lines of two numbers


@dataclass(slots=True)
class _FileFaults:
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
        if len(self._faults) < _MAX_FAULTS:
            self._faults.append(Fault(self.option, given, allowed, f"{self.path}, line {line}: {message}"))
        else:
            self._more += 1

    def add_unreadable(self, reason: str) -> None:
        message = f"{self.path}: cannot be read: {reason}"
        self._faults.append(Fault(self.option, str(self.path), "a readable text file", message))

    def __bool__(self) -> bool:
        return bool(self._faults)

    def __iter__(self) -> Iterator[Fault]:
        yield from self._faults
        if self._more:
            message = f"{self.path}: and {self._more} faults more"
            yield Fault(self.option, str(self.path), "a file without faults", message)


def _read_lines(path: Path, faults: _FileFaults) -> list[tuple[int, str]]:
    """Lines with their numbers from 1, without blank lines and comments (``#``)."""
    try:
        text = read_text(path, _MAX_BYTES, "utf-8-sig")
    except (OSError, ValueError) as error:
        faults.add_unreadable(reason_of(error))
        return []
    stripped = ((number, line.partition("#")[0].strip()) for number, line in enumerate(text.splitlines(), start=1))
    return [(number, line) for number, line in stripped if line]


def _read_pairs(lines: list[tuple[int, str]], names: str, faults: _FileFaults) -> list[tuple[int, float, float]]:
    """``(line number, first, second)`` of each line with two finite numbers, both ≥ 0."""
    pairs = []
    for number, line in lines:
        try:
            first, second = map(float, line.split(","))
        except ValueError:
            first = second = math.nan
        if 0 <= first < math.inf and 0 <= second < math.inf:
            pairs.append((number, first, second))
        else:
            faults.add(number, line, f"{names}: two finite numbers ≥ 0", "cannot be read")
    return pairs
