"""The driver's side of a benchmark on a real cluster: its order, its session, its answer.

Imports next to nothing, so that what a benchmark measures is not there already.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rheostat.errors import RheostatError, UnavailableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["ASKED", "PROGRESS", "RESULT", "batches_done", "progress_in", "require_running", "session", "tell", "until"]

ASKED, PROGRESS, RESULT = "asked.json", "progress.json", "result.json"
"""Files in the driver's folder: executors were asked for, so a Worker may come; how far it is; what it measured."""


def tell(path: Path, value: object) -> None:
    """Write JSON that nobody ever sees by halves."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(value), encoding="utf-8")
    fresh.replace(path)


def progress_in(folder: Path) -> Callable[[int, int, str], None]:
    """What writes into the driver's folder how far it is: how many, of how many (0: not known), and what it does."""

    def write(done: int, total: int, words: str) -> None:
        tell(folder / PROGRESS, [done, total, words])

    return write


@contextmanager
def session(conf: Mapping[str, str], name: str) -> Iterator[SparkSession]:
    """A session without log lines; ended on leaving."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name)
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        spark.sparkContext.setLogLevel("OFF")
        yield spark
    finally:
        spark.stop()


def until(holds: Callable[[], bool], what: str, timeout_s: float, look_s: float = 0.05) -> None:
    """Wait for a condition.

    Raises:
        UnavailableError: it did not hold in time.
    """
    deadline, pause = time.monotonic() + timeout_s, threading.Event()
    while not holds():
        if time.monotonic() > deadline:
            message = f"{what}: not within {timeout_s:.0f} s"
            raise UnavailableError(message)
        pause.wait(look_s)


def batches_done(query: StreamingQuery) -> int:
    """The number of batches that have ended.

    Raises:
        RheostatError: the query has ended.
    """
    require_running(query)
    progress: Any = query.lastProgress
    return 0 if progress is None else int(progress["batchId"]) + 1


def require_running(query: StreamingQuery) -> None:
    """Raise RheostatError if the query has ended."""
    if not query.isActive:
        message = f"the query has ended: {query.exception()}"
        raise RheostatError(message)
