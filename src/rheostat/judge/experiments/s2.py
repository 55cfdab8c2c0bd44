"""The experiment of S2 (Gesscale, ICCCN 2021, section V, table III) on a simulated job, and the accuracy of its model.

Four algorithms on eight nodes under two days of taxi trips, with many seeds. A figure is the mean over the seeds, ±
half of its 95 % interval; an order holds if it is that of the means. What is set, and why, stands in
:mod:`rheostat.judge.experiments.s2_setting`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from rheostat.judge.experiments.results import Experiment, Part, Result, Seen
from rheostat.judge.experiments.s2_accuracy import carried, model_part, profile_part, read_profiles, recovered
from rheostat.judge.experiments.s2_runs import Drawn, Found, Measures, Task, ran
from rheostat.judge.experiments.s2_setting import ALGORITHMS, AS_PRINTED, GESSCALE
from rheostat.judge.processes import crew

__all__ = ["DOCUMENT", "PARTS", "SEEDS", "Nodes", "Table", "experiment", "judged", "orders", "table_rows"]

PARTS = ("outage", "live", "model")
"""With 120 s of outage for each change; without; the accuracy of the model."""

SEEDS = ",".join(map(str, range(1, 21)))
"""Unless others are named."""

_THR, _NEAR, _MDL = "THR-NLUnaware", "THR-NLAware", "MDL-NLUnaware"
_FOUR = (_THR, _NEAR, _MDL, GESSCALE)

DOCUMENT: Mapping[str, tuple[float, ...]] = {
    _THR: (1.636, 0.742, 51.11, 30.28, 0.163, 25, 1199.5),
    _NEAR: (1.517, 0.640, 46.67, 22.99, 0.115, 19, 1193.75),
    _MDL: (1.713, 0.622, 60.42, 25.00, 0.126, 16, 1270.5),
    GESSCALE: (0.838, 0.499, 49.31, 21.74, 0.042, 12, 999.5),
}
"""Table III."""

_COLUMNS = ("accuracy_O", "accuracy_U", "timeshare_O %", "timeshare_U %", "excess", "reconfigurations", "cost")
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Table:
    """The runs of one part: of each algorithm its measures, by seed."""

    title: str
    runs: Mapping[str, Mapping[int, Measures]]

    def mean(self, name: str, column: str) -> float:
        """Of an algorithm's measure over the seeds."""
        return fmean(getattr(each, column) for each in self.runs[name].values())

    def half_width(self, name: str, column: str) -> float | None:
        """Of the 95 % interval of that mean; None for one seed."""
        return _half_width([getattr(each, column) for each in self.runs[name].values()])


@dataclass(frozen=True)
class Nodes(Experiment):
    """What was found, with the tables.

    Attributes:
        tables: of the parts with runs.
        drawn: what is plotted of the first seed, by algorithm.
    """

    tables: Sequence[Table] = ()
    drawn: Mapping[str, Drawn] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        tables = [{"title": table.title, "rows": table_rows(table)} for table in self.tables]
        return {**super().to_json(), "tables": tables}


def experiment(
    names: Sequence[str],
    seeds: Sequence[int],
    profiles: Path | None,
    watch: Callable[[int, int, str], None],
    jobs: int = 1,
) -> Nodes:
    """Run the parts of that name.

    Args:
        names: some of :data:`PARTS`.
        seeds: of the trips, the random choices and the noise; at least one.
        profiles: throughput that was measured elsewhere, for the part ``model``; None: none.
        watch: is told how many runs are done, of how many, and what is being run.
        jobs: how many processes.

    Raises:
        InputError: the profiles are faulty.
    """
    measured = None if profiles is None or "model" not in names else read_profiles(profiles)
    live = [part == "live" for part in ("outage", "live") if part in names]
    tasks = [
        Task(name, seed, each, drawn=not each and seed == seeds[0])
        for each in live
        for name in (_FOUR if each else ALGORITHMS)
        for seed in seeds
    ]
    found: dict[Task, Found] = {}
    with crew(ran, jobs, len(tasks)) as workers:
        for place, run in workers.results(tasks):
            found[tasks[place]] = run
            watch(len(found), len(tasks), "runs")
    tables = {each: _table(found, seeds, live=each) for each in live}
    parts = [_judged_part(table, _faults(found, live=each), live=each) for each, table in tables.items()]
    if "model" in names:
        parts += [model_part([recovered(rates, seed) for rates in [carried()] for seed in seeds])]
        parts += [] if measured is None else [profile_part(measured)]
    drawn = {task.name: run.drawn for task, run in found.items() if run.drawn is not None}
    ordered = {name: drawn[name] for name in _FOUR if name in drawn}
    return Nodes("s2", parts, tuple(seeds), tuple(tables.values()), ordered)


