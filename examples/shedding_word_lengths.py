"""The job of word_lengths.py, which drops records when there are no more executors to have; its counts stay right.

    spark-submit examples/shedding_word_lengths.py BOOTSTRAP TOPIC CHECKPOINT OUT

At least half of the records are kept. Each kept record stands for 1 ÷ d records, d being the share that its batch kept.
So ``words`` is an unbiased estimate of the number of words that came, however many were dropped; ``seen`` is the number
that was counted.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rheostat
from rheostat.config.shedding import Sink, declare_shedding
from rheostat.spark.shedding import Shedding


def main(bootstrap: str, topic: str, checkpoint: str, out: str) -> None:
    spark = SparkSession.builder.appName("shedding_word_lengths").getOrCreate()
    graph = declare_shedding([Sink("lengths", minimum_accuracy=0.5)], {"records": ["lengths"]})
    shedding = Shedding(graph)
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "20000",
    }
    records = shedding.read(spark, "records", options)
    rheostat.attach(spark, objective="lag < 30s", executors=(1, 8), shedding=shedding)
    words = records.select(
        F.explode(F.split(F.col("value").cast("string"), r"\W+")).alias("word"),
        shedding.weight(("records", "lengths")).alias("weight"),
    )
    lengths = words.groupBy(F.length("word").alias("length")).agg(
        F.sum("weight").alias("words"), F.count("*").alias("seen")
    )
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
