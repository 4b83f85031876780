"""Three sites join a group on the loopback, all send at once, and all see one order.

Each site would be a process of its own; here the three share one, for the sake of a short example.
"""

from __future__ import annotations

import asyncio
import socket

from isthmus import Channel, Constant, SiteConfig, join, mesh

MESSAGES = 5  # of each site


def free_ports(names: list[str]) -> dict[str, int]:
    """A free UDP port for each site."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in names]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = {name: each.getsockname()[1] for name, each in zip(names, sockets, strict=True)}
    for each in sockets:
        each.close()
    return ports


async def main() -> None:
    # Three clusters of one site; 1 ms inside a cluster, 20 ms between two, a tenth of the packets lost on the way.
    network = mesh(3, 1, Channel(Constant(1.0)), Channel(Constant(20.0), loss=0.1))
    names = [site.name for site in network.sites]
    ports = free_ports(names)
    all_done = asyncio.Barrier(len(names))

    async def site(name: str) -> list[str]:
        async with join(network, name, addresses=ports, config=SiteConfig(emulate=True)) as group:
            for number in range(MESSAGES):
                await group.send(f"{name} says {number}".encode())
            order = [(await anext(group)).payload.decode() for _ in range(MESSAGES * len(names))]
            await group.settle()
            await all_done.wait()  # the others may still need acknowledgements
        return order

    orders = await asyncio.gather(*map(site, names))
    for line in zip(*orders, strict=True):
        print(" | ".join(line))
    print("the same order at all" if all(order == orders[0] for order in orders) else "different orders")


if __name__ == "__main__":
    asyncio.run(main())
