"""Whether a site seals what it sends, with which keys, and where it must."""

from __future__ import annotations

import os
from collections.abc import Callable
from ipaddress import ip_address
from typing import TYPE_CHECKING

from isthmus.core.errors import InputError
from isthmus.core.message import SiteId
from isthmus.live.net.names import Address
from isthmus.live.node.plans import SiteConfig
from isthmus.live.seal.key_file import load_keys
from isthmus.live.seal.keys import SealKeys
from isthmus.topology.model import Topology

if TYPE_CHECKING:
    from isthmus.live.seal.machine import SealMachine


def keys_of(config: SiteConfig, site: str) -> SealKeys | None:
    """The keys of a site as its configuration has them, read anew; None: it sends in clear."""
    if config.keys is None:
        if config.identity is not None:
            raise InputError("identity", site, "an identity without keys", "the key file of the cluster, too")
        return None
    return load_keys(config.keys, config.identity, site)


def seal_machine(
    config: SiteConfig, topology: Topology, site: SiteId, own: Address, on_trouble: Callable[[SiteId, str], None]
) -> SealMachine | None:
    """What seals the datagrams of a site; None: it sends in clear, which is refused off the loopback."""
    names = {SiteId(number): each.name for number, each in enumerate(topology.sites)}
    keys = keys_of(config, names[site])
    if keys is None:
        if not (config.insecure or ip_address(own[0].partition("%")[0]).is_loopback):
            found = f"none, and a site that listens at {own[0]}, where others may read and forge its datagrams"
            expected = "a key file (isthmus keys init; isthmus live --sealed), or insecure=True"
            raise InputError("keys", names[site], found, expected)
        return None
    from isthmus.live.seal.machine import SealMachine  # cryptography takes 50 ms to import, and clear sites need none

    return SealMachine(site, names, keys, os.urandom, on_trouble)
