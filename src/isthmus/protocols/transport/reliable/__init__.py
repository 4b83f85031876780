"""Reliable multicast: frames, acknowledgements, retransmission, windows."""
