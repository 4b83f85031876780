"""Positions: the same number for a message at every site, growing with the order, in every totally ordered stack."""

from __future__ import annotations

import asyncio

import pytest
from tests.harness.live_groups import join
from tests.harness.ports import free_ports

from isthmus import Group
from isthmus.core.layer import Finality, Host, Stack
from isthmus.core.message import Cast
from isthmus.fuzz.agreed import agreed_scenario
from isthmus.fuzz.judge import judge, judge_run
from isthmus.fuzz.large import large_scenario
from isthmus.fuzz.scenarios import random_scenario
from isthmus.fuzz.watch import WatchedRun
from isthmus.live.api.events import Delivered
from isthmus.live.node.plans import AgreedPlan
from isthmus.protocols.application import Application
from isthmus.scenario.model import Scenario
from isthmus.stacks.registry import STACKS, Build, StackOptions
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.schema import Row

TOTAL = [name for name, stack in STACKS.items() if "total" in stack.properties]
SEEDS = range(12)
Message = tuple[int, int]  # sender, number
Life = tuple[int, int]  # site, incarnation


class Positions:
    """What each life delivered, and where."""

    def __init__(self) -> None:
        self.of: dict[Life, dict[Message, int]] = {}

    def note(self, host: Host, cast: Cast, position: int) -> None:
        life = self.of.setdefault((host.site, host.incarnation), {})
        life[cast.sender, cast.number] = position

    def wrong(self, lives: list[Life]) -> list[str]:
        """What does not grow at some life, and what differs at those that are given."""
        found, known = [], dict[Message, int]()
        for life, places in self.of.items():
            if list(places.values()) != sorted(set(places.values())) or min(places.values()) <= 0:
                found.append(f"{life}: positions do not grow")
        for life in lives:
            for message, position in self.of.get(life, {}).items():
                if known.setdefault(message, position) != position:
                    found.append(f"{message} is at {position} at {life}, elsewhere at {known[message]}")
        if len(set(known.values())) < len(known):
            found.append("two messages have one position")
        return found

    def watching(self, stack: str) -> Build:
        """The same stack, whose deliveries are noted."""

        def build(host: Host, application: Application, options: StackOptions) -> Stack:
            inner = application.on_deliver

            def deliver(cast: Cast, finality: Finality) -> None:
                if finality is Finality.FINAL:
                    self.note(host, cast, application.stack.position)
                if inner is not None:
                    inner(cast, finality)

            application.on_deliver = deliver
            return STACKS[stack].build(host, application, options)

        return build


def scenario_of(stack: str, seed: int) -> Scenario | None:
    """A scenario of one group in which there is one order: with partitions both sides may go on, each with its own."""
    made = [random_scenario, agreed_scenario, large_scenario][seed % 3](stack, seed)
    ideal = made.membership.kind == "ideal" and made.random_faults.partitions and not made.membership.majority
    return None if ideal or made.groups else made


@pytest.mark.parametrize("stack", TOTAL)
def test_a_message_has_one_position_everywhere(stack: str) -> None:
    """Everywhere: at all that go on, as the order itself; what a site delivered before it died may be ordered anew."""
    count = 0
    for seed in SEEDS:
        scenario = scenario_of(stack, seed)
        if scenario is not None:
            positions, rows = Positions(), list[Row]()
            run = WatchedRun(scenario, rows, positions.watching(stack))
            assert judge_run(run, rows).violations() == [], f"seed {seed}"
            lives = [(site.site, site.incarnation) for site in run.sites if site.alive or scenario.stack.safe]
            assert positions.wrong(lives) == [], f"seed {seed}"
            count += sum(map(len, positions.of.values()))
    assert count > 100


def test_other_orders_have_no_positions() -> None:
    for name in STACKS.keys() - set(TOTAL):
        positions = Positions()
        judge(random_scenario(name, 0), positions.watching(name))
        assert {position for places in positions.of.values() for position in places.values()} == {0}


NETWORK = mesh(3, 1, Channel(Constant(0.1)), Channel(Constant(1.0)))
NAMES = [site.name for site in NETWORK.sites]


@pytest.mark.parametrize("stack", [*TOTAL, "fifo"])
@pytest.mark.parametrize("lists", [False, True])
def test_live_messages_carry_names_and_positions(stack: str, lists: bool) -> None:
    ports, count = free_ports(NAMES), 20

    async def read(group: Group) -> list[Delivered]:
        found: list[Delivered] = []
        while len(found) < 3 * count + 1:
            if lists:
                async for messages in group.batches():
                    found += messages
                    break
            else:
                found.append(await anext(group))
        return found

    async def site(name: str, all_done: asyncio.Barrier) -> list[Delivered]:
        async with join(NETWORK, name, ports, stack=stack, membership=AgreedPlan()) as group:
            while len(group.members) < 3:
                await asyncio.sleep(0.01)
            await all_done.wait()
            for number in range(count):
                await group.send(f"{name} {number}".encode())
            await group.send(b"psst", to=[NAMES[0]]) if name == NAMES[1] else None
            await group.send(bytes(100_000), to=[NAMES[1], NAMES[2]]) if name == NAMES[0] else None
            found = await read(group)
            await all_done.wait()
            return found

    async def program() -> None:
        all_done = asyncio.Barrier(3)
        found = await asyncio.gather(*(site(name, all_done) for name in NAMES))
        of: dict[tuple[str, int], int | None] = {}
        for messages in found:
            for message in messages:
                assert message.destinations or message.payload.decode().startswith(message.sender)
            positions = [message.position for message in messages]
            if stack == "fifo":
                assert set(positions) == {None}
                continue
            assert None not in positions and positions == sorted(set(positions))  # type: ignore[type-var]
            for message in messages:
                assert of.setdefault((message.sender, message.number), message.position) == message.position
        assert [message.destinations for message in found[0] if message.destinations] == [(NAMES[0],)]
        assert {message.destinations for message in found[1] if message.destinations} == {(NAMES[1], NAMES[2])}

    asyncio.run(asyncio.wait_for(program(), 60))
