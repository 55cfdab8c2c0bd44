"""Configuration as a documented value: what can be set, what it means, and why it has its default."""
