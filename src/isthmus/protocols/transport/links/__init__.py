"""Reliable FIFO channels between neighbours."""
