"""The loads of ``bench rivals`` under the same rivals, on the job that is fitted to the real runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rheostat.calibrate.fit import calibrate
from rheostat.calibrate.measured import read_run
from rheostat.errors import RheostatError
from rheostat.journal.records import SessionRecord
from rheostat.journal.store import read_journal
from rheostat.judge.cases import PolicySpec, settings_for
from rheostat.judge.simulate import Recorder, run_loop
from rheostat.load.curves import Pieces
from rheostat.load.shapes import parse_shape
from rheostat.loop.build import build_decision_settings
from rheostat.policies.schedule import OPEN_LOOP
from rheostat.research.bench.rivals_figures import Figures, Finished, Simulated, curve_of, figures_of
from rheostat.sim.job import SimulatedJob
from rheostat.sim.jobfile import JobFile

SEEDS = (1, 2, 3)
WARM_UP_S = 15.0
DRAIN_S = 600.0
"""Longest time after the load; a run that needs it all is far over its objective."""

_UNGUARDED: Mapping[str, Any] = {
    **OPEN_LOOP,
    "warm_up_batches": 0,
    "hold_batches": 0,
    "largest_step_down": None,
    "cooldown_down_s": 0.0,
    "failure_window_s": 0.0,
}
"""Spark's dynamic allocation has none of our guards."""

_TAKEN = ("policy", "policy_options", "guard", "mode", "executors")


def simulate_loads(runs: Sequence[Finished], shapes: Mapping[str, str], bounds: tuple[int, int]) -> Simulated | str:
    """Each rival under each load that it really had, with its settings and its executors at the begin of that load.

    A text, if the job could not be fitted: why.
    """
    given = {(run.load, run.rival): run for run in runs}
    curves = {load: parse_shape(shape).pieces() for load, shape in shapes.items()}
    try:
        job = _fit_job(runs, bounds)
        return {
            (load, rival): [_simulate(job, curves[load], _settings_of(run), _start_of(run), seed) for seed in SEEDS]
            for (load, rival), run in given.items()
            if load in curves
        }
    except RheostatError as error:
        return str(error).replace("\n", " ")


def _fit_job(runs: Sequence[Finished], bounds: tuple[int, int]) -> JobFile:
    """The job of all runs; those that Rheostat did not only watch come first, as the first one gives the settings."""
    ordered = sorted(runs, key=lambda run: run.rival.startswith("dynamic"))
    job = calibrate([read_run(run.journal) for run in ordered], name="click_fraud", warm_up_s=WARM_UP_S).job
    return job.model_copy(update={"executors": bounds})


def _settings_of(run: Finished) -> dict[str, Any]:
    sessions = [each for each in read_journal(run.journal) if isinstance(each, SessionRecord)]
    return {key: sessions[-1].header.settings[key] for key in _TAKEN}


def _start_of(run: Finished) -> int:
    """Executors at the begin of the load; dynamic allocation cannot be kept from adding some before it."""
    ((_, executors), *_) = curve_of(read_journal(run.journal), run.began, run.figures.seconds).executors
    return int(executors)


def _simulate(job: JobFile, load: Pieces, given: Mapping[str, Any], start: int, seed: int) -> Figures:
    """One run, with the figures from its journal as from a real one. What only was watched decides on its own here."""
    least, most = given["executors"]
    guard = _UNGUARDED if given["mode"] == "watch" else given["guard"]
    job = job.model_copy(update={"executors": (least, most), "start_executors": start})
    spec = PolicySpec(given["policy"], None, given["policy_options"], {"profile": "demo", "guard": guard})
    settings, end = settings_for(job, spec), load.duration + DRAIN_S
    simulated = SimulatedJob(job, load, seed, start)
    with TemporaryDirectory(prefix="rheostat-rivals-") as folder:
        with closing(Recorder(journal=Path(folder) / "journal")) as recorder:
            run_loop(
                simulated,
                settings,
                build_decision_settings(settings, recorder.samples, seed),
                recorder,
                lambda now, _: simulated.drained or now >= end,
                job=job.name,
            )
        return figures_of(read_journal(Path(folder) / "journal"), 0.0, load.duration, job.objective_s)
