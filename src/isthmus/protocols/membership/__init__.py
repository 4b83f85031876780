"""Membership: who is suspected, and which view comes next, agreed on by the members themselves."""
