"""Participants of a scenario: what they do, and how they appear in a trace."""
