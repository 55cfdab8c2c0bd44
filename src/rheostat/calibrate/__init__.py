"""Fit a simulated job to real runs, and measure how true it is."""
