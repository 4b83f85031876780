"""What a program imports to join groups."""
