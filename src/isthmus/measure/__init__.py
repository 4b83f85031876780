"""Measures of one run in memory: latency, optimism, clocks."""
