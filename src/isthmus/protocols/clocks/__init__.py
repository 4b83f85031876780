"""The hierarchical clock service: external time enters a LAN at its references and is spread by tight broadcasts."""
