"""The job of word_lengths.py, made elastic by one line: the call of rheostat.attach."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rheostat


def main(bootstrap: str, topic: str, checkpoint: str, out: str) -> None:
    spark = SparkSession.builder.appName("word_lengths").getOrCreate()
    rheostat.attach(spark, objective="lag < 30s", executors=(1, 8))
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
