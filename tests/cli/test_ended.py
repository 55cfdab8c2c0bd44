"""A command that works in several processes is ended by a signal as by Ctrl-C: in order, and with nothing left."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from rheostat.cli import interruptible

LONG = [
    *("compare", "--worst-case", "--policy", "static,reactive", "--tries", "100000", "--seconds", "86400"),
    *("--jobs", "2", "--json"),
]


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def busy(pid):
    """Whether a process has used a second of processor time: it is past its start."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return int(user) + int(system) > os.sysconf("SC_CLK_TCK")


def until(condition, what):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, f"waited for: {what}"
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for the processes in /proc")
@pytest.mark.parametrize(
    ("number", "whole_group"),
    [
        pytest.param(signal.SIGTERM, False, id="a polite end"),
        pytest.param(signal.SIGTERM, True, id="a polite end of all of its processes"),
        pytest.param(signal.SIGINT, True, id="Ctrl-C"),
        pytest.param(signal.SIGHUP, True, id="the terminal is closed"),
    ],
)
def test_it_ends_in_order_and_leaves_no_process(number, whole_group):
    command = [sys.executable, "-m", "rheostat", *LONG]
    pipe, heard = subprocess.PIPE, partial(signal.signal, number, signal.SIG_DFL)  # also below nohup
    with subprocess.Popen(
        command, text=True, start_new_session=True, stdout=pipe, stderr=pipe, preexec_fn=heard
    ) as process:
        until(lambda: len(children(process.pid)) == 3, "the workers and the tracker of what they share")
        started = children(process.pid)
        until(lambda: sum(map(busy, started)) == 2, "both workers to work")
        (os.killpg if whole_group else os.kill)(process.pid, number)
        out, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert json.loads(out.splitlines()[-1])["faults"][0]["message"] == "interrupted"
    assert "Traceback" not in said
    assert "resource_tracker" not in said
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started), "its processes to be gone")


def test_what_is_ignored_stays_ignored():
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
