"""The loop itself: it lets time pass, calls the stages, keeps their states, and survives whatever they do."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from rheostat.analyze.assess import analysis_settings, analyze
from rheostat.config.models import Mode, Settings
from rheostat.decide.decide import DecisionSettings, decide, hold_failed_cycle, learn
from rheostat.decide.state import State
from rheostat.errors import ActuationError, JournalError
from rheostat.journal.records import DecisionRecord, Header, OutcomeRecord
from rheostat.journal.store import Journal, StateStore
from rheostat.loop.build import header_of
from rheostat.loop.clock import StoppableClock, next_due
from rheostat.model import Assessment, Bounds, Decision, Observation, Outcome, OutcomeStatus, Reason, ReasonCode
from rheostat.ports import Actuator, Clock, Source


class Loop:
    """Keeps an application at its objective, one cycle each ``settings.sample_s`` seconds.

    What is not in the journal has not happened: a cycle whose record cannot be written changes no state and executes
    nothing, an outcome is learnt when it is recorded. So a replay of the journal sees what the loop saw.

    The source, the actuator and the journal belong to the caller, who closes them after :meth:`run` has returned.
    ``run`` and ``cycle`` are for one thread; the other methods may be called from any.
    """

    def __init__(
        self,
        source: Source,
        deciding: DecisionSettings,
        actuator: Actuator,
        journal: Journal,
        clock: StoppableClock,
        settings: Settings,
        *,
        store: StateStore | None = None,
        job: str | None = None,
    ) -> None:
        self._source = source
        self._deciding = deciding
        self._actuator = actuator
        self._journal = journal
        self._clock = clock
        self._settings = settings
        self._store = store
        self._job = job
        self._analysis = analysis_settings(settings)
        self._trouble = Trouble()
        self._lock = threading.Lock()
        self._wanted_pause = False
        self._wanted_bounds: Bounds | None = None
        self._wanted_failover = settings.guard.failover
        self._stopping = False
        self._outbox: list[Outcome] = []
        self._seen: Assessment | None = None
        state, note = self._remembered()
        self._state = state.numbered_from(journal.last_id + 1)
        self._journal.start(header_of(settings, job, deciding.seed), note)
        folder = getattr(journal, "folder", None)
        self._status = Status(
            settings.mode,
            settings.policy,
            target=self._state.requests.target,
            journal=None if folder is None else str(folder),
        )

    # -------------------------------------------------------------------------------------------- control

    def run(self, after: BaseException | None = None) -> None:
        """Cycle until :meth:`stop`, on the calling thread. A late cycle skips beats; it does not catch up.

        Args:
            after: what ended the run before, where that one died; see :func:`~rheostat.loop.loop.supervise`.
        """
        if after is not None:
            self._recover(after)
        due = self._clock.now()
        while not self._stopping:
            self.cycle()
            now = self._clock.now()
            due = next_due(due, now, self._settings.sample_s)
            if self._clock.wait(due - now):
                break
        self._finish()

    def stop(self) -> None:
        """End :meth:`run` after the present cycle. The executors stay as they are."""
        self._stopping = True
        self._clock.stop()

    def pause(self) -> None:
        """From the next cycle on, record decisions without executing them."""
        with self._lock:
            self._wanted_pause = True

    def resume(self) -> None:
        """From the next cycle on, execute decisions again."""
        with self._lock:
            self._wanted_pause = False

    def set_bounds(self, bounds: Bounds) -> None:
        """Other bounds from the next cycle on."""
        with self._lock:
            self._wanted_bounds = bounds

    def failover(self, on: bool) -> None:
        """From the next cycle on, give no executor back (on), or again as the guard says (off)."""
        with self._lock:
            self._wanted_failover = on

    def status(self) -> Status:
        """How it stands after the last cycle."""
        return self._status

    @property
    def unready(self) -> tuple[str, str] | None:
        """What the policy does not do yet, and what it needs for that; None: nothing, or it does not say."""
        ask = getattr(self._deciding.policy, "unready", None)
        found: tuple[str, str] | None = None if ask is None else ask(self._state.policy)
        return found

    # ---------------------------------------------------------------------------------------------- cycle

    def cycle(self) -> Decision:
        """One cycle. Never raises: a cycle that fails is a hold."""
        at = self._clock.now()
        failures = self._trouble.count
        try:
            self._obey()
            self._settle(at)
            decision = self._work(at)
        except Exception as error:
            decision = self._failed(at, error)
        self._publish(decision, failed_now=self._trouble.count > failures)
        return decision

    def _work(self, at: float) -> Decision:
        observation = self._observe(at)
        assessment, state = self._analyze(observation)
        decision, state = self._decide(assessment, state)
        self._record(observation, assessment, decision, state)
        self._execute(decision)
        return decision

    def _observe(self, at: float) -> Observation:
        self._trouble.stage = "observe"
        return self._source.observe(at)

    def _analyze(self, observation: Observation) -> tuple[Assessment, State[Any]]:
        self._trouble.stage = "analyze"
        assessment, analysis = analyze(observation, self._state.analysis, self._analysis)
        return assessment, replace(self._state, analysis=analysis)

    def _decide(self, assessment: Assessment, state: State[Any]) -> tuple[Decision, State[Any]]:
        self._trouble.stage = "plan"
        return decide(assessment, state, self._deciding)

    def _record(
        self, observation: Observation | None, assessment: Assessment | None, decision: Decision, then: State[Any]
    ) -> None:
        """Write the cycle down, and only then remember it."""
        self._trouble.stage = "journal"
        self._journal.record(DecisionRecord.of(observation, assessment, decision), self._states)
        self._state = then
        self._seen = assessment
        self._save()

    def _execute(self, decision: Decision) -> None:
        if not decision.acts:
            return
        self._trouble.stage = "execute"
        if self._settings.mode == "watch":
            self._outbox.append(not_executed(decision, ReasonCode.WATCH_ONLY))
        elif self._state.requests.paused:
            self._outbox.append(not_executed(decision, ReasonCode.PAUSED))
        else:
            self._apply(decision)

    def _apply(self, decision: Decision) -> None:
        try:
            self._actuator.apply(decision)
        except Exception as error:
            self._trouble.met(error)
            self._outbox.append(refused(decision, error))

    # ------------------------------------------------------------------------------- before and after it

    def _obey(self) -> None:
        """Take over what was asked for from other threads; the journal gets a new session for it."""
        self._trouble.stage = "plan"
        with self._lock:
            pause, bounds, self._wanted_bounds = self._wanted_pause, self._wanted_bounds, None
            failover = self._wanted_failover
        if bounds is not None:
            self._settings = self._settings.model_copy(update={"executors": (bounds.minimum, bounds.maximum)})
            self._deciding = replace(self._deciding, bounds=bounds)
            self._journal.start(self._header(), f"bounds: {bounds.minimum} to {bounds.maximum}")
        if failover is not self._settings.guard.failover:
            guard = self._settings.guard.model_copy(update={"failover": failover})
            self._settings = self._settings.model_copy(update={"guard": guard})
            self._deciding = replace(self._deciding, guard=guard)
            self._journal.start(self._header(), "failover" if failover else "the failover has ended")
        if pause is not self._state.requests.paused:
            self._state = replace(self._state, requests=replace(self._state.requests, paused=pause))
            self._journal.start(self._header(), "paused" if pause else "resumed")

    def _settle(self, at: float) -> None:
        """Record what became of earlier decisions, and learn from it."""
        self._trouble.stage = "poll"
        if self._settings.mode != "watch":
            self._poll(at)
        self._trouble.stage = "journal"
        while self._outbox:
            outcome = self._outbox[0]
            self._journal.record(OutcomeRecord(outcome.at, outcome), self._states)
            self._state = learn(outcome, self._state, self._deciding)
            self._outbox.pop(0)

    def _poll(self, at: float) -> None:
        try:
            outcome = self._actuator.poll(at)
        except Exception as error:
            self._trouble.met(error)
            return
        if outcome is not None:
            self._outbox.append(outcome)

    def _finish(self) -> None:
        """Record the outcomes that are known by now."""
        try:
            self._settle(self._clock.now())
        except Exception as error:
            self._trouble.met(error)

    def _recover(self, error: BaseException) -> None:
        """Go on after a run that ended anywhere: as after a restart, and with a number that is not used yet."""
        self._trouble.stage = "run"
        self._state = self._state.restarted().numbered_from(self._state.next_id + 1)
        self._journal.start(self._header(), "the loop is started again: its thread had died")
        self._publish(self._failed(self._clock.now(), error), failed_now=True)

    def _failed(self, at: float, error: BaseException) -> Decision:
        """A hold, recorded if that is possible."""
        text = self._trouble.met(error)
        self._seen = None
        decision, state = hold_failed_cycle(at, text, self._status.target, self._state)
        try:
            self._record(None, None, decision, state)
        except Exception as second:
            self._trouble.met(second)
        return decision

    # ---------------------------------------------------------------------------------------------- state

    def _header(self) -> Header:
        return header_of(self._settings, self._job, self._deciding.seed)

    def _states(self) -> dict[str, object]:
        return self._deciding.state_to_json(self._state)

    def _remembered(self) -> tuple[State[Any], str | None]:
        """The memory of the run before, and what people should know of it."""
        if self._store is None:
            return self._deciding.initial(), None
        data, problem = self._store.load()
        try:
            if data is not None:
                state = self._deciding.state_from_json(data).restarted()
                return state, "the state of the run before was taken over"
        except JournalError as error:
            problem = str(error)
        if problem is None:
            return self._deciding.initial(), None
        note = f"started without the state of the run before: {problem}"
        self._trouble.note(note)
        return self._deciding.initial(), note

    def _save(self) -> None:
        """Keep the state for a restart. That it fails costs no more than what a restart would know."""
        if self._store is None:
            return
        self._trouble.stage = "state"
        try:
            self._store.save(self._states())
        except Exception as error:
            self._trouble.met(error)

    def _publish(self, decision: Decision, *, failed_now: bool) -> None:
        seen, before = self._seen, self._status
        self._status = Status(
            mode=before.mode,
            policy=before.policy,
            paused=self._state.requests.paused,
            decision=decision,
            executors=seen.executors if seen else None,
            target=before.target if decision.target is None else decision.target,
            lag_s=seen.lag_s if seen else None,
            cycles=before.cycles + 1,
            failures=before.failures + failed_now,
            last_failure=self._trouble.last,
            journal=before.journal,
        )


# What a loop says of itself.


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a loop after its last cycle.

    Attributes:
        mode: act, watch or dry-run.
        paused: decisions are recorded, not executed, until it is resumed.
        decision: the last one; None before the first cycle.
        executors: registered; None: unknown.
        target: the number in force.
        lag_s: age of the oldest uncommitted record; None: unknown.
        cycles, failures: cycles so far; how many of them failed somewhere.
        last_failure: what went wrong last, in words.
        journal: folder of the journal; None: none is written to disk.
    """

    mode: Mode
    policy: str
    paused: bool = False
    decision: Decision | None = None
    executors: int | None = None
    target: int | None = None
    lag_s: float | None = None
    cycles: int = 0
    failures: int = 0
    last_failure: str | None = None
    journal: str | None = None


