"""Processes, Java and Spark daemons on this machine."""
