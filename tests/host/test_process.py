"""Processes: readiness, logs, ends; and a guardian that survives its parent. All with real processes."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from rheostat.errors import PartFailedError
from rheostat.host.guardian import is_running, kill_group
from rheostat.host.processes import Identity, Launch, Processes, clean_environment, module_environment


@pytest.fixture
def processes():
    made = Processes()
    yield made
    made.close(grace_s=1.0)


def shell(text, folder):
    return Launch(["/bin/sh", "-c", text], dict(os.environ), folder)


def until(condition, timeout_s=10.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def ended(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_ready_once_the_answer_is_yes(processes, tmp_path):
    part = processes.start("one", shell("echo up > ready; exec sleep 60", tmp_path), tmp_path / "one.log")

    part.wait_ready((tmp_path / "ready").exists, 10)

    assert part.alive()


def test_a_start_that_ends_early_carries_name_code_and_log(processes, tmp_path):
    part = processes.start("one", shell("echo first; echo no room >&2; exit 3", tmp_path), tmp_path / "one.log")

    with pytest.raises(PartFailedError, match=r"one: ended while it was starting \(exit code 3\)") as caught:
        part.wait_ready(lambda: False, 10)

    assert (caught.value.part, caught.value.log_tail) == ("one", "first\nno room")


def test_a_full_disk_is_named_as_the_reason(processes, tmp_path):
    said = "echo 'java.io.IOException: No space left on device'; seq 100; exit 1"
    part = processes.start("one", shell(said, tmp_path), tmp_path / "one.log")

    with pytest.raises(
        PartFailedError, match=r"one: failed \(exit code 1\): No space left on device; its log:"
    ) as caught:
        part.wait_exit(10)

    assert "No space" not in caught.value.log_tail


def test_a_start_that_takes_too_long_fails(processes, tmp_path):
    part = processes.start("one", shell("exec sleep 60", tmp_path), tmp_path / "one.log")

    with pytest.raises(PartFailedError, match="did not answer within 0 s"):
        part.wait_ready(lambda: False, 0.1)


def test_a_program_that_is_not_there_is_a_failed_part(processes, tmp_path):
    with pytest.raises(PartFailedError, match="one: cannot be started: No such file"):
        processes.start("one", Launch([str(tmp_path / "none")], {}, tmp_path), tmp_path / "one.log")


@pytest.mark.parametrize(
    ("written", "lines", "expected"),
    [
        pytest.param("a\nb\nc\n", 2, "b\nc", id="the last ones"),
        pytest.param("a\n", 5, "a", id="fewer than asked for"),
        pytest.param("", 5, "", id="empty"),
        pytest.param("x" * 200_000 + "\nend\n", 1, "end", id="a long log is not read whole"),
    ],
)
def test_log_tail(processes, tmp_path, written, lines, expected):
    part = processes.start("one", shell("exec sleep 60", tmp_path), tmp_path / "one.log")
    (tmp_path / "one.log").write_text(written)

    assert part.log_tail(lines) == expected


def test_check_raises_for_a_part_that_died_by_itself(processes, tmp_path):
    part = processes.start("one", shell("exec sleep 60", tmp_path), tmp_path / "one.log")
    processes.check()

    os.kill(part.pid, signal.SIGKILL)
    until(lambda: not part.alive())

    with pytest.raises(PartFailedError, match=r"one: died \(signal 9\)"):
        processes.check()


def test_check_is_silent_about_a_part_that_was_stopped(processes, tmp_path):
    part = processes.start("one", shell("exec sleep 60", tmp_path), tmp_path / "one.log")

    part.stop()
    part.stop()

    processes.check()
    assert not part.alive()


def test_stop_ends_one_that_ignores_the_polite_signal(processes, tmp_path):
    part = processes.start(
        "one", shell("trap '' TERM; echo up; while :; do sleep 1; done", tmp_path), tmp_path / "one.log"
    )
    part.wait_ready(lambda: part.log_tail() == "up", 10)

    part.stop(grace_s=0.2)

    assert not part.alive()


def test_stop_ends_a_frozen_one(processes, tmp_path):
    part = processes.start("one", shell("exec sleep 60", tmp_path), tmp_path / "one.log")
    part.signal(signal.SIGSTOP)

    began = time.monotonic()
    part.stop(grace_s=20.0)

    assert not part.alive()
    assert time.monotonic() - began < 10


def test_stop_reaches_a_grandchild_that_left_the_group(processes, tmp_path):
    program = "import os, time; os.setsid(); print(os.getpid(), flush=True); time.sleep(60)"
    command = f'"{sys.executable}" -c "{program}" & wait'
    part = processes.start("one", shell(command, tmp_path), tmp_path / "one.log")
    part.wait_ready(lambda: part.log_tail().isdigit(), 10)
    grandchild = int(part.log_tail())

    part.stop(grace_s=1.0)

    until(lambda: ended(grandchild))


def test_close_ends_an_orphan_that_carries_the_token(processes, tmp_path):
    part = processes.start("one", shell("setsid sleep 60 & echo $!", tmp_path), tmp_path / "one.log")
    part.wait_exit(10)
    orphan = int(part.log_tail())
    until(lambda: processes.running() == [orphan])

    processes.close(grace_s=1.0)

    until(lambda: ended(orphan))
    assert processes.running() == []


def test_nothing_is_started_after_close(processes, tmp_path):
    processes.close()

    with pytest.raises(PartFailedError, match="the lab is closed"):
        processes.start("one", shell("exec sleep 60", tmp_path), tmp_path / "one.log")


OWNER = """
import pathlib, os, signal, sys, time
from rheostat.host.processes import Launch, Processes
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background ignores Ctrl-C
folder = pathlib.Path(sys.argv[1])
processes = Processes()
processes.guardian.remove_at_death(folder / "data")
one = processes.start("one", Launch(["sleep", "300"], dict(os.environ), folder), folder / "one.log")
print(one.pid, processes.guardian.pid, flush=True)
if os.fork() == 0:
    sys.stdout.close()
    os.close(1)
    time.sleep(20)
    os._exit(0)
