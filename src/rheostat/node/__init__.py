"""The HTTP server on a machine that starts and stops Spark Workers: the cluster layer (S1, 4.3.3)."""
