"""The metrics of an assembled loop: told while it runs, refused together with everything else, ended with it."""

import socket
import threading
import urllib.request
from typing import Any, cast

import pytest

from rheostat.attachment import assemble
from rheostat.config.loading import load_settings
from rheostat.errors import InputError, RefusedError
from rheostat.host.spark_daemons import free_ports
from rheostat.spark.jvm import SessionFacts
from rheostat.testing.fakes import ToyJob

NO_SESSION = cast("Any", None)
STANDALONE = SessionFacts(connect=False, master="spark://host:7077", deploy="standalone", executor_cores=1)
LOCAL = SessionFacts(connect=False, master="local[2]", deploy="local")


def assembled(facts=STANDALONE, job=None, **given):
    values = {"objective": "lag < 30s", "executors": [1, 4], "profile": "demo", "mode": "dry-run", **given}
    return assemble(NO_SESSION, facts, load_settings(values), [job or ToyJob()])


def lines(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return answer.read().decode().splitlines()


@pytest.fixture
def taken():
    with socket.create_server(("127.0.0.1", 0)) as door:
        yield door.getsockname()[1]


def test_a_cycle_is_told_and_the_port_is_closed_with_the_loop(tmp_path):
    port = free_ports(1)[0]
    assembly = assembled(job=ToyJob(executors=3), journal=str(tmp_path), metrics={"port": port})
    assembly.loop.cycle()
    told = lines(port)
    assert "rheostat_registered_executors 3.0" in told
    assert "rheostat_backlog_records 0.0" in told
    assert assembly.loop.status().journal == str(tmp_path)

    running = threading.Thread(target=assembly.run)
    running.start()
    assembly.loop.stop()
    running.join(60)
    assert not running.is_alive()
    with pytest.raises(urllib.error.URLError):
        lines(port)


def test_a_taken_port_is_told_together_with_why_the_session_is_refused(taken):
    with pytest.raises(RefusedError) as caught:
        assembled(LOCAL, metrics={"port": taken})
    assert [fault.field for fault in caught.value.faults] == ["spark.master", "metrics.port"]


def test_a_taken_port_is_told_together_with_a_journal_that_cannot_be_written(taken, tmp_path):
    folder = tmp_path / "journal"
    folder.write_text("a file in the way")
    with pytest.raises(InputError) as caught:
        assembled(journal=str(folder), metrics={"port": taken})
    assert [fault.field for fault in caught.value.faults] == ["metrics.port", "journal"]


def test_after_a_refusal_source_journal_and_port_are_free(taken, tmp_path):
    job, port = ToyJob(), free_ports(1)[0]
    with pytest.raises(InputError):
        assembled(job=job, journal=str(tmp_path), metrics={"port": taken})
    with pytest.raises(RefusedError):
        assembled(LOCAL, metrics={"port": port})
    assert job.closed

    again = assembled(journal=str(tmp_path), metrics={"port": port})
    again.loop.stop()
    again.run()


def test_without_a_port_nobody_listens():
    assembly = assembled()
    assert assembly.served is None
    assembly.loop.stop()
    assembly.run()


def test_a_second_controller_on_one_state_is_refused_until_the_first_has_ended(tmp_path):
    first = assembled(state=str(tmp_path))
    with pytest.raises(InputError, match="writes this state; end it") as caught:
        assembled(state=str(tmp_path), journal=str(tmp_path / "journal"))
    assert [fault.field for fault in caught.value.faults] == ["state"]
    first.loop.stop()
    first.run()
    again = assembled(state=str(tmp_path), journal=str(tmp_path / "journal"))
    again.loop.stop()
    again.run()
