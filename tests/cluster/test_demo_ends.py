"""The demo cut short: whoever ends it, nothing of it is left."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from rheostat.host.processes import module_environment

pytestmark = pytest.mark.cluster


class Demo:
    """A run of the command in a temporary folder of its own, by which its processes and data are known."""

    def __init__(self, folder):
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        command = [sys.executable, "-m", "rheostat", "demo", "--source", "log", "--json", "--out", str(folder / "out")]
        environment = {**module_environment(), "TMPDIR": str(self.temporary)}
        with (folder / "said").open("wb") as said:
            self._process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=said)
        self.said = folder / "said"

    def processes(self):
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def part(self, words):
        """The running part whose command line has these words."""
        until(lambda: self._with(words), words)
        return self._with(words)[0]

    def end(self, number):
        self._process.send_signal(number)
        return self.result()

    def result(self):
        """Exit code and the object on the last line."""
        out, _ = self._process.communicate(timeout=60)
        lines = out.decode().splitlines()
        return self._process.returncode, json.loads(lines[-1]) if lines else None

    def leftovers(self):
        """Files of data; logs are kept after a failure."""
        return [file for file in self.temporary.rglob("*") if file.is_file() and "logs" not in file.parts]

    def _with(self, words):
        return [process for process in self.processes() if words in _command(process)]

    def _is_ours(self, process):
        try:
            return process.pid != self._process.pid and process.environ().get("TMPDIR") == str(self.temporary)
        except (psutil.Error, OSError):
            return False


def _command(process):
    """The command line; nothing of a process that has ended meanwhile."""
    try:
        return " ".join(process.cmdline())
    except (psutil.Error, OSError):
        return ""


def until(condition, what, timeout_s=60.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s:g} s for: {what}"
        time.sleep(0.05)


@pytest.fixture
def demo(tmp_path):
    demo = Demo(tmp_path)
    yield demo
    demo.end(signal.SIGKILL)
    until(lambda: not demo.processes(), "everything to be gone")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "a polite end"])
def test_a_demo_that_is_interrupted_while_it_starts_leaves_nothing(demo, number):
    demo.part("org.apache.spark.deploy.master.Master")
    code, error = demo.end(number)
    assert (code, error["faults"][0]["message"]) == (130, "interrupted")
    assert demo.processes() == []
    assert demo.leftovers() == []


def test_a_demo_that_is_killed_leaves_no_process_and_no_data(demo):
    demo.part("rheostat.demo.run")
    assert demo.end(signal.SIGKILL) == (-signal.SIGKILL, None)
    until(lambda: not demo.processes(), "the guardian to have cleaned up")
    assert demo.leftovers() == []


def test_a_driver_that_dies_is_named_with_the_end_of_its_log(demo):
    os.kill(demo.part("rheostat.demo.run").pid, signal.SIGKILL)
    code, error = demo.result()
    assert (code, [fault["field"] for fault in error["faults"]]) == (1, ["driver"])
    assert "died (signal 9); its log: " in error["faults"][0]["message"]
    assert "Logs are kept in" in demo.said.read_text()
    assert demo.processes() == []
    assert demo.leftovers() == []
