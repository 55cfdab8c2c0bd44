"""The loop: it lets time pass, calls the stages, keeps their states, and survives whatever they do."""

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
from rheostat.journal.records import DecisionRecord, OutcomeRecord
from rheostat.journal.store import Journal, StateStore
from rheostat.loop.build import header_of
from rheostat.loop.clock import StoppableClock, next_due
from rheostat.model import Assessment, Bounds, Decision, Observation, Outcome, OutcomeStatus, Reason, ReasonCode
from rheostat.ports import Actuator, Clock, Shedder, Source


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a loop after its last cycle.

    Attributes:
        mode: act, watch or dry-run.
        paused: decisions are recorded, not executed, until it is resumed.
        decision: the last one; None before the first cycle.
        executors: registered; None: unknown.
        target: the current target.
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


_CLOCK_SET_S = 1.0
"""The wall clock was set, not only corrected, where it is off by so much more than before."""


class Loop:
    """Keeps an application at its objective, one cycle each ``settings.sample_s`` seconds.

    What is not in the journal has not happened: a cycle whose record cannot be written changes no state and executes
    nothing, an outcome is learned from when it is recorded. So a replay of the journal sees what the loop saw.

    The source, the actuator and the journal belong to the caller, who closes them after :meth:`run` has returned.
    ``run`` and ``cycle`` are for one thread; the other methods may be called from any.
    """

    def __init__(
        self,
        source: Source,
        decision_settings: DecisionSettings,
        actuator: Actuator,
        journal: Journal,
        clock: StoppableClock,
        settings: Settings,
        *,
        store: StateStore | None = None,
        job: str | None = None,
        shedder: Shedder | None = None,
    ) -> None:
        self._source = source
        self._decision_settings = decision_settings
        self._actuator = actuator
        self._journal = journal
        self._clock = clock
        self._settings = settings
        self._store = store
        self._job = job
        self._shedder = shedder
        self._analysis_settings = analysis_settings(settings)
        self._failures = FailureLog()
        self._lock = threading.Lock()
        self._wanted_pause = False
        self._wanted_bounds: Bounds | None = None
        self._wanted_failover = settings.guard.failover
        self._stopping = False
        self._outbox: list[Outcome] = []
        self._assessment: Assessment | None = None
        self._wall_ahead_s = 0.0
        self._named: set[str] = set()
        state, note = self._load_state()
        self._latest = state.at
        self._state = state.numbered_from(journal.last_id + 1)
        self._start_session(note)
        folder = getattr(journal, "folder", None)
        self._status = Status(
            settings.mode,
            settings.policy,
            target=self._state.requests.target,
            journal=None if folder is None else str(folder),
        )

    # Control, from any thread.

    def run(self, after: BaseException | None = None) -> None:
        """Cycle until :meth:`stop`, on the calling thread. A late cycle skips beats; it does not catch up.

        Args:
            after: what ended the run before, where that one died; see :func:`supervise`.
        """
        if after is not None:
            self._recover(after)
        due = self._now()
        while not self._stopping:
            self.cycle()
            now = self._now()
            due = next_due(due, now, self._settings.sample_s)
            if self._clock.wait(due - now):
                break
        try:
            self._settle(self._now())
        except Exception as error:
            self._failures.add(error)

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
        return self._status

    @property
    def unready(self) -> tuple[str, str] | None:
        """What the policy does not do yet, and what it needs for that; None: nothing, or it does not say."""
        ask: Callable[[Any], tuple[str, str] | None] | None
        ask = getattr(self._decision_settings.policy, "unready", None)
        return None if ask is None else ask(self._state.policy)

    # One cycle.

    def cycle(self) -> Decision:
        """One cycle. Never raises: a cycle that fails is a hold."""
        at = self._now()
        failures = self._failures.count
        try:
            self._take_orders()
            self._settle(at)
            decision = self._turn(at)
        except Exception as error:
            decision = self._hold_failed_cycle(at, error)
        self._publish(decision, failed_now=self._failures.count > failures)
        return decision

    def _now(self) -> float:
        """Time never runs back: not after a restart, nor where the clock was set."""
        if self._latest is not None:
            self._clock.start_from(self._latest)
        self._latest = self._clock.now()
        return self._latest

    def _turn(self, at: float) -> Decision:
        self._failures.stage = "observe"
        observation = self._source.observe(at)
        self._failures.stage = "analyze"
        assessment, analysis = analyze(observation, self._state.analysis, self._analysis_settings)
        self._name_uncountable(assessment)
        self._failures.stage = "plan"
        decision, state = decide(assessment, replace(self._state, analysis=analysis), self._decision_settings)
        self._record(observation, assessment, decision, state)
        self._failures.stage = "execute"
        self._execute(decision)
        self._shed(decision)
        return decision

    def _name_uncountable(self, assessment: Assessment) -> None:
        """Log, once, each query that can never be measured."""
        for query in assessment.unmeasured:
            if query.source is not None and query.query not in self._named:
                self._named.add(query.query)
                _log.warning("%s: this query is left out, and alone it is not scaled", query.why)

    def _record(
        self, observation: Observation | None, assessment: Assessment | None, decision: Decision, after: State[Any]
    ) -> None:
        """Write the cycle down, and only then remember it."""
        self._failures.stage = "journal"
        self._journal.record(DecisionRecord.of(observation, assessment, decision), self._state_json)
        self._state = after
        self._assessment = assessment
        self._save_state()

    def _execute(self, decision: Decision) -> None:
        if not decision.acts:
            return
        if self._settings.mode == "watch":
            self._outbox.append(not_executed(decision, ReasonCode.WATCH_ONLY))
        elif self._state.requests.paused:
            self._outbox.append(not_executed(decision, ReasonCode.PAUSED))
        else:
            try:
                self._actuator.apply(decision)
            except Exception as error:
                self._failures.add(error)
                self._outbox.append(refused(decision, error))

    def _shed(self, decision: Decision) -> None:
        if self._shedder is None or decision.shedding is None or self._settings.mode != "act":
            return
        try:
            self._shedder.order(None if self._state.requests.paused else decision.shedding)
        except Exception as error:
            self._failures.add(error)

    # Before and after it.

    def _take_orders(self) -> None:
        """Take over what was asked for from other threads; the journal gets a new session for it."""
        self._failures.stage = "plan"
        with self._lock:
            pause, bounds, self._wanted_bounds = self._wanted_pause, self._wanted_bounds, None
            failover = self._wanted_failover
        if bounds is not None:
            self._settings = self._settings.model_copy(update={"executors": (bounds.minimum, bounds.maximum)})
            self._decision_settings = replace(self._decision_settings, bounds=bounds)
            self._start_session(f"bounds: {bounds.minimum} to {bounds.maximum}")
        if failover is not self._settings.guard.failover:
            guard = self._settings.guard.model_copy(update={"failover": failover})
            self._settings = self._settings.model_copy(update={"guard": guard})
            self._decision_settings = replace(self._decision_settings, guard=guard)
            self._start_session("failover" if failover else "the failover has ended")
        if pause is not self._state.requests.paused:
            self._state = replace(self._state, requests=replace(self._state.requests, paused=pause))
            self._start_session("paused" if pause else "resumed")
        ahead_s = self._clock.wall_ahead_s()
        if abs(ahead_s - self._wall_ahead_s) >= _CLOCK_SET_S:
            self._wall_ahead_s = ahead_s
            side = "ahead of" if ahead_s > 0 else "behind"
            self._start_session(f"the wall clock was set: it is {abs(ahead_s):.0f} s {side} the times of this journal")

    def _settle(self, at: float) -> None:
        """Record what became of earlier decisions, and learn from it."""
        if self._settings.mode != "watch":
            self._failures.stage = "poll"
            self._poll(at)
        self._failures.stage = "journal"
        while self._outbox:
            outcome = self._outbox[0]
            self._journal.record(OutcomeRecord(outcome.at, outcome), self._state_json)
            self._state = learn(outcome, self._state, self._decision_settings)
            self._outbox.pop(0)

    def _poll(self, at: float) -> None:
        try:
            outcome = _check_outcome(self._actuator.poll(at), self._settings.actuator)
        except Exception as error:
            self._failures.add(error)
            return
        if outcome is not None:
            self._outbox.append(outcome)

    def _recover(self, error: BaseException) -> None:
        """Go on after a run that ended anywhere: as after a restart, and with a number that is not used yet."""
        self._failures.stage = "run"
        self._state = self._state.restarted().numbered_from(self._state.next_id + 1)
        self._start_session("the loop is started again: its thread had died")
        self._publish(self._hold_failed_cycle(self._now(), error), failed_now=True)

    def _hold_failed_cycle(self, at: float, error: BaseException) -> Decision:
        """A hold, recorded if that is possible."""
        text = self._failures.add(error)
        self._assessment = None
        decision, state = hold_failed_cycle(at, text, self._status.target, self._state)
        try:
            self._record(None, None, decision, state)
        except Exception as second:
            self._failures.add(second)
        return decision

    def _publish(self, decision: Decision, *, failed_now: bool) -> None:
        assessment, before = self._assessment, self._status
        self._status = replace(
            before,
            paused=self._state.requests.paused,
            decision=decision,
            executors=assessment.executors if assessment else None,
            target=before.target if decision.target is None else decision.target,
            lag_s=assessment.lag_s if assessment else None,
            cycles=before.cycles + 1,
            failures=before.failures + failed_now,
            last_failure=self._failures.last,
        )

    # The state and the journal.

    def _start_session(self, note: str | None) -> None:
        self._journal.start(header_of(self._settings, self._job, self._decision_settings.seed), note)

    def _state_json(self) -> dict[str, object]:
        return self._decision_settings.state_to_json(self._state)

    def _load_state(self) -> tuple[State[Any], str | None]:
        """The state of the run before, and what people should know of it."""
        if self._store is None:
            return self._decision_settings.initial(), None
        data, problem = self._store.load()
        try:
            if data is not None:
                state = self._decision_settings.state_from_json(data).restarted()
                return state, "the state of the run before was taken over"
        except JournalError as error:
            problem = str(error)
        if problem is None:
            return self._decision_settings.initial(), None
        note = f"started without the state of the run before: {problem}"
        _log.warning("%s", note)
        return self._decision_settings.initial(), note

    def _save_state(self) -> None:
        """Keep the state for a restart. That it fails costs no more than what a restart would know."""
        if self._store is None:
            return
        self._failures.stage = "state"
        try:
            self._store.save(self._state_json())
        except Exception as error:
            self._failures.add(error)