def _table(found: Mapping[Task, Found], seeds: Sequence[int], *, live: bool) -> Table:
    by_name: dict[str, dict[int, Measures]] = {}
    at = {(task.name, task.seed): run.measures for task, run in found.items() if task.live == live}
    for name in ALGORITHMS:
        if (name, seeds[0]) in at:
            by_name[name] = {seed: at[name, seed] for seed in seeds}
    title = "Nodes come and go while the job works" if live else "Table III: each change stops the job for 120 s"
    return Table(title, by_name)


def _faults(found: Mapping[Task, Found], *, live: bool) -> list[str]:
    named = ((f"{task.name}, seed {task.seed}", run.faults) for task, run in found.items() if task.live == live)
    return [f"{name}: {'; '.join(faults)}" for name, faults in named if faults]


def table_rows(table: Table) -> list[list[str]]:
    """The measures with the document's beside them, header first."""
    rows = [["", *_COLUMNS]]
    for name in table.runs:
        rows.append([name, *(_cell(table, name, column) for column in Measures._fields[: len(_COLUMNS)])])
        if name in DOCUMENT and "Table III" in table.title:
            rows.append([f"{name}: the document", *(f"{value:g}" for value in DOCUMENT[name])])
    return rows


def _cell(table: Table, name: str, column: str) -> str:
    wide = table.half_width(name, column)
    return _number(table.mean(name, column)) + ("" if wide is None else f" ± {_number(wide)}")


# ------------------------------------------------------------------------------------------------- statements


class _Order(NamedTuple):
    """One algorithm is better, or worse, than others by a measure; less is better.

    Attributes:
        lead: the one.
        column: the measure.
        why: what explains it.
        worst: whether it is the worst of all four, not the best.
    """

    id: str
    lead: str
    column: str
    why: str
    worst: bool = False

    @property
    def statement(self) -> str:
        """In words."""
        return f"{self.lead} has the {'most' if self.worst else 'least'} {self.column.replace('_', ' ')} of the four"

    def holds(self, values: Mapping[str, float]) -> bool:
        """Whether it does, in these values."""
        others = [value for name, value in values.items() if name != self.lead]
        return values[self.lead] > max(others) if self.worst else values[self.lead] < min(others)


_ORDERS = (
    _Order("cost", GESSCALE, "cost", "near nodes carry more, and one decision gives up several"),
    _Order("reconfigurations", GESSCALE, "reconfigurations", "the model says when a node can go for good"),
    _Order(
        "excess",
        GESSCALE,
        "excess",
        "far less than in the document for all: what a stop leaves is worked off between two changes here, so only a "
        "change in the last minutes counts. The document's values are close to the share of time that it was stopped",
    ),
    _Order("accuracy_O", GESSCALE, "accuracy_o", "as the cost"),
    _Order("accuracy_U", GESSCALE, "accuracy_u", "nothing is supplied while the job is stopped"),
    _Order("timeshare_O", _NEAR, "timeshare_o", "the exception: it gives nodes up earliest, and too early"),
    _Order(
        "MDL accuracy_O",
        _MDL,
        "accuracy_o",
        "the exception: random nodes, and a margin on what far ones do",
        worst=True,
    ),
    _Order("MDL timeshare_O", _MDL, "timeshare_o", "as above", worst=True),
    _Order("MDL cost", _MDL, "cost", "as above", worst=True),
)

_LIVE_ORDERS = (
    _Order("cost", GESSCALE, "cost", "without stops T is 10 %, the model's error, and nothing is left to catch up"),
    _Order("reconfigurations", GESSCALE, "reconfigurations", "changes cost nothing here, and it still makes fewest"),
    _Order("accuracy_O", GESSCALE, "accuracy_o", "it follows the demand, and so is too low more often than the others"),
    _Order("timeshare_O", GESSCALE, "timeshare_o", "likewise; the threshold algorithms keep a node too many"),
)


def orders(*, live: bool = False) -> Sequence[_Order]:
    """What is looked for in a table."""
    return _LIVE_ORDERS if live else _ORDERS


def judged(order: _Order, table: Table, prefix: str, *, compared: bool) -> Result:
    """One order over all seeds; ``compared``: whether the document has it in its table."""
    means = {name: table.mean(name, order.column) for name in _FOUR}
    by_seed = []
    for seed in table.runs[order.lead]:
        values = {name: float(getattr(table.runs[name][seed], order.column)) for name in _FOUR}
        by_seed.append(Seen(seed, _told(values), order.holds(values)))
    held = sum(seen.holds for seen in by_seed)
    level = _level(order, table)
    ours = f"{_told(means)}; in {held} of {len(by_seed)} seeds" if len(by_seed) > 1 else _told(means)
    why = order.why + (f"; not told apart from {', '.join(level)}" if level else "")
    document = _told(dict(zip(_FOUR, (DOCUMENT[name][_place(order.column)] for name in _FOUR), strict=True)))
    return Result(
        f"{prefix} {order.id}",
        order.statement,
        ours,
        document if compared else None,
        order.holds(means),
        why,
        tuple(by_seed) if len(by_seed) > 1 else (),
    )


