"""Compositions of a scenario: read from TOML, checked, and turned into groups."""
