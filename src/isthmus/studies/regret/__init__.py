"""Study: how far chosen roles are from the best fixed ones."""
