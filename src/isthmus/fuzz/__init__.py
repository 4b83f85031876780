"""Random scenarios, and the judge of their runs."""
