"""Independent tasks in several processes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import connection, get_context, parent_process
from typing import Generic, TypeVar

from rheostat.errors import PartFailedError

Progress = Callable[[int, int, str], None]
"""Called after each task with the number done, the total, and the last task in words."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a command; a terminal sends them to all of its processes."""

Task = TypeVar("Task")
Result = TypeVar("Result")


class Crew(Generic[Task, Result]):
    """Runs a function on tasks: with one job in this process, else in worker processes, which import the function."""

    def __init__(self, work: Callable[[Task], Result], jobs: int) -> None:
        self._work = work
        context = get_context("spawn")
        self._receiver, self._stop = context.Pipe(duplex=False)
        with _block_signals():  # multiprocessing starts its resource tracker here
            self._pool = None if jobs == 1 else ProcessPoolExecutor(jobs, context, follow_parent, (self._receiver,))

    def run(self, tasks: Sequence[Task], report: Callable[[int, int, Result], None]) -> list[Result]:
        """The results in the order of the tasks; ``report``: called after each with the number done, place, result."""
        results: dict[int, Result] = {}
        for place, result in self.results(tasks):
            results[place] = result
            report(len(results), place, result)
        return [results[place] for place in range(len(tasks))]

    def results(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """``(index of the task, its result)``, in the order in which tasks end.

        Raises:
            PartFailedError: a process was ended from outside, as by the system where memory is short.
        """
        if self._pool is None:
            yield from ((place, self._work(task)) for place, task in enumerate(tasks))
            return
        try:
            with _block_signals():
                places = {self._pool.submit(self._work, task): place for place, task in enumerate(tasks)}
            for future in as_completed(places):
                yield places[future], future.result()
        except BrokenProcessPool as error:
            message = "a process was ended from outside; with less memory use a smaller --jobs"
            raise PartFailedError("simulation", message) from error

    def close(self, *, at_once: bool = False) -> None:
        """Start no further task and wait for the running ones; ``at_once``: end them instead."""
        if at_once:
            self._stop.close()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        for end in (self._stop, self._receiver):
            end.close()

    def __enter__(self) -> Crew[Task, Result]:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(at_once=kind is not None)


def crew(work: Callable[[Task], Result], jobs: int, tasks: int) -> Crew[Task, Result]:
    """A crew of no more processes than there are tasks."""
    return Crew(work, max(1, min(jobs, tasks)))


def follow_parent(stop: connection.Connection | None = None) -> None:
    """Initializer of a worker process: it ignores signals, which are for the parent, and ends with the parent.

    It also ends when the other end of ``stop`` is closed.
    """
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        ends = [parent.sentinel, *([] if stop is None else [stop])]
        threading.Thread(target=_exit_with, args=(ends,), daemon=True).start()


def _exit_with(ends: Sequence[connection.Connection | int]) -> None:
    connection.wait(ends)
    os._exit(1)


@contextmanager
def _block_signals() -> Iterator[None]:
    """Deliver signals afterwards; processes that are started meanwhile inherit the block."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
