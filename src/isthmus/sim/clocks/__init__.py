"""Clocks of simulated sites, and the clock service of a run."""
