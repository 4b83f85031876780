"""Plans for several groups: compositions, their cost, remedies and counterexamples."""
