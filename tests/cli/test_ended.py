"""A command that works in several processes is ended by a signal as by Ctrl-C: in order, and with nothing left."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rheostat.cli import interruptible

pytestmark = pytest.mark.slow

LONG = [
    *("compare", "--worst-case", "--policy", "static,reactive", "--tries", "100000", "--seconds", "86400"),
    *("--jobs", "2", "--json"),
]

SLEEPING = """
import sys, time, types
from rheostat import cli
from rheostat.cli.common import JsonFlag
from rheostat.judge.compare import crew

def sleep(as_json: JsonFlag = False) -> None:
    with crew(time.sleep, 2, 2) as workers:
        list(workers.results([600.0, 600.0]))

if __name__ == "__main__":
    sys.modules["rheostat.cli.sleep"] = module = types.ModuleType("sleep")
    module.sleep = sleep
    cli.COMMANDS.clear()
    cli.COMMANDS["sleep"] = "sleep"
    sys.exit(cli.main(["sleep", "--json"]))
"""
"""A command whose processes have nothing to import and nothing to do."""


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def ready(pid):
    """Whether a worker has begun: it ignores the signals that are for its parent."""
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(status["SigIgn"], 16) >> (signal.SIGHUP - 1) & 1)


def busy(pid):
    """Whether a process has used half a second of processor time: it is past its start."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return int(user) + int(system) > 0.5 * os.sysconf("SC_CLK_TCK")


def runs(pid):
    """Whether a process exists; one that has ended, and that its new parent has not noticed yet, does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(condition, what):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, f"waited for: {what}"
        time.sleep(0.02)


def restore_signals():
    """Signals end a process also where the tests run below nohup or in the background, which ignore some."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def end(command, number, begun, *, whole_group):
    """Send the signal when both workers have begun; everything ends in order, and no process is left."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, text=True, start_new_session=True, stdout=pipe, stderr=pipe, preexec_fn=restore_signals
    ) as process:
        until(lambda: len(children(process.pid)) == 3, "the workers and the tracker of what they share")
        started = children(process.pid)
        until(lambda: sum(map(begun, started)) == 2, "both workers to work")
        (os.killpg if whole_group else os.kill)(process.pid, number)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert json.loads(out.splitlines()[-1])["faults"][0]["message"] == "interrupted"
    assert "Traceback" not in err
    assert "resource_tracker" not in err
    until(lambda: not any(map(runs, started)), "its processes to be gone")


needs_proc = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for the processes in /proc")


@needs_proc
@pytest.mark.parametrize(
    ("number", "whole_group"),
    [
        pytest.param(signal.SIGTERM, False, id="a polite end"),
        pytest.param(signal.SIGTERM, True, id="a polite end of all of its processes"),
        pytest.param(signal.SIGINT, True, id="Ctrl-C"),
        pytest.param(signal.SIGHUP, True, id="the terminal is closed"),
    ],
)
def test_it_ends_in_order_and_leaves_no_process(number, whole_group, tmp_path):
    script = tmp_path / "sleeping.py"
    script.write_text(SLEEPING)
    end([sys.executable, str(script)], number, ready, whole_group=whole_group)


@needs_proc
def test_a_comparison_ends_in_order_in_the_middle_of_its_work():
    end([sys.executable, "-m", "rheostat", *LONG], signal.SIGTERM, busy, whole_group=True)


def test_ignored_signals_stay_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)
