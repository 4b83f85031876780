"""What joins, leaves and crashes cost the members that stay, with views and without."""
