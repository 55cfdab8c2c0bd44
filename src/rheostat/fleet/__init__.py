"""Many jobs at once: their history as one Parquet data set, and pipelines over it in PySpark."""
