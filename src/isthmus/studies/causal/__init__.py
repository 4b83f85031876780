"""Study: causal separators (paper 000, section 4)."""
