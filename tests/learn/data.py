"""Samples for tests: of a job that carries 1000 records/s an executor, seen at up to 1.2 times that."""

from random import Random

from rheostat.learn.slow_records import Sample


def staircase(numbers=(1, 2, 3, 4), steps=60, capacity=1000.0, at=0.0):
    """For each number a climb from half to 1.2 times its capacity; slow is 0 up to it and twice the overload beyond."""
    rows: list[Sample] = []
    for n in numbers:
        for step in range(steps):
            load = n * capacity * (0.5 + 0.7 * step / (steps - 1))
            rows.append(Sample(at + 15.0 * len(rows), (load,), n, max(0.0, 2 * (load / (n * capacity) - 1))))
    return rows


def scattered(rows=240, seed=1):
    """In turns of ten, 1 to 4 executors at 0.4 to 1.2 times their capacity; slow is what is beyond 80 % of it."""
    random = Random(seed)
    found = []
    for row in range(rows):
        n, share = 1 + row // 10 % 4, random.uniform(0.4, 1.2)
        found.append(Sample(15.0 * row, (n * 1000.0 * share,), n, max(0.0, share - 0.8)))
    return found


def points_of(samples):
    return [(sample.workload, sample.executors) for sample in samples]
