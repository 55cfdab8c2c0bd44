"""What to do: the policy's proposal, shaped by one ordered tuple of steps."""
