"""What a batch costs, from batches that were measured: a robust regression with what it could not tell apart.

A batch of R records on s slots, read from p partitions in w = ⌈p ÷ s⌉ waves, takes its jobs

    y = F + g · R + a · w + c · w · R ÷ p + e · w · E[min(W, X)]

F: what no further executor shortens. g: the same, for each record. a: a task. c: a record in a task. The last term is
what Kafka adds at low rates: a reading task asks for the ends of the log on the connection on which a fetch for
further records still waits, until the next record of its partition comes (X, exponential with the partition's rate λ)
or ``fetch.max.wait.ms`` (W) have passed; E[min(W, X)] = (1 − e^(−λW)) ÷ λ. Its factor e is 1 where a source waits and 0
where it does not: it is not fitted, one of them is chosen.

Outliers (a pause of the machine, a garbage collection) weigh little: loss soft-L1, as in P. J. Huber, "Robust
Estimation of a Location Parameter", 1964, with its scale from the median absolute residual. Intervals are percentiles
of 200 seeded resamples of the batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares  # type: ignore[import-untyped]

from rheostat.judge.measured import RealBatch, RealRun
from rheostat.sim.micro_batches import next_record_s

__all__ = ["TERMS", "Fit", "Point", "Term", "fit_batches"]

Array = npt.NDArray[np.float64]

_RESAMPLES = 200
_LEAST_POINTS = 8
_WORST_CONDITION = 60.0
_LEAST_SHARE = 0.03


@dataclass(frozen=True, slots=True)
class Point:
    """A warm batch.

    Attributes:
        rate: records/s that arrived meanwhile, in all partitions.
        jobs_s: what was measured.
        wait_s: how long a task may wait for the next record; 0: not at all.
    """

    records: int
    slots: int
    partitions: int
    rate: float
    jobs_s: float
    wait_s: float = 0.0

    @classmethod
    def of(cls, run: RealRun, batch: RealBatch) -> Point:
        """A batch of a run; one slot where its executors are not known."""
        slots = max(1, (batch.executors or 0) * run.setup.cores)
        rate = run.arrival_rate(batch.start, batch.end)
        return cls(
            records=batch.records,
            slots=slots,
            partitions=run.setup.partitions,
            rate=rate,
            jobs_s=batch.tasks_s,
            wait_s=run.setup.longest_wait_s,
        )

    @property
    def waves(self) -> int:
        """Rounds of reading tasks."""
        return ceil(min(self.partitions, self.records) / self.slots)


@dataclass(frozen=True, slots=True)
class Term:
    """One unknown: its name, what it multiplies, and whether a fit without it makes sense."""

    name: str
    of: Callable[[Point], float]
    needed: bool = False


_FETCH = Term("fetch", lambda p: p.waves * next_record_s(p.rate / p.partitions, p.wait_s))

TERMS = (
    Term("record", lambda p: p.waves * p.records / p.partitions, needed=True),
    Term("fixed", lambda _: 1.0),
    _FETCH,
    Term("task", lambda p: float(p.waves)),
    Term("serial", lambda p: float(p.records)),
)
"""The unknowns, those first that are given up last."""


@dataclass(frozen=True, slots=True)
class Fit:
    """What was found.

    Attributes:
        values: of the terms that could be told apart; seconds.
        intervals: their 95 % intervals.
        given_up: the other terms, and why.
        condition: of the matrix with columns of length 1, for the terms that were kept.
        noise: median absolute residual ÷ measured time, × 1.4826: the coefficient of variation without outliers.
        points: batches.
    """

    values: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    given_up: dict[str, str]
    condition: float
    noise: float
    points: int

    def jobs_s(self, point: Point) -> float:
        """What the fit says of a batch."""
        return sum(self.values[term.name] * term.of(point) for term in TERMS if term.name in self.values)

    def excess_s(self, run: RealRun, batch: RealBatch) -> float:
        """How much longer a batch took."""
        return batch.tasks_s - self.jobs_s(Point.of(run, batch))

    def tasks(self, point: Point) -> tuple[float, float, int]:
        """Time of a reading task, time of what comes after them, and how many there are."""
        values, count = self.values, min(point.partitions, point.records)
        wait = next_record_s(point.rate / point.partitions, point.wait_s) if "fetch" in values else 0.0
        task_s = values.get("task", 0.0) + wait + values["record"] * point.records / count
        return task_s, values.get("fixed", 0.0) + values.get("serial", 0.0) * point.records, count


def fit_batches(points: Sequence[Point]) -> Fit | None:
    """Fit the terms; None with fewer than 8 batches.

    A term is given up when the batches do not tell it from the others (its column makes the matrix ill-conditioned),
    or when they are explained as well without it; then the others are fitted again.
    """
    if len(points) < _LEAST_POINTS:
        return None
    times = np.array([point.jobs_s for point in points])
    known, factor, why = _waiting(points, times)
    kept, given_up = [term for term in TERMS if term is not _FETCH], {} if factor else {_FETCH.name: why}
    while True:
        matrix = np.array([[term.of(point) for term in kept] for point in points])
        condition = _condition(matrix)
        if condition > _WORST_CONDITION and len(kept) > 1:
            worst = _least_told(kept, matrix)
            given_up[worst.name] = f"these batches do not tell it from the rest (condition {condition:.3g})"
        else:
            spare = _spare(kept, matrix, times, known)
            if spare is None:
                break
            worst = spare
            given_up[worst.name] = "the batches are explained as well without it"
        kept.remove(worst)
    values, intervals = _robust(matrix, times, known), _intervals(matrix, times, known)
    names = [term.name for term in kept]
    relative = np.abs(times - known - matrix @ values) / times
    return Fit(
        values=dict(zip(names, values.tolist(), strict=True)) | ({_FETCH.name: 1.0} if factor else {}),
        intervals=dict(zip(names, intervals, strict=True)) | ({_FETCH.name: factor} if factor else {}),
        given_up=given_up,
        condition=condition,
        noise=1.4826 * float(np.median(relative)),
        points=len(points),
    )


def _waiting(points: Sequence[Point], times: Array) -> tuple[Array, tuple[float, float] | None, str]:
    """The wait for the next record in each batch, the interval of its factor, and why it is left out (then it is 0).

    A source that may wait is taken to wait unless the batches are explained better without it.
    """
    none = np.zeros(len(points))
    fetch = np.array([_FETCH.of(point) for point in points])
    if float(np.max(fetch / times)) < _LEAST_SHARE:
        return none, None, "tasks cannot have waited long for the next record"
    others = np.array([[term.of(point) for term in TERMS if term is not _FETCH] for point in points])
    spread = _spread(others, times, fetch, _robust(others, times, fetch))
    gain = _loss(others, times, fetch, spread) - _loss(others, times, none, spread)
    if 2 * gain > np.log(len(points)):
        return none, None, "the batches are explained better without it"
    return fetch, _intervals(np.column_stack([fetch, others]), times)[0], ""


def _condition(matrix: Array) -> float:
    lengths = np.linalg.norm(matrix, axis=0)
    return float(np.linalg.cond(matrix / np.where(lengths > 0, lengths, 1.0)))


def _least_told(kept: Sequence[Term], matrix: Array) -> Term:
    """The term without which the others are told apart best; of about equals the one that is given up first."""
    without = {
        term.name: _condition(np.delete(matrix, column, axis=1)) for column, term in enumerate(kept) if not term.needed
    }
    best = 1.1 * min(without.values())
    return next(term for term in reversed(kept) if without.get(term.name, np.inf) <= best)


def _spare(kept: Sequence[Term], matrix: Array, times: Array, known: Array) -> Term | None:
    """The term without which the loss rises least, if that is less than a term is worth: 2 · Δloss < ln(batches).

    The criterion of G. Schwarz, "Estimating the Dimension of a Model", 1978; the scale of the residuals is that with
    all the terms.
    """
    spread = _spread(matrix, times, known, _robust(matrix, times, known))
    with_all = _loss(matrix, times, known, spread)
    rises = {
        term.name: _loss(np.delete(matrix, column, axis=1), times, known, spread) - with_all
        for column, term in enumerate(kept)
        if not term.needed
    }
    least = min(kept, key=lambda term: rises.get(term.name, np.inf))
    return least if 2 * rises.get(least.name, np.inf) < np.log(len(times)) else None


def _spread(matrix: Array, times: Array, known: Array, values: Array) -> float:
    residuals = (times - known - matrix @ values) / times
    return max(1e-6, 1.4826 * float(np.median(np.abs(residuals))))


def _loss(matrix: Array, times: Array, known: Array, spread: float) -> float:
    """Sum of soft-L1 losses, √(1 + r²) − 1, of the residuals ÷ ``times`` ÷ ``spread``."""
    residuals = (times - known - matrix @ _robust(matrix, times, known)) / times / spread
    return float(np.sum(np.sqrt(1 + residuals**2) - 1))


def _robust(matrix: Array, times: Array, known: Array | float = 0.0) -> Array:
    """Values ≥ 0 with soft-L1 loss of the residuals ÷ ``times``; columns are scaled to length 1 meanwhile.

    ``known``: what is known of each time already.
    """
    weighted, wanted = matrix / times[:, None], 1 - known / times
    lengths = np.linalg.norm(weighted, axis=0)
    scaled = weighted / np.where(lengths > 0, lengths, 1.0)
    start = np.maximum(np.linalg.lstsq(scaled, wanted, rcond=None)[0], 1e-6)
    spread = max(1e-6, 1.4826 * float(np.median(np.abs(wanted - scaled @ start))))
    found = least_squares(
        lambda x: scaled @ x - wanted,
        start,
        jac=lambda _: scaled,
        bounds=(0.0, np.inf),
        loss="soft_l1",
        f_scale=spread,
    )
    values: Array = found.x / np.where(lengths > 0, lengths, 1.0)
    return values


def _intervals(matrix: Array, times: Array, known: Array | None = None) -> list[tuple[float, float]]:
    random = np.random.default_rng(1)
    draws = [random.integers(0, len(times), len(times)) for _ in range(_RESAMPLES)]
    ahead = np.zeros(len(times)) if known is None else known
    found = np.array([_robust(matrix[rows], times[rows], ahead[rows]) for rows in draws])
    low, high = np.percentile(found, [2.5, 97.5], axis=0)
    return [(float(a), float(b)) for a, b in zip(low, high, strict=True)]
