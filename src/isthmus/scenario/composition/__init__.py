"""Compositions of a scenario: loaded from TOML, checked, and turned into groups."""
