"""Checks on Spark: from a trace to verdicts with witnesses."""
