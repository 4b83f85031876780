"""Random scenarios, and the verdicts on their runs."""
