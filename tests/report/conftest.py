from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rheostat.config.loading import load_settings
from rheostat.journal.store import JournalWriter
from rheostat.loop.build import build_decision_settings, open_store
from rheostat.loop.clock import ManualClock
from rheostat.loop.loop import Loop
from rheostat.model import Bounds
from rheostat.testing.fakes import ToyJob

START = 1_764_324_000.0
"""2025-11-28 10:00:00 UTC."""


def _run(folder: Path, cycles: list[float | str], job: ToyJob, at: float) -> float:
    """A loop on a toy job: one cycle for each rate; words are things that happen in between."""
    given = {"objective": "lag < 30s", "executors": [1, 4], "profile": "demo", "journal": str(folder)}
    settings = load_settings(given)
    clock = ManualClock(at)
    journal = JournalWriter(folder)
    loop = Loop(
        job, build_decision_settings(settings), job, journal, clock, settings, store=open_store(settings), job="toy"
    )
    for step in cycles:
        if step == "fail":
            good, job.observe = job.observe, None  # type: ignore[assignment,method-assign]
            loop.cycle()
            job.observe = good  # type: ignore[method-assign]
        elif step == "pause":
            loop.pause()
            continue
        elif step == "resume":
            loop.resume()
            continue
        elif step == "bounds":
            loop.set_bounds(Bounds(2, 4))
            continue
        else:
            assert isinstance(step, float)
            job.rate = step
            loop.cycle()
        clock.at += settings.sample_s
    journal.close()
    return clock.at


@pytest.fixture(scope="session")
def _eventful(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("eventful") / "journal"
    job = ToyJob()
    rise: list[float | str] = [*[100.0] * 10, *[400.0] * 15]
    fall: list[float | str] = [
        "fail",
        *[50.0] * 30,
        "pause",
        *[400.0] * 15,
        "resume",
        *[400.0] * 5,
        "bounds",
        *[50.0] * 30,
    ]
    at = _run(folder, [*rise, *fall], job, START)
    again = ToyJob(executors=1)
    _run(folder, [100.0] * 10, again, at + 60.0)
    _run(folder, [100.0] * 10, again, START + 86_400.0)
    return folder


@pytest.fixture
def eventful(_eventful: Path, tmp_path: Path) -> Path:
    """A journal of a rise, a failed cycle, a fall, a pause, other bounds, a crash and another day."""
    return Path(shutil.copytree(_eventful, tmp_path / "journal"))
