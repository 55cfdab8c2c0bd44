"""The life of Workers: asked for, registered, used, told to leave, gone, lost, found again."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from pathlib import Path

import pytest

from rheostat.errors import InputError, UnavailableError
from rheostat.host.guardian import find_by_token
from rheostat.host.java import Java
from rheostat.host.processes import Identity
from rheostat.host.spark_daemons import Daemons, WorkerSize
from rheostat.node.workers import (
    ALIVE,
    DECOMMISSIONED,
    MARK,
    DisagreementError,
    Folder,
    Record,
    StandaloneSpark,
)


def alive(record):
    return record.process is not None and record.process.running()


# ------------------------------------------------------------------------------------------- creating


def test_orders_are_taken_on_at_once_and_carried_out_later(node):
    assert node.workers.create(2) == (1, 2)
    assert node.states() == {1: "queued", 2: "queued"}

    node.look()
    assert node.states() == {1: "starting", 2: "starting"}
    node.look()

    assert node.states() == {1: "ready", 2: "ready"}
    assert [node.record(number).host for number in (1, 2)] == ["127.0.0.2", "127.0.0.3"]
    assert all(alive(node.record(number)) for number in (1, 2))


def test_the_number_is_clipped_and_ids_are_used_again_with_new_names(node):
    node.have(5)
    first = node.record(2)
    assert node.workers.create(1) == ()

    node.use(1, 3, 4, 5)
    node.workers.remove([node.record(number).host for number in (1, 3, 4, 5)], 0)
    node.until_gone(2)

    assert node.workers.create(3) == (2,)
    assert node.record(2).name != first.name
    assert not alive(first)


def test_without_a_master_orders_wait_and_then_lapse(node):
    node.spark.answers = False
    node.workers.create(1)
    node.look(seconds=59.0)
    assert node.states() == {1: "queued"}

    node.look(seconds=2.0)

    assert node.states() == {}
    assert node.workers.situation().last_error == (node.at, "http://master does not answer: refused")


def test_one_that_does_not_register_is_ended(node):
    node.spark.registers = False
    node.workers.create(1)
    node.look()
    record = node.record(1)

    node.look(seconds=61.0)
    assert node.workers.situation().last_error == (node.at, f"{record.name} did not register within 60 s")
    node.until_gone(1)

    assert not alive(record)


@pytest.mark.parametrize("jump_s", [-3600.0, 3600.0])
def test_setting_the_clock_of_the_machine_changes_no_wait(node, jump_s):
    """Starting, leaving and ending take as long as ever; only the time of a report is that of the machine."""
    node.have(1)
    leaving = node.record(1)
    node.spark.registers = node.spark.obeys = False
    node.workers.create(1)
    node.look()
    node.workers.remove([], 1)
    node.look()
    assert (node.states(), node.spark.told) == ({1: "leaving", 2: "starting"}, [leaving.name])

    node.set_forward_s = jump_s
    node.look(seconds=1.0, times=4)
    assert (node.states(), node.spark.told) == ({1: "leaving", 2: "starting"}, [leaving.name])
    situation = node.workers.situation()
    assert [round(situation.at - each.since, 1) for each in situation.workers] == [4.1, 4.1]

    node.look(seconds=2.0)
    assert node.spark.told == [leaving.name] * 2
    node.look(seconds=55.0)
    assert node.states()[2] == "ending"
    assert node.workers.situation().last_error[0] == node.at + jump_s


def test_one_that_cannot_be_started_gives_its_id_back(node):
    node.spark.command = ["/no/such/java"]
    node.workers.create(1)
    node.look()

    assert node.states() == {}
    assert "cannot be started: No such file or directory" in node.workers.situation().last_error[1]


# ------------------------------------------------------------------------------------------- removing


def test_removing_keeps_the_used_and_some_idle_ones(node):
    node.have(5)
    node.use(1, 4)

    removal = node.workers.remove(["127.0.0.2", "127.0.0.5", "10.9.9.9"], 1)

    assert (removal.removing, removal.used, removal.free) == ((2, 3), (1, 4), 1)
    node.until_gone(2, 3)
    assert node.states() == {1: "ready", 4: "ready", 5: "ready"}


def test_a_worker_is_decommissioned_before_its_process_is_ended(node):
    node.have(1)
    record = node.record(1)
    node.spark.obeys = False
    node.workers.remove([], 0)

    node.look(times=3)
    assert (node.spark.told, node.states(), alive(record)) == ([record.name], {1: "leaving"}, True)
    node.look(seconds=6.0)
    assert node.spark.told == [record.name] * 2

    node.spark.change(record, state=DECOMMISSIONED)
    node.until_gone(1)
    assert not alive(record)
    assert list(node.path.glob("workers/*.json")) == []


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(lambda record: record.host, id="by address"),
        pytest.param(lambda record: record.name, id="by name"),
        pytest.param(lambda record: f"{record.host}:8081", id="by web page"),
    ],
)
def test_how_a_used_worker_may_be_called(node, name):
    node.have(2)
    node.use(1)

    assert node.workers.remove([name(node.record(1))], 0).removing == (2,)


def test_one_that_only_the_request_calls_used_stays(node):
    node.have(2)

    assert node.workers.remove(["127.0.0.2"], 0).removing == (2,)


def test_nothing_is_removed_when_the_master_knows_of_an_executor_that_the_request_does_not(node):
    node.have(3)
    node.use(1, 2)

    with pytest.raises(DisagreementError) as caught:
        node.workers.remove(["127.0.0.2"], 0)

    (fault,) = caught.value.faults
    assert (fault.field, fault.given, fault.allowed) == ("used", "127.0.0.2", "with 127.0.0.3")
    assert node.states() == {1: "ready", 2: "ready", 3: "ready"}


def test_nothing_is_removed_while_the_master_does_not_answer(node):
    node.have(2)
    node.spark.answers = False

    with pytest.raises(UnavailableError):
        node.workers.remove([], 0)

    node.look(times=3)
    assert node.states() == {1: "ready", 2: "ready"}


def test_one_that_gets_an_executor_before_it_is_told_to_leave_stays(node):
    node.have(1)
    node.workers.remove([], 0)
    node.use(1)

    node.look()

    assert (node.states(), node.spark.told) == ({1: "ready"}, [])
    assert "an executor was placed on it before it could leave" in node.workers.situation().last_error[1]


def test_an_executor_that_slips_in_while_it_leaves_is_waited_for(node):
    node.have(1)
    record = node.record(1)
    node.workers.remove([], 0)
    node.spark.executors["127.0.0.2:8081"] = 1
    node.look()
    node.use(1)

    node.look(times=20)
    assert (node.states(), alive(record)) == ({1: "leaving"}, True)

    node.spark.executors["127.0.0.2:8081"] = 0
    node.until_gone(1)


def test_an_executor_that_never_ends_is_not_waited_for_for_ever(node):
    node.have(1)
    node.workers.remove([], 0)
    node.spark.executors["127.0.0.2:8081"] = None
    node.look()
    node.use(1)

    node.look(seconds=61.0)

    assert node.states() == {1: "ending"}
    node.until_gone(1)


def test_one_that_ignores_sigterm_is_killed(node):
    node.spark.command = ["/bin/sh", "-c", "trap '' TERM; echo ready >&2; while :; do sleep 0.01; done"]
    node.have(1)
    record = node.record(1)
    node.until(lambda: node.folder.log(record).read_text() == "ready\n")
    node.workers.remove([], 0)
    node.look(times=30)
    assert alive(record)

    node.look(seconds=11.0)

    node.until_gone(1)


def test_one_that_was_only_asked_for_is_dropped(node):
    node.workers.create(2)

    assert node.workers.remove([], 1).removing == (1,)
    assert node.states() == {2: "queued"}


# ------------------------------------------------------------------------------------ lost and found


def test_a_killed_worker_is_noticed_and_nothing_of_it_is_left(node):
    node.spark.command = ["/bin/sh", "-c", "setsid sleep 300 & exec sleep 300"]
    node.have(1)
    record = node.record(1)
    node.until(lambda: len(find_by_token(record.mark, MARK)) == 2)
    os.kill(record.pid, signal.SIGKILL)

    node.until_gone(1)

    assert "ended by itself" in node.workers.situation().last_error[1]
    assert find_by_token(record.mark, MARK) == []
    assert node.workers.create(1) == (1,)


def test_after_a_crash_the_next_server_finds_its_workers(node):
    node.have(3)
    node.workers.remove(["127.0.0.2", "127.0.0.4"], 0)
    pids = {number: node.record(number).pid for number in (1, 2, 3)}
    node.crash()

    node.open()

    assert node.states() == {1: "starting", 2: "leaving", 3: "starting"}
    assert {number: node.record(number).pid for number in (1, 2, 3)} == pids
    node.until_gone(2)
    assert node.states() == {1: "ready", 3: "ready"}


def test_what_has_ended_meanwhile_is_forgotten_and_a_recycled_pid_is_left_alone(node):
    node.have(1)
    record = node.record(1)
    node.crash()
    node.workers._kill(node.workers.known[0])
    with subprocess.Popen(["sleep", "300"]) as stranger:
        identity = Identity.of(stranger.pid)
        assert identity is not None
        node.folder.save(Record(1, record.name, record.host, record.mark, 0.0, stranger.pid, identity.created - 100))

        node.open()

        assert node.states() == {}
        assert list(node.path.glob("workers/*.json")) == []
        assert stranger.poll() is None
        stranger.kill()


def test_one_that_was_just_being_started_is_found_by_its_mark(node):
    node.crash()
    record = Record(2, "n-2-7", "127.0.0.3", "a-mark-of-its-own", 0.0)
    node.folder.save(record)
    environment = {**os.environ, MARK: record.mark}
    with subprocess.Popen(["sleep", "300"], env=environment, start_new_session=True) as process:
        node.open()

        assert node.states() == {2: "starting"}
        assert node.record(2).pid == process.pid
        process.kill()


def test_one_that_was_to_be_started_and_was_not_is_forgotten(node):
    node.crash()
    node.folder.save(Record(2, "n-2-7", "127.0.0.3", "never-started", 0.0))

    node.open()

    assert node.states() == {}


def test_damaged_records_are_all_named(tmp_path):
    folder = Folder(tmp_path)
    (tmp_path / "workers" / "1.json").write_text("{")
    (tmp_path / "workers" / "2.json").write_text('{"id": 2}')

    with pytest.raises(InputError) as caught:
        folder.load()

    assert [fault.given for fault in caught.value.faults] == [str(tmp_path / f"workers/{n}.json") for n in (1, 2)]
    folder.close()


def test_two_servers_do_not_share_a_folder(node):
    with pytest.raises(InputError, match="another node server has it"):
        Folder(node.path)


# ------------------------------------------------------------------------------------------- the end


def test_the_end_in_order_leaves_nothing(node):
    node.have(2)
    records = [node.record(number) for number in (1, 2)]

    assert node.workers.close(keep=False, grace_s=5.0) == []

    assert [alive(record) for record in records] == [False, False]
    assert sorted(node.spark.told) == sorted(record.name for record in records)


def test_the_end_that_keeps_leaves_them_for_the_next_server(node):
    node.have(2)
    node.workers.create(1)

    left = node.workers.close(keep=True, grace_s=5.0)

    assert [worker.record.id for worker in left] == [1, 2]
    assert all(alive(worker.record) for worker in left)
    node.crash()
    node.open()
    assert node.states() == {1: "starting", 2: "starting"}


def test_at_the_end_a_used_one_is_decommissioned_too_and_ended_when_its_time_is_up(node):
    node.have(1)
    record = node.record(1)
    node.use(1)
    node.spark.executors["127.0.0.2:8081"] = 1

    assert node.workers.close(keep=False, grace_s=0.3) == []

    assert (node.spark.told, alive(record)) == ([record.name], False)


def test_the_thread_carries_out_orders(node):
    node.workers.start()
    node.workers.create(1)

    for _ in range(500):
        if node.states() == {1: "ready"}:
            break
        node.workers._thread.join(0.02)

    assert node.spark.standing[node.record(1).name].state == ALIVE
    assert node.states() == {1: "ready"}


# ------------------------------------------------------------------------------------ Spark's own side


def test_how_a_worker_is_started(tmp_path, monkeypatch):
    monkeypatch.setenv("RHEOSTAT_NODE_TOKEN", "nobody-elses-business")
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    java = Java(Path("/jdk/bin/java"), "17.0.1", 17, Path("/jdk"))
    spark = StandaloneSpark(Daemons(tmp_path, java, Path("/spark")), WorkerSize(1, 512), "http://m:8080")

    launch = spark.launch(Record(3, "n-3-7", "127.0.0.4", "its-mark", 0.0), "spark://m:7077")

    command = " ".join(launch.command)
    assert "-Dspark.worker.idPattern=n-3-7 " in command
    assert "-Dspark.decommission.enabled=true " in command
    assert "--host 127.0.0.4 --port 0 --webui-port 0 --cores 1 --memory 512m " in command
    assert command.endswith(" spark://m:7077")
    assert (launch.environment[MARK], launch.environment["SPARK_LOCAL_IP"]) == ("its-mark", "127.0.0.4")
    assert launch.environment["SPARK_CONF_DIR"] == str(tmp_path / "conf")
    assert launch.environment["SPARK_LOCAL_DIRS"] == str(tmp_path / "work" / "n-3-7" / "scratch")
    assert "RHEOSTAT_NODE_TOKEN" not in launch.environment


def test_a_disk_that_takes_nothing_is_told_and_does_not_keep_workers_from_leaving(node, monkeypatch):
    node.have(2)
    node.workers.create(1)
    monkeypatch.setattr(node.folder, "save", disk_full)

    node.look()
    assert node.workers.situation().last_error[1].endswith("-3-1000200: No space left on device")
    assert node.workers.remove([], 0).removing == (1, 2, 3)
    node.until_gone(1, 2, 3)


def disk_full(_record):
    raise OSError(errno.ENOSPC, "No space left on device")
