"""Membership in the simulator: the ideal service, agreement, and the directory of stacks without view barriers."""
