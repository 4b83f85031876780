"""What to run: topology, stack, workload, faults and seed as one value."""
