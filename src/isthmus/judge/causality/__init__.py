"""The causal past: blocks of receivers, precedence, certificates."""
