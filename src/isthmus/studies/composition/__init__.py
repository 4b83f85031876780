"""Study: groups joined by routers (paper 003)."""
