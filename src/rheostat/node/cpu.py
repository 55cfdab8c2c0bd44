"""Processor time of a node: the CPUs that its Workers are kept on, how busy these are, and what executors use."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise

import psutil
from pydantic import BaseModel, Field

from rheostat.errors import Fault

_BUSY = ("user", "nice", "system", "irq", "softirq", "steal")


class ExecutorCpu(BaseModel):
    """Processor time of one executor, of any application."""

    worker: str = Field(description="Name of its Worker.")
    app_id: str
    executor_id: str
    cpu_s: float = Field(
        description="CPU seconds since it started, of its JVM and of all processes below it: Python workers, ended too."
    )


class CpuReading(BaseModel):
    """Processor time of the node's CPUs, as counters: two readings show what was used between them."""

    at: float = Field(description="When it was read, in seconds of a clock that nobody sets.")
    cpus: int = Field(description="How many CPUs its Workers may use: those of `--cpus`, or all of the machine.")
    busy_s: float = Field(description="CPU seconds in which they were busy, with whatever, since the machine started.")
    speed: float = Field(description="What a CPU of the node does in a second, relative to other nodes: `--speed`.")
    executors: list[ExecutorCpu]


def cpu_faults(given: Sequence[str]) -> Iterator[Fault]:
    """What is wrong with the numbers of CPUs; none of them stands for all."""
    text = ",".join(given)
    if not given:
        return
    if not hasattr(os, "sched_setaffinity"):
        yield Fault("--cpus", text, "Linux, or no --cpus", "this system cannot keep processes on some of its CPUs")
        return
    there = {str(number) for number in os.sched_getaffinity(0)}
    allowed = f"some of {','.join(sorted(there, key=int))}, each once"
    if wrong := [each or "nothing" for each in given if each not in there]:
        yield Fault("--cpus", text, allowed, f"no CPU that this process may use: {', '.join(wrong)}")
    if len(set(given)) < len(given):
        yield Fault("--cpus", text, allowed, "a CPU stands there twice")


@contextmanager
def kept_on(cpus: Collection[int]) -> Iterator[None]:
    """What this thread starts inside stays on these CPUs, with all that it starts itself; on any CPU if empty.

    A child inherits them from the thread. To set them after its start would leave out the threads it has by then.
    """
    before = os.sched_getaffinity(0) if cpus else ()
    if cpus:
        os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        if before:
            os.sched_setaffinity(0, before)


def read_cpu(cpus: Collection[int], workers: Mapping[int, str], speed: float = 1.0) -> CpuReading:
    """Processor time now. A process that vanishes meanwhile is left out.

    Args:
        cpus: of the node; empty: all.
        workers: names of its Workers by pid.
        speed: of one of its CPUs, relative to other nodes.
    """
    each_cpu = enumerate(psutil.cpu_times(percpu=True))
    at, times = time.monotonic(), [counted for number, counted in each_cpu if not cpus or number in cpus]
    busy_s = sum(getattr(counted, kind, 0.0) for counted in times for kind in _BUSY)
    executors = list(_read_executors(workers)) if workers else []
    return CpuReading(at=at, cpus=len(times), busy_s=round(busy_s, 3), speed=speed, executors=executors)


def _read_executors(workers: Mapping[int, str]) -> Iterator[ExecutorCpu]:
    below: dict[int, list[psutil.Process]] = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            below.setdefault(process.ppid(), []).append(process)
    for pid, name in workers.items():
        for process in below.get(pid, ()):
            with suppress(psutil.Error):
                words = process.cmdline()
                options = dict(pairwise(words))
                if "--executor-id" in options and "--app-id" in options:
                    app_id, executor_id = options["--app-id"], options["--executor-id"]
                    cpu_s = round(_cpu_s(process, below), 3)
                    yield ExecutorCpu(worker=name, app_id=app_id, executor_id=executor_id, cpu_s=cpu_s)


def _cpu_s(process: psutil.Process, below: Mapping[int, Sequence[psutil.Process]]) -> float:
    """Of a process and all below it. Children come first: one that ends meanwhile is then counted by its parent."""
    found = 0.0
    for child in below.get(process.pid, ()):
        with suppress(psutil.Error):
            found += _cpu_s(child, below)
    times = process.cpu_times()
    return found + times.user + times.system + times.children_user + times.children_system
