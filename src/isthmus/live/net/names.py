"""Hostnames as addresses of sockets: resolved when a site opens, and again when a link fails.

A socket has one address family, that of its own site's address; names with addresses of both families are resolved in
that one. While a site runs, a name that cannot be resolved changes nothing: the last address is kept.

Bounds: one look-up per site at a time, and at least `AGAIN_S` after the one before.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from typing import Any

from isthmus.core.errors import InputError
from isthmus.core.message import SiteId
from isthmus.topology.addresses import Endpoint, endpoint
from isthmus.topology.model import Topology

Address = tuple[Any, ...]  # of a socket: host and port, for IPv6 flow and scope as well
Look = Callable[[Endpoint, int], Address]  # an endpoint and a family, to the first address
AGAIN_S = 5.0
LOOPBACK = "127.0.0.1"
logger = logging.getLogger("isthmus.live")
FAMILIES = {socket.AF_INET: "IPv4", socket.AF_INET6: "IPv6"}


def look_up(where: Endpoint, family: int = socket.AF_UNSPEC) -> Address:
    """The first address of a host; may take a while for a name."""
    found = socket.getaddrinfo(where.host, where.port, family, socket.SOCK_DGRAM)
    return found[0][4]


def family_of(address: Address) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address[0] else socket.AF_INET


class Resolver:
    """The addresses of the sites of a network."""

    def __init__(self, site: SiteId, endpoints: Sequence[Endpoint], names: Sequence[str], look: Look = look_up) -> None:
        self.site = site
        self.endpoints = endpoints
        self.names = names  # of the sites
        self.look = look
        self.family: int = socket.AF_UNSPEC
        self.looked_s: dict[SiteId, float] = {}  # when a name was last looked up
        self.tasks: dict[SiteId, asyncio.Task[None]] = {}

    async def find(self, site: SiteId) -> Address:
        """The address of a site now."""
        endpoint = self.endpoints[site]
        if endpoint.is_numeric():
            return self.look(endpoint, socket.AF_UNSPEC)
        return await asyncio.get_running_loop().run_in_executor(None, self.look, endpoint, self.family)

    async def find_all(self) -> list[Address]:
        """The addresses of all sites; that of this site is resolved first, as it decides on the family."""
        found: dict[SiteId, Address] = {}
        order = sorted((SiteId(n) for n in range(len(self.endpoints))), key=lambda site: site != self.site)
        for site in order:
            name, shown = self.names[site], str(self.endpoints[site])
            try:
                address = await self.find(site)
            except OSError as error:
                why = f"{shown!r}, which is not known ({error.strerror or error})"
                raise InputError(
                    "addresses", name, why, "a name that this machine can look up, or an address"
                ) from None
            self.family = self.family or family_of(address)
            if family_of(address) != self.family:
                here = FAMILIES[socket.AddressFamily(self.family)]
                expected = f"an {here} address, as that of {self.names[self.site]} is"
                raise InputError("addresses", name, repr(shown), expected)
            twin = next((other for other, known in found.items() if known == address), None)
            if twin is not None:
                found_twice = f"{shown!r}, which is also where {self.names[twin]} listens"
                raise InputError("addresses", name, found_twice, "an address of its own for each site")
            found[site] = address
        return [found[SiteId(n)] for n in range(len(self.endpoints))]

    def look_again(self, site: SiteId, moved: Callable[[SiteId, Address], None]) -> None:
        """Resolve the name of a silent site again, and call `moved` with the address."""
        loop = asyncio.get_running_loop()
        soon = loop.time() - self.looked_s.get(site, -AGAIN_S) < AGAIN_S
        if self.endpoints[site].is_numeric() or soon or site in self.tasks:
            return
        self.looked_s[site] = loop.time()
        self.tasks[site] = asyncio.create_task(self.renew(site, moved))

    async def renew(self, site: SiteId, moved: Callable[[SiteId, Address], None]) -> None:
        try:
            moved(site, await self.find(site))
        except OSError as error:
            logger.warning(
                "site %s: hostname %s cannot be resolved now: %s", self.names[site], self.endpoints[site].host, error
            )
        finally:
            del self.tasks[site]

    def close(self) -> None:
        for task in list(self.tasks.values()):
            task.cancel()


def host_of(topology: Topology, site: SiteId) -> str:
    """The host that a topology gives a site; by default the loopback."""
    given = topology.sites[site].address
    return endpoint(given).host if given else LOOPBACK


def address_of(topology: Topology, site: SiteId, port: int) -> Address:
    """The address at which a site listens; port 0: the port of the topology, or any."""
    given = topology.sites[site].address
    made = Endpoint(host_of(topology, site), port or (endpoint(given).port if given else 0))
    try:
        return look_up(made)
    except OSError as error:
        found = f"{made.host!r}, which is not known ({error.strerror or error})"
        raise InputError("address", topology.sites[site].name, found, "a host") from None
