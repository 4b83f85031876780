"""Hybrid total order: active and passive processes, tickets, roles."""
