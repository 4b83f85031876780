"""Pictures: networks, overlays, compositions, and space-time diagrams of witnesses."""
