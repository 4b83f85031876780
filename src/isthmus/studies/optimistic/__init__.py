"""Study: optimistic total order (paper 002)."""
