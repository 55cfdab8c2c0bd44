"""The world → Observation: from inside the driver, and from outside by REST."""
