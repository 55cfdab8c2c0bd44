"""The simulated job: a job file and a load, driven by the production loop. No Spark, no clock, no I/O but the file."""

from rheostat.sim.capacity import capacity_curve, demand, long_batch_rate
from rheostat.sim.history import History
from rheostat.sim.job import SimulatedJob
from rheostat.sim.jobfile import JobFile
from rheostat.sim.loading import load_job, preset_names

__all__ = [
    "History",
    "JobFile",
    "SimulatedJob",
    "capacity_curve",
    "demand",
    "load_job",
    "long_batch_rate",
    "preset_names",
]
