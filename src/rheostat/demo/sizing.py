"""What this machine carries, measured while the demo warms up, and the load that is sized to it.

A batch of r records on n executors takes ``fixed + r × wait ÷ n``; the wait of a record is its simulated look-up. At w
records/s a batch of length P has w × P records, so n executors carry ``n × (1 − fixed ÷ P) ÷ wait``. P is the batch at
which the policy wants more executors: two batches wait before one ends, and are worked off in batches of half the lag.

An executor that starts takes the processor from the others, and its first batch is cold. So the rise gives each
executor the time of a cold start and of two batches, before it asks for the next one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from rheostat.model import Batch, Observation

REACT_AT = 0.4
"""Expected wait ÷ the objective's lag at which the demo wants more executors: a cold start takes about half the lag."""

REACTIVE_OPTIONS = {"wait_limit": REACT_AT, "settle_batches": 3}
"""Three batches: the one in flight when an executor comes, its cold one, and a warm one by which it is judged."""

WARM_BATCHES = 2
"""Batches that are measured, after the first one with records, which is cold."""

_OVERHEAD = 1.1
"""Time of a record ÷ its simulated look-up."""
_WARMS = 0.8
"""Fixed part of a batch at the peak ÷ that of the warm-up: the driver's code is not compiled yet."""
_LEAST_ROOM = 1.5
"""P is at least this × the fixed part of a batch, however slow the machine is."""
_SHARE = 0.9
"""Peak rate ÷ what the greatest number of executors carries."""
_BASE_SHARE = 0.4
"""Base rate ÷ what one executor carries, at most."""
_RISE_S = (40.0, 120.0)
_START_S = 15.0
"""Time for a cold start until the next one, where other work leaves half of the processor or more."""
_BUSY_AT_START, _BUSY = 0.5, 4.0
"""Load average per core that other work has caused before the demo, and that the demo does not cause alone."""
_COLD = 0.75
"""A cold start ÷ the objective's lag from which on the machine is called busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The machine as measured before the load began.

    Attributes:
        load_before: load average of one minute before the demo started; None: the system has none.
        cold_s: from the wish for an executor until its first batch costs no more than later ones.
        fixed_s: of a warm batch, without the look-ups of its records.
    """

    load_before: float | None
    cold_s: float
    fixed_s: float
    cores: int = os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Sizes:
    """Rates in records/s: at the beginning and end, at the peak, and that one executor carries."""

    base_rate: float
    peak_rate: float
    one_carries: float
    rise_s: float


def start_limits(load: float | None, cores: int = os.cpu_count() or 1) -> dict[str, float]:
    """Guard settings so that executors do not take the processor from each other: one at a time for each two cores.

    ``load``: load average before the demo. A start takes longer by as much as other work takes of the processor; the
    load does not wait for more than twice that.

    >>> start_limits(0.5, cores=2), start_limits(8.0, cores=2)
    ({'largest_step_up': 1, 'cooldown_up_s': 15.0}, {'largest_step_up': 1, 'cooldown_up_s': 30.0})
    """
    slower = min(max(1.0, (1 + (load or 0.0) / cores) / 2), 2.0)
    return {"largest_step_up": max(1, cores // 2), "cooldown_up_s": _START_S * slower}


def read_load() -> float | None:
    """Load average of the last minute; None where the system has none."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def finished_batches(observations: Sequence[Observation]) -> list[Batch]:
    """The batches of the only query, each once, in order."""
    seen = [query.batch for observation in observations for query in observation.queries]
    return list({batch.batch_id: batch for batch in seen if batch is not None}.values())


def is_measured(observations: Sequence[Observation]) -> bool:
    """Whether enough batches with records have finished."""
    return sum(bool(batch.records) for batch in finished_batches(observations)) > WARM_BATCHES


def measure(
    observations: Sequence[Observation], opened_at: float, lookup_s: float, load_before: float | None
) -> Machine:
    """The machine, from the observations of the warm-up; executors could start from ``opened_at`` on."""
    cold, *warm = [batch for batch in finished_batches(observations) if batch.records]
    cluster = observations[-1].cluster
    starts = () if cluster is None else cluster.roster.added_at
    wait_s = _OVERHEAD * lookup_s / max(1, len(starts))
    fixed_s = max(0.0, median(batch.duration_s - wait_s * (batch.records or 0) for batch in warm))
    started_s = max((at - opened_at for at in starts if at is not None), default=0.0)
    extra_s = cold.duration_s - fixed_s - wait_s * (cold.records or 0)
    return Machine(load_before=load_before, cold_s=max(0.0, started_s) + max(0.0, extra_s), fixed_s=fixed_s)


def size_load(
    machine: Machine,
    *,
    base_rate: float,
    bounds: tuple[int, int],
    objective_s: float,
    lookup_s: float,
    cap: int,
    peak_rate: float | None = None,
) -> Sizes:
    """The load for executors within ``bounds`` on this machine, beginning with ``base_rate`` at most.

    ``cap``: most records in a batch; ``peak_rate``: is kept if it is given, and the rise follows from it.

    >>> quiet = Machine(load_before=0.5, cold_s=8.0, fixed_s=1.4)
    >>> size_load(quiet, base_rate=50.0, bounds=(1, 6), objective_s=20.0, lookup_s=0.004, cap=2400)
    Sizes(base_rate=50, peak_rate=750.0, one_carries=172.8, rise_s=69)
    """
    fixed_s = _WARMS * machine.fixed_s
    batch_s = max(fixed_s + REACT_AT * objective_s / 2 * (1 - fixed_s / (objective_s / 2)), _LEAST_ROOM * fixed_s)
    wait_s = _OVERHEAD * lookup_s
    carries = (1 - fixed_s / batch_s) / wait_s
    most = min(bounds[1] * carries, cap / (fixed_s + wait_s * cap / bounds[1]))
    peak = round(_SHARE * most, -1) if peak_rate is None else peak_rate
    steps = max(1, math.ceil(peak / carries) - bounds[0])
    rise_s = min(max(steps * (machine.cold_s + 2 * batch_s), _RISE_S[0]), _RISE_S[1])
    base = min(round(min(base_rate, _BASE_SHARE * carries)), peak)
    return Sizes(base, peak, round(carries, 1), round(rise_s))


def explain_busy(machine: Machine, most_load: float | None, objective_s: float) -> str | None:
    """A sentence if other work was busy with this machine, or it is slow; None if not."""
    before = machine.load_before
    if not (
        (before is not None and before >= _BUSY_AT_START * machine.cores)
        or (most_load is not None and most_load >= _BUSY * machine.cores)
        or machine.cold_s >= _COLD * objective_s
    ):
        return None
    loads = "" if before is None else f"load average {before:.1f} before the demo"
    loads += "" if most_load is None else f", at most {most_load:.1f} during it, on {machine.cores} cores; "
    return f"The machine was busy: {loads}the cold start of an executor took {machine.cold_s:.0f} s."
