"""Closed forms and searches: what roles cost, which to choose, what to recommend; layers are given them by stacks."""
