"""Five sites join a group, all send at once, and all see one order.

In production each site is a process of its own, on its own machine; here the five share one, for the sake of a short
example. `emulate` adds the delays and losses of network.toml to the loopback.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from isthmus import SiteConfig, join

NETWORK = Path(__file__).parent / "network.toml"
PORTS = {"frankfurt-0": 7400, "frankfurt-1": 7401, "virginia-0": 7402, "virginia-1": 7403, "singapore-0": 7404}


async def site(name: str, all_done: asyncio.Barrier) -> list[str]:
    config = SiteConfig(emulate=True)
    async with join(NETWORK, name, stack="token-site", addresses=PORTS, config=config) as group:
        await group.send(f"hello from {name}".encode())
        order = [(await anext(group)).payload.decode() for _ in PORTS]
        await group.settle()  # the others have what this site sent,
        await all_done.wait()  # and no site leaves while another may still need an acknowledgement
    return order


async def main() -> None:
    all_done = asyncio.Barrier(len(PORTS))
    orders = await asyncio.gather(*(site(name, all_done) for name in PORTS))
    for line in orders[0]:
        print(line)
    print("the same order at all sites" if all(order == orders[0] for order in orders) else "different orders")


if __name__ == "__main__":
    asyncio.run(main())
