"""Attaching to a running driver: checks what can work, builds the loop, runs it in a daemon thread."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rheostat.config import Settings
from rheostat.errors import Fault, RefusedError, UnavailableError
from rheostat.model import Bounds
from rheostat.ports import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rheostat.assembly import Assembly
    from rheostat.loop import Status

__all__ = ["Attachment", "attach"]

_log = logging.getLogger("rheostat")
_DISABLED = "RHEOSTAT_DISABLED"
_JOIN_S = 10.0


class Attachment:
    """A running autoscaler. Leaving it as a context manager stops it; the executors stay as they are.

    Got from :func:`attach`. With ``RHEOSTAT_DISABLED=1`` it does nothing: ``status()`` is None then.
    """

    def __init__(self, assembly: Assembly | None, app_id: str | None = None) -> None:
        self._loop = None if assembly is None else assembly.loop
        self._app_id = app_id
        self._thread: threading.Thread | None = None
        if assembly is not None:
            self._thread = threading.Thread(target=assembly.run, name="rheostat", daemon=True)
            self._thread.start()

    def status(self) -> Status | None:
        """What it does now, and its last decision; None where it is switched off."""
        return None if self._loop is None else self._loop.status()

    def pause(self) -> None:
        """Go on looking and recording, but change nothing until :meth:`resume`."""
        if self._loop is not None:
            self._loop.pause()

    def resume(self) -> None:
        """Act again."""
        if self._loop is not None:
            self._loop.resume()

    def set_bounds(self, least: int, greatest: int) -> None:
        """Other bounds from the next cycle on.

        Raises:
            InputError: they are no bounds.
        """
        bounds = Bounds(least, greatest)
        if self._loop is not None:
            self._loop.set_bounds(bounds)

    def failover(self, on: bool) -> None:
        """Tell of a region's failover: while it is on, and until its traffic is back, no executor is given back."""
        if self._loop is not None:
            self._loop.failover(on)

    def stop(self) -> None:
        """End it, and wait until it has ended. The executors stay as they are. May be called more than once."""
        if self._loop is not None:
            self._loop.stop()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_JOIN_S)
        _registry.leave(self._app_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class _Registry:
    """One autoscaler an application."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._apps: set[str] = set()

    def enter(self, app_id: str) -> None:
        with self._lock:
            if app_id in self._apps:
                message = "a second autoscaler would undo what the first does: stop() that one first"
                raise RefusedError([Fault("spark", f"application {app_id}", "one that has none yet", message)])
            self._apps.add(app_id)

    def leave(self, app_id: str | None) -> None:
        with self._lock:
            self._apps.discard(app_id or "")


_registry = _Registry()


def attach(
    spark: SparkSession,
    *,
    objective: str | None = None,
    executors: tuple[int, int] | None = None,
    queries: Sequence[str] | None = None,
    policy: str | None = None,
    mode: str | None = None,
    sources: Sequence[Source] | None = None,
    journal: str | Path | None = None,
    state: str | Path | None = None,
    config: str | Path | Mapping[str, Any] | None = None,
) -> Attachment:
    """Scale the streaming queries of a session, those started before and those started later.

    Args:
        spark: a classic session, in its driver.
        objective: ``lag < DURATION [for PERCENT%]``.
        executors: least and greatest number; None: watch only.
        queries: names or ids; None: all.
        policy: name of a policy; ``reactive`` unless said.
        mode: ``"act"``, ``"dry-run"`` or ``"watch"``.
        sources: where observations come from instead of the driver; what the first does not see is taken from the next.
        journal: folder for the journal; None: none is kept.
        state: folder for the state that survives a restart; None: beside the journal.
        config: a settings file, or a mapping of its shape; the arguments here go before it.

    Raises:
        InputError: what is wrong with the arguments, all of it.
        RefusedError: why this session cannot be scaled as asked, all causes. With ``mode="watch"`` only
            for Spark Connect, a second autoscaler, or a session that does not answer.
    """
    given = {
        "objective": objective,
        "executors": None if executors is None else tuple(executors),
        "queries": None if queries is None else tuple(queries),
        "policy": policy,
        "mode": mode,
        "journal": None if journal is None else str(journal),
        "state": None if state is None else str(state),
    }
    settings = _settings(config, {key: value for key, value in given.items() if value is not None})
    if os.environ.get(_DISABLED, "") not in ("", "0"):
        _log.warning("Rheostat is switched off by %s: the executors stay as they are", _DISABLED)
        return Attachment(None)
    return _attached(spark, settings, sources)


def _settings(config: str | Path | Mapping[str, Any] | None, given: Mapping[str, Any]) -> Settings:
    """The settings; what was said and has no effect is logged."""
    from rheostat.plan import checked_settings, no_effect

    read, faults = _read(config)
    values = {**read, **given}
    settings = checked_settings(values, faults)
    for each in no_effect(values, settings):
        _log.warning("%s", each)
    return settings


def _read(config: str | Path | Mapping[str, Any] | None) -> tuple[Mapping[str, Any], Sequence[Fault]]:
    if config is None or isinstance(config, Mapping):
        return config or {}, ()
    from rheostat.config.documents import read_document

    return read_document(Path(config))


def _attached(spark: SparkSession, settings: Settings, sources: Sequence[Source] | None) -> Attachment:
    from rheostat.assembly import assemble
    from rheostat.jvm.reading import session_facts

    facts = session_facts(spark)
    app_id = facts.app_id or f"connect-{id(spark)}"
    _registry.enter(app_id)
    try:
        return Attachment(assemble(spark, facts, settings, sources), app_id)
    except UnavailableError as error:
        _registry.leave(app_id)
        raise RefusedError(
            [Fault("spark", "a session that does not answer", "a running session", str(error))]
        ) from error
    except BaseException:
        _registry.leave(app_id)
        raise
