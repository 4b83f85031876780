"""Inter-group routing: compositions of groups, and the calculus of what they guarantee end to end."""
