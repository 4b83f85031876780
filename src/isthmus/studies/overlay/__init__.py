"""Study: causal order by flooding an overlay (paper 004)."""
