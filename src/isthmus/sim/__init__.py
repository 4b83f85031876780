"""Virtual time: the deterministic simulator."""
