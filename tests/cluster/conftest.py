"""One lab for the tests on a cluster, and one JVM for all sessions in this process."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator

import pytest

from rheostat.host.java import find_java, kafka_connector_jars, pyspark_home
from rheostat.host.spark_daemons import HOST
from rheostat.lab.broker import BrokerOptions
from rheostat.lab.lab import Lab, LabSpec

QUICK_TO_REMOVE = {
    "log.cleaner.backoff.ms": "500",
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "500",
}
"""The broker looks twice a second for records to remove; by default it does so after half a minute at the earliest."""
JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"


@pytest.fixture(scope="session")
def field() -> Iterator[Lab]:
    """A broker and a master without Workers: each test brings those that it needs, and topics of its own."""
    with Lab(LabSpec(workers=0, broker_options=BrokerOptions(properties=QUICK_TO_REMOVE))) as lab:
        yield lab


@pytest.fixture(scope="session", autouse=True)
def _jvm() -> Iterator[None]:
    """The JVM of PySpark, started before any session, with Kafka's connector on its class path.

    A session that starts the JVM hands its settings to it as properties, and every later session of the process reads
    them as its defaults: a test would run with the dynamic allocation of one in another file. Here sessions inherit
    nothing, and only the first one waits until Spark's classes are loaded.
    """
    from pyspark import SparkContext

    jars = ",".join(str(jar) for jar in kafka_connector_jars())
    arguments = ["--driver-java-options", JVM_OPTIONS, "--jars", jars, "pyspark-shell"]
    with pytest.MonkeyPatch.context() as here:
        here.setenv("JAVA_HOME", str(find_java().home))
        here.setenv("SPARK_HOME", str(pyspark_home()))
        here.setenv("SPARK_LOCAL_IP", HOST)
        here.setenv("PYSPARK_PYTHON", sys.executable)
        here.setenv("PYSPARK_SUBMIT_ARGS", shlex.join(arguments))
        SparkContext._ensure_initialized()
    gateway, jvm = SparkContext._gateway, SparkContext._jvm
    assert gateway is not None
    assert jvm is not None
    jvm.java.lang.System.clearProperty("spark.jars")  # executors get the jars that their session names
    yield
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(30)
    SparkContext._gateway = SparkContext._jvm = None
