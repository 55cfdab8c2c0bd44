"""24 simulated hours of every fault of docs/faults.md under ``rheostat``, one each hour, on a day from 1 to 5.

Never fewer executors by figures that are missing, impossible or old; and over the objective within a fault and two
cycles after it only, or until the batch ends that runs then: executors do not shorten the wait of what it has begun.
The job decides, and triggers, every 40 s instead of 15 and 10, so that a day takes seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pytest

from rheostat.config.loading import load_settings
from rheostat.journal.records import DecisionRecord
from rheostat.journal.store import MemoryJournal, StateStore
from rheostat.judge.cases import load_job
from rheostat.load.shapes import parse_shape
from rheostat.loop.build import build_decision_settings
from rheostat.loop.clock import ManualClock
from rheostat.loop.loop import Loop
from rheostat.model import Action, Observation, ReasonCode
from rheostat.sim.history import Lag
from rheostat.sim.job import SimulatedJob

pytestmark = pytest.mark.slow

CYCLE_S, OBJECTIVE_S = 40.0, 160.0
BATCH_S = OBJECTIVE_S / 2
HOURS = 24
HOUR_S = 3600.0
SHAPE = parse_shape("daily:3000..15000@86400")
JOB = {"objective": f"lag < {OBJECTIVE_S:g}s", "decide_every_s": CYCLE_S, "trigger_s": CYCLE_S}

Look = Callable[[Observation], Observation]


@dataclass(frozen=True)
class Fault:
    """A fault that lasts so long each time.

    Attributes:
        codes: what is told; None: nothing needs to be told.
        events: of the simulated job, each without its time.
        look: what is seen of an observation meanwhile.
        ends_thread, ends_driver: whether there are no cycles meanwhile, and who is started again after it.
    """

    for_s: float
    codes: frozenset[str] | None
    events: tuple[dict[str, Any], ...] = ()
    look: Look = replace
    ends_thread: bool = False
    ends_driver: bool = False

    @property
    def starts(self) -> list[float]:
        """One each hour, each at another place between two decisions."""
        return [HOUR_S * hour + 900.0 + 7.0 * hour for hour in range(HOURS)]

    @property
    def ends(self) -> list[float]:
        return [at + self.for_s for at in self.starts]

    def is_on(self, at: float) -> bool:
        return any(start <= at < start + self.for_s for start in self.starts)


def lasting(kind: str, for_s: float, **given: Any) -> dict[str, Any]:
    return {"kind": kind, "for_s": for_s, **given}


def without_number(seen: Observation) -> Observation:
    batches = [query.batch and replace(query.batch, duration_s=math.nan) for query in seen.queries]
    queries = [replace(query, batch=batch) for query, batch in zip(seen.queries, batches, strict=True)]
    return replace(seen, queries=tuple(queries))


BLIND_S = 240.0
FAULTS = {
    "executor killed": Fault(0.0, None, ({"kind": "dead", "replaced_after_s": 0.0},)),
    "executor killed, and not replaced": Fault(0.0, None, ({"kind": "dead", "replaced_after_s": None},)),
    "broker stopped": Fault(
        60.0,
        frozenset({ReasonCode.METRICS_MISSING}),
        (lasting("metrics", 60.0, missing=["offsets"]), lasting("sink", 60.0, records_per_s=0.001)),
    ),
    "no offsets": Fault(
        BLIND_S, frozenset({ReasonCode.METRICS_MISSING}), (lasting("metrics", BLIND_S, missing=["offsets"]),)
    ),
    "no executors": Fault(
        BLIND_S, frozenset({ReasonCode.METRICS_MISSING}), (lasting("metrics", BLIND_S, missing=["cluster"]),)
    ),
    "old offsets": Fault(BLIND_S, frozenset({ReasonCode.METRICS_STALE}), (lasting("metrics", BLIND_S, frozen=True),)),
    "NaN": Fault(BLIND_S, frozenset({ReasonCode.METRICS_INVALID}), look=without_number),
    "thread killed": Fault(60.0, frozenset({ReasonCode.CYCLE_FAILED}), ends_thread=True),
    "no room": Fault(240.0, frozenset({ReasonCode.NO_ROOM}), (lasting("no-room", 240.0, room=6),)),
    "driver killed": Fault(60.0, None, ({"kind": "code", "factor": 1.0, "pause_s": 25.0},), ends_driver=True),
}


class Beats(ManualClock):
    """Each run of the loop is one cycle."""

    def wait(self, seconds: float) -> bool:
        super().wait(seconds)
        return True


class Kept(StateStore):
    """The state of the last cycle, without a file."""

    def __init__(self) -> None:
        self.data: dict[str, Any] | None = None

    def load(self) -> tuple[dict[str, Any] | None, str | None]:
        return self.data, None

    def save(self, data: Mapping[str, Any]) -> None:
        self.data = dict(data)


class Seen:
    """A simulated job of which a fault shows something else."""

    def __init__(self, sim: SimulatedJob, fault: Fault) -> None:
        self._sim, self._fault = sim, fault

    def observe(self, at: float) -> Observation:
        seen = self._sim.observe(at)
        return self._fault.look(seen) if self._fault.is_on(at) else seen

    def close(self) -> None:
        self._sim.close()


@lru_cache
def played(name: str) -> tuple[SimulatedJob, list[DecisionRecord]]:
    """The job after so many hours of a fault, and what was recorded."""
    fault = FAULTS[name]
    events = [{**event, "at_s": at} for at in fault.starts for event in fault.events]
    job = load_job("base", {**JOB, "events": events})
    settings = load_settings(
        {"objective": job.objective, "executors": list(job.executors), "policy": "rheostat", "sample_s": CYCLE_S}
    )
    sim, clock, journal = SimulatedJob(job, SHAPE.pieces(), 1, 6), Beats(), MemoryJournal()
    seen, store = Seen(sim, fault), Kept() if fault.ends_driver else None

    def start() -> Loop:
        return Loop(seen, build_decision_settings(settings), sim, journal, clock, settings, store=store)

    loop, is_dead = start(), False
    while clock.at < HOURS * HOUR_S:
        if (fault.ends_thread or fault.ends_driver) and fault.is_on(clock.at):
            is_dead = True
            clock.wait(CYCLE_S)
            continue
        loop = start() if is_dead and fault.ends_driver else loop
        loop.run(after=RuntimeError("killed") if is_dead and fault.ends_thread else None)
        is_dead = False
    return sim, [record for record in journal.records if isinstance(record, DecisionRecord)]


@pytest.mark.parametrize("name", FAULTS)
def test_no_decrease_by_figures_that_are_missing_impossible_or_old(name):
    _, records = played(name)
    for record in records:
        seen = record.assessment
        if record.decision.action is Action.DOWN:
            assert seen is not None
            assert not seen.missing
            assert not seen.invalid
            assert (seen.metrics_age_s or 0.0) <= 2 * CYCLE_S


@pytest.mark.parametrize("name", FAULTS)
def test_it_is_back_within_the_objective_two_cycles_after_a_fault(name):
    fault, (sim, records) = FAULTS[name], played(name)
    calm = [0.0, *(end + 2 * CYCLE_S + BATCH_S for end in fault.ends)]
    over = {
        start: Lag.of(sim.history, start, end).seconds_over(OBJECTIVE_S)
        for start, end in zip(calm, [*fault.starts, HOURS * HOUR_S], strict=True)
    }
    assert {start: seconds for start, seconds in over.items() if seconds} == {}
    assert fault.codes is None or fault.codes <= {record.decision.reason.code for record in records}
