"""A scenario as one value: topology, stack, workload, faults and seed."""
