"""The calculus of compositions: which order they guarantee end to end."""
