"""Whatever happens in whatever order: the loop goes on, never lowers blindly, and its journal replays."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from rheostat.config.loading import load_settings
from rheostat.errors import ActuationError, UnavailableError
from rheostat.journal.records import DecisionRecord
from rheostat.journal.store import MemoryJournal
from rheostat.loop.build import build_decision_settings
from rheostat.loop.clock import ManualClock
from rheostat.loop.loop import Loop
from rheostat.model import Action, Bounds, Decision, Observation, Outcome
from rheostat.report.replay import replay
from rheostat.testing.fakes import ToyJob


class _Flaky(ToyJob):
    """A toy job whose answers can be switched off."""

    blind = False
    dumb = False

    def observe(self, at: float) -> Observation:
        if self.blind:
            raise UnavailableError("no answer")
        return super().observe(at)

    def apply(self, decision: Decision) -> None:
        if self.dumb:
            raise ActuationError("refused")
        super().apply(decision)

    def poll(self, at: float) -> Outcome | None:
        if self.dumb:
            raise ActuationError("no answer")
        return super().poll(at)


class LoopMachine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        chosen = load_settings({"objective": "lag < 30s", "executors": [1, 6], "profile": "demo"})
        self.job, self.clock, self.journal = _Flaky(partitions=12), ManualClock(1e9), MemoryJournal()
        decision_settings = build_decision_settings(chosen)
        self.loop = Loop(self.job, decision_settings, self.job, self.journal, self.clock, chosen)
        self.last: Decision | None = None

    @rule(rate=st.sampled_from([0.0, 50.0, 200.0, 700.0]), cycles=st.integers(1, 12))
    def time_passes(self, rate: float, cycles: int) -> None:
        self.job.rate = rate
        for _ in range(cycles):
            applied = len(self.job.applied)
            self.last = self.loop.cycle()
            self.clock.at += 2.0
            if self.job.blind or self.journal.broken:
                assert self.last.action is Action.HOLD
                assert len(self.job.applied) == applied

    @rule(blind=st.booleans())
    def sight(self, blind: bool) -> None:
        self.job.blind = blind

    @rule(dumb=st.booleans())
    def cluster(self, dumb: bool) -> None:
        self.job.dumb = dumb

    @rule(why=st.sampled_from([None, "No space left on device"]))
    def disk(self, why: str | None) -> None:
        self.journal.broken = why

    @rule(number=st.integers(0, 6))
    def executors_die(self, number: int) -> None:
        self.job.executors = min(self.job.executors, number)

    @rule(room=st.integers(1, 8))
    def the_cluster_fills_up(self, room: int) -> None:
        self.job.room = room

    @rule(pause=st.booleans())
    def someone_pauses(self, pause: bool) -> None:
        self.loop.pause() if pause else self.loop.resume()

    @rule(least=st.integers(1, 3), more=st.integers(0, 4))
    def someone_sets_bounds(self, least: int, more: int) -> None:
        self.loop.set_bounds(Bounds(least, least + more))

    @rule(seconds=st.sampled_from([60.0, 86_400.0]))
    def the_machine_sleeps(self, seconds: float) -> None:
        self.clock.at += seconds

    @invariant()
    def numbers_ascend(self) -> None:
        ids = [record.decision_id for record in self.journal.records if isinstance(record, DecisionRecord)]
        assert ids == list(range(1, len(ids) + 1))

    def teardown(self) -> None:
        if any(isinstance(record, DecisionRecord) for record in self.journal.records):
            different = [each for each in replay(self.journal.records) if not each.same]
            assert different == []


TestLoop = LoopMachine.TestCase
TestLoop.settings = settings(stateful_step_count=25)