# What goes wrong in a loop: told once for each kind, with what to do, and counted.


_log = logging.getLogger("rheostat")
_LONGEST = 300

_WHAT_TO_DO = {
    "observe": "the number of executors stays as it is; look whether the application and its sources answer",
    "analyze": "the number of executors stays as it is; this is a fault of rheostat, please report it with the journal",
    "plan": "the number of executors stays as it is; look at the policy and its options, `rheostat replay` repeats it",
    "journal": "nothing is changed until the journal can be written: look at the free space and the rights there",
    "state": "after a restart the controller will know less: look at the free space and the rights there",
    "execute": "the cluster was not asked; it is tried again after a while: look at the driver and the cluster manager",
    "run": "the loop's thread died and a new one goes on; please report it with the journal if nobody ended it",
    "poll": "what became of the last change is unknown: look at the driver and the cluster manager",
}


class Trouble:
    """Remembers what was told already.

    Attributes:
        count: failures so far.
        last: the last one in words.
        stage: the one that has begun, so that a failure in it can be told.
    """

    def __init__(self) -> None:
        self.count = 0
        self.last: str | None = None
        self.stage = "observe"
        self._told: set[tuple[str, type[BaseException]]] = set()

    def met(self, error: BaseException) -> str:
        """A failure of the present stage; returns it in words. The first of its kind is logged."""
        text = f"{self.stage} failed: {describe(error)}"
        self.count += 1
        self.last = text
        kind = (self.stage, type(error))
        if kind not in self._told:
            self._told.add(kind)
            _log.error("%s; %s (told once)", text, _WHAT_TO_DO[self.stage], exc_info=error)
        return text

    def note(self, text: str) -> None:
        """Something that people should know, without being a failure."""
        _log.warning("%s", text)


