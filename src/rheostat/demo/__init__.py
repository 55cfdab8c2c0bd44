"""The live demo: a real load on a real pipeline on a real cluster, scaled, scored and reported."""
