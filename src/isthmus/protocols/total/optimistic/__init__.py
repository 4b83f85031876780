"""Optimistic total order: tentative deliveries, and the delay rules that make them right."""
