"""Study: sequencer and symmetric order in isolation (paper 001)."""
