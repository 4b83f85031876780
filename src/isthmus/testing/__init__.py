"""Means to test protocols: hosts and scripts as text, random scenarios, a judge of runs, a courier."""
