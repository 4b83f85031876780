"""Plans for one group: total order with roles, or a causal stack, with predicted cost."""
