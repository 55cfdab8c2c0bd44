"""Benchmarks behind every figure that we state."""
