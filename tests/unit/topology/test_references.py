"""References of clusters: in the file, in the topology, and back."""

from __future__ import annotations

import tomllib

from isthmus.topology.load import topology_from_tables
from isthmus.topology.written import topology_to_toml

NET = """
[[clusters]]
name = "a"
sites = 3
lan = { delay = 1 }
references = ["a-2", "a-0", "a-2"]
"""


def test_references_are_read_and_written() -> None:
    made = topology_from_tables(tomllib.loads(NET), "net.toml")
    assert made.clusters[0].references == (2, 0)
    assert topology_from_tables(tomllib.loads(topology_to_toml(made)), "net.toml") == made