# What goes wrong in a loop: logged once for each kind, with what to do, and counted.

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


class FailureLog:
    """Counts failures, and logs the first of each kind.

    Attributes:
        count: failures so far.
        last: the last one in words.
        stage: the one that has begun, so that a failure in it can be named.
    """

    def __init__(self) -> None:
        self.count = 0
        self.last: str | None = None
        self.stage = "observe"
        self._logged: set[tuple[str, type[BaseException]]] = set()

    def add(self, error: BaseException) -> str:
        """Add a failure of the present stage; returns it in words."""
        text = f"{self.stage} failed: {describe(error)}"
        self.count += 1
        self.last = text
        kind = (self.stage, type(error))
        if kind not in self._logged:
            self._logged.add(kind)
            _log.error("%s; %s (logged once)", text, _WHAT_TO_DO[self.stage], exc_info=error)
        return text


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
    return replace(_unchanged(decision, status, reason), took_s=0.0)


def refused(decision: Decision, error: Exception) -> Outcome:
    """The outcome of a decision that could not even be asked for."""
    code = ReasonCode.REQUEST_REJECTED if isinstance(error, ActuationError) else ReasonCode.CYCLE_FAILED
    reason = Reason(code, f"the change could not be asked for: {describe(error)}")
    return _unchanged(decision, OutcomeStatus.FAILED, reason)


