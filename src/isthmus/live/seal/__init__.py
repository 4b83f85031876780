"""Sealed traffic: keys, handshakes, sessions, and the machine that keeps them; no sockets and no clocks."""
