"""The deterministic simulator, in virtual time."""
