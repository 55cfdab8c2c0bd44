"""The thread of a loop, which is replaced when it dies."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rheostat.ports import Clock

__all__ = ["supervise"]

_FIRST_S, _LONGEST_S = 1.0, 60.0


def supervise(run: Callable[[BaseException | None], None], clock: Clock, *, name: str = "rheostat-loop") -> None:
    """Call ``run`` in a daemon thread and wait until it returns; if it raises, call it again in a new thread.

    Between two calls there is 1 s, then twice as much each time, 60 s at most. A new thread because Py4J has one
    connection for each thread, and on that of a dead one an answer may be half read.

    Args:
        run: told what ended the call before; None at the first one.
        clock: its wait is the pause; when that is cut short, nothing is called again.
        name: of the threads.
    """
    pause_s, ended = _FIRST_S, _called(run, None, name)
    while ended is not None and not clock.wait(pause_s):
        pause_s = min(2 * pause_s, _LONGEST_S)
        ended = _called(run, ended, name)


def _called(
    run: Callable[[BaseException | None], None], before: BaseException | None, name: str
) -> BaseException | None:
    """What ended the call; None: it returned."""
    raised: list[BaseException] = []

    def call() -> None:
        try:
            run(before)
        except BaseException as error:  # whatever ends the thread: a policy's sys.exit(), an asynchronous exception
            raised.append(error)

    thread = threading.Thread(target=call, name=name, daemon=True)
    thread.start()
    thread.join()
    return raised[0] if raised else None
