"""Signals that end a command."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["interruptible"]

_ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM and SIGHUP end what is run as Ctrl-C does: everything is stopped on the way out.

    What somebody else has taken, or lets be ignored as ``nohup`` does, stays so. For the main thread; elsewhere nothing
    changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    taken = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
