"""Causal order by extended histories, relayed by gateways and cut by separators."""
