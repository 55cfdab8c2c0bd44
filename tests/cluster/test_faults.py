"""Faults in a real run, each with the reason that the journal gives; the table is docs/faults.md.

Two stories. In the first one application grows, meets one fault after the other, and shrinks when the load and the
faults are over. In the second the cluster has no room, and then the driver is killed.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.cluster.support import (
    App,
    Load,
    assert_every_change_has_its_reason,
    assert_never_down_on_unknown,
    changes,
    make_app,
    until,
    worker,
)

from rheostat.lab.lab import Lab
from rheostat.model import Action, Decision, OutcomeStatus, ReasonCode
from rheostat.pipelines.sink import verify

pytestmark = pytest.mark.cluster

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"
CYCLES = 6
"""How many cycles a fault lasts: more than the samples in a row that the demo profile needs to shrink."""

EXPECTED = {
    "executor killed": {ReasonCode.TASK_FAILURES, ReasonCode.WARMING_UP},
    "broker stopped": {ReasonCode.METRICS_MISSING},
    "no offsets": {ReasonCode.METRICS_MISSING},
    "no executors": {ReasonCode.METRICS_MISSING},
    "old offsets": {ReasonCode.METRICS_STALE},
    "NaN": {ReasonCode.METRICS_INVALID},
    "thread killed": {ReasonCode.CYCLE_FAILED},
    "no room": {ReasonCode.NO_ROOM},
    "driver killed": {ReasonCode.RESTORED},
}


@dataclass
class Story:
    """An application and its load."""

    app: App
    load: Load

    def finish(self) -> None:
        """All records are through, and each of them once; the journal holds what must hold of every journal."""
        app = self.app
        sent = self.load.end()
        app.until(lambda: verify(app.folder / "out").checksum == sent, "all records, each of them once")
        app.until(lambda: app.journal.backlog() == 0, "an empty backlog")
        app.until(app.journal.answered, "the outcome of the last change")
        app.end()
        assert verify(app.folder / "out").checksum == sent
        records = app.journal.records()
        assert_never_down_on_unknown(records)
        assert_every_change_has_its_reason(records)


def knows_capacity(app: App) -> bool:
    """Whether the policy has seen more than the first, cold batches: a quarter of the 600/s that three would carry."""
    known = {one.executors: one.capacity for one in app.journal.decisions()[-1].projections}
    return (known.get(3) or 0.0) >= 150.0


def held_decreases(app: App, after: float) -> set[ReasonCode]:
    """Why fewer executors, which the policy proposed, were not asked for."""
    decisions = app.journal.decisions(after)
    return {one.reason.code for one in decisions if one.action is Action.HOLD and wants_fewer(one)}


def wants_fewer(decision: Decision) -> bool:
    proposed = decision.recommendation.target
    return proposed is not None and decision.current is not None and proposed < decision.current


@pytest.fixture(scope="class")
def story(field: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    app = make_app(field, tmp_path_factory.mktemp("story"), "story", (1, 3))
    with app.running(), worker(field, cores=3):
        yield Story(app, Load(field, app.topic))


class TestOneFaultAfterTheOther:
    """Growth, faults, and a fall."""

    def test_executors_grow_under_load_without_a_web_ui(self, story: Story) -> None:
        app = story.app
        story.load.rate(100)
        app.until(app.journal.committed, "the first batch")
        assert app.journal.codes()[0] is ReasonCode.START

        story.load.rate(450)

        app.until(lambda: app.journal.executors() == 3, "three executors")
        app.until(lambda: knows_capacity(app), "what an executor carries to be learned from the overload")
        ups = changes(app.journal.decisions())
        assert {decision.action for decision in ups} == {Action.UP}
        assert app.job.conf["spark.ui.enabled"] == "false"

    def test_the_controllers_thread_is_killed_and_replaced(self, story: Story) -> None:
        app = story.app
        before = app.journal.cycles()[-1]

        app.spoil("thread killed")
        app.until(lambda: len(app.journal.decisions(before.at)) > CYCLES, "the loop to go on")

        failed = [decision for decision in app.journal.decisions() if decision.reason.code is ReasonCode.CYCLE_FAILED]
        assert [decision.action for decision in failed] == [Action.HOLD]
        assert sum("the loop is started again" in note for note in app.journal.notes()) == 1
        assert len(re.findall(r"thread died and a new one goes on", app.log())) == 1
        numbers = [decision.decision_id for decision in app.journal.decisions()]
        assert numbers == sorted(set(numbers))

    def test_the_broker_is_stopped_for_ten_seconds(self, story: Story) -> None:
        app = story.app
        at = app.journal.cycles()[-1].at

        app.lab.broker.stop()

        def blind_for_ten_seconds() -> bool:
            missing = [each.at for each in app.journal.decisions(at) if each.reason.code in EXPECTED["broker stopped"]]
            return bool(missing) and missing[-1] - at >= 10

        try:
            app.until(blind_for_ten_seconds, "ten seconds without offsets")
        finally:
            app.lab.broker.start()
        back = app.journal.cycles()[-1].at
        app.until(lambda: app.journal.backlog() is not None and app.journal.decisions(back), "offsets again")
        story.load.rate(40)

        assert {decision.action for decision in app.journal.decisions(at) if decision.at < back} == {Action.HOLD}

    @pytest.mark.parametrize("fault", ["no offsets", "no executors", "old offsets", "NaN"])
    def test_figures_that_cannot_be_trusted_hold_the_number(self, story: Story, fault: str) -> None:
        app = story.app
        app.spoil(fault)
        at = app.journal.cycles()[-1].at

        app.until(lambda: app.journal.codes(at).count(next(iter(EXPECTED[fault]))) >= CYCLES, f"{CYCLES} cycles")

        seen = app.journal.decisions(at)[1:]  # the first may have looked before
        assert {decision.reason.code for decision in seen} == EXPECTED[fault]
        assert {decision.action for decision in seen} == {Action.HOLD}

    def test_an_executor_is_killed_when_one_less_would_do(self, story: Story) -> None:
        app = story.app
        app.until(lambda: (app.journal.backlog() or 1000) < 100, "the load to be gone")
        blind = app.journal.cycles()[-1].at
        app.spoil("")
        app.until(lambda: set(app.journal.codes(blind)[-1:]) - {ReasonCode.METRICS_INVALID}, "a cycle that sees")
        at = app.journal.cycles()[-1].at

        os.kill(app.lab.executor_pids()[-1], signal.SIGKILL)
        app.until(lambda: EXPECTED["executor killed"] & held_decreases(app, at), "a decrease that is held")
        app.until(lambda: app.journal.executors() == 3, "the replacement")

        assert 2 in {each.assessment.executors for each in app.journal.cycles(at) if each.assessment is not None}
        assert Action.DOWN not in {decision.action for decision in app.journal.decisions(at)}

    def test_executors_shrink_once_the_faults_are_over(self, story: Story) -> None:
        app = story.app

        app.until(lambda: (app.journal.executors() or 3) < 3, "an executor to be given back")

        downs = [decision for decision in app.journal.decisions() if decision.action is Action.DOWN]
        assert downs[0].current == 3
        assert downs[0].reason.code in {ReasonCode.OVERSIZED, ReasonCode.PROBE_DOWN, ReasonCode.LARGEST_STEP}

    def test_no_record_was_lost_or_doubled(self, story: Story) -> None:
        story.finish()


@pytest.fixture(scope="class")
def full(field: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    app = make_app(field, tmp_path_factory.mktemp("full"), "full", (1, 3))
    with app.running(), worker(field, cores=1):
        yield Story(app, Load(field, app.topic))


class TestAFullCluster:
    """No room for what the load needs; then the driver is killed."""

    def test_a_request_that_is_never_granted(self, full: Story) -> None:
        app = full.app
        full.load.rate(260)
        app.until(lambda: (changes(app.journal.decisions())[-1].target or 0) > 1, "a request for more")
        full.load.rate(150)

        app.until(lambda: ReasonCode.NO_ROOM in app.journal.codes(), "the back-off")

        refused = [outcome for outcome in app.journal.outcomes() if outcome.status is OutcomeStatus.NO_ROOM]
        assert [(outcome.reason.code, outcome.after) for outcome in refused] == [(ReasonCode.NO_ROOM, 1)]
        at = app.journal.cycles()[-1].at
        app.until(lambda: len(app.journal.decisions(at)) > 2, "the loop to go on")

    def test_the_driver_is_killed_and_started_again(self, full: Story) -> None:
        app = full.app
        wanted = changes(app.journal.decisions())[-1].target
        at = app.journal.cycles()[-1].at
        app.kill()
        until(lambda: app.lab.executor_pids() == [], "its executors to be gone")
        full.load.rate(60)

        app.start()

        app.until(lambda: app.journal.decisions(at), "the first decision")
        first = app.journal.decisions(at)[0]
        assert (first.reason.code, first.target) == (ReasonCode.RESTORED, wanted)
        with worker(app.lab, cores=2):
            app.until(lambda: app.journal.executors() == wanted, "the executors of before")
            full.finish()


def test_the_page_has_every_fault_and_its_codes() -> None:
    rows = {cells[0]: cells[2] for cells in map(_cells, PAGE.read_text().splitlines()) if len(cells) == 4}
    assert {name: set(re.findall(r"`([A-Z_]+)`", rows.get(name, ""))) for name in EXPECTED} == EXPECTED


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
