"""Study: the token-site protocol in isolation (paper 001)."""
