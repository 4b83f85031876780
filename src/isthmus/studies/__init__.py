"""What the papers measured: grids of scenarios, measures, and claims with their verdicts."""
