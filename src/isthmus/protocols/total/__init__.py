"""Total order: every member delivers in the same sequence."""
