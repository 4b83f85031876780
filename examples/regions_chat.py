"""A chat of two offices, each a group of its own, joined by routers: local talk stays local, the rest is in one order.

Lisbon and Osaka have two people each. Some lines are for one's own office; others are for both, and everybody sees
those in the same order, which is causal, too. Each process and router would be a process of its own on a machine of
its own (`isthmus router composition.toml lisbon-router --topology network.toml`); here all share one, for the sake of a
short example.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack

from isthmus import Delivered, Site, SiteConfig, composition_from_tables, join, topology_from_tables

OFFICES = {"lisbon": ("ana", "rui"), "osaka": ("aiko", "ken")}
ROUTERS = ("lisbon-router", "osaka-router")
NETWORK = topology_from_tables(
    {
        "name": "two-offices",
        "defaults": {"lan": {"delay": 0.5}, "wan": {"delay": 60.0}},
        "clusters": [
            {"name": f"{office}-lan", "sites": [*people, f"{office}-router"]} for office, people in OFFICES.items()
        ],
    },
    "network",
)
COMPOSITION = composition_from_tables(
    {
        "name": "two-offices",
        "groups": [
            {"name": office, "members": list(people), "stack": "token-site"} for office, people in OFFICES.items()
        ],
        "igps": [{"name": "cable", "stack": "token-site"}],
        "routers": [{"name": f"{office}-router", "joins": [office, "cable"]} for office in OFFICES],
        "domains": [{"name": "chat", "wants": "causal-total", "scope": "all", "forwarding": "shadow-and-hold"}],
    },
    "composition",
)
EMULATED = SiteConfig(emulate=True)
BOTH = tuple(OFFICES)
SAYS = {  # the lines of each person, and the offices they are for
    "ana": [(b"Good morning, Osaka!", BOTH), (b"Coffee is ready.", ("lisbon",))],
    "rui": [(b"The lift is out of order.", ("lisbon",)), (b"The release is out.", BOTH)],
    "aiko": [(b"Good evening, Lisbon.", BOTH)],
    "ken": [(b"The last train is at eleven.", ("osaka",)), (b"Monday is a holiday here.", BOTH)],
}


def free_ports() -> dict[str, int]:
    """A free UDP port for each site."""
    sockets = {site.name: socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for site in NETWORK.sites}
    for each in sockets.values():
        each.bind(("127.0.0.1", 0))
    ports = {name: each.getsockname()[1] for name, each in sockets.items()}
    for each in sockets.values():
        each.close()
    return ports


async def person(name: str, office: str, ports: dict[str, int], all_done: asyncio.Barrier) -> list[Delivered]:
    """Say one's lines, and read all that is for one's office."""
    expected = sum(office in to for lines in SAYS.values() for _, to in lines)
    async with join(NETWORK, name, addresses=ports, composition=COMPOSITION, config=EMULATED) as group:
        for line, to in SAYS[name]:
            await group.send(line, groups=to)
        shown = [await anext(group) for _ in range(expected)]
        await group.settle()
        await all_done.wait()  # the others may still need acknowledgements
    return shown


async def main() -> None:
    ports = free_ports()
    people = [(name, office) for office, names in OFFICES.items() for name in names]
    all_done = asyncio.Barrier(len(people))
    async with AsyncExitStack() as routers:
        for name in ROUTERS:
            router = Site(NETWORK, name, addresses=ports, composition=COMPOSITION, config=EMULATED)
            await routers.enter_async_context(router)
        shown = await asyncio.gather(*(person(name, office, ports, all_done) for name, office in people))
    for (name, office), messages in zip(people, shown, strict=True):
        print(f"{name} in {office}")
        for message in messages:
            print(f"    {message.sender}, {message.origin}: {message.payload.decode()}")
    local = {line for lines in SAYS.values() for line, to in lines if to != BOTH}
    orders = [[message.payload for message in messages if message.payload not in local] for messages in shown]
    same = all(order == orders[0] for order in orders)
    print("what is for both offices came in the same order everywhere" if same else "different orders")


if __name__ == "__main__":
    asyncio.run(main())
