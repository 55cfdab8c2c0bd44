"""Processor time of a node: Workers kept on its CPUs, and what is counted of executors and of all that runs there."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace

import psutil
import pytest

from rheostat.node.cpu import kept_on, read_cpu

linux = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux keeps processes on some CPUs")

BURN = "t = __import__('time').process_time; [None for _ in iter(lambda: t() < 0.3, False)]"
"""Uses 0.3 s of a CPU."""
EXECUTOR = f"""
import subprocess, sys, time
subprocess.run([sys.executable, "-c", {BURN!r}])
{BURN}
print("burnt", flush=True)
time.sleep(60)
"""
WORKER = f"""
import subprocess, sys
subprocess.Popen([sys.executable, "-c", {EXECUTOR!r}, "--executor-id", "3", "--app-id", "app-1"])
subprocess.run([sys.executable, "-c", "import time; time.sleep(60)", "--executor-id"])
"""


@pytest.fixture
def worker():
    process = subprocess.Popen([sys.executable, "-c", WORKER], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"burnt\n"
    yield process
    for each in psutil.Process(process.pid).children(recursive=True):
        each.kill()
    process.kill()
    process.communicate()


def test_an_executor_is_told_with_all_that_ran_below_it(worker):
    (executor,) = read_cpu((), {worker.pid: "node-1", 2**22 + 1: "gone"}).executors

    assert (executor.worker, executor.app_id, executor.executor_id) == ("node-1", "app-1", "3")
    assert 0.5 <= executor.cpu_s < 5.0, "its own 0.3 s and those of a child that has ended, and their starts"


def test_the_cpus_of_a_node_are_busy_with_whatever():
    before = read_cpu({0}, {})
    with kept_on({0} if hasattr(os, "sched_setaffinity") else ()):
        subprocess.run([sys.executable, "-c", BURN], check=True)
    after = read_cpu({0}, {})
    burn_s = after.busy_s - before.busy_s

    assert (before.cpus, before.executors) == (1, [])
    assert 0.25 <= burn_s <= 1.1 * (after.at - before.at) + 0.1
    assert read_cpu((), {}).cpus == psutil.cpu_count()


@linux
def test_a_worker_and_what_it_starts_run_on_the_cpus_of_the_node(node):
    last = max(os.sched_getaffinity(0))
    node.workers._rules = replace(node.workers._rules, cpus=frozenset({last}))
    node.have(1)

    assert os.sched_getaffinity(node.record(1).pid) == {last}
    assert node.workers.situation().cpu.cpus == 1


@linux
def test_the_thread_itself_goes_back_to_its_cpus():
    before = os.sched_getaffinity(0)
    with kept_on({max(before)}):
        assert os.sched_getaffinity(0) == {max(before)}
    assert os.sched_getaffinity(0) == before


def test_reading_takes_milliseconds(worker):
    took = []
    for _ in range(5):
        began = time.perf_counter()
        read_cpu((), {worker.pid: "node-1"})
        took.append(time.perf_counter() - began)
    assert min(took) < 0.25
