"""A streaming job that knows nothing of Rheostat: counts words by length from a Kafka topic.

    spark-submit examples/word_lengths.py BOOTSTRAP TOPIC CHECKPOINT OUT

To make it elastic, leave it as it is:

    rheostat run --objective "lag < 30s" --executors 1,8 examples/word_lengths.py BOOTSTRAP TOPIC CHECKPOINT OUT

or add the one line that is shown in elastic_word_lengths.py.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def main(bootstrap: str, topic: str, checkpoint: str, out: str) -> None:
    spark = SparkSession.builder.appName("word_lengths").getOrCreate()
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 20_000)
        .load()
    )
    words = records.select(F.explode(F.split(F.col("value").cast("string"), r"\W+")).alias("word"))
    lengths = words.groupBy(F.length("word").alias("length")).count()
    query = (
        lengths.writeStream.outputMode("complete")
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="2 seconds")
        .foreachBatch(lambda rows, _: rows.coalesce(1).write.mode("overwrite").json(out))
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
