"""What the experiments on a real cluster share: the runs one after the other, and the statement on records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rheostat.demo.run import DemoPlan, DemoRun, run_demo
from rheostat.demo.show import LiveTable
from rheostat.research.papers.results import Result

Open = Callable[[DemoPlan, Path], LiveTable]
"""Makes the live table of a run; its folder is given."""


def run_all(plans: Mapping[str, DemoPlan], folder: Path, show: Open) -> dict[str, DemoRun]:
    """Run plans one after the other, each in a folder of its own in ``folder``, by its name.

    Raises:
        PartFailedError: a part of a run died; with its name and the end of its log.
        RheostatError: records could not be delivered, or a step took too long.
    """
    runs = {}
    for name, plan in plans.items():
        with show(plan, folder / name).open() as table:
            runs[name] = run_demo(plan, folder / name, table.say, table.show)
    return runs


def records_result(scores: Mapping[str, Mapping[str, Any]]) -> Result:
    """Whether every record came out once. ``scores``: by run, in the shape of ``rheostat.score/1``."""
    told = [f"{name} {_count(one, 'records_in')} in, {_count(one, 'records_out')} out" for name, one in scores.items()]
    return Result(
        "records, live",
        "no record is lost or doubled by all the changes",
        "; ".join(told),
        None,
        all(one["valid"] and one["records_in"] == one["records_out"] for one in scores.values()),
        "ids and their checksum at the sink against those that the broker acknowledged",
    )


def _count(score: Mapping[str, Any], key: str) -> str:
    return "unknown" if score[key] is None else f"{score[key]:,}"
