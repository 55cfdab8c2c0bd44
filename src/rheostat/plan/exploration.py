"""When exploration ends: the model is made and must be stable. S1 Algorithms 3 to 5, corrected (:mod:`rheostat.learn`).

Stable means that the predictions of models that were made of resampled blocks differ by at most λ, at the points that
were seen (phase 1), and from the present workload to what the number in force can carry (phase 2). Where the present
workload is beyond that, phase 2 is at the present workload alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from rheostat.analyze.forecast import Rates
from rheostat.errors import InputError
from rheostat.learn.model import SlowModel
from rheostat.learn.samples import Sample
from rheostat.learn.training import TrainingOptions, resampled, train
from rheostat.plan.words import several

__all__ = ["Check", "check", "line_to"]

_POINTS = 10


class Check(NamedTuple):
    """What a check found.

    Attributes:
        model: the model; None: it is not stable, or could not be made.
        text: one sentence with the figures.
    """

    model: SlowModel | None
    text: str


def check(
    rows: Sequence[Sample], now: tuple[Rates, int], w_max: float, options: TrainingOptions, stability_limit: float
) -> Check:
    """Make a model of the rows, and see whether it is stable.

    Args:
        rows: what was collected, oldest first.
        now: the present rates and the number in force.
        w_max: records/s that one executor carries.
        options: of the training.
        stability_limit: λ.
    """
    try:
        trained = train(rows, w_max, options)
        refits = resampled(rows, trained, options)
    except InputError as error:
        return Check(None, f"no model can be made of {several(len(rows), 'sample')}: {error.faults[0].message}")
    everywhere = refits.deviation(sorted({(row.workload, row.executors) for row in rows}))
    here = refits.deviation(line_to(*now, w_max))
    stable = everywhere <= stability_limit and here <= stability_limit
    text = (
        f"model of degree {trained.degree} from {several(len(rows), 'sample')}, deviation {everywhere:.3f} where "
        f"samples are and {here:.3f} here, {'at most' if stable else 'more than'} {stability_limit:g}"
    )
    return Check(trained.model if stable else None, text)


def line_to(rates: Rates, executors: int, w_max: float) -> list[tuple[Rates, int]]:
    """Points from the present rates to n · w_max, in their present proportion; only the present ones if that is less.

    >>> [point for point, n in line_to((600.0,), 2, 500.0)][:3], line_to((600.0,), 1, 500.0)
    ([(600.0,), (644.4444444444445,), (688.8888888888889,)], [((600.0,), 1)])
    """
    present, most = math.fsum(rates), executors * w_max
    if most <= present or present <= 0:
        return [(rates, executors)]
    steps = [1 + (most / present - 1) * place / (_POINTS - 1) for place in range(_POINTS)]
    return [(tuple(rate * step for rate in rates), executors) for step in steps]
