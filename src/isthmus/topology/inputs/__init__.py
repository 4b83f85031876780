"""Networks from measurements: round trips, backbone maps."""
