"""Table III of S2, shortened, on a real local Kafka and a real local Spark cluster.

The taxi pipeline on three nodes, one executor each, under two days of trips in ten minutes. The same trips are played
under ``mst`` (Gesscale) and under ``threshold`` (THR-NLUnaware), attached to the running query, with the actuator
``workers`` and round trips that the node servers measure. Executors come and go while the query runs. Round trips are
simulated, and slow no executor down: what is seen is who is taken and given up first, not what distance costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rheostat.config.round_trips import pairs_of
from rheostat.demo.live import Open, records_result, run_all
from rheostat.demo.plan import DemoPlan
from rheostat.demo.s2_runs import (
    Carried,
    NodesRun,
    carried,
    chosen,
    demanded,
    drawn,
    measured,
    nodes_run,
    without,
)
from rheostat.demo.trips_plan import CAP, NODES, ROUND_TRIPS_MS, TripsPlan, levels
from rheostat.judge.experiments.results import Part, Result
from rheostat.judge.experiments.s2 import DOCUMENT, Nodes, Table
from rheostat.judge.experiments.s2_runs import Measures
from rheostat.judge.experiments.s2_setting import ALGORITHMS, GESSCALE
from rheostat.sim.elasticity import Steps

__all__ = ["RIVAL", "experiment", "judged", "plans", "results"]

RIVAL = "THR-NLUnaware"
_NAMES = (GESSCALE, RIVAL)
_DAYS_S, _MEAN_RATE = 600.0, 55.0
_ALIKE = 1.1
_APART = pairs_of(ROUND_TRIPS_MS)
_NEAR, _FAR = NODES[1:]


def plans(seed: int) -> dict[str, DemoPlan]:
    """The runs, by the names of the document; both get the same trips."""
    common: dict[str, Any] = {"mean_rate": _MEAN_RATE, "days_s": _DAYS_S, "seed": seed}
    return {name: TripsPlan(policy=ALGORITHMS[name].policy, **common) for name in _NAMES}


def experiment(seed: int, folder: Path, show: Open) -> Nodes:
    """Run both, about twenty-five minutes.

    Args:
        seed: of the trips.
        folder: gets a folder for each run, with its journal.
        show: makes the live table of a run.

    Raises:
        PartFailedError: a part of a run died; with its name and the end of its log.
        RheostatError: records could not be delivered, or a step took too long.
    """
    done = run_all(plans(seed), folder, show)
    runs = {name: nodes_run(run, str(folder / name)) for name, run in done.items()}
    scores = {name: run.score for name, run in done.items()}
    return judged(runs, scores, seed)


def judged(runs: Mapping[str, NodesRun], scores: Mapping[str, Mapping[str, Any]], seed: int) -> Nodes:
    """What finished runs say.

    Args:
        runs: by the names of the document.
        scores: of the same, in the shape of ``rheostat.score/1``.
        seed: of their trips.
    """
    plan, found = next(iter(plans(seed).values())), carried(list(runs.values()))
    load = levels(plan.curve())
    demand = None if found is None else demanded(load, found, plan.executors, plan.cap)
    table = None if demand is None else {name: measured(run, demand) for name, run in runs.items()}
    said = results(runs, table, scores, found)
    title = "Table III, shortened, on a real cluster of three nodes"
    tables = [] if table is None else [Table(title, {name: {seed: each} for name, each in table.items()})]
    steps: Steps = demand if demand is not None else []
    plots = {name: drawn(run, load, steps) for name, run in runs.items()}
    return Nodes("s2", [Part(title, said)], (seed,), tables, plots)


def results(
    runs: Mapping[str, NodesRun],
    table: Mapping[str, Measures] | None,
    scores: Mapping[str, Mapping[str, Any]],
    found: Carried | None,
) -> list[Result]:
    """The statements.

    Args:
        runs: by the names of the document.
        table: their metrics; None: it is not known what executors carry.
        scores: of the same, in the shape of ``rheostat.score/1``.
        found: what executors carry; None: not known.
    """
    return [
        _chosen(runs, "near first", "takes the nearest free node", come=True),
        _chosen(runs, "far goes first", "gives up the farthest node in use", come=False),
        _obeyed(runs),
        _distance(runs),
        *([] if table is None else _metrics(table)),
        _carried(runs, found),
        _objective(runs),
        records_result(scores),
    ]


# -------------------------------------------------------------------------------------------------------- nodes


def _chosen(runs: Mapping[str, NodesRun], word: str, does: str, *, come: bool) -> Result:
    seen = {name: chosen(run.moves, NODES, _APART, come=come) for name, run in runs.items()}
    told = ", ".join(f"{name} {sum(each)} of {len(each)}" for name, each in seen.items())
    holds = bool(seen[GESSCALE]) and all(seen[GESSCALE])
    why = "choices that make a difference to the greatest round trip in use; the other algorithm takes any node"
    return Result(f"{word}, live", f"Gesscale {does}, each time", told, "each time", holds, why)


def _obeyed(runs: Mapping[str, NodesRun]) -> Result:
    alone = {name: without(run.used, _FAR, _NEAR, run.lasts) for name, run in runs.items()}
    return Result(
        "in use, live",
        "under Gesscale the far node is in use only beside the near one",
        _told(alone, lambda seconds: f"{seconds:.0f} s alone"),
        None,
        alone[GESSCALE] == 0,
        "where Workers and executors really were, as the node servers and the driver tell",
    )


def _distance(runs: Mapping[str, NodesRun]) -> Result:
    far = {name: run.distance_ms for name, run in runs.items()}
    ours, theirs = far[GESSCALE], far[RIVAL]
    return Result(
        "distance, live",
        "the greatest round trip between nodes in use is shorter under Gesscale, on average",
        _told(far, lambda ms: "unknown" if ms is None else f"{ms:.0f} ms"),
        None,
        ours is not None and theirs is not None and ours < theirs,
        "as measured by the node servers; 0 for one executor",
    )


# ------------------------------------------------------------------------------------------------------ metrics

_MEASURES = (
    ("cost", "cost", "less cost, replica-minutes"),
    ("reconfigurations", "reconfigurations", "fewer reconfigurations"),
    ("excess", "excess", "less excess time"),
    ("accuracy_O", "accuracy_o", "less accuracy_O"),
    ("accuracy_U", "accuracy_u", "less accuracy_U"),
)
"""An id, the measure, and its words."""


def _metrics(table: Mapping[str, Measures]) -> list[Result]:
    found = []
    for word, column, words in _MEASURES:
        place = Measures._fields.index(column)
        ours = {name: each[place] for name, each in table.items()}
        document = {name: DOCUMENT[name][place] for name in table}
        holds = ours[GESSCALE] < ours[RIVAL]
        statement = f"Gesscale has {words}"
        said, theirs = _told(ours, _number), _told(document, _number)
        found.append(Result(f"{word}, live", statement, said, theirs, holds, _WHY.get(column, "")))
    return found


_WHY = {
    "cost": "executors registered, until the last record is committed",
    "reconfigurations": "changes of the number asked for; nothing stops for one, as it does in the document",
    "excess": "from the end of the load to the commit of the last record, of the length of the load: one batch or two",
    "accuracy_u": "nothing is short for a stop here, as executors come while the query runs",
}


def _carried(runs: Mapping[str, NodesRun], found: Carried | None) -> Result:
    """The control: on a machine that others use too, one run may have had more of it."""
    each = {name: carried([run]) for name, run in runs.items()}
    twos = [one.rate(2, CAP) for one in each.values() if one is not None]
    why = "unknown: too few batches"
    if found is not None:
        line = f"{found.fixed_s:.2f} s + {1000 * found.slot_s:.1f} ms · records ÷ n"
        why = f"the demand is that of both runs together: batch time = {line}, {found.batches} batches"
    return Result(
        "capacity, live",
        "a control: two executors carry the same in both runs, to a tenth; else the machine was busier in one of them",
        _told(each, lambda one: "unknown" if one is None else f"{_rates(one)} records/s of 1, 2, 3"),
        None,
        len(twos) == len(runs) and max(twos) <= _ALIKE * min(twos),
        why,
    )


def _rates(found: Carried) -> str:
    return ", ".join(f"{found.rate(n, CAP):.0f}" for n in range(1, len(NODES) + 1))


def _objective(runs: Mapping[str, NodesRun]) -> Result:
    over = {name: run.lag.over for name, run in runs.items()}
    ours, theirs = over[GESSCALE], over[RIVAL]
    return Result(
        "objective, live",
        "Gesscale is over the objective no longer",
        _told({name: run.lag for name, run in runs.items()}, lambda lag: f"{_share(lag.over)} (p95 {_s(lag.p95_s)})"),
        None,
        ours is not None and theirs is not None and ours <= theirs,
        "share of the load's time; the document has no objective",
    )


def _told(values: Mapping[str, Any], word: Callable[[Any], str]) -> str:
    return ", ".join(f"{name} {word(value)}" for name, value in values.items())


def _number(value: float) -> str:
    return f"{value:.4g}"


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1%}"


def _s(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1f} s"
