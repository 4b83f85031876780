"""One site of a live group that agrees on its views, for measurements: tells its views and what it has delivered.

`python -m bench.member_site SITE SITES PORTS [RATE]`, where PORTS is JSON. It multicasts RATE messages a second while
it may, keeps a digest of all that it has delivered as its state, and says a line of JSON for each view, for each change
of an opinion of others, and ten times a second: what it has delivered, and how much memory it takes.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
import zlib
from pathlib import Path

from isthmus import Blocked, SiteConfig, join
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh

RATE = 100  # messages a second of each site
WORD_S = 0.1
MARK = 100  # messages
PAGE_BYTES = resource.getpagesize()


class Replica:
    """The order so far, as a number of messages and their digest."""

    def __init__(self) -> None:
        self.count = self.digest = 0

    def state(self) -> bytes:
        return json.dumps([self.count, self.digest]).encode()

    def restore(self, state: bytes) -> None:
        self.count, self.digest = json.loads(state)

    def apply(self, payload: bytes) -> None:
        self.count += 1
        self.digest = zlib.crc32(payload, self.digest)


def say(**word: object) -> None:
    print(json.dumps(word | {"at": time.monotonic()}), flush=True)


def resident_bytes() -> int:
    """The memory of this process; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES
    except OSError:
        return 0


async def main(site: str, sites: int, ports: dict[str, int], rate: float) -> None:
    lan = Channel(Constant(0.1))
    replica = Replica()
    group = join(
        mesh(1, sites, lan, lan),
        site,
        addresses=ports,
        state=replica.state,
        restore=replica.restore,
        config=SiteConfig(insecure=True, on_suspicion=lambda other, suspected: say(suspects=other, on=suspected)),
    )

    async def tell_views() -> None:
        async for view in group.views():
            say(view=view.view_id, members=group.members, votes=sum(view.weights))

    def tell() -> None:
        say(count=replica.count, digest=replica.digest, resident=resident_bytes())

    async def read() -> None:
        async for message in group:
            replica.apply(message.payload)
            if replica.count % MARK == 0:  # so that sites tell of equally many, too
                tell()

    async def send() -> None:
        number = 0
        while True:
            try:
                await group.send(f"{site} {number}".encode(), wait=False)
                number += 1
            except Blocked:
                pass
            await asyncio.sleep(1 / rate)

    say(begun=True)
    async with group:
        tasks = [asyncio.create_task(one()) for one in (tell_views, read, send)]
        while True:
            await asyncio.sleep(WORD_S)
            tell()
            for task in tasks:
                if task.done():
                    task.result()


if __name__ == "__main__":
    given = json.loads(sys.argv[3])
    ports = {name: where if isinstance(where, int) else (where[0], where[1]) for name, where in given.items()}
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), ports, float(sys.argv[4]) if len(sys.argv) > 4 else RATE))
