"""A cluster in memory behind the levers, on a manual clock: every story of growing and shrinking without a wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from tests.execute import contract

from rheostat.errors import ActuationError
from rheostat.execute.live import LiveExecutors, Patience
from rheostat.loop.clock import ManualClock

LOOK_S = 0.25
START_S = 2.0
GONE_S = 5.0


class Later:
    """A runner that works when it is told to, one thing after another, as the thread does."""

    def __init__(self):
        self.waiting = []
        self.closed = False

    def __call__(self, work):
        self.waiting.append(work)

    def close(self):
        self.closed = True

    def run(self):
        while self.waiting:
            self.waiting.pop(0)()


class InMemory:
    """Executors that start after two seconds and stay listed for five after they were removed, as in Spark.

    ``busy``, ``holding`` and ``triggered`` say who works, who holds map output in use, and whether a trigger is
    active, at a time. ``events`` happen at their times.
    """

    def __init__(self, clock: ManualClock, executors: int = 1, room: int = 8):
        self.clock = clock
        self.room = room
        self.asked: list[int] = []
        self.alive = {str(number): 0.0 for number in range(executors)}
        self.leaving: dict[str, float] = {}
        self.started = executors
        self.redone = 2
        self.busy: Callable[[float], Iterable[str]] = lambda _at: ()
        self.holding: Callable[[float], Iterable[str]] = lambda _at: ()
        self.triggered: Callable[[float], bool] = lambda _at: False
        self.acknowledges = True
        self.answers = True
        self.counts = True
        self.takes_orders = False
        self.pauses: list[float] = []
        self.resumed = 0
        self.events: list[tuple[float, Callable[[], object]]] = []
        self.limit = executors

    # ------------------------------------------------------------------------------------- the levers

    def request_total(self, executors):
        self._look()
        if self.acknowledges:
            self.asked.append(executors)
            self.limit = executors
            self._launch()
        return self.acknowledges

    def listed(self):
        self._look()
        return tuple(sorted([*self._ready(), *self.leaving], key=int))

    def registered(self):
        self._look()
        return tuple(self._ready())

    def idle(self):
        return frozenset(self._ready()) - set(self.busy(self.clock.at))

    def between_triggers(self):
        return not self.triggered(self.clock.at)

    def pause(self, longest_s):
        self.pauses.append(longest_s)
        if self.takes_orders:
            self.triggered = lambda _: False
        return self.takes_orders

    def resume(self):
        self.resumed += 1

    def holding_map_output(self):
        return frozenset(self.holding(self.clock.at))

    def kill_idle(self, executors):
        return self._remove([each for each in executors if each in self.idle()])

    def kill_forced(self, executors):
        self.redone += len(set(executors) & set(self.busy(self.clock.at)))
        return self._remove(executors)

    def oldest_stage(self):
        return 4

    def redone_tasks(self, since):
        if not self.counts:
            raise ActuationError("counting redone tasks: TimeoutException")
        return self.redone if since == 4 else 0

    # ---------------------------------------------------------------------------------------- the cluster

    def lose(self, executor):
        """Its process dies."""
        del self.alive[executor]

    def _look(self):
        if not self.answers:
            raise ActuationError("listing the executors: Py4JNetworkError: no answer")
        while self.events and self.events[0][0] <= self.clock.at:
            self.events.pop(0)[1]()
        self.leaving = {each: at for each, at in self.leaving.items() if at > self.clock.at}
        self._launch()

    def _launch(self):
        for _ in range(len(self.alive), min(self.limit, self.room)):
            self.alive[str(self.started)] = self.clock.at + START_S
            self.started += 1

    def _ready(self):
        return sorted((each for each, at in self.alive.items() if at <= self.clock.at), key=int)

    def _remove(self, executors):
        for each in executors:
            del self.alive[each]
            self.leaving[each] = self.clock.at + GONE_S
        return tuple(executors)


class Stage:
    """An actuator on a cluster in memory."""

    def __init__(self, executors=1, room=8, **patience):
        self.clock = ManualClock()
        self.cluster = InMemory(self.clock, executors, room)
        self.runner = Later()
        self.live = LiveExecutors(self.cluster, self.clock, Patience(look_s=LOOK_S, **patience), runner=self.runner)

    def change(self, target, decision_id=1):
        """Apply a decision, let it run to its end, and say what became of it."""
        self.live.apply(contract.decide(target, self.clock.at, decision_id))
        self.runner.run()
        return self.live.poll(self.clock.at)


@pytest.fixture
def decide():
    return contract.decide


@pytest.fixture
def stage():
    return Stage