def describe(error: BaseException) -> str:
    """An exception in one short line."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def not_executed(decision: Decision, code: ReasonCode) -> Outcome:
    """The outcome of a decision that is only recorded, because the loop watches or is paused."""
    current = "an unknown number" if decision.current is None else decision.current
    words = "paused" if code is ReasonCode.PAUSED else "watching only"
    reason = Reason(code, f"{words}: {current} → {decision.target} was not asked for")
    status = OutcomeStatus.HELD if code is ReasonCode.PAUSED else OutcomeStatus.RECORDED
    return Outcome(
        at=decision.at,
        decision_id=decision.decision_id,
        status=status,
        reason=reason,
        target=decision.target or 0,
        before=decision.current,
        after=decision.current,
        took_s=0.0,
    )


def refused(decision: Decision, error: Exception) -> Outcome:
    """The outcome of a decision that could not even be asked for."""
    code = ReasonCode.REQUEST_REJECTED if isinstance(error, ActuationError) else ReasonCode.CYCLE_FAILED
    return Outcome(
        at=decision.at,
        decision_id=decision.decision_id,
        status=OutcomeStatus.FAILED,
        reason=Reason(code, f"the change could not be asked for: {describe(error)}"),
        target=decision.target or 0,
        before=decision.current,
        after=decision.current,
    )


# The thread of a loop, which is replaced when it dies.


_FIRST_S, _LONGEST_S = 1.0, 60.0


def supervise(run: Callable[[BaseException | None], None], clock: Clock, *, name: str = "rheostat-loop") -> None:
    """Call ``run`` in a daemon thread and wait until it returns; if it raises, call it again in a new thread.

    Between two calls there is 1 s, then twice as much each time, 60 s at most. A new thread because Py4J has one
    connection for each thread, and on that of a dead one an answer may be half read.

    Args:
        run: told what ended the call before; None at the first one.
        clock: its wait is the pause; when that is cut short, nothing is called again.
        name: of the threads.
    """
    pause_s, ended = _FIRST_S, _called(run, None, name)
    while ended is not None and not clock.wait(pause_s):
        pause_s = min(2 * pause_s, _LONGEST_S)
        ended = _called(run, ended, name)


def _called(
    run: Callable[[BaseException | None], None], before: BaseException | None, name: str
) -> BaseException | None:
    """What ended the call; None: it returned."""
    raised: list[BaseException] = []

    def call() -> None:
        try:
            run(before)
        except BaseException as error:  # whatever ends the thread: a policy's sys.exit(), an asynchronous exception
            raised.append(error)

    thread = threading.Thread(target=call, name=name, daemon=True)
    thread.start()
    thread.join()
    return raised[0] if raised else None
