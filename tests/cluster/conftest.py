"""One lab for the tests that scale applications; a JVM of its own for each file that has sessions in this process."""

from collections.abc import Iterator

import pytest

from rheostat.lab.lab import Lab, LabSpec


@pytest.fixture(scope="session")
def field() -> Iterator[Lab]:
    """A broker and a master without Workers: each test brings those that it needs."""
    with Lab(LabSpec(workers=0)) as lab:
        yield lab


@pytest.fixture(scope="module", autouse=True)
def _own_jvm() -> Iterator[None]:
    """End the JVM of PySpark after each file.

    The settings of the first session of a process are handed to its JVM as properties, and every later session reads
    them as its defaults: a test would run with the dynamic allocation of one in another file.
    """
    yield
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(30)
    SparkContext._gateway = SparkContext._jvm = None
