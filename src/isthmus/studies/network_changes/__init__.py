"""Study: roles while the network changes."""
