"""Shared by the studies of total order by tickets: names, network and loads, measures."""
