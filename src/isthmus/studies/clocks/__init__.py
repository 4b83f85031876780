"""Study: the clock service (paper 000, section 3)."""
