"""Study: the nine scenarios of two clusters (paper 001)."""
