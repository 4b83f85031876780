"""Causal order: vectors, matrices, extended histories, and histories cut by separators."""