time.sleep(300)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=["kill -9", "kill", "Ctrl-C"])
def test_the_guardian_ends_the_parts_when_their_owner_dies(tmp_path, number):
    (tmp_path / "data").mkdir()
    command = [sys.executable, "-c", OWNER, str(tmp_path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=module_environment()
    ) as owner:
        assert owner.stdout is not None
        part, guardian = (int(word) for word in owner.stdout.readline().split())
        children = [child for child in psutil.Process(owner.pid).children() if child.pid not in (part, guardian)]
        assert not ended(part)
        assert not ended(guardian)

        owner.send_signal(number)
        owner.wait(10)

        until(lambda: ended(part))
        until(lambda: ended(guardian))
        for child in children:
            child.kill()
    assert not (tmp_path / "data").exists()


def test_a_recycled_pid_is_left_alone():
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as sleeper:
        created = psutil.Process(sleeper.pid).create_time()

        kill_group(sleeper.pid, created - 100.0)
        assert sleeper.poll() is None
        assert not is_running(sleeper.pid, created - 100.0)

        kill_group(sleeper.pid, created)
        assert sleeper.wait(10) == -signal.SIGKILL


def test_an_identity_ends_with_its_process():
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        identity = Identity.of(sleeper.pid)
        assert identity is not None
        assert identity.running()
        sleeper.kill()
    assert not identity.running()
    assert Identity.of(sleeper.pid) is None


def test_the_guardian_imports_almost_nothing():
    program = (
        "import sys, rheostat.host.guardian; print(*sorted(m for m in sys.modules if m.split('.')[0] not in before))"
    )
    command = [sys.executable, "-c", f"import sys; before = set(sys.stdlib_module_names); {program}"]

    done = subprocess.run(command, capture_output=True, text=True, check=True, env=module_environment())

    heavy = {"psutil", "numpy", "pydantic", "pyspark", "httpx", "confluent_kafka", "typer", "rich"}
    assert not heavy & {name.split(".")[0] for name in done.stdout.split()}
    assert "rheostat.host.guardian" in done.stdout.split()


def test_parts_do_not_inherit_what_would_redirect_them(monkeypatch, tmp_path):
    for name in ("SPARK_CONF_DIR", "PYSPARK_PYTHON", "KAFKA_OPTS", "CLASSPATH", "KEPT"):
        monkeypatch.setenv(name, "x")

    environment = clean_environment(tmp_path, {"SPARK_HOME": "home"})

    assert {
        name: environment.get(name) for name in ("SPARK_CONF_DIR", "PYSPARK_PYTHON", "KAFKA_OPTS", "CLASSPATH")
    } == {
        "SPARK_CONF_DIR": None,
        "PYSPARK_PYTHON": None,
        "KAFKA_OPTS": None,
        "CLASSPATH": None,
    }
    assert (environment["KEPT"], environment["SPARK_HOME"], environment["JAVA_HOME"]) == ("x", "home", str(tmp_path))
