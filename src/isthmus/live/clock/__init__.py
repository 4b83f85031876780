"""The clock service of a live site, and its references."""
