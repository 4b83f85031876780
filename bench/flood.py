"""A sealed group under forgeries: does anybody become suspected, how much throughput is left.

    python -m bench.flood [SECONDS] [RATE]

Three sites on the loopback, in one process. One of them multicasts as fast as it may, first for SECONDS in peace, then
while RATE forged datagrams a second come to the first from the address of the second, with the true index of their
session and random counters; what forging costs is taken from the same processor. Passes where no view changes, all is
delivered everywhere, and at least half of the throughput is left.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from tests.harness.ports import free_ports

from isthmus import Group, SiteConfig, join
from isthmus.core.message import SiteId
from isthmus.live.net.framing import SEALED
from isthmus.live.seal.key_file import write_run_key
from isthmus.live.seal.wire import start
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh

SECONDS, RATE = 60.0, 10_000
LEAST = 0.5  # of the throughput in peace
LAN = Channel(Constant(0.1))
NETWORK = mesh(1, 3, LAN, LAN)
BATCH = 50  # forgeries between two looks at the others


class Listener:
    """Counts what a site delivers."""

    def __init__(self, group: Group) -> None:
        self.group, self.count = group, 0
        self.task = asyncio.create_task(self.read())

    async def read(self) -> None:
        async for messages in self.group.batches():
            self.count += len(messages)


async def forge(groups: list[Group], until_s: float, rate: int) -> int:
    """Forge from the second site's address to the first."""
    used, victim = (group.runtime.joined().socket for group in (groups[1], groups[0]))
    assert used.seal is not None
    index = int.from_bytes(used.seal.peers[SiteId(0)].confirmed[-1].seals_start[4:8], "big")
    noise, began_s, count = Random(1), time.monotonic(), 0
    while time.monotonic() < until_s:
        due = round((time.monotonic() - began_s) * rate)
        for _ in range(min(BATCH, due - count)):
            used.socket.sendto(start(SEALED, index, noise.randbytes(8)) + noise.randbytes(100), victim.own_address())
            count += 1
        await asyncio.sleep(0 if count < due else 0.001)
    return count


async def multicast(group: Group, until_s: float) -> int:
    count = 0
    while time.monotonic() < until_s:
        await group.send(bytes(100))
        count += 1
    return count


async def main(seconds: float, rate: int) -> bool:
    names = [site.name for site in NETWORK.sites]
    ports, opinions = free_ports(names), list[str]()
    with TemporaryDirectory() as folder:
        keys = write_run_key(Path(folder, "run.key"))
        config = SiteConfig(keys=keys, on_suspicion=lambda name, on: opinions.extend([name] * on))
        groups = [join(NETWORK, name, addresses=ports, config=config) for name in names]
        for group in groups:
            await group
        while any(len(group.members) < len(names) or not all(group.view.weights) for group in groups):
            await asyncio.sleep(0.01)
        listeners, before = [Listener(group) for group in groups], [group.view for group in groups]
        opinions.clear()
        peace = await multicast(groups[2], time.monotonic() + seconds)
        until_s = time.monotonic() + seconds
        forging = asyncio.create_task(forge(groups, until_s, rate))
        flooded, forged = await multicast(groups[2], until_s), await forging
        await groups[2].settle()
        await asyncio.sleep(1)
        same = [group.view for group in groups] == before
        delivered = [listener.count for listener in listeners]
        for listener in listeners:
            listener.task.cancel()
        for group in groups:
            await group.close()
    rates = (peace / seconds, forged / seconds, flooded / seconds)
    print("in peace {:,.0f} messages/s; under {:,.0f} forgeries/s {:,.0f}".format(*rates))
    told = f"views {'unchanged' if same else 'CHANGED'}; suspected: {', '.join(opinions) or 'nobody'}"
    print(f"{told}; delivered {delivered}")
    return same and set(delivered) == {peace + flooded} and flooded >= LEAST * peace


if __name__ == "__main__":
    given = [float(word) for word in sys.argv[1:]]
    seconds, rate = (*given, *(SECONDS, RATE)[len(given) :])
    sys.exit(0 if asyncio.run(main(seconds, round(rate))) else 1)
