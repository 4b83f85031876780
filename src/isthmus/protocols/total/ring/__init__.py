"""Total order by a rotating token."""
