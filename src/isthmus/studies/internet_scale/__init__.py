"""Study: flooding over networks of 1,000 to 50,000 nodes."""
