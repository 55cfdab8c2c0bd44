"""What every actuator keeps, and what each does beyond it. The rules are run on a real cluster in tests/cluster."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.execute import contract

from rheostat.errors import ActuationError
from rheostat.execute.actuator import DryRun
from rheostat.execute.live import Background, LiveExecutors
from rheostat.model import OutcomeStatus, ReasonCode
from rheostat.testing.fakes import FakeActuator, Step


@pytest.fixture(params=["fake", "dry run", "live"])
def case(request, stage):
    if request.param == "live":
        here = stage(1)
        return contract.Case(here.live, here.runner.run)
    return contract.Case(FakeActuator(1) if request.param == "fake" else DryRun())


@pytest.mark.parametrize("rule", contract.RULES, ids=lambda rule: rule.__name__.replace("_", " "))
def test_it_keeps(case, rule):
    rule(case)


def test_a_dry_run_changes_nothing_and_says_so(decide):
    dry: Any = DryRun()
    dry.apply(decide(3))

    outcome = dry.poll(5.0)

    assert (outcome.status, outcome.reason.code, outcome.method) == (
        OutcomeStatus.RECORDED,
        ReasonCode.DRY_RUN,
        "dry-run",
    )
    assert (outcome.before, outcome.after, outcome.redone_tasks) == (1, 1, None)


def test_the_fake_follows_its_script(decide):
    fake: Any = FakeActuator(
        1, [Step(4.0, OutcomeStatus.PARTIAL, ReasonCode.NO_ROOM, 2), Step(0.0, OutcomeStatus.HELD)]
    )
    fake.apply(decide(3, at=10.0))

    assert fake.poll(13.9) is None
    first = fake.poll(14.0)
    assert (first.status, first.reason.code, first.after, first.took_s) == ("partial", "NO_ROOM", 2, 4.0)
    fake.apply(decide(1, at=20.0))
    assert fake.poll(20.0).after == 2
    fake.apply(decide(4, at=30.0))
    assert (fake.poll(30.0).after, fake.executors) == (4, 4)


def test_a_live_decision_needs_a_target(stage, decide):
    with pytest.raises(ActuationError, match="decision 1 names no number"):
        stage(1).live.apply(decide(None))


def test_the_thread_works_in_order_and_ends():
    runner, done, names = Background("worker"), threading.Event(), []
    runner(lambda: names.append(threading.current_thread().name))
    runner(lambda: names.append("second"))
    runner(done.set)

    assert done.wait(10.0)
    runner.close()
    runner.close()
    assert names == ["worker", "second"]


def test_apply_does_not_wait_for_the_cluster(stage, decide):
    here, entered, release = stage(1), threading.Event(), threading.Event()

    def slow():
        entered.set()
        release.wait(10.0)

    here.cluster.events = [(0.0, slow)]
    live = LiveExecutors(here.cluster, here.clock)
    live.apply(decide(2))

    assert entered.wait(10.0)
    assert live.poll(0.0) is None
    release.set()
    live.close()
