"""Figures of our own making, each a ratio taken in one run: machines differ, and this one is shared."""
