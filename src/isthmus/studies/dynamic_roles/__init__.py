"""Study: roles that follow the load (paper 001)."""
