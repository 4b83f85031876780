"""Ordered multicast for a WAN of LANs."""

__version__ = "0.1.0"
