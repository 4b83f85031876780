"""The `isthmus` command."""
