"""A signal at any time, in a process of its own: before there is anything to end, and after."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from rheostat.host.processes import module_environment

pytestmark = pytest.mark.slow

EARLY = "os.kill(os.getpid(), signal.SIGNAL); s.on(lambda: print('ended'))"
LATE = "s.on(lambda: print('ended')); os.kill(os.getpid(), signal.SIGNAL)"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
@pytest.mark.parametrize("order", [EARLY, LATE], ids=["too early", "later"])
def test_it_is_told_and_does_not_end_the_process(name, order):
    assert name in signal.Signals.__members__
    program = f"""
import os, signal
from rheostat.node.server import EndSignals
before = signal.getsignal(signal.{name})
with EndSignals() as s:
    {order.replace("SIGNAL", name)}
assert s.asked and signal.getsignal(signal.{name}) is before
"""

    done = subprocess.run(
        [sys.executable, "-c", program], env=module_environment(), capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr
