"""Ports for live sites of a test or a benchmark."""

from __future__ import annotations

import socket
from collections.abc import Sequence


def free_ports(names: Sequence[str]) -> dict[str, int]:
    """A UDP port of the loopback for each site, free a moment ago."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in names]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = {name: each.getsockname()[1] for name, each in zip(names, sockets, strict=True)}
    for each in sockets:
        each.close()
    return ports
