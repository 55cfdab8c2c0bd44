"""Journals of simulated runs: the production loop beside a simulated job whose figures are known."""

from functools import cache

from rheostat.calibrate.fit import calibrate
from rheostat.calibrate.measured import run_of
from rheostat.config.loading import load_settings
from rheostat.journal.store import JournalWriter, MemoryJournal
from rheostat.load.shapes import parse_shape
from rheostat.loop.build import build_decision_settings
from rheostat.loop.clock import ManualClock
from rheostat.loop.loop import Loop
from rheostat.policies.schedule import OPEN_LOOP
from rheostat.sim.job import SimulatedJob
from rheostat.sim.jobfile import job_of

READ = {"name": "read", "cost_ms": 4.0, "task_ms": 0.0, "fetch_wait_s": 0.5}
REST = {"name": "rest", "tasks": 1, "cost_ms": 0.0, "task_ms": 600.0}

KNOWN = {
    "name": "known",
    "objective": "lag < 20s",
    "executors": [1, 6],
    "trigger_s": 2.0,
    "partitions": 12,
    "batch_cap": 2400,
    "stages": [READ, REST],
    "driver": {"planning_s": 0.05, "commit_s": 0.01},
    "executor": {"start_up": {"median_s": 2.5, "p95_s": 3.5}, "cold_task_s": 3.0},
    "batch_noise_cv": 0.05,
}

VISITS = ("ramp:40..120@40+ramp:80..300@40+ramp:120..450@40+ramp:160..600@40+ramp:300..800@40+ramp:200..60@40",
          [[0, 1], [40, 2], [80, 3], [120, 4], [160, 6], [200, 2]])  # fmt: skip


def journal(job=KNOWN, shape=VISITS[0], steps=VISITS[1], seed=1, sample_s=1.0, executors=1):
    """The records of a run by a timetable."""
    made = job_of(job)
    load = parse_shape(shape).pieces()
    given = {"objective": made.objective, "executors": list(made.executors), "profile": "demo", "sample_s": sample_s}
    policy = {"policy": "schedule", "policy_options": {"steps": steps}, "guard": dict(OPEN_LOOP)}
    settings = load_settings({**given, **policy})
    sim, clock, kept = SimulatedJob(made, load, seed, executors), ManualClock(), MemoryJournal()
    loop = Loop(sim, build_decision_settings(settings), sim, kept, clock, settings)
    while not sim.drained:
        loop.cycle()
        clock.wait(sample_s)
    assert loop.status().last_failure is None
    return list(kept.records)


def real_run(**changes):
    return run_of("known", journal(**changes))


@cache
def known_journal(seed=1):
    """The records of the run that visits every size; made once."""
    return journal(seed=seed)


def write_known_journal(folder, seed=1):
    """The same as a journal on disk, of four minutes."""
    session, *others = known_journal(seed)
    writer = JournalWriter(folder)
    writer.start(session.header)
    for record in others:
        writer.record(record, dict)
    writer.close()
    return folder


@cache
def known_run():
    """The run that visits every size; made once."""
    return run_of("known", known_journal())


@cache
def known_fit():
    """The fit to it, made once."""
    return calibrate([known_run()], warm_up_s=10.0)
