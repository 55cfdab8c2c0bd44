"""Benchmarks behind our figures, and the experiments of the papers. Nothing of the product imports it."""
