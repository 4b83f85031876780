"""Overlays: neighbours, ids and what an overlay is worth."""
