"""All that is remembered between two cycles, as JSON, and how it changes: by an assessment, a decision, an outcome."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Generic, NamedTuple, TypeVar

from rheostat.analyze.state import AnalysisState
from rheostat.config.models import GuardSettings
from rheostat.decide.effectiveness import (
    Cold,
    Cost,
    Trial,
    Useless,
    judge_trial,
    start_trial,
    update_cold,
    update_cost,
    update_useless,
)
from rheostat.decide.failures import ANSWER_S, Refused, Watch, find_answer, refuse, stand, start_watch, watch_again
from rheostat.decide.policy import tasks_fail
from rheostat.decide.shedding import SheddingState
from rheostat.model import Answer, Assessment, Outcome, OutcomeStatus

_MADE = frozenset({OutcomeStatus.APPLIED, OutcomeStatus.PARTIAL, OutcomeStatus.RECORDED})
_REFUSED = frozenset({OutcomeStatus.NO_ROOM, OutcomeStatus.FAILED})
_MOST_RECOMMENDATIONS = 32

AN_HOUR_S = 3600.0
"""For so long Spark excludes an executor, unless spark.excludeOnFailure.timeout says otherwise."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A decision whose outcome is not known yet.

    Attributes:
        rate: records/s that the last settled number processed; None: unknown.
        settled: that number; None: the effect is not judged.
    """

    decision_id: int
    at: float
    before: int
    target: int
    rate: float | None = None
    settled: int | None = None


class PastRecommendation(NamedTuple):
    """A number that the policy recommended, and when."""

    at: float
    target: int


class Replacing(NamedTuple):
    """An executor in whose place one more was asked for, and the number before that."""

    executor: str
    before: int


class Moving(NamedTuple):
    """An executor that leaves a node, in whose place one is to come elsewhere.

    Attributes:
        before: the number before it.
        at: when it was told to go.
        used: executors on the node before it.
        gone: whether it has been seen to be gone.
    """

    node: str
    before: int
    at: float
    used: int
    gone: bool = False


@dataclass(frozen=True, slots=True)
class GuardState:
    """What the steps remember.

    Attributes:
        started_at: first decision.
        changed_at: the last change of the number of executors by us.
        changed_to: the number after it; None: there was none, or it was not executed.
        down_blocked_at: the last change, or failed attempt to go down; the cooldown of decreases counts from here.
        no_room_until: no increases before; None: none was refused since the last one granted.
        backoff_s: length of that back-off.
        pending: the change that is being executed.
        raised_at: the last increase.
        failover_at: when the switch ``failover`` was last seen on.
        proposed: what was recommended within ``scale_down_hold_s``, each less than the one before; at most 32.
        trial: an increase whose effect is being looked at.
        useless: an increase that brought nothing.
        cost_up, cost_down: what a change has cost so far.
        cold: a change whose first batches are being looked at.
        replacing: a slow executor that is to go.
        moving: an executor on its way from one node to another.
        failing_since: since when tasks have failed in each window; None: they do not.
        lost_at: when an executor was last found dead.
        watch: the last change, while failures would be its answer.
        refused_down, refused_up: the last decrease and increase that were answered by failures.
        run: the runs of the queries that all this is of, by the time when they began; None: the first ones.
        round_trips: when decreases followed an increase, within the last hour.
    """

    started_at: float | None = None
    changed_at: float | None = None
    down_blocked_at: float | None = None
    no_room_until: float | None = None
    backoff_s: float | None = None
    pending: Pending | None = None
    raised_at: float | None = None
    failover_at: float | None = None
    proposed: tuple[PastRecommendation, ...] = ()
    trial: Trial | None = None
    useless: Useless | None = None
    cost_up: Cost | None = None
    cost_down: Cost | None = None
    cold: Cold | None = None
    replacing: Replacing | None = None
    changed_to: int | None = None
    failing_since: float | None = None
    lost_at: float | None = None
    watch: Watch | None = None
    refused_down: Refused | None = None
    refused_up: Refused | None = None
    run: float | None = None
    round_trips: tuple[float, ...] = ()
    moving: Moving | None = None

    def outdates(self, assessment: Assessment) -> bool:
        """Whether the figures are of before the last change, as those that come with a delay are for a while."""
        age_s, changed_at = assessment.metrics_age_s, self.changed_at
        return age_s is not None and changed_at is not None and assessment.at - age_s < changed_at


@dataclass(frozen=True, slots=True)
class RequestState:
    """What was asked for, and whether it came.

    Attributes:
        opened: whether the number to start from has been settled.
        restored: the target of the run before a crash or restart.
        paused: decisions are recorded, not executed.
        target: the number that was asked for last.
        reached: the number asked for when it was last there.
        missing_since: since when executors have been fewer than that.
        replaced_at: when lost executors were last asked for again.
        excluded: how often these were excluded ones, without an hour between two such requests.
        working: the least share of the executors that worked when those in the place of excluded ones were excluded
            too, within the last hour; and when others were last excluded.
        given_up: the number asked for whose executors did not come in time; the request stands. None: there is none.
    """

    opened: bool = False
    restored: int | None = None
    paused: bool = False
    target: int | None = None
    reached: int | None = None
    missing_since: float | None = None
    replaced_at: float | None = None
    excluded: int = 0
    given_up: int | None = None
    working: tuple[float, float] | None = None


S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class State(Generic[S]):
    """What the loop remembers from one cycle to the next.

    Attributes:
        policy: the policy's own state.
        next_id: number of the next decision.
        at: of the last decision; no time in the state is later. None: there was none.
        answer: what has become of the policy's last recommendation; None: there was none.
        shedding: of the plan of what is kept.
    """

    policy: S
    guard: GuardState = field(default_factory=GuardState)
    next_id: int = 1
    requests: RequestState = field(default_factory=RequestState)
    analysis: AnalysisState = field(default_factory=AnalysisState)
    at: float | None = None
    answer: Answer | None = None
    shedding: SheddingState = field(default_factory=SheddingState)

    def restarted(self) -> State[S]:
        """For a new run: nothing is being executed, and the last target may have to be asked for again."""
        target = self.requests.target
        at = self.analysis.cluster.at if self.at is None else self.at
        guard, shedding = replace(self.guard, pending=None, moving=None), replace(self.shedding, move=None)
        requests = RequestState(restored=target, target=target)
        return replace(self, guard=guard, requests=requests, at=at, shedding=shedding)

    def numbered_from(self, number: int) -> State[S]:
        """The next decision has this number, or a greater one."""
        return replace(self, next_id=max(number, self.next_id))


# By an assessment.


def observe(assessment: Assessment, guard: GuardState, settings: GuardSettings, most: int | None = None) -> GuardState:
    """The state as this assessment finds it: started, and without a change that nobody answered for.

    ``most``: the greatest number of executors allowed.
    """
    pending = guard.pending
    if pending is not None and assessment.at - pending.at >= settings.hold_fallback_s:
        guard = _give_up(pending, guard)
    if guard.started_at is None:
        guard = replace(guard, started_at=assessment.at)
    if settings.failover:
        guard = replace(guard, failover_at=assessment.at)
    if assessment.run_since != guard.run:
        guard = _doubt_effects(assessment, guard, settings)
    if guard.cold is not None:
        cold, cost = update_cold(guard.cold, guard.cost_up if guard.cold.up else guard.cost_down, assessment)
        guard = _with_cost(guard, cost, cold, up=guard.cold.up)
    if guard.trial is not None or guard.useless is not None:
        guard = _judge_increases(assessment, guard, settings, most)
    guard = _watch_failures(assessment, guard, settings)
    if guard.replacing is not None and guard.pending is None and _is_replaced(guard.replacing, assessment):
        guard = replace(guard, replacing=None)
    if guard.moving is not None:
        guard = replace(guard, moving=_follow_move(guard.moving, assessment, settings.hold_fallback_s))
    return guard


def _give_up(pending: Pending, guard: GuardState) -> GuardState:
    """The state without a change whose outcome did not come; an increase may have been made all the same."""
    if pending.target <= pending.before:
        return replace(guard, pending=None, changed_to=None)
    return replace(
        guard,
        pending=None,
        raised_at=max(pending.at, guard.raised_at or pending.at),
        down_blocked_at=max(pending.at, guard.down_blocked_at or pending.at),
    )


def _doubt_effects(assessment: Assessment, guard: GuardState, settings: GuardSettings) -> GuardState:
    """The state in new runs, maybe of other code: what brought nothing, or failures, may be tried again.

    That it did is known still, so that the next back-off is longer. Failures shortly before a new run have ended the
    one before, as far as one can know: they stand.
    """
    run, useless = assessment.run_since, guard.useless
    guard = replace(guard, run=run, trial=None, cold=None)
    if useless is not None:
        wait_s = useless.wait_s(assessment.at, settings)
        guard = replace(guard, useless=useless._replace(at=useless.at - max(0.0, wait_s), undone=True))
    for up in (False, True):
        refused = _refused(guard, up=up)
        if refused is not None and run is not None and run - refused.at >= ANSWER_S:
            guard = _with_refused(guard, refused.expired(assessment.at), up=up)
    return guard


def _with_cost(guard: GuardState, cost: Cost | None, cold: Cold | None, *, up: bool) -> GuardState:
    return replace(guard, cold=cold, cost_up=cost) if up else replace(guard, cold=cold, cost_down=cost)


def _judge_increases(
    assessment: Assessment, guard: GuardState, settings: GuardSettings, most: int | None
) -> GuardState:
    """A trial goes on or ends; a useless increase stays known or is forgotten."""
    trial, useless, share = guard.trial, guard.useless, settings.ineffective_share
    if share is None:
        return replace(guard, trial=None, useless=None)
    if useless is not None and guard.pending is None and assessment.executors is not None:
        current = max(assessment.requested or 0, assessment.executors)
        useless = update_useless(useless, assessment, current, settings)
    if trial is not None:
        verdict = judge_trial(trial, assessment, share, settings.ineffective_s, most)
        if isinstance(verdict, Useless):
            first_s, known_s = settings.ineffective_s, None if useless is None else useless.backoff_s
            backoff_s = first_s if known_s is None else min(2 * known_s, max(first_s, settings.ineffective_max_s))
            return replace(guard, trial=None, useless=verdict._replace(backoff_s=backoff_s))
        trial = verdict
    return replace(guard, trial=trial, useless=useless)


def _watch_failures(assessment: Assessment, guard: GuardState, settings: GuardSettings) -> GuardState:
    """A change that is answered by failures becomes a refused one; one that stands without is forgotten as such."""
    at, watch = assessment.at, guard.watch
    none_ended = not assessment.failed_tasks and assessment.ended_tasks == 0  # so it is not known to be over
    fails = tasks_fail(assessment) or (none_ended and guard.failing_since is not None)
    failing_since = (at if guard.failing_since is None else guard.failing_since) if fails else None
    lost_at = at if assessment.lost_executors else guard.lost_at
    if failing_since != guard.failing_since or lost_at != guard.lost_at:
        guard = replace(guard, failing_since=failing_since, lost_at=lost_at)
    if watch is None:
        return guard
    watch = watch.count_lost(at, assessment.lost_executors)
    guard = guard if watch == guard.watch else replace(guard, watch=watch)
    why, past = find_answer(watch, assessment, settings.failure_window_s), _refused(guard, up=watch.up)
    if at - watch.at > watch.window_s + settings.failure_window_s:
        return replace(_with_refused(guard, stand(past, watch), up=watch.up), watch=None)
    if why is None:
        return guard
    return replace(_with_refused(guard, refuse(watch, at, why, past), up=watch.up), watch=None)


def _refused(guard: GuardState, *, up: bool) -> Refused | None:
    return guard.refused_up if up else guard.refused_down


def _with_refused(guard: GuardState, refused: Refused | None, *, up: bool) -> GuardState:
    return replace(guard, refused_up=refused) if up else replace(guard, refused_down=refused)


def _watch_change(at: float, before: int, after: int, guard: GuardState) -> GuardState:
    """The state with the watch of a change, or, where it takes one back, of the number that this leads to."""
    failing, lost_at = guard.failing_since is not None, guard.lost_at
    watch: Watch | None = start_watch(before, after, at, guard.watch, failing=failing, lost_at=lost_at)
    if guard.refused_down is not None and watch is not None:
        watch = watch._replace(deaths=max(1, watch.deaths))
    for up in (False, True):
        refused = _refused(guard, up=up)
        if refused is not None and not refused.undone and after != refused.after:
            guard = _with_refused(guard, refused._replace(undone=True), up=up)
            watch = watch_again(refused, at) if after == refused.before else watch
    return replace(guard, watch=watch)


def _follow_move(moving: Moving, assessment: Assessment, most_s: float) -> Moving | None:
    """Whether the executor is gone; None: one has come in its place, or all that has taken too long.

    >>> from rheostat.model import NodeReading, Nodes
    >>> moving, nodes = Moving("a", 3, 0.0, used=2), Nodes(5.0, (NodeReading("a", 1, 1), NodeReading("b", 1, 1)))
    >>> _follow_move(moving, Assessment(5.0, executors=2, nodes=nodes), 60.0)
    Moving(node='a', before=3, at=0.0, used=2, gone=True)
    >>> _follow_move(moving._replace(gone=True), Assessment(9.0, executors=3), 60.0)
    """
    there, nodes = assessment.executors or 0, assessment.nodes
    if assessment.at - moving.at >= most_s or (moving.gone and there >= moving.before):
        return None
    left = nodes is not None and nodes.in_use.count(moving.node) < moving.used
    return moving._replace(gone=moving.gone or left)


def _is_replaced(replacing: Replacing, assessment: Assessment) -> bool:
    """Whether it is gone or as fast as the others, or nobody came in its place."""
    there = max(assessment.requested or 0, assessment.executors or 0)
    return replacing.executor not in assessment.slow_executors or there <= replacing.before


def compare_with_request(assessment: Assessment, requests: RequestState) -> RequestState:
    """Whether the number that was asked for is there, has been there, or is missing, and since when."""
    if assessment.executors is None or assessment.requested is None:
        return requests
    working = _find_working(assessment, requests)
    if working != requests.working:
        requests = replace(requests, working=working)
    if assessment.executors >= assessment.requested:
        return replace(requests, reached=assessment.requested, missing_since=None, given_up=None)
    return requests if requests.missing_since is not None else replace(requests, missing_since=assessment.at)


def _find_working(assessment: Assessment, requests: RequestState) -> tuple[float, float] | None:
    at, past, there = assessment.at, requests.working, assessment.executors or 0
    if past is not None and at - past[1] >= AN_HOUR_S:
        past = None
    if not assessment.excluded or not requests.excluded or at - (requests.replaced_at or at) >= AN_HOUR_S:
        return past
    share = there / (there + len(assessment.excluded))
    return (share if past is None else min(share, past[0])), at


def note_late_grant(assessment: Assessment, guard: GuardState, before: RequestState, now: RequestState) -> GuardState:
    """The state once executors are there whose request was given up: a change, and the end of the back-off."""
    if before.given_up is None or now.given_up is not None or guard.pending is not None:
        return guard
    at = assessment.at
    guard = replace(guard, changed_at=at, changed_to=assessment.executors, raised_at=at, down_blocked_at=at)
    return replace(guard, no_room_until=None, backoff_s=None)


# By a recommendation and a decision.


def remember_recommendation(at: float, target: int | None, guard: GuardState, settings: GuardSettings) -> GuardState:
    """The state with one more recommendation, if the window of decreases is looked at.

    Only those are kept that a later one does not surpass, the oldest and greatest first. Where there are too many, the
    second and the third become one, with the greater number and the later time.
    """
    if settings.scale_down_hold_s == 0:
        return replace(guard, proposed=()) if guard.proposed else guard
    if target is None:
        return guard
    begin = at - settings.scale_down_hold_s
    kept = tuple([each for each in guard.proposed if each.at > begin and each.target > target])
    if len(kept) == _MOST_RECOMMENDATIONS:
        kept = (kept[0], PastRecommendation(kept[2].at, kept[1].target), *kept[3:])
    return replace(guard, proposed=(*kept, PastRecommendation(at, target)))


# By an outcome.


def learn_outcome(outcome: Outcome, guard: GuardState, settings: GuardSettings) -> GuardState:
    """What an outcome teaches.

    APPLIED, PARTIAL, RECORDED: the hold and the cooldowns start at ``outcome.at``, and an increase ends the back-off.
    NO_ROOM, and FAILED on the way up: no increases for ``no_room_backoff_s``, doubled each time in a row. FAILED on the
    way down: the cooldown of decreases starts. HELD (nothing was idle): nothing, so the next proposal is tried at once.
    What was granted in part is a change, whatever the status.
    """
    status = outcome.status
    pending = guard.pending if guard.pending and guard.pending.decision_id == outcome.decision_id else None
    before = outcome.before if outcome.before is not None else pending.before if pending else outcome.target
    after = outcome.target if status is OutcomeStatus.RECORDED or outcome.after is None else outcome.after
    if pending is not None:
        guard = replace(guard, pending=None)
    if guard.moving is not None and not guard.moving.gone and status not in _MADE:
        guard = replace(guard, moving=None)
    if status in _MADE or (outcome.after is not None and outcome.after != before):
        guard = _remember_change(outcome, before, after, pending, guard, settings)
    if status in _MADE and after > before:
        return replace(guard, no_room_until=None, backoff_s=None)
    if status is OutcomeStatus.NO_ROOM or (status in _REFUSED and outcome.target > before):
        first, most = settings.no_room_backoff_s, settings.no_room_backoff_max_s
        backoff_s = first if guard.backoff_s is None else min(most, 2 * guard.backoff_s)
        replacing = guard.replacing if after > before else None
        return replace(guard, no_room_until=outcome.at + backoff_s, backoff_s=backoff_s, replacing=replacing)
    return replace(guard, down_blocked_at=outcome.at) if status in _REFUSED else guard


def _remember_change(
    outcome: Outcome, before: int, after: int, pending: Pending | None, guard: GuardState, settings: GuardSettings
) -> GuardState:
    """The state after the number has changed from ``before`` to ``after``, or might have (``RECORDED``)."""
    at, up, trial = outcome.at, after > before, guard.trial
    raised = up and (guard.changed_to is None or after > guard.changed_to)
    turned = after < before and guard.raised_at is not None and guard.raised_at == guard.changed_at
    guard = replace(
        guard,
        changed_at=at,
        down_blocked_at=at,
        raised_at=at if raised else guard.raised_at,
        trial=None,
        round_trips=(*[each for each in guard.round_trips if at - each < AN_HOUR_S], *([at] if turned else [])),
    )
    if outcome.status is OutcomeStatus.RECORDED:
        return replace(guard, changed_to=None)
    guard = replace(guard, changed_to=after)
    if after == before:
        return guard
    wanted_from = before if pending is None else pending.before  # where executors have died, there are fewer
    guard = guard if after == wanted_from else _watch_change(at, wanted_from, after, guard)
    if guard.useless is not None and not guard.useless.undone and after <= guard.useless.helped:
        guard = replace(guard, useless=guard.useless.taken_back(at))
    if settings.rescale_catch_up_lags is not None:
        cost = update_cost(guard.cost_up if up else guard.cost_down, outcome)
        guard = _with_cost(guard, cost, None if cost is None else Cold(up), up=up)
    if not up or (guard.replacing is not None and guard.replacing.before == before):
        return guard
    if guard.useless is not None and not guard.useless.undone:
        return guard
    rate, settled = (None, None) if pending is None else (pending.rate, pending.settled)
    if rate is not None and settled is None and pending is not None:
        settled = pending.before
    if trial is not None and trial.before < after and settled in {None, trial.before}:
        return replace(guard, trial=trial._replace(after=after, at=at, batches=0))
    if settled is None:
        return guard
    return replace(guard, trial=start_trial(settled, after, at, rate, settings.ineffective_share))
