"""Load traces: CSV with the header ``second,events_per_second``, one line for each bin.

A line gives the mean rate over its bin, which begins at that second; all bins are equally wide. Between the middles of
the bins the rate is a straight line, in the first and the last half bin it is level: a coarse trace has no steps that
its source did not have, and offers exactly Σ rate × bin records. The first line is time 0.
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

_LONGEST_HEADER = 200
"""Characters that are read to see whether a file is a trace."""


class Trace(Pieces):
    """A load as it was recorded.

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


def read_trace(path: Path) -> Trace:
    """One trace.

    Raises:
        InputError: with every faulty line: not two numbers, negative, NaN, out of order, or after a gap.
    """
    faults = FaultList(path, "trace")
    curve = _read(path, faults)
    if curve is None:
        raise InputError(faults)
    return curve


def read_traces(paths: Sequence[Path]) -> RateCurve:
    """Files and folders of traces, played one after the other.

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
            found = FaultList(file, "trace")
            curve = _read(file, found)
            faults += list(found)
            curves += [] if curve is None else [curve]
    if faults or not curves:
        raise InputError(faults or [Fault("trace", "", "files or folders, comma separated", "no trace is named")])
    return curves[0] if len(curves) == 1 else Sequel(curves)


def _read(path: Path, faults: FaultList) -> Trace | None:
    lines = read_lines(path, faults)
    if not list(faults):
        _check_header(lines, faults)
    rows = [] if list(faults) else number_pairs(lines[1:], HEADER, faults)
    places = {number: index for index, (number, _) in enumerate(lines)}
    width = _bin(rows, places)
    _check_order(rows, places, width, faults)
    return None if list(faults) else Trace([rate for _, _, rate in rows], width)


def _check_header(lines: list[tuple[int, str]], faults: FaultList) -> None:
    number, header = lines[0] if lines else (1, "nothing")
    if header.replace(" ", "") != HEADER:
        faults.add(number, header, HEADER, "the file does not begin with the header of a trace")
    elif len(lines) < 2:
        faults.add(number, header, "at least one line of figures", "the trace is empty")


def _bin(rows: list[tuple[int, float, float]], places: dict[int, int]) -> float:
    """The usual distance between two lines, those counted that could not be read; 1 s for a single line."""
    steps = Counter(
        round((right[1] - left[1]) / (places[right[0]] - places[left[0]]), 9) for left, right in pairwise(rows)
    )
    forward = {step: count for step, count in steps.items() if step > 0}
    return max(forward, key=lambda step: (forward[step], -step)) if forward else 1.0


def _check_order(rows: list[tuple[int, float, float]], places: dict[int, int], width: float, faults: FaultList) -> None:
    """Each line one bin after the one before; a line that could not be read keeps its place."""
    for (line, before, _), (number, second, _) in pairwise(rows):
        expected = before + width * (places[number] - places[line])
        if second <= before:
            faults.add(number, f"{second:g}", f"{expected:g}", f"does not come after second {before:g}")
        elif abs(second - expected) > 1e-6 * width:
            faults.add(number, f"{second:g}", f"{expected:g}", f"a gap, or another width: bins are {width:g} s wide")


def _is_trace(file: Path) -> bool:
    try:
        refuse_special(file)
        with file.open(encoding="utf-8-sig") as lines:
            return lines.readline(_LONGEST_HEADER).replace(" ", "").strip() == HEADER
    except (OSError, UnicodeDecodeError):
        return False


# Variation files, as Faban reads them (S1, section 2.8): how many threads drive the load, and for how long.


def read_variation(paths: Sequence[Path], rate_per_level: float) -> RateCurve:
    """The load of one or more agents.

    Args:
        paths: one file for each agent.
        rate_per_level: records/s of one producer thread.

    Raises:
        InputError: with every faulty line of every file.
    """
    agents, faults = [], []
    for path in paths:
        found = FaultList(path, "variation")
        levels = _levels(path, found)
        faults += list(found)
        if levels:
            agents.append(staircase([(seconds, level * rate_per_level) for seconds, level in levels]))
    if faults or not agents:
        raise InputError(faults or [Fault("variation", "", "files, comma separated", "no file is named")])
    return agents[0] if len(agents) == 1 else Together(agents)


def _levels(path: Path, faults: FaultList) -> list[tuple[float, float]]:
    lines = read_lines(path, faults)
    for number, seconds, level in (pairs := number_pairs(lines, "seconds, level", faults)):
        if seconds == 0:
            faults.add(number, f"{seconds:g}", "seconds > 0", "a level must last some time")
        if level != int(level):
            faults.add(number, f"{level:g}", "a whole number ≥ 0", "a level is a number of threads")
    if not lines and not list(faults):
        faults.add(1, "nothing", "lines of: seconds, level", "the file is empty")
    return [(seconds, level) for _, seconds, level in pairs]


# Reading files of two comma-separated numbers a line, with every fault by its line number.


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
