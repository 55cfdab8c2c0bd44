"""What is learned from measured samples: the share of slow records as a function of workload and executors. Pure."""
