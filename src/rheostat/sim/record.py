"""The record-at-a-time engine: records are processed at the capacity C(n, ND), without batches.

It looks like a micro-batch job. Every ``commit_every_s`` the records processed in the interval are committed as
one small "batch", whose duration is the time that they take at capacity. So batch ÷ trigger is the job's utilization,
the trigger being the interval, and 1 where records are left. A batch is "running" only while records wait beyond the
interval. Busy seconds of executors grow by the same share; none are busy while the job is stopped. The batch cap and
stages do not apply.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from math import ceil, floor, inf

from rheostat.model import Batch, StageWork
from rheostat.sim.arrivals import Arrivals, Positions
from rheostat.sim.capacity import record_capacity
from rheostat.sim.executors import Fleet, SimExecutor
from rheostat.sim.history import History
from rheostat.sim.jobfile import JobFile, RecordModel
from rheostat.sim.micro_batch import Engine, batch_end, sink_rate
from rheostat.sim.tasks import Progress

_ROUNDING = 1e-9


class RecordAtATime(Engine):
    """The state of the job."""

    at_boundary = True

    def __init__(self, job: JobFile, model: RecordModel, arrivals: Arrivals, fleet: Fleet, history: History) -> None:
        super().__init__(job, arrivals, fleet, history)
        self._model = model
        self._every = model.commit_every_s
        self._factor = 1.0
        self._since = 0.0
        self._works_at = 0.0
        self._budget = 0.0
        self.in_flight: tuple[int, float] | None = None
        self._rate = self._capacity(0.0)
        self._wait(0.0)

    # --------------------------------------------------------------------------------------------- events

    def step(self, at: float) -> bool:
        """End an interval: commit what was processed."""
        self._accrue(at)
        latest, committed = self._arrivals.latest(at), self._committed
        waiting = sum(latest) - sum(committed)
        possible = max(0, floor(self._budget + _ROUNDING))
        planned = batch_end(committed, latest, possible) if waiting and possible else committed
        records = sum(planned) - sum(committed)
        saturated = records < waiting
        busy_s = self._every * (records / self._budget if records < self._budget and not saturated else 1.0)
        if records:
            self._end_batch(at, planned, records, busy_s)
        self._budget = self._budget - records if saturated else 0.0
        if not saturated or at <= self._works_at:
            self.in_flight = None
        elif self.in_flight is None or self.in_flight[0] != self._next_id:
            self.in_flight = (self._next_id, at)
        self._rate = self._capacity(at)
        self._wait(at)
        return False

    def replan(self, at: float) -> None:
        """Update the capacity after a change of the executors."""
        self._accrue(at)
        self._rate = self._capacity(at)

    def pause(self, at: float, seconds: float) -> None:
        self._accrue(at)
        self._works_at = max(self._works_at, at + seconds)
        self._forget_run()
        self.in_flight = None

    def note_moved(self, share: float) -> None:
        """Do nothing: state moves during the pause of the restart."""

    def change_cost(self, factor: float, stage: str | None) -> None:  # noqa: ARG002 - there are no stages
        """Multiply the cost of a record, from now on."""
        self._factor *= factor

    # ---------------------------------------------------------------------------------------------- looks

    def records(self, at: float) -> tuple[Positions, Positions, Positions]:
        """Latest, planned and committed records of each partition; nothing is planned ahead."""
        return self._arrivals.latest(at), self._committed, self._committed

    def progress(self, at: float) -> Mapping[SimExecutor, Progress]:  # noqa: ARG002 - counted at the ends of intervals
        """Busy slots of the executors."""
        if self.in_flight is None:
            return {}
        return {each: Progress(running=len(each.warm)) for each in self._fleet.running if each.in_use}

    # ---------------------------------------------------------------------------------------------------

    def _capacity(self, at: float) -> float:
        """Records/s now: C(n, ND) × mean speed of the executors, limited by the sink."""
        used = [each for each in self._fleet.running if each.in_use and not each.is_excluded(at)]
        if not used:
            return 0.0
        speed = math.fsum(1 / each.slowness(at) for each in used) / len(used)
        places = self._fleet.places
        distance_ms = None if places is None else places.distance_ms(used)
        carried = record_capacity(self._model, len(used), distance_ms)
        return min(carried * speed / self._factor, sink_rate(self._job, at))

    def _accrue(self, at: float) -> None:
        begin = max(self._since, self._works_at)
        self._budget += self._rate * max(0.0, at - begin)
        self._since = max(self._since, at)

    def _wait(self, at: float) -> None:
        """Schedule the end of the next interval with records; the capacity of idle intervals is lost."""
        if self._oldest <= at:
            self.next_at = at + self._every
            return
        ends = ceil(self._oldest / self._every - _ROUNDING) if self._oldest < inf else inf
        self.next_at = max(at + self._every, ends * self._every)
        self._since = max(self._since, self.next_at - self._every) if self.next_at < inf else at

    def _end_batch(self, at: float, planned: Positions, records: int, busy_s: float) -> None:
        self._commit(planned, at - self._every, at, self._fleet.in_use)
        batch = Batch(
            at=at,
            batch_id=self._next_id,
            duration_s=busy_s,
            planning_s=0.0,
            add_batch_s=busy_s,
            commit_s=0.0,
            records=records,
            stages=(StageWork(self._job.partitions, busy_s * self._fleet.in_use),),
        )
        self._finish(batch)
        self._next_id += 1
        for each in self._fleet.running:
            if each.in_use:
                each.add_work(len(each.warm), busy_s * len(each.warm))
