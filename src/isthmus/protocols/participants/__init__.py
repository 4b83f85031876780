"""Participant groups (PM) on a site group, and the local failure detector (FD)."""
