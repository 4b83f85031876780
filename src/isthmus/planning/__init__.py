"""Closed forms and searches that no layer imports: what roles cost, which to choose, what to recommend."""
