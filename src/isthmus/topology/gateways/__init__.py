"""LANs joined by gateways: links, routes of relayed messages, separators and causal zones."""
