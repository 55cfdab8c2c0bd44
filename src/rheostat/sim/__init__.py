"""The simulated job: a job file and a load, driven by the production loop. No Spark, no clock, no I/O but the file."""
