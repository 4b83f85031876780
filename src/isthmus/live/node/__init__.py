"""One process as a site: its stacks, driver, peers and incarnations."""
