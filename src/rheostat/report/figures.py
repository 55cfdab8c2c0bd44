"""Every figure that ``simulate``, ``compare``, ``replay`` and ``demo`` print: its unit and its definition.

The page docs/figures.md is made from this table, and so are the meanings beside the figures in reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from rheostat.report.parts import shown

__all__ = ["EVERY_SCORE", "FIGURES", "OF_COMMANDS", "WHERE", "Figure", "figure_rows", "figures_page"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure.

    Attributes:
        meaning: its definition.
        unit: of it; empty: it has none.
        column: what it is called in the tables of ``compare``; empty: it is not in them.
    """

    meaning: str
    unit: str = ""
    column: str = ""


EVERY_SCORE: Mapping[str, Figure] = MappingProxyType(
    {
        "schema": Figure("name and version of the format"),
        "version": Figure("of Rheostat"),
        "engine": Figure("sim: the simulated job; spark: a real one"),
        "policy": Figure("who decided, as NAME or NAME:PRESET"),
        "job": Figure("what was scaled"),
        "trace": Figure("the load: a trace's file without its ending, or a shape; null: not recorded"),
        "seed": Figure("of all that was random"),
        "seconds": Figure(
            "P: from the start of the load, or the first look, until all is committed, or the last look", "s"
        ),
        "n_max": Figure("greatest number of executors allowed", "executors"),
        "objective_s": Figure("L: lag that is not to be exceeded", "s"),
        "records_in": Figure("offered by the load", "records"),
        "records_out": Figure("committed, or found in the sink", "records"),
        "records_lost": Figure("offered and never committed", "records"),
        "records_duplicated": Figure("committed more than once", "records"),
        "records_shed": Figure("turned away before the query", "records"),
        "provisioning_accuracy_o": Figure(
            "mean of max(0, supply − demand) while the load lasts; supply: executors able to work, demand: the fewest "
            "whose capacity carries the present rate (SPEC RG, S2)",
            "executors",
            "acc. over",
        ),
        "provisioning_accuracy_u": Figure("mean of max(0, demand − supply), likewise", "executors", "acc. under"),
        "timeshare_o": Figure("share of the load's time with too many executors", "1", "time over"),
        "timeshare_u": Figure("share of the load's time with too few", "1", "time under"),
        "excess_time": Figure("(P − T) ÷ T, T the load's duration", "1", "excess time"),
        "reconfigurations": Figure("how often the number that was asked for changed", "", "changes"),
        "executor_hours": Figure("∫ executors, each from its request until it is gone", "executor-h", "executor-h"),
        "static_executor_hours": Figure(
            "sim: the fewest that carry the peak, all of P; spark: the most that were paid for at once, all of P",
            "executor-h",
        ),
        "executors_max": Figure("most at once: sim: able to work; spark: registered", "executors"),
        "executors_final": Figure("at the end, likewise", "executors"),
        "violation_share": Figure(
            "share of P with lag > L; spark: of the time in which it is known", "1", "over objective"
        ),
        "lag_p50_s": Figure("age of the oldest uncommitted record, not exceeded for half of the time", "s"),
        "lag_p95_s": Figure("the same for 95 % of the time", "s", "lag p95"),
        "lag_max_s": Figure("its greatest value", "s", "lag max"),
        "total_cost": Figure(
            "executor_hours + 60 ÷ 3600 × reconfigurations + w × hours with lag > L, w the fewest executors that carry "
            "the peak",
            "executor-h",
            "cost",
        ),
        "optimum_cost": Figure(
            "what no run of that job under that load can undercut; ÷ optimum: total_cost by it",
            "executor-h",
            "÷ optimum",
        ),
        "valid": Figure("whether the run counts: nothing lost or doubled, all committed in time, no failed cycle"),
    }
)
"""What is in every score, ``rheostat.score/1``. What was not measured is null: on the screen, not measured."""

OF_COMMANDS: Mapping[str, Mapping[str, Figure]] = MappingProxyType(
    {
        "simulate": MappingProxyType(
            {
                "holds": Figure(
                    "decisions that changed nothing, by reason code: count, and at (s) and text of the last"
                ),
                "placements": Figure("where executors came and went, for a job with nodes; else left out"),
                "unready": Figure("what the policy never did, and what it would have needed; null: it was ready"),
                "no_effect": Figure("settings that were given and change nothing, and why"),
            }
        ),
        "compare": MappingProxyType({"unready": Figure("in each run, as of simulate")}),
        "replay": MappingProxyType(
            {
                "decisions": Figure("cycles that were decided once more"),
                "identical": Figure("of those, how many came out as recorded"),
                "failed_cycles": Figure("cycles that had failed and were passed over"),
                "open_loop": Figure("whether others decided, on what the recorded run saw: then its lag is unknown"),
                "differences": Figure("each decision that differs: at (s), decision, recorded, replayed"),
            }
        ),
        "demo": MappingProxyType({"baseline": Figure("the score of the static run; null: it was not run")}),
    }
)
"""What commands put beside it."""

FIGURES: Mapping[str, Figure] = MappingProxyType(
    {**EVERY_SCORE, **{name: each for more in reversed(list(OF_COMMANDS.values())) for name, each in more.items()}}
)
"""All of them, by name."""

WHERE = "What each figure is: rheostat config reference --figures"
"""For the end of tables and of the help."""


def figure_rows(score: Mapping[str, Any], *, explained: bool = False) -> list[list[str]]:
    """The figures of a score, header row first: name, value, unit and, explained, the meaning."""
    rows = [["figure", "value", "unit", *(["what it is"] if explained else [])]]
    for name, value in score.items():
        known = FIGURES.get(name, Figure(""))
        rows.append([name, shown(value), known.unit, *([known.meaning] if explained else [])])
    return rows


def figures_page() -> str:
    """The page in Markdown."""
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    yield from (
        "# Figures",
        "",
        "<!-- Made by `rheostat config reference --figures --out docs/figures.md`; do not edit. -->",
        "",
        "What `simulate`, `compare`, `replay` and `demo` print, and write with `--json` and `--out`. A figure that was",
        "not measured is null. Those of a simulated job are exact, from its own history; those of a real one are from",
        "samples. S2: see [sources](policies.md#sources); SPEC RG: the elasticity metrics of the SPEC Research Group.",
        "",
        "## Every score (`rheostat.score/1`)",
        "",
        "| figure | unit | column in `compare` | what it is |",
        "|---|---|---|---|",
    )
    for name, each in EVERY_SCORE.items():
        yield f"| `{name}` | {each.unit} | {each.column} | {each.meaning} |"
    yield from ("", "## Beside it", "", "| command | figure | what it is |", "|---|---|---|")
    for command, more in OF_COMMANDS.items():
        for name, each in more.items():
            yield f"| `{command}` | `{name}` | {each.meaning} |"
