"""The experiments of the documents that policies come from, run again on simulated jobs."""
