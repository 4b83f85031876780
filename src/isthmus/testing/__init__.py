"""Random scenarios, a judge of runs, and other means for tests of protocols."""
