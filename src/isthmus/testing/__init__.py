"""Hosts and scripts for tests: a stack, or several sites, driven by text files."""
