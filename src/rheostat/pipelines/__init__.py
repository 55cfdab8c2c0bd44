"""The PySpark applications that are scaled. They know nothing of the autoscaler."""
