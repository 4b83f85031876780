"""Messages of some MiB over sockets: they arrive whole, in one order with small ones, while views change."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from tests.harness.live_groups import join
from tests.harness.ports import free_ports

from isthmus import Group
from isthmus.live.node.plans import AgreedPlan
from isthmus.protocols.fragments import LARGEST_BYTES
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh

NETWORK = mesh(3, 1, Channel(Constant(0.1)), Channel(Constant(1.0)))
NAMES = [site.name for site in NETWORK.sites]
LARGE = Random(7).randbytes(3 << 20)


@pytest.mark.parametrize("stack", ["token-site", "symmetric", "optimistic", "fifo", "causal-vector"])
def test_three_sites_get_what_is_large(stack: str) -> None:
    ports = free_ports(NAMES)

    async def site(name: str, all_done: asyncio.Barrier) -> list[bytes]:
        async with join(NETWORK, name, ports, stack=stack) as group:
            await group.send(name.encode())
            await group.send(LARGE + name.encode())
            await group.send(name.encode())
            order = [(await anext(group)).payload for _ in range(9)]
            await all_done.wait()
        return order

    async def program() -> None:
        all_done = asyncio.Barrier(3)
        found = await asyncio.gather(*(site(name, all_done) for name in NAMES))
        for order in found:
            assert sorted(order, key=len)[-3:] == sorted((LARGE + name.encode() for name in NAMES), key=order.index)
            for name in NAMES:
                sent = [name.encode(), LARGE + name.encode(), name.encode()]
                assert [payload for payload in order if payload.endswith(name.encode())] == sent
        if stack in ("token-site", "symmetric", "optimistic"):
            assert found[0] == found[1] == found[2]

    asyncio.run(asyncio.wait_for(program(), 60))


def test_a_view_changes_in_the_midst_of_a_large_message() -> None:
    """A site leaves and another joins while large messages are under way; those that stay get all, once, in order."""
    ports = free_ports(NAMES)

    async def program() -> None:
        groups = [join(NETWORK, name, ports, membership=AgreedPlan()) for name in NAMES]
        async with groups[0] as first, groups[1] as second:
            third = await groups[2].__aenter__()
            while len(first.members) < 3:
                await asyncio.sleep(0.01)

            async def send() -> None:
                for number in range(4):
                    await first.send(LARGE + bytes([number]))

            async def read(group: Group, count: int) -> list[int]:
                return [(await anext(group)).payload[-1] for _ in range(count)]

            sending = asyncio.create_task(send())
            reading = [asyncio.create_task(read(group, 4)) for group in (first, second)]
            assert await read(third, 1) == [0]
            third.runtime.close()  # as if it had crashed
            assert [await each for each in reading] == [[0, 1, 2, 3]] * 2
            await sending
            async for view in first.views():
                if len(view.members) == 2:
                    break

    asyncio.run(asyncio.wait_for(program(), 60))


def test_the_largest_is_stated() -> None:
    assert LARGEST_BYTES == 64 << 20
