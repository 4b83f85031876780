"""Properties of an order, one per file."""
