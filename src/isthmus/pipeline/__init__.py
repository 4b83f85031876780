"""Spark: sweeps, checks, measures and streams, for what outgrows a process."""
