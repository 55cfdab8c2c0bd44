"""The benchmarks behind every figure that we state. Each is a function from nothing to a :class:`Bench`."""
