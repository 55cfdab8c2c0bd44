"""The node server with real Workers: orders, standby, decommissioning; killed Workers, servers and drivers."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import psutil
import pytest
from tests.cluster.sites import Site
from tests.cluster.support import App, Load, assert_every_change_has_its_reason, lives, make_app, until

from rheostat.host.guardian import find_by_token
from rheostat.lab.lab import Lab
from rheostat.model import Action
from rheostat.node.workers import MARK
from rheostat.pipelines.sink import verify

pytestmark = pytest.mark.cluster


@pytest.fixture
def site(field: Lab, tmp_path: Path) -> Iterator[Site]:
    made = Site(field, tmp_path / "node", n_max=3)
    yield made
    if made.node.part.alive():
        made.end()


# -------------------------------------------------------------------------------- without an application


def test_orders_start_and_stop_real_workers(site: Site) -> None:
    assert site.create(2) == 2
    site.until_ready(1, 2)
    told = site.lab.cluster.describe()
    hosts = {worker["id"]: worker["host"] for worker in told["workers"] if worker["state"] == "ALIVE"}
    assert hosts == {record.name: f"127.0.0.{record.id + 1}" for record in site.records()}
    assert {worker["cores"] for worker in told["workers"] if worker["id"] in hosts} == {1}

    assert site.remove([], 1) == 1
    site.until_ready(2)
    lives(site.lab, lambda: len(site.tell()["workers"]) == 1, "the process of Worker 1 to be gone")

    states = {
        worker["id"]: worker["state"] for worker in site.lab.cluster.describe()["workers"] if worker["id"] in hosts
    }
    assert sorted(states.values()) == ["ALIVE", "DEAD"]
    assert site.tell()["last_error"] is None
    assert site.create(9) == 2
    site.until_ready(1, 2, 3)
    site.end()
    until(lambda: site.lab.cluster.registered() == (), "the master to know")


def test_a_killed_worker_is_noticed_and_its_id_used_again(site: Site) -> None:
    site.create(1)
    site.until_ready(1)
    (record,) = site.records()
    os.kill(record.pid or 0, signal.SIGKILL)

    lives(site.lab, lambda: not site.tell()["workers"], "the loss to be noticed")

    assert record.name in site.tell()["last_error"]["text"]
    assert site.left() == []
    assert site.create(1) == 1
    site.until_ready(1)


def test_a_killed_server_finds_its_workers_again(site: Site) -> None:
    site.create(2)
    site.until_ready(1, 2)
    before = {record.id: (record.pid, record.name) for record in site.records()}

    site.kill()
    assert {record.id for record in site.records() if psutil.pid_exists(record.pid or 0)} == {1, 2}
    site.start()

    site.until_ready(1, 2)
    assert {record.id: (record.pid, record.name) for record in site.records()} == before
    assert site.create(9) == 1


def test_a_server_that_is_killed_with_orders_in_hand_leaves_no_orphan(site: Site) -> None:
    site.create(2)
    until(lambda: len(site.records()) == 2, "the orders to be on disk")
    site.kill()
    site.start()

    lives(site.lab, lambda: not site.tell()["doing"], "what was begun to be finished")
    known = {record.mark for record in site.records()}
    assert [pid for mark in site.marks - known for pid in find_by_token(mark, MARK)] == []
    site.end()


def test_keep_leaves_the_workers_to_the_next_server(site: Site) -> None:
    site.end()
    site.start("--keep")
    site.create(1)
    site.until_ready(1)
    (record,) = site.records()

    os.kill(site.node.part.pid, signal.SIGTERM)
    site.node.part.wait_exit(60.0)
    assert json.loads(site.node.part.log_tail(1))["workers_left"] == [1]
    assert record.process is not None
    assert record.process.running()
    site.start()

    site.until_ready(1)
    assert site.records() == [record]


# ---------------------------------------------------------------------------------- with an application


class Story:
    """An application that moves both layers, its load and the node server."""

    def __init__(self, site: Site, app: App, load: Load) -> None:
        self.site, self.app, self.load = site, app, load

    def standby(self) -> int | None:
        """Idle Workers, if all of them are registered and none is on its way out."""
        seen = self.site.tell()
        self.site.records()
        return None if seen["doing"] else seen["idle"]

    def executors(self) -> int:
        """Registered executors when last seen."""
        return self.app.journal.executors() or 0

    def settled(self) -> bool:
        """Whether each executor is on its Worker, and one Worker is in standby."""
        return self.standby() == 1 and self.site.tell()["used"] == self.executors()

    def until_settled(self, holds: Callable[[int], bool]) -> None:
        """Until the number of executors is as it shall be, and the Workers below are too."""
        self.app.until(lambda: holds(self.executors()) and self.settled(), "both layers to have moved")


@pytest.fixture(scope="class")
def story(field: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("both")
    site = Site(field, folder / "node", n_max=4)
    app = make_app(field, folder, "both", (1, 3))
    both = {"actuator": "workers", "workers": {"nodes": [site.node.address], "backup": 1, "every_s": 1.0}}
    app.job = replace(app.job, settings={**app.job.settings, **both})
    load = Load(field, app.topic)
    with app.running():
        try:
            yield Story(site, app, load)
        finally:
            if site.node.part.alive():
                site.end()


class TestBothLayersMoveTogether:
    """From no Worker at all to three executors, through kills of each part, and back."""

    def test_the_first_executor_gets_a_worker_and_a_standby_comes(self, story: Story) -> None:
        story.load.rate(60)
        story.app.until(story.app.journal.committed, "the first batch")

        story.until_settled(lambda executors: executors >= 1)

    def test_an_increase_takes_the_standby_and_another_comes(self, story: Story) -> None:
        story.load.rate(450)

        story.until_settled(lambda executors: executors == 3)

        texts = [outcome.reason.text for outcome in story.app.journal.outcomes() if outcome.status == "applied"]
        assert any("standby" in text for text in texts), texts

    def test_the_journal_has_the_processor_time_of_the_executors(self, story: Story) -> None:
        def is_known() -> bool:
            seen = [cycle.observation.cpu for cycle in story.app.journal.cycles() if cycle.observation is not None]
            return any(len(cpu.executors) == 3 and cpu.nodes[0].busy > 0 for cpu in seen if cpu is not None)

        story.app.until(is_known, "the node server to have told it twice")

    def test_a_used_worker_is_not_removed_whatever_is_asked(self, story: Story) -> None:
        answer = httpx.request(
            "DELETE",
            f"{story.site.node.address}/taskmanager",
            json={"used": [], "free": 0},
            trust_env=False,
        )

        assert answer.status_code == 409
        assert len(answer.json()["faults"]) == 3
        story.until_settled(lambda executors: executors == 3)

    def test_a_killed_worker_is_replaced_with_its_executor(self, story: Story) -> None:
        used = [one for one in story.site.tell()["workers"] if one["used"]]
        os.kill(used[0]["pid"], signal.SIGKILL)

        lives(story.app.lab, lambda: used[0]["name"] not in _names(story.site), "the loss to be noticed")
        story.until_settled(lambda executors: executors == 3)

    def test_a_killed_server_does_not_disturb_the_application(self, story: Story) -> None:
        at = story.app.journal.cycles()[-1].at
        port = story.site.node.address.rpartition(":")[2]
        story.site.kill()
        story.app.until(lambda: len(story.app.journal.decisions(at)) > 5, "the loop to go on without the node")
        story.site.start("--port", port)

        story.until_settled(lambda executors: executors == 3)

        assert len(story.app.lab.executor_pids()) == 3

    def test_a_decrease_gives_the_workers_back(self, story: Story) -> None:
        story.load.rate(20)

        story.until_settled(lambda executors: executors < 3)

        assert Action.DOWN in {one.action for one in story.app.journal.decisions()}
        assert len(story.site.records()) == story.executors() + 1

    def test_a_killed_driver_leaves_workers_that_the_next_one_uses(self, story: Story) -> None:
        story.app.kill()
        until(lambda: story.app.lab.executor_pids() == [], "its executors to be gone")
        lives(story.app.lab, lambda: story.site.tell()["used"] == 0, "the master to know")

        story.app.start()

        at = story.app.journal.cycles()[-1].at
        story.app.until(lambda: story.app.journal.decisions(at), "the next driver to decide")
        story.until_settled(lambda executors: executors >= 1)

    def test_no_record_was_lost_or_doubled_and_no_process_is_left(self, story: Story) -> None:
        app, sent = story.app, story.load.end()
        app.until(lambda: verify(app.folder / "out").checksum == sent, "all records, each of them once")
        app.until(app.journal.answered, "the outcome of the last change")
        app.end()
        assert verify(app.folder / "out").checksum == sent
        assert_every_change_has_its_reason(app.journal.records())
        lives(app.lab, lambda: story.site.tell()["used"] == 0, "the master to know")

        story.site.end()

        assert app.lab.executor_pids() == []


def _names(site: Site) -> set[str]:
    return {one["name"] for one in site.tell()["workers"]}
