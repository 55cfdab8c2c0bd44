"""What the observations mean: rates, backlog, lag, occupancy. Pure: the past comes in as a state and goes out again."""
