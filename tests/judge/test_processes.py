import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rheostat.errors import PartFailedError
from rheostat.judge.compare import crew

pytestmark = pytest.mark.slow


def _ended(number: int) -> int:
    """A process that ends at once, however it was asked."""
    os._exit(number)


def _doubled(number: int) -> int:
    return 2 * number


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_result_comes_with_the_index_of_its_task(jobs):
    with crew(_doubled, jobs, 3) as team:
        assert sorted(team.results([5, 7, 9])) == [(0, 10), (1, 14), (2, 18)]


def test_a_process_that_is_ended_from_outside_is_an_error_that_says_what_to_do():
    with crew(_ended, 2, 2) as team, pytest.raises(PartFailedError, match="use a smaller --jobs"):
        list(team.results([1, 2]))


PARENT = """
import time
from rheostat.judge.compare import crew
if __name__ == "__main__":
    with crew(time.sleep, 2, 2) as team:
        results = team.results([0.0, 600.0])
        next(results)
        print("working", flush=True)
        next(results)
"""


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for the processes in /proc")
def test_no_process_outlives_the_one_that_started_it(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "working\n"
        started = _children(parent.pid)
        parent.send_signal(signal.SIGKILL)
    assert started
    deadline = time.monotonic() + 30
    while any(map(_runs, started)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert [pid for pid in started if _runs(pid)] == []


def _children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _runs(pid):
    """Whether a process exists; one that has ended, and that its new parent has not noticed yet, does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
