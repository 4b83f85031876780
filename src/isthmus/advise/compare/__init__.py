"""Stacks side by side: the same network, traffic, faults and seeds over each, and which one to choose."""
