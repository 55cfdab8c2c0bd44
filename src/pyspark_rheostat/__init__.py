"""Makes the format ``rheostat-kafka`` known to every Spark session: Spark looks for packages named ``pyspark_…``."""

from contextlib import suppress

with suppress(ImportError):  # Spark before 4.2 has no such sources, and must not fail for want of them
    from rheostat.spark.kafka_source import KafkaSource as DefaultSource

    __all__ = ["DefaultSource"]