def _level(order: _Order, table: Table) -> list[str]:
    """The others from which the 95 % interval of the mean difference, seed by seed, does not tell it apart."""
    found = []
    for name in _FOUR:
        pairs = zip(table.runs[name].values(), table.runs[order.lead].values(), strict=True)
        apart = [getattr(other, order.column) - getattr(lead, order.column) for other, lead in pairs]
        wide = _half_width(apart)
        if name != order.lead and wide is not None and abs(fmean(apart)) <= wide:
            found.append(name)
    return found


def _judged_part(table: Table, faults: Sequence[str], *, live: bool) -> Part:
    prefix = "live" if live else "III"
    results = [judged(order, table, prefix, compared=not live) for order in orders(live=live)]
    results += [_balance(table, prefix), _counts(faults, prefix)]
    results += [] if live else [_percentages(table), _as_printed(table)]
    return Part(table.title, results)


def _balance(table: Table, prefix: str) -> Result:
    """The self-test of the accuracies."""
    off = max(
        abs(each.accuracy_o - each.accuracy_u - each.mean_s + each.mean_d)
        for runs in table.runs.values()
        for each in runs.values()
    )
    demand = table.mean(GESSCALE, "mean_d")
    return Result(
        f"{prefix} self-test",
        "accuracy_O − accuracy_U = mean supply − mean demand, in every run",
        f"off by {off:.1g} at most; mean demand {demand:.2f} nodes",
        "mean demand 3.1 to 3.3 [computed from its cost and accuracy]",
        off < _ROUNDING,
        "one demand for all: the fewest nodes, nearest first, that carry the arrival rate",
    )


def _counts(faults: Sequence[str], prefix: str) -> Result:
    text = "; ".join(faults) if faults else "all"
    return Result(
        f"{prefix} runs", "every run works off every record", text, None, not faults, "none lost, none left, no failure"
    )


def _percentages(table: Table) -> Result:
    """What the document says in its text."""

    def less(column: str, than: str) -> float:
        return 100 * (1 - table.mean(GESSCALE, column) / max(table.mean(than, column), _ROUNDING))

    told = [less("reconfigurations", _THR), less("cost", _THR)]
    near = [less(column, _NEAR) for column in ("reconfigurations", "cost", "excess")]
    return Result(
        "III percentages",
        "against THR-NLUnaware fewer reconfigurations, less cost; against THR-NLAware likewise, and less excess time",
        f"{told[0]:.0f} % and {told[1]:.0f} %; {near[0]:.0f} %, {near[1]:.0f} % and {near[2]:.0f} % less",
        "52 % and 17 %; 37 %, 16 % and 63.5 %",
        min(*told, *near) > 0,
        "each is less; the sizes are those of another job and another load",
    )


def _as_printed(table: Table) -> Result:
    ours, printed = (table.mean(name, "reconfigurations") for name in (GESSCALE, AS_PRINTED))
    costs = [table.mean(name, "cost") for name in (GESSCALE, AS_PRINTED)]
    return Result(
        "III as printed",
        "a control of our own: as printed, the backlog of a stop being an overload, Gesscale changes more often",
        f"{_number(printed)} changes and {_number(costs[1])} replica-minutes v {_number(ours)} and {_number(costs[0])}",
        "12 and 999.5",
        printed > ours,
        "Algorithm 1 cannot tell the backlog that its own change has left from too few nodes, so that each increase is "
        "followed by another",
    )


# ----------------------------------------------------------------------------------------------------- words

_T_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10)
"""Student's t for 1, 2, … degrees of freedom, two-sided 95 %; 2.09 down to 1.96 beyond."""


def _half_width(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    t = _T_95[len(values) - 2] if len(values) - 2 < len(_T_95) else 2.09
    return t * stdev(values) / math.sqrt(len(values))


def _place(column: str) -> int:
    return Measures._fields.index(column)


def _told(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {_number(value)}" for name, value in values.items())


def _number(value: float) -> str:
    """Four digits or so.

    >>> [_number(each) for each in (1199.52, 25.0, 51.114, 1.6364, 0.00421)]
    ['1200', '25', '51.1', '1.64', '0.0042']
    """
    if abs(value) >= 100 or value == round(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.4f}"
