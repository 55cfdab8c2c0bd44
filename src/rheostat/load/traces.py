"""Load traces: CSV with the header ``second,events_per_second``, one line for each bin.

A line gives the mean rate over its bin, which begins at that second; all bins are equally wide. Between the middles of
the bins the rate is a straight line, in the first and the last half bin it is level: a coarse trace has no steps that
its source did not have, and offers exactly Σ rate × bin records. The first line is time 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from rheostat.errors import Fault, InputError
from rheostat.files import refuse_special
from rheostat.load.curves import Pieces, RateCurve, Sequel
from rheostat.load.lines import FaultList, number_pairs, read_lines

__all__ = ["HEADER", "Trace", "read_trace", "read_traces", "trace_files"]

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