def _unchanged(decision: Decision, status: OutcomeStatus, reason: Reason) -> Outcome:
    return Outcome(
        at=decision.at,
        decision_id=decision.decision_id,
        status=status,
        reason=reason,
        target=decision.target or 0,
        before=decision.current,
        after=decision.current,
    )


def _check_outcome(answer: object, actuator: str) -> Outcome | None:
    """What ``poll`` returned. Raises TypeError if it is no outcome."""
    if answer is None or isinstance(answer, Outcome):
        return answer
    message = f"the actuator {actuator}: poll returned {answer!r}, it must be an Outcome or None"
    raise TypeError(message)


# The thread of a loop, which is replaced when it dies.

_FIRST_S, _LONGEST_S = 1.0, 60.0


def supervise(run: Callable[[BaseException | None], None], clock: Clock, *, name: str = "rheostat-loop") -> None:
    """Call ``run`` in a daemon thread and wait until it returns; if it raises, call it again in a new thread.

    Between two calls there is 1 s, then twice as much each time, 60 s at most. A new thread because Py4J has one
    connection for each thread, and on that of a dead one an answer may be half read.

    Args:
        run: gets what ended the call before; None at the first one.
        clock: its wait is the pause; when that is cut short, nothing is called again.
        name: of the threads.
    """
    pause_s, error = _FIRST_S, _run_in_thread(run, None, name)
    while error is not None and not clock.wait(pause_s):
        pause_s = min(2 * pause_s, _LONGEST_S)
        error = _run_in_thread(run, error, name)


def _run_in_thread(
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
