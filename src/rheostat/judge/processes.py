"""Independent pieces of work in several processes; what comes out does not depend on how many there are."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import connection, get_context, parent_process
from typing import Generic, TypeVar

from rheostat.errors import PartFailedError

__all__ = ["Crew", "crew", "follow_parent"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What ends a command, often sent to all of its processes."""

Task = TypeVar("Task")
Result = TypeVar("Result")


class Crew(Generic[Task, Result]):
    """Does tasks with one function, here or in processes of its own.

    Args:
        work: a function of a module, so that another process can find it.
        jobs: how many processes; with 1 everything is done here, when its result is asked for.
    """

    def __init__(self, work: Callable[[Task], Result], jobs: int) -> None:
        self._work = work
        context = get_context("spawn")
        self._heard, self._stop = context.Pipe(duplex=False)
        with _held_back():  # the tracker of what processes share is started here
            self._pool = None if jobs == 1 else ProcessPoolExecutor(jobs, context, follow_parent, (self._heard,))

    def results(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """The results with the places of their tasks, in the order in which they are done.

        Raises:
            PartFailedError: a process was ended from outside, as by the system where memory is short.
        """
        if self._pool is None:
            yield from ((place, self._work(task)) for place, task in enumerate(tasks))
            return
        try:
            with _held_back():
                places = {self._pool.submit(self._work, task): place for place, task in enumerate(tasks)}
            waiting: set[Future[Result]] = set(places)
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    yield places[future], future.result()
        except BrokenProcessPool as error:
            message = "a process was ended from outside; with less memory use a smaller --jobs"
            raise PartFailedError("simulation", message) from error

    def close(self, *, at_once: bool = False) -> None:
        """Begin nothing more, and wait for what is being done; ``at_once``: give that up too."""
        if at_once:
            self._stop.close()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        for end in (self._stop, self._heard):
            end.close()

    def __enter__(self) -> Crew[Task, Result]:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(at_once=kind is not None)


def crew(work: Callable[[Task], Result], jobs: int, tasks: int) -> Crew[Task, Result]:
    """A crew of no more processes than there are tasks."""
    return Crew(work, max(1, min(jobs, tasks)))


def follow_parent(stop: connection.Connection | None = None) -> None:
    """Initializer of a process that works for another: signals are for that one to obey, and this one ends with it.

    Args:
        stop: this one ends too when the other end of it is closed.
    """
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        ends = [parent.sentinel, *([] if stop is None else [stop])]
        threading.Thread(target=_end_with, args=(ends,), daemon=True).start()


def _end_with(ends: Sequence[connection.Connection | int]) -> None:
    """Wait for one of the ends, and end this process: what it would find out is asked for by nobody."""
    connection.wait(ends)
    os._exit(1)


@contextmanager
def _held_back() -> Iterator[None]:
    """Signals come afterwards; processes that are started meanwhile get none that can be held back."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
