"""The columns of a comparison's tables: one row a policy, means over the seeds, the best of each column known. Pure."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rheostat.errors import Fault, InputError

__all__ = ["COLUMNS", "Column", "Row", "Table", "column_named", "table_of"]

Score = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A figure of a run; less of it is better.

    Attributes:
        key: its name for ``--sort``.
        title: with the unit, for people.
        value: of one score; None: not measured.
        digits: after the point.
        percent: whether it is a share that is shown in percent.
    """

    key: str
    title: str
    value: Callable[[Score], float | None]
    digits: int = 2
    percent: bool = False

    def shown(self, value: float | None) -> str:
        """The figure for people; a dash where it was not measured."""
        if value is None:
            return "–"
        return f"{100 * value:.{self.digits}f}%" if self.percent else f"{value:,.{self.digits}f}"


def _key(name: str) -> Callable[[Score], float | None]:
    return lambda score: score[name]


def _ratio(score: Score) -> float | None:
    cost, optimum = score["total_cost"], score["optimum_cost"]
    return cost / optimum if cost is not None and optimum else None


COLUMNS = (
    Column("cost", "cost, executor-h", _key("total_cost")),
    Column("ratio", "÷ optimum", _ratio, 3),
    Column("hours", "executor-h", _key("executor_hours")),
    Column("changes", "changes", _key("reconfigurations"), 0),
    Column("violation", "over objective", _key("violation_share"), 2, percent=True),
    Column("lag_p95", "lag p95, s", _key("lag_p95_s"), 1),
    Column("lag_max", "lag max, s", _key("lag_max_s"), 1),
    Column("accuracy_o", "acc. over", _key("provisioning_accuracy_o")),
    Column("accuracy_u", "acc. under", _key("provisioning_accuracy_u")),
    Column("timeshare_o", "time over", _key("timeshare_o"), 1, percent=True),
    Column("timeshare_u", "time under", _key("timeshare_u"), 1, percent=True),
    Column("excess", "excess time", _key("excess_time"), 4),
)
"""In the order in which they are shown."""


def column_named(key: str) -> Column:
    """The column of that name.

    Raises:
        InputError: there is none; with the nearest name.
    """
    known = {column.key: column for column in COLUMNS}
    if key in known:
        return known[key]
    close = difflib.get_close_matches(key, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise InputError([Fault("sort", repr(key), " | ".join(known), f"there is no such column{hint}")])


@dataclass(frozen=True, slots=True)
class Row:
    """A policy: its figures in the order of the columns. ``judged`` False: only shown, never the best."""

    name: str
    values: tuple[float | None, ...]
    judged: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """The rows, sorted; ``best``: the cells (row, column) with the least figure among the judged rows."""

    rows: tuple[Row, ...]
    best: frozenset[tuple[int, int]]

    def texts(self) -> list[list[str]]:
        """As text, header row first."""
        shown = [[column.shown(value) for column, value in zip(COLUMNS, row.values, strict=True)] for row in self.rows]
        return [["policy", *(column.title for column in COLUMNS)]] + [
            [row.name, *cells] for row, cells in zip(self.rows, shown, strict=True)
        ]

    @property
    def best_cells(self) -> frozenset[tuple[int, int]]:
        """The best ones as places in :meth:`texts`, without the header row and with the column of names."""
        return frozenset((row, column + 1) for row, column in self.best)


def table_of(runs: Mapping[str, Sequence[Score]], beside: Mapping[str, Sequence[Score]], sort: str = "cost") -> Table:
    """A table from the scores of each policy, and of what is shown beside them without being judged.

    Raises:
        InputError: there is no such column to sort by.
    """
    place = COLUMNS.index(column_named(sort))
    rows = [Row(name, _means(scores), all(score["valid"] for score in scores)) for name, scores in runs.items()]
    rows += [Row(name, _means(scores), judged=False) for name, scores in beside.items()]
    rows.sort(key=lambda row: math.inf if row.values[place] is None else row.values[place] or 0.0)
    return Table(tuple(rows), frozenset(_best(rows)))


def _means(scores: Sequence[Score]) -> tuple[float | None, ...]:
    return tuple(_mean([column.value(score) for score in scores]) for column in COLUMNS)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None


def _best(rows: Sequence[Row]) -> list[tuple[int, int]]:
    cells = []
    for column in range(len(COLUMNS)):
        values = [(row.values[column], place) for place, row in enumerate(rows) if row.judged]
        known = [(value, place) for value, place in values if value is not None]
        least = min((value for value, _ in known), default=None)
        cells += [(place, column) for value, place in known if value == least]
    return cells
