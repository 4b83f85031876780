"""Membership: failure suspicion, and views that the members themselves agree on."""
