"""Groups as a program uses them: one order, back-pressure both ways, an end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any

import pytest

from isthmus.core.errors import InputError, LocalError
from isthmus.core.message import SiteId
from isthmus.live.group import Group
from isthmus.protocols.transport.credit import CreditOptions
from isthmus.stacks import StackOptions
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh

TIMEOUT_S = 60.0
NETWORK = mesh(3, 1, Channel(Constant(0.1)), Channel(Constant(2.0), loss=0.1))
NAMES = [site.name for site in NETWORK.sites]


def free_ports() -> dict[str, int]:
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in NAMES]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = {name: each.getsockname()[1] for name, each in zip(NAMES, sockets, strict=True)}
    for each in sockets:
        each.close()
    return ports


def run(program: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(program, TIMEOUT_S))


def test_tentative_messages_come_beside_the_final_ones() -> None:
    ports, count = free_ports(), 5

    async def site(name: str, all_done: asyncio.Barrier) -> tuple[list[bytes], list[bytes]]:
        guessed: list[bytes] = []
        group = Group.join(NETWORK, name, ports, stack="optimistic", emulate=True)
        group.on_tentative = lambda cast, finality: guessed.append(cast.payload)
        async with group:
            for number in range(count):
                await group.send(f"{name} {number}".encode())
            order = [(await anext(group)).payload for _ in range(3 * count)]
            await all_done.wait()
            await group.settle(0.0)
            await all_done.wait()
        return order, guessed

    async def program() -> None:
        all_done = asyncio.Barrier(3)
        found = await asyncio.gather(*(site(name, all_done) for name in NAMES))
        assert all(order == found[0][0] for order, _ in found)
        assert not found[0][1], "the sequencer knows the order"
        for order, guessed in found[1:]:
            assert guessed and len(set(guessed)) == len(guessed) and set(guessed) <= set(order)

    run(program())


def test_three_sites_see_one_order() -> None:
    ports, count = free_ports(), 10

    async def site(name: str, all_done: asyncio.Barrier) -> list[bytes]:
        async with Group.join(NETWORK, name, ports, emulate=True) as group:
            for number in range(count):
                await group.send(f"{name} {number}".encode())
            order = [(await anext(group)).payload for _ in range(3 * count)]
            await all_done.wait()
            await group.settle(0.0)
            await all_done.wait()
        return order

    async def program() -> None:
        all_done = asyncio.Barrier(3)
        first, *rest = await asyncio.gather(*(site(name, all_done) for name in NAMES))
        assert len(set(first)) == 3 * count and all(order == first for order in rest)

    run(program())


def test_a_late_site_gets_what_it_missed_and_some_messages_are_for_some() -> None:
    ports = free_ports()

    async def program() -> None:
        async with Group.join(NETWORK, NAMES[0], ports, "fifo") as early:
            await early.send(b"before")
            await early.send(b"for one", to=[NAMES[1]])
            async with Group.join(NETWORK, NAMES[1], ports, "fifo") as late:
                casts = [await anext(late), await anext(late)]
                assert [cast.payload for cast in casts] == [b"before", b"for one"]
                assert late.name(casts[0].sender) == NAMES[0] and casts[1].destinations == (SiteId(1),)
                raise TimeoutError  # leave at once: the third site never comes

    with pytest.raises(TimeoutError):
        run(program())


def test_a_sender_waits_for_a_slow_reader() -> None:
    ports = free_ports()
    options = StackOptions(credit=CreditOptions(window=4, queue_max=4))

    async def program() -> None:
        async with Group.join(NETWORK, NAMES[0], ports, "fifo", options) as group:
            sent = 0

            async def send_all() -> None:
                nonlocal sent
                for _ in range(20):
                    await group.send(b"x", to=[NAMES[0]])
                    sent += 1

            sender = asyncio.create_task(send_all())
            while sent < 8:
                await asyncio.sleep(0)
            for _ in range(50):
                await asyncio.sleep(0)
            assert sent == 8  # four at the reader, four in the queue
            numbers = [(await anext(group)).number for _ in range(20)]
            await sender
            assert numbers == list(range(1, 21))

    run(program())


def test_leaving_ends_the_iteration_and_the_sending() -> None:
    ports = free_ports()

    async def program() -> None:
        async with Group.join(NETWORK, NAMES[0], ports) as group:
            reader = asyncio.create_task(anext(group, None))  # type: ignore[arg-type]
            await asyncio.sleep(0)
        assert await reader is None
        with pytest.raises(LocalError, match="not joined"):
            await group.send(b"x")

    run(program())


def test_bad_arguments_are_told() -> None:
    ports = free_ports()
    with pytest.raises(InputError, match="did you mean token-site"):
        Group.join(NETWORK, NAMES[0], ports, "token-sites")
    with pytest.raises(InputError, match="c1-0"):
        Group.join(NETWORK, "c1-9", ports)
    with pytest.raises(InputError, match="the port of every site"):
        Group.join(NETWORK, NAMES[0], {})

    async def taken() -> None:
        async with Group.join(NETWORK, NAMES[0], ports), Group.join(NETWORK, NAMES[0], ports):
            pass

    with pytest.raises(InputError, match="a free port"):
        run(taken())
    with pytest.raises(LocalError, match="at most"):
        run(too_large(ports))


async def too_large(ports: dict[str, int]) -> None:
    async with Group.join(NETWORK, NAMES[0], ports) as group:
        await group.send(bytes(60_000))


@pytest.mark.parametrize(
    ("stack", "rule"), [("symmetric", "fixed"), ("hybrid", "fixed"), ("dynamic-hybrid", "dynamic")]
)
def test_a_stack_means_the_same_as_in_a_scenario(stack: str, rule: str) -> None:
    group = Group.join(NETWORK, NAMES[0], dict(zip(NAMES, (5001, 5002, 5003), strict=True)), stack=stack)
    assert group.options.hybrid.rule == rule
    assert group.options.hybrid.active == ((0, 1, 2) if stack == "hybrid" else None)  # the agents of three clusters
    assert group.options.hybrid.distances[0][1] == 2.0
