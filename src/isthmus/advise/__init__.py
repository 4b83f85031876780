"""What to use: stacks compared by simulation, plans for orders, plans for compositions."""
