"""Participants of a scenario: their behaviour, and their rows in a trace."""
