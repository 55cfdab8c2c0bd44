"""Each step alone; who wins where several speak; and the page that describes them."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.policies.samples import seen

from rheostat.config.models import GuardSettings
from rheostat.decide.decide import PROPOSERS, STEPS, Direction, check_gates, choose
from rheostat.decide.effectiveness import Cause, Useless
from rheostat.decide.guard import Context, excluded_again, leaving_first, name_causes
from rheostat.decide.shedding import SheddingState
from rheostat.decide.state import GuardState, Pending, Replacing, RequestState, compare_with_request
from rheostat.decide.state import PastRecommendation as Past
from rheostat.model import Bounds, Reason, ReasonCode, Recommendation, StageLoad, Unmeasured

AT = 1000.0
NEUTRAL = {"warm_up_batches": 0, "hold_s": 0.0, "largest_step_down": None, "cooldown_down_s": 0.0}


def shaped(
    target: int | None,
    *,
    current: int = 5,
    guard=None,
    state=None,
    bounds=(1, 20),
    lag_s=None,
    shed=None,
    **figures: Any,
):
    context = Context(
        assessment=seen(AT, **figures),
        current=current,
        recommendation=Recommendation(target, Reason(ReasonCode.FIXED, "as told")),
        bounds=Bounds(*bounds),
        settings=GuardSettings(**{**NEUTRAL, **(guard or {})}),
        sample_s=15.0,
        state=GuardState(**(state or {})),
        objective_s=lag_s,
        shedding=shed or SheddingState(),
    )
    _, chosen = choose(check_gates(context))
    return chosen.target, chosen.reason, chosen.notes


UP, DOWN, STAY = 8, 2, 5
STRAGGLERS: dict[str, Any] = {
    "straggler_s": 24.0,
    "last_batch_s": 26.0,
    "last_batch_records": 20_000,
    "period_s": 15.0,
    "arrival_rate": 1000.0,
    "batches": 2,
}
MANY = (StageLoad(8, 0.75), StageLoad(2, 0.25))
CHANGED = {"changed_at": AT - 10, "down_blocked_at": AT - 10}
FAILS = "the query orders has failed 2 times in a row"
BRIEF = Unmeasured("other", AT - 30, ("backlog",))
NEVER = Unmeasured("other", AT - 30, ("backlog",), "rate")
BROKER = Useless(3, 5, AT - 60, 610.0, 1000.0, 600.0, Cause.BROKER)


@pytest.mark.parametrize(
    ("proposed", "given", "target", "code"),
    [
        pytest.param(UP, {}, UP, ReasonCode.FIXED, id="nothing to say: up"),
        pytest.param(DOWN, {}, DOWN, ReasonCode.FIXED, id="nothing to say: down"),
        pytest.param(None, {}, STAY, ReasonCode.FIXED, id="no opinion is a hold"),
        # before the policy
        pytest.param(UP, {"queries": 0}, STAY, ReasonCode.NO_QUERY, id="no query: not up"),
        pytest.param(DOWN, {"queries": 0}, STAY, ReasonCode.NO_QUERY, id="no query: not down"),
        pytest.param(
            UP, {"missing": ("backlog",)}, STAY, ReasonCode.METRICS_MISSING, id="something is missing: not up"
        ),
        pytest.param(
            DOWN, {"missing": ("backlog",)}, STAY, ReasonCode.METRICS_MISSING, id="something is missing: not down"
        ),
        pytest.param(
            UP, {"invalid": ("backlog",)}, STAY, ReasonCode.METRICS_INVALID, id="something is impossible: not up"
        ),
        pytest.param(DOWN, {"invalid": ("backlog",)}, STAY, ReasonCode.METRICS_INVALID, id="impossible: not down"),
        pytest.param(UP, {"metrics_age_s": 30.1}, STAY, ReasonCode.METRICS_STALE, id="older than two cycles: not up"),
        pytest.param(
            DOWN, {"metrics_age_s": 30.1}, STAY, ReasonCode.METRICS_STALE, id="older than two cycles: not down"
        ),
        pytest.param(
            DOWN, {"metrics_age_s": 30.0}, DOWN, ReasonCode.FIXED, id="two cycles old is old enough to act on"
        ),
        pytest.param(DOWN, {"metrics_age_s": None}, STAY, ReasonCode.METRICS_MISSING, id="of unknown age"),
        pytest.param(
            DOWN,
            {"queries": 0, "missing": ("backlog",)},
            STAY,
            ReasonCode.NO_QUERY,
            id="the first of several is the reason",
        ),
        pytest.param(DOWN, {"failed_tasks": 2}, STAY, ReasonCode.TASK_FAILURES, id="tasks failed: not down"),
        pytest.param(UP, {"failed_tasks": 2}, UP, ReasonCode.FIXED, id="tasks failed: up"),
        pytest.param(
            DOWN,
            {"failed_tasks": 2, "guard": {"failure_window_s": 0.0}},
            DOWN,
            ReasonCode.FIXED,
            id="failures not looked at",
        ),
        pytest.param(
            DOWN,
            {"batches": 1, "guard": {"warm_up_batches": 2}},
            STAY,
            ReasonCode.WARMING_UP,
            id="first batches: not down",
        ),
        pytest.param(
            DOWN, {"batches": 2, "guard": {"warm_up_batches": 2}}, DOWN, ReasonCode.FIXED, id="first batches are over"
        ),
        pytest.param(UP, {"batches": 0, "guard": {"warm_up_batches": 2}}, UP, ReasonCode.FIXED, id="first batches: up"),
        pytest.param(
            DOWN,
            {"guard": {"warm_up_s": 60.0}, "state": {"started_at": AT - 59}},
            STAY,
            ReasonCode.WARMING_UP,
            id="first seconds: not down",
        ),
        pytest.param(
            DOWN,
            {"guard": {"warm_up_s": 60.0}, "state": {"started_at": AT - 60}},
            DOWN,
            ReasonCode.FIXED,
            id="seconds over",
        ),
        pytest.param(
            DOWN,
            {"guard": {"hold_s": 11.0}, "state": CHANGED},
            STAY,
            ReasonCode.HOLD_AFTER_RESCALE,
            id="hold: not down",
        ),
        pytest.param(UP, {"guard": {"hold_s": 11.0}, "state": CHANGED}, UP, ReasonCode.FIXED, id="hold: up"),
        pytest.param(
            UP,
            {"guard": {"hold_s": 11.0, "hold_both": True}, "state": CHANGED},
            STAY,
            ReasonCode.HOLD_AFTER_RESCALE,
            id="hold of both: not up",
        ),
        pytest.param(
            DOWN,
            {"guard": {"hold_s": None}, "state": CHANGED, "batches": 0},
            STAY,
            ReasonCode.HOLD_AFTER_RESCALE,
            id="hold by batches: none has finished",
        ),
        pytest.param(
            DOWN,
            {"guard": {"hold_s": None}, "state": CHANGED, "batches": 1},
            DOWN,
            ReasonCode.FIXED,
            id="hold by batches: the cold one has finished",
        ),
        pytest.param(
            DOWN,
            {"guard": {"hold_s": None, "hold_fallback_s": 10.0}, "state": CHANGED, "batches": 0},
            DOWN,
            ReasonCode.FIXED,
            id="hold by batches: ends without one",
        ),
        pytest.param(
            DOWN,
            {"state": {"pending": Pending(3, AT - 4, 3, 5)}},
            STAY,
            ReasonCode.RESCALE_RUNNING,
            id="a change is under way: not down",
        ),
        pytest.param(
            UP, {"state": {"pending": Pending(3, AT - 4, 3, 5)}}, UP, ReasonCode.FIXED, id="a change is under way: up"
        ),
        # after the policy
        pytest.param(UP, {"guard": {"largest_step_up": 2}}, 7, ReasonCode.LARGEST_STEP, id="largest step up"),
        pytest.param(DOWN, {"guard": {"largest_step_down": 1}}, 4, ReasonCode.LARGEST_STEP, id="largest step down"),
        pytest.param(DOWN, {"backlog_excess": 0.5}, STAY, ReasonCode.CATCHING_UP, id="catching up: not down"),
        pytest.param(UP, {"backlog_excess": 0.5}, UP, ReasonCode.FIXED, id="catching up: up"),
        pytest.param(DOWN, {"backlog_excess": None}, STAY, ReasonCode.CATCHING_UP, id="backlog unknown: not down"),
        pytest.param(
            DOWN,
            {"backlog_excess": 9.0, "guard": {"catching_up": False}},
            DOWN,
            ReasonCode.FIXED,
            id="catching up ignored",
        ),
        pytest.param(
            UP, {"guard": {"cooldown_up_s": 11.0}, "state": CHANGED}, STAY, ReasonCode.COOLDOWN_UP, id="cool: up"
        ),
        pytest.param(UP, {"guard": {"cooldown_up_s": 10.0}, "state": CHANGED}, UP, ReasonCode.FIXED, id="cooled: up"),
        pytest.param(
            UP,
            {"guard": {"cooldown_up_s": 5.0}, "state": {**CHANGED, "pending": Pending(3, AT - 4, 3, 5)}},
            STAY,
            ReasonCode.COOLDOWN_UP,
            id="cool: an increase was requested 4 s ago",
        ),
        pytest.param(
            UP,
            {"guard": {"cooldown_up_s": 4.0}, "state": {"pending": Pending(3, AT - 4, 3, 5)}},
            UP,
            ReasonCode.FIXED,
            id="cooled: an increase is still under way",
        ),
        pytest.param(
            UP,
            {"guard": {"cooldown_up_s": 5.0}, "state": {"pending": Pending(3, AT - 4, 5, 3)}},
            UP,
            ReasonCode.FIXED,
            id="a decrease under way: up",
        ),
        pytest.param(
            DOWN,
            {"guard": {"cooldown_down_s": 11.0}, "state": CHANGED},
            STAY,
            ReasonCode.COOLDOWN_DOWN,
            id="cool: down",
        ),
        pytest.param(
            DOWN, {"guard": {"cooldown_down_s": 10.0}, "state": CHANGED}, DOWN, ReasonCode.FIXED, id="cooled: down"
        ),
        pytest.param(UP, {"state": {"no_room_until": AT + 1}}, STAY, ReasonCode.NO_ROOM, id="no room: not up"),
        pytest.param(UP, {"state": {"no_room_until": AT}}, UP, ReasonCode.FIXED, id="no room: the back-off is over"),
        pytest.param(DOWN, {"state": {"no_room_until": AT + 1}}, DOWN, ReasonCode.FIXED, id="no room: down"),
        pytest.param(UP, {"partitions": 3}, UP, ReasonCode.FIXED, id="no batch was seen: partitions say nothing"),
        pytest.param(
            UP, {"useful_executors": 3}, STAY, ReasonCode.USELESS_EXECUTORS, id="too many already: none is taken away"
        ),
        pytest.param(
            UP, {"useful_executors": 6}, 6, ReasonCode.USELESS_EXECUTORS, id="the largest stage keeps six busy"
        ),
        pytest.param(UP, STRAGGLERS, STAY, ReasonCode.USELESS_EXECUTORS, id="slots wait for a single task"),
        pytest.param(
            UP, {**STRAGGLERS, "straggler_s": 9.0}, UP, ReasonCode.FIXED, id="more slots would carry the rest"
        ),
        pytest.param(UP, {**STRAGGLERS, "batches": 1}, UP, ReasonCode.FIXED, id="the first batch, which is cold"),
        pytest.param(
            UP, {**STRAGGLERS, "slow_executors": ("1",)}, UP, ReasonCode.FIXED, id="they wait for a slow machine"
        ),
        pytest.param(
            UP, {"partitions": 7, "useful_executors": 9}, UP, ReasonCode.FIXED, id="a stage larger than the source"
        ),
        pytest.param(
            UP,
            {"guard": {"quota_cores": 28}, "cores_per_executor": 4},
            7,
            ReasonCode.QUOTA,
            id="a quota is of cores, not of slots",
        ),
        # a share of the current target
        pytest.param(
            6, {"guard": {"tolerance": 0.2}}, STAY, ReasonCode.WITHIN_TOLERANCE, id="within the tolerance: not up"
        ),
        pytest.param(
            4, {"guard": {"tolerance": 0.2}}, STAY, ReasonCode.WITHIN_TOLERANCE, id="within the tolerance: not down"
        ),
        pytest.param(6, {"guard": {"tolerance": 0.19}}, 6, ReasonCode.FIXED, id="beyond the tolerance"),
        # alignment
        pytest.param(
            3,
            {"current": 2, "guard": {"align_to": "waves"}, "partitions": 8, "slots_per_executor": 2},
            4,
            ReasonCode.ALIGNED,
            id="8 partitions on 3 × 2 slots: a fourth takes the most loaded to one",
        ),
        pytest.param(
            3,
            {"current": 2, "guard": {"align_to": "waves"}, "partitions": 2, "stages": MANY, "slots_per_executor": 2},
            4,
            ReasonCode.ALIGNED,
            id="8 tasks of 2 partitions likewise",
        ),
        pytest.param(
            51,
            {"guard": {"align_to": "waves"}, "partitions": 100, "bounds": (1, 100)},
            50,
            ReasonCode.ALIGNED,
            id="51 → 50",
        ),
        pytest.param(
            3,
            {"guard": {"align_to": "waves"}, "partitions": 8, "slots_per_executor": 2},
            4,
            ReasonCode.ALIGNED,
            id="a decrease gets smaller",
        ),
        pytest.param(
            3,
            {"current": 4, "guard": {"align_to": "waves"}, "partitions": 8, "slots_per_executor": 2},
            3,
            ReasonCode.FIXED,
            id="a decrease stays one",
        ),
        pytest.param(
            3,
            {"current": 2, "bounds": (1, 3), "guard": {"align_to": "waves"}, "partitions": 8, "slots_per_executor": 2},
            3,
            ReasonCode.FIXED,
            id="no alignment beyond the bounds",
        ),
        pytest.param(
            UP, {"guard": {"align_to": "partitions"}, "partitions": 30}, 10, ReasonCode.ALIGNED, id="10 divide 30"
        ),
        pytest.param(
            7,
            {"guard": {"align_to": "state", "state_partitions": 200}},
            8,
            ReasonCode.ALIGNED,
            id="8 divide the state's 200",
        ),
        pytest.param(
            UP, {"guard": {"align_to": "waves"}, "slots_per_executor": None}, UP, ReasonCode.FIXED, id="slots unknown"
        ),
        *(
            pytest.param(
                0,
                {"guard": {"align_to": mode, "state_partitions": 200}, "partitions": 30},
                1,
                ReasonCode.AT_MIN,
                id=f"none at all, aligned to {mode}: the least number",
            )
            for mode in ("waves", "partitions", "state")
        ),
        # by partitions, downwards
        pytest.param(
            DOWN, {"guard": {"most_partitions": 10.0}}, 3, ReasonCode.PARTITIONS_PER_SLOT, id="30 partitions, 10 a slot"
        ),
        pytest.param(
            DOWN,
            {"guard": {"most_partitions": 2.0}},
            STAY,
            ReasonCode.PARTITIONS_PER_SLOT,
            id="too few already: none added",
        ),
        pytest.param(
            DOWN,
            {"guard": {"most_partitions": 2.0}, "partitions": None},
            STAY,
            ReasonCode.PARTITIONS_PER_SLOT,
            id="how many on a slot is unknown",
        ),
        # queries that are left out
        pytest.param(UP, {"unmeasured": (BRIEF,)}, UP, ReasonCode.FIXED, id="a query beside is unknown: up"),
        pytest.param(DOWN, {"unmeasured": (BRIEF,)}, STAY, ReasonCode.QUERY_UNMEASURED, id="unknown for a moment"),
        pytest.param(
            DOWN,
            {"unmeasured": (BRIEF._replace(since=AT - 240),), "executors": 5, "busy_ratio": 0.6},
            4,
            ReasonCode.QUERY_UNMEASURED,
            id="unknown for long: 3 of 5 are in use, at most 80 % of 4",
        ),
        pytest.param(
            DOWN,
            {"unmeasured": (NEVER,), "executors": 5, "busy_ratio": 0.3},
            DOWN,
            ReasonCode.FIXED,
            id="never to be known, and few slots are in use",
        ),
        pytest.param(
            DOWN, {"unmeasured": (NEVER,), "busy_ratio": None}, STAY, ReasonCode.QUERY_UNMEASURED, id="use unknown"
        ),
        # maximum of the window
        pytest.param(
            DOWN,
            {
                "guard": {"scale_down_hold_s": 60.0},
                "state": {"proposed": (Past(AT - 59, 4), Past(AT, 2))},
            },
            4,
            ReasonCode.SCALE_DOWN_HOLD,
            id="four were proposed within the window",
        ),
        pytest.param(
            DOWN,
            {
                "guard": {"scale_down_hold_s": 60.0},
                "state": {"proposed": (Past(AT - 60, 4), Past(AT, 2))},
            },
            DOWN,
            ReasonCode.FIXED,
            id="four were proposed before the window",
        ),
        pytest.param(
            DOWN,
            {"guard": {"cooldown_down_s": 60.0}, "state": {"raised_at": AT - 119}},
            STAY,
            ReasonCode.ROUND_TRIP,
            id="after an increase: not down",
        ),
        pytest.param(
            DOWN,
            {"guard": {"most_round_trips": 2}, "state": {"round_trips": (AT - 3599, AT - 300)}},
            STAY,
            ReasonCode.ROUND_TRIP,
            id="up and down twice within an hour: not down",
        ),
        pytest.param(
            DOWN,
            {"guard": {"most_round_trips": 2}, "state": {"round_trips": (AT - 3600, AT - 300)}},
            DOWN,
            ReasonCode.FIXED,
            id="up and down once within an hour: down",
        ),
        pytest.param(
            UP,
            {"guard": {"most_round_trips": 1}, "state": {"round_trips": (AT - 300,)}},
            UP,
            ReasonCode.FIXED,
            id="up and down within an hour: up",
        ),
        pytest.param(
            DOWN,
            {"guard": {"cooldown_down_s": 60.0}, "state": {"raised_at": AT - 120}},
            DOWN,
            ReasonCode.FIXED,
            id="two cooldowns later: down",
        ),
        pytest.param(UP, {"state": {"raised_at": AT - 1}}, UP, ReasonCode.FIXED, id="after an increase: up"),
        # failover
        pytest.param(DOWN, {"guard": {"failover": True}}, STAY, ReasonCode.FAILOVER, id="failover: not down"),
        pytest.param(UP, {"guard": {"failover": True}}, UP, ReasonCode.FIXED, id="failover: up"),
        pytest.param(
            DOWN, {"state": {"failover_at": AT - 299}}, STAY, ReasonCode.FAILOVER, id="the traffic comes back"
        ),
        pytest.param(DOWN, {"state": {"failover_at": AT - 300}}, DOWN, ReasonCode.FIXED, id="the traffic is back"),
        # the batch cap is in force, or the job keeps up
        pytest.param(
            UP, {"capped": True}, STAY, ReasonCode.BATCH_CAP, id="full batches that end before the trigger: not up"
        ),
        pytest.param(
            UP, {"capped": True, "batch_s": 12.0}, UP, ReasonCode.FIXED, id="full batches beyond the trigger: up"
        ),
        pytest.param(
            UP, {"capped": True, "guard": {"batch_cap": False}}, UP, ReasonCode.FIXED, id="the cap not looked at"
        ),
        # sources that wait for longer than the objective
        pytest.param(
            UP,
            {"wait_s": 20.0, "lag_s": 20.0, "backlog_excess": 0.0},
            STAY,
            ReasonCode.OBJECTIVE_TOO_SHORT,
            id="a long wait: not up",
        ),
        pytest.param(
            STAY,
            {"wait_s": 20.0, "lag_s": 20.0},
            STAY,
            ReasonCode.OBJECTIVE_TOO_SHORT,
            id="a long wait is named in a hold",
        ),
        pytest.param(DOWN, {"wait_s": 20.0, "lag_s": 20.0}, DOWN, ReasonCode.FIXED, id="a long wait: down"),
        pytest.param(UP, {"reread": "x", "reread_bound": True}, STAY, ReasonCode.DATA_REREAD, id="read anew: not up"),
        pytest.param(UP, {"reread": "x"}, UP, ReasonCode.FIXED, id="read anew in many tasks: up"),
        pytest.param(DOWN, {"reread": "x", "reread_bound": True}, DOWN, ReasonCode.FIXED, id="read anew: down"),
        pytest.param(UP, {"failing": (FAILS,)}, STAY, ReasonCode.QUERY_FAILS, id="the query fails: not up"),
        pytest.param(
            UP, {"failing": (f"{FAILS} (ExecutorLostFailure)",)}, UP, ReasonCode.FIXED, id="out of memory: up"
        ),
        pytest.param(STAY, {"failing": (FAILS,)}, STAY, ReasonCode.QUERY_FAILS, id="the query fails: named in a hold"),
        pytest.param(DOWN, {"failing": (FAILS,)}, DOWN, ReasonCode.FIXED, id="the query fails: down"),
        pytest.param(UP, {"failing": (FAILS,), "queries": 2}, UP, ReasonCode.FIXED, id="one of two queries fails: up"),
        pytest.param(
            UP, {"wait_s": 20.0, "lag_s": 20.0, "backlog_excess": 9.0}, UP, ReasonCode.FIXED, id="more than waits: up"
        ),
        pytest.param(UP, {"wait_s": 19.0, "lag_s": 20.0}, UP, ReasonCode.FIXED, id="a wait within the objective: up"),
        # an increase that brought nothing
        pytest.param(
            UP,
            {"state": {"useless": BROKER._replace(undone=True)}},
            STAY,
            ReasonCode.INEFFECTIVE,
            id="remembered: not up",
        ),
        pytest.param(
            STAY,
            {"state": {"useless": BROKER}, "backlog_excess": 9.0, "guard": {"largest_step_down": 1}},
            3,
            ReasonCode.INEFFECTIVE,
            id="undone at once, in spite of the excess and the largest step",
        ),
        pytest.param(
            UP,
            {"state": {"useless": BROKER}, "backlog_excess": 9.0},
            3,
            ReasonCode.INEFFECTIVE,
            id="undone although up is wanted",
        ),
        pytest.param(
            DOWN, {"state": {"useless": BROKER}}, DOWN, ReasonCode.FIXED, id="the policy itself goes down further"
        ),
        pytest.param(
            STAY,
            {"state": {"useless": BROKER._replace(undone=True)}},
            STAY,
            ReasonCode.FIXED,
            id="undone once, not twice",
        ),
        pytest.param(
            UP,
            {"guard": {"cooldown_down_s": 60.0}, "state": {"useless": BROKER, "raised_at": AT - 60}},
            STAY,
            ReasonCode.ROUND_TRIP,
            id="an undo waits too",
        ),
        pytest.param(
            STAY,
            {"state": {"useless": BROKER}, "missing": ("backlog",)},
            STAY,
            ReasonCode.METRICS_MISSING,
            id="no undo on unknown figures",
        ),
        pytest.param(
            6, {"state": {"useless": BROKER}, "current": 6}, 3, ReasonCode.INEFFECTIVE, id="all the way back, from any"
        ),
        # quota
        pytest.param(UP, {"guard": {"quota_cores": 7}}, 7, ReasonCode.QUOTA, id="seven cores"),
        pytest.param(
            UP, {"guard": {"quota_cores": 7}, "slots_per_executor": 2}, STAY, ReasonCode.QUOTA, id="no quota left"
        ),
        pytest.param(DOWN, {"guard": {"quota_cores": 1}}, DOWN, ReasonCode.FIXED, id="a quota takes none away"),
        pytest.param(UP, {"bounds": (1, 6)}, 6, ReasonCode.AT_MAX, id="at most"),
        pytest.param(UP, {"bounds": (1, 5)}, STAY, ReasonCode.AT_MAX, id="at most the present number"),
        pytest.param(DOWN, {"bounds": (4, 9)}, 4, ReasonCode.AT_MIN, id="at least"),
        # a number outside of the bounds, and a policy that would leave it so
        pytest.param(STAY, {"bounds": (7, 9)}, 7, ReasonCode.AT_MIN, id="too few"),
        pytest.param(
            STAY, {"bounds": (7, 9), "missing": ("backlog",)}, 7, ReasonCode.AT_MIN, id="too few, metrics missing"
        ),
        pytest.param(
            STAY, {"bounds": (7, 9), "state": {"no_room_until": AT + 1}}, STAY, ReasonCode.FIXED, id="no room yet"
        ),
        pytest.param(STAY, {"bounds": (1, 3)}, 3, ReasonCode.AT_MAX, id="too many"),
        pytest.param(
            STAY, {"bounds": (1, 3), "backlog_excess": 9.0}, 3, ReasonCode.AT_MAX, id="too many while catching up"
        ),
        pytest.param(UP, {"bounds": (1, 3)}, 3, ReasonCode.AT_MAX, id="too many, and more are wanted"),
        pytest.param(
            STAY,
            {"bounds": (1, 3), "missing": ("backlog",)},
            STAY,
            ReasonCode.METRICS_MISSING,
            id="too many, but unknown",
        ),
        pytest.param(
            STAY, {"bounds": (1, 3), "metrics_age_s": 31.0}, STAY, ReasonCode.METRICS_STALE, id="too many, but stale"
        ),
    ],
)
def test_the_number_and_the_reason(proposed, given, target, code):
    result, reason, notes = shaped(proposed, **given)
    assert (result, reason.code) == (target, code)
    wanted = STAY if proposed is None else proposed
    assert [note.after for note in notes[-1:]] == ([] if result == wanted else [result])


def test_every_step_that_changed_the_number_is_noted_in_order():
    _, _, notes = shaped(12, guard={"largest_step_up": 4}, useful_executors=10, bounds=(1, 7))
    assert [(n.step, n.before, n.after) for n in notes] == [
        ("useful_executors", 12, 10),
        ("largest_step", 10, 9),
        ("bounds", 9, 7),
    ]
    assert notes[1].reason.text == "at most 4 at a time: 5 → 9 instead of 10"


@pytest.mark.parametrize(
    ("target", "recommended", "current", "held"),
    [
        pytest.param(7, 3, 5, True, id="down was proposed and up came out"),
        pytest.param(3, 7, 5, True, id="up was proposed and down came out"),
        pytest.param(21, 21, 5, True, id="out of bounds"),
        pytest.param(7, 8, 5, False, id="less of the same"),
        pytest.param(20, 25, 23, False, id="the bounds turn it"),
    ],
)
def test_the_last_check(target, recommended, current, held):
    context = Context(seen(AT), current, None, Bounds(1, 20), GuardSettings(), 15.0, GuardState(), proposed=recommended)
    [last_check] = [step for step in STEPS if step.name == "last_check"]
    change = last_check.apply(target, context)
    code = change is not None and change.reason is not None and change.reason.code
    assert (change is not None and (change.target, code)) == (held and (current, ReasonCode.LAST_CHECK))


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_a_step_blocks_no_other_direction_than_it_says(step):
    """Each in the situation of all blocks at once, except that metrics are known."""
    state = GuardState(
        *(AT - 1, AT - 1, AT - 1, AT + 9, 9.0, Pending(1, AT - 1, 4, 5)),
        raised_at=AT - 1,
        proposed=(Past(AT - 1, 5),),
        round_trips=(AT - 1,),
        useless=Useless(4, 5, AT - 1, 600.0, 750.0, 600.0, Cause.BROKER, undone=True),
    )
    strict: dict[str, Any] = {
        "warm_up_s": 9.0,
        "warm_up_batches": 9,
        "hold_s": 9.0,
        "cooldown_up_s": 9.0,
        "cooldown_down_s": 9.0,
        "scale_down_hold_s": 9.0,
        "failover": True,
        "most_partitions": 0.2,
        "most_round_trips": 1,
        "quota_cores": 5,
    }
    figures: dict[str, Any] = {
        "failed_tasks": 1,
        "batches": 0,
        "backlog_excess": 9.0,
        "partitions": 1,
        "capped": True,
        "sink": "slow",
        "failing": ("fails",),
        "reread": "reads anew",
        "reread_bound": True,
        "useful_executors": 1,
        "driver": "slow",
    }
    figures |= {"unmeasured": (BRIEF,)}
    if step.name == "objective_too_short":
        figures |= {"backlog_excess": 0.0, "wait_s": 900.0}
    for target in (UP, DOWN):
        settings = GuardSettings(**strict, largest_step_up=1)
        context = Context(seen(AT, **figures), 5, None, Bounds(5, 5), settings, 15.0, state, objective_s=60.0)
        context = replace(context, requests=RequestState(working=(0.2, AT)))
        change = step.apply(target, context) if step.concerns(target, 5) else None
        one_sided = {Direction.BLOCKS_UP: UP, Direction.BLOCKS_DOWN: DOWN}.get(step.direction)
        if step.direction is not Direction.BOTH:
            assert (change is not None) == (target == one_sided)
            assert change is None or (change.reason is not None and change.reason.code in step.codes)


def test_all_settings_of_the_guard_belong_to_a_step():
    of_proposers = {name for proposer in PROPOSERS for name in proposer.settings}
    assert of_proposers | {name for step in STEPS for name in step.settings} == set(GuardSettings.model_fields)


def test_the_page_lists_the_steps_as_they_are():
    page = (Path(__file__).parents[2] / "docs" / "guard.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| (\w+) \| ([^|]+) \| ([^|]+) \|", page, re.MULTILINE)
    described = [
        (name, direction, set(re.findall(r"`(\w+)`", codes)), set(re.findall(r"`(\w+)`", settings)))
        for _, name, direction, codes, settings in rows
    ]
    assert described == [(s.name, s.direction.value, {c.value for c in s.codes}, set(s.settings)) for s in STEPS]
    assert [int(row[0]) for row in rows] == list(range(1, len(STEPS) + 1))


def test_gates_come_first_and_no_policy_does_them_itself():
    gates = [step.gate for step in STEPS]
    assert gates == sorted(gates, reverse=True)
    assert not any(step.self_manageable for step in STEPS if step.gate)


def test_an_impossible_figure_is_named_before_what_it_makes_unknown():
    names = [step.name for step in STEPS]
    assert names.index("metrics_invalid") < names.index("metrics_missing")


def test_an_undo_tells_what_was_promised_and_what_came():
    _, reason, notes = shaped(None, state={"useless": BROKER}, backlog_excess=9.0)
    assert reason.text == "3 → 5 promised 1 000/s and brought 610/s (broker): 5 → 3"
    assert [(note.step, note.before, note.after) for note in notes] == [("undo", 5, 3)]


def test_the_page_lists_the_steps_that_a_policy_may_do_itself():
    page = (Path(__file__).parents[2] / "docs" / "guard.md").read_text(encoding="utf-8")
    allowed = page.split("Allowed are")[1].split("The others")[0]
    assert re.findall(r"`(\w+)`", allowed) == [step.name for step in STEPS if step.self_manageable]


def test_a_source_that_can_never_be_counted_is_named():
    _, reason, _ = shaped(UP, missing=("backlog",), unmeasured=(NEVER,))
    assert reason.text == (
        "unknown: backlog; how many records wait in the source 'rate' of the query other cannot be known, "
        "as it can for Kafka: 5 stays"
    )


@pytest.mark.parametrize(
    ("working", "there", "excluded", "target", "allowed"),
    [
        pytest.param(None, 3, ("4", "5"), 2, None, id="none was excluded again"),
        pytest.param(0.5, 6, (), 2, 4, id="half of them worked: twice as many as are wanted"),
        pytest.param(0.5, 6, (), 4, 6, id="no more than there are"),
        pytest.param(0.0, 6, (), 2, 6, id="at times none worked"),
        pytest.param(0.5, 3, ("4", "5", "6"), 4, 6, id="fewer work than are wanted"),
        pytest.param(0.5, 3, ("4", "5", "6"), 3, None, id="those that do not work may go"),
        pytest.param(0.5, 3, ("4", "5", "6"), 1, 2, id="and of the others some"),
    ],
)
def test_executors_that_will_be_excluded_again_are_not_counted_on(working, there, excluded, target, allowed):
    requests = RequestState(working=None if working is None else (working, AT))
    assessment = seen(AT, executors=there, requested=6, excluded=excluded)
    context = Context(assessment, 6, None, Bounds(1, 8), GuardSettings(), 15.0, GuardState(), requests=requests)
    change = excluded_again(target, context)
    assert (None if change is None else change.target) == allowed
    assert change is None or (change.reason is not None and change.reason.code is ReasonCode.EXCLUDED_AGAIN)


def test_how_few_work_is_known_once_those_in_their_place_are_excluded_too_and_for_an_hour():
    requests, shares = RequestState(), []
    for at, there, excluded in [(0, 4, "1"), (30, 5, ""), (60, 4, "5"), (90, 2, "456"), (100, 5, ""), (3690, 5, "")]:
        requests = compare_with_request(seen(at, executors=there, requested=5, excluded=tuple(excluded)), requests)
        shares.append(requests.working)
        if at == 0:
            requests = replace(requests, excluded=1, replaced_at=0.0)
    assert shares == [None, None, (0.8, 60), (0.4, 90), (0.4, 90), None]


@pytest.mark.parametrize(
    ("slow", "excluded", "replacing", "first"),
    [
        pytest.param(("3", "7"), (), None, ("3", "7"), id="slow ones"),
        pytest.param(("3", "7"), ("5", "3"), None, ("5", "3", "7"), id="excluded ones before them"),
        pytest.param(("3", "7"), ("5",), Replacing("7", 4), ("5", "7", "3"), id="then one that has been replaced"),
    ],
)
def test_who_leaves_first(slow, excluded, replacing, first):
    assert leaving_first(seen(AT, slow_executors=slow, excluded=excluded), replacing) == first
    on_slower = seen(AT, slow_executors=slow, slower=("2",), excluded=excluded)
    assert leaving_first(on_slower, replacing) == (*first, "2")


def test_failed_tasks_and_dead_executors_are_named_in_a_hold():
    reason = Reason(ReasonCode.STEADY, "all is well")
    named = name_causes(reason, seen(failed_tasks=9, ended_tasks=60, lost_executors=1))
    assert named.text == "all is well; 9 tasks failed lately; 1 executor died"
    assert name_causes(reason, seen(failed_tasks=1, ended_tasks=60)).text == "all is well"
