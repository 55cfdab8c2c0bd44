"""Policies on loads in the simulator: runs, scores, comparisons; and how far the simulator is from real runs."""
