"""The loop: observe, analyze, plan, journal, execute. The only place where all stages meet, and where time passes."""

from rheostat.loop.building import (
    archive_beside,
    archive_in,
    build_planner,
    open_archive,
    open_journal,
    open_store,
    settings_of,
)
from rheostat.loop.clock import ManualClock, StoppableClock, SystemClock, next_due
from rheostat.loop.memory import Memory, OwnState
from rheostat.loop.running import Loop
from rheostat.loop.stages import Rules, decide, learn
from rheostat.loop.status import Status
from rheostat.loop.supervision import supervise

__all__ = [
    "Loop",
    "ManualClock",
    "Memory",
    "OwnState",
    "Rules",
    "Status",
    "StoppableClock",
    "SystemClock",
    "archive_beside",
    "archive_in",
    "build_planner",
    "decide",
    "learn",
    "next_due",
    "open_archive",
    "open_journal",
    "open_store",
    "settings_of",
    "supervise",
]
