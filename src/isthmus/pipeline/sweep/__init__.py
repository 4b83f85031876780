"""Sweeps: grids of runs, simulated in the executors."""
