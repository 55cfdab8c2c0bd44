"""Scripts that know nothing of us become elastic: by ``rheostat run``, and by one line."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cluster.support import (
    EXECUTOR_MB,
    Journal,
    Load,
    assert_never_down_on_unknown,
    changes,
    lives,
    until,
    worker,
)

from rheostat.host.java import kafka_connector_jars
from rheostat.host.processes import Launch, Part, module_command, module_environment
from rheostat.lab.lab import Lab
from rheostat.model import Action, ReasonCode

pytestmark = pytest.mark.cluster

EXAMPLES = Path(__file__).parents[2] / "examples"
QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}


@contextmanager
def script(lab: Lab, folder: Path, name: str, command: Sequence[str], environment: Mapping[str, str]) -> Iterator[Part]:
    """A script in a process of its own; nothing of it is left at the end."""
    before = set(lab.running())
    environment = {**module_environment(), **lab.cluster.driver_environment(), **environment}
    part = lab.run_part(name, Launch(command, environment, folder))
    try:
        yield part
    finally:
        part.stop()
        until(lambda: set(lab.running()) <= before, "its processes to be gone")


def pairs(conf: Mapping[str, str]) -> list[str]:
    return [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]


def test_a_script_that_knows_nothing_of_us_becomes_elastic_by_rheostat_run(field: Lab, tmp_path: Path) -> None:
    """One executor is kept busy by the tasks of a hundred state partitions, so another one is asked for."""
    field.broker.create_topic("plain", 3)
    conf = field.cluster.driver_conf(executor_memory_mb=EXECUTOR_MB, jars=kafka_connector_jars())
    conf |= QUIET | {"spark.sql.shuffle.partitions": "100"}
    settings = tmp_path / "rheostat.yaml"
    settings.write_text("profile: demo\nsample_s: 1.0\n")
    journal, load = Journal(tmp_path / "journal"), Load(field, "plain")
    command = module_command("rheostat", "run", "--objective", "lag < 6s", "--executors", "1,2")
    command += ["--config", str(settings), "--journal", str(journal.folder), *pairs(conf)]
    command += [str(EXAMPLES / "word_lengths.py"), field.broker.bootstrap, "plain"]
    command += [str(tmp_path / "checkpoint"), str(tmp_path / "out")]
    load.rate(100)
    with script(field, tmp_path, "plain", command, {}) as part:
        lives(field, journal.decisions, f"the autoscaler to attach: {part.log}")
        with worker(field, cores=2):
            lives(field, lambda: journal.executors() == 2 and journal.committed(), f"two executors: {part.log}")
    load.end()

    acted = changes(journal.decisions())
    assert (acted[0].reason.code, acted[0].target) == (ReasonCode.START, 1)
    assert [(decision.action, decision.target) for decision in acted[1:2]] == [(Action.UP, 2)]
    assert_never_down_on_unknown(journal.records())


@pytest.mark.parametrize("name", ["elastic_word_lengths", "shedding_word_lengths"])
def test_a_script_becomes_elastic_by_one_line(field: Lab, tmp_path: Path, name: str) -> None:
    """Without the line, Spark would take the three slots of the cluster; with it, the job starts with one."""
    field.broker.create_topic(name, 3)
    conf = field.cluster.driver_conf(executor_memory_mb=EXECUTOR_MB, jars=kafka_connector_jars())
    conf |= QUIET | {"spark.sql.shuffle.partitions": "2"}
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), field.broker.bootstrap, name]
    command += [str(tmp_path / "checkpoint"), str(tmp_path / "out")]
    load = Load(field, name)
    load.rate(100)
    environment = {"PYSPARK_SUBMIT_ARGS": shlex.join([*pairs(conf), "pyspark-shell"])}

    def slots() -> list[int]:
        return [app["cores"] for app in field.cluster.describe()["activeapps"]]

    with script(field, tmp_path, name, command, environment) as part:
        lives(field, (tmp_path / "checkpoint" / "metadata").exists, f"the query to start: {part.log}")
        with worker(field, cores=3):
            lives(field, lambda: list((tmp_path / "out").glob("*.json")), f"results: {part.log}")
            assert slots() == [1]
    load.end()
