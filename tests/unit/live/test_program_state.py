"""The state of a program: any kind of function, off the event loop, at one point of the order; and what fails there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.harness.live_groups import join
from tests.harness.ports import free_ports
from tests.unit.live.test_group import run
from tests.unit.live.test_live_failures import NAMES, NETWORK, view_of

from isthmus import Delivered, Gap, Group, SiteFailed
from isthmus.live.node.plans import AgreedPlan

PIECE = 1 << 16


class Replica:
    """What was delivered, as a program keeps it; its state may be asked for in several ways."""

    def __init__(self, kind: str = "function", padding: int = 0) -> None:
        self.kind = kind
        self.padding = padding
        self.known: list[bytes] = []
        self.threads: set[int] = set()
        self.asked = 0
        self.may_go_on = threading.Event()  # in "slow"
        self.group: Group

    def encoded(self, known: list[bytes]) -> bytes:
        self.threads.add(threading.get_ident())
        return b"|".join(known) + b"\n" + bytes(self.padding)

    def state(self) -> Any:
        self.asked += 1
        known = list(self.known)
        match self.kind:
            case "coroutine":
                return self.later(known)
            case "pieces":
                return self.pieces(known)
            case "copy":
                return lambda: self.encoded(known)
            case "raises":
                raise ValueError("no state today")
            case "runs dry":
                next(iter(()))
            case "exits":
                raise SystemExit("no state today")
            case "slow":
                assert self.may_go_on.wait(60)
        return self.encoded(self.known)

    async def later(self, known: list[bytes]) -> bytes:
        await asyncio.sleep(0)
        return self.encoded(known)

    def pieces(self, known: list[bytes]) -> Iterator[bytes]:
        whole = self.encoded(known)
        for start in range(0, len(whole), PIECE):
            yield whole[start : start + PIECE]

    def restore(self, state: bytes) -> None:
        self.threads.add(threading.get_ident())
        if self.kind == "refuses":
            raise ValueError("cannot take this over")
        known, _, padding = state.partition(b"\n")
        self.known = known.split(b"|") if known else []
        self.padding = len(padding)

    async def read(self, count: int) -> None:
        while len(self.known) < count:
            message = await anext(self.group)
            self.known.append(message.payload)


def replicas(*kinds: str, padding: int = 0) -> list[Replica]:
    ports, made = free_ports(NAMES), [Replica(kind, padding) for kind in kinds]
    for name, replica in zip(NAMES, made, strict=False):
        plan = AgreedPlan(found=name == NAMES[0])
        replica.group = join(NETWORK, name, ports, membership=plan, state=replica.state, restore=replica.restore)
    return made


async def close(*groups: Group) -> None:
    for group in groups:
        await group.close()


@pytest.mark.parametrize("kind", ["function", "coroutine", "pieces", "copy"])
def test_a_joiner_takes_over_the_state_and_what_follows(kind: str) -> None:
    """A megabyte, while the others go on."""
    first, second, _ = replicas(kind, "function", "function", padding=1 << 20)

    async def program() -> None:
        await first.group
        for number in range(20):
            await first.group.send(b"%d" % number)
        await first.read(10)
        await second.group
        await view_of(second.group, 2)
        for number in range(20, 40):
            await first.group.send(b"%d" % number)
        await asyncio.gather(first.read(40), second.read(40))
        assert first.known == second.known == [b"%d" % number for number in range(40)]
        assert second.padding == 1 << 20
        here = threading.get_ident()
        assert (here in first.threads) == (kind == "coroutine") and here not in second.threads
        await close(first.group, second.group)

    run(program())


def test_while_a_state_is_taken_the_program_waits_and_the_site_goes_on() -> None:
    """It blocked the event loop of every member that had the state: others suspected them, and no view held."""
    first, second, third = replicas("slow", "function", "function")
    first.may_go_on.set()

    async def program() -> None:
        await first.group
        await second.group
        await asyncio.gather(view_of(first.group, 2), view_of(second.group, 2))
        first.may_go_on.clear()
        second.kind, first.asked, second.asked = "slow", 0, 0
        second.may_go_on = first.may_go_on
        await third.group
        await second.group.send(b"meanwhile")
        reading = [asyncio.create_task(one.read(1)) for one in (first, second, third)]
        while not first.asked + second.asked:
            await asyncio.sleep(0.01)
        view_id = first.group.view.view_id
        await asyncio.sleep(1.0)  # twice the time after which a silent site is suspected
        assert first.group.view.view_id == second.group.view.view_id == view_id
        assert first.asked + second.asked == 1, "one member takes the state"
        first.may_go_on.set()
        await asyncio.gather(*reading)
        assert first.known == second.known == third.known == [b"meanwhile"]
        await close(first.group, second.group, third.group)

    run(program())


@pytest.mark.parametrize(
    ("kind", "said", "cause"),
    [
        ("raises", "ValueError: no state today", ValueError),
        ("runs dry", "RuntimeError: it raised StopIteration", RuntimeError),
        ("exits", "RuntimeError: it raised SystemExit", RuntimeError),
    ],
)
def test_a_state_that_raises_ends_the_site_and_another_gives_it(kind: str, said: str, cause: type[Exception]) -> None:
    """What no future takes, as StopIteration, once left the group waiting for ever."""
    first, second, third = replicas("function", "function", "function")

    async def program() -> None:
        await first.group
        await second.group
        await asyncio.gather(view_of(first.group, 2), view_of(second.group, 2))
        second.kind = kind
        await first.group.send(b"known")
        await asyncio.gather(first.read(1), second.read(1))
        await third.group
        with pytest.raises(SiteFailed, match=said) as failed:
            await anext(second.group)
        assert isinstance(failed.value.__cause__, cause)
        with pytest.raises(SiteFailed):
            await second.group.send(b"lost")
        await first.group.send(b"more")
        await third.read(2)
        assert third.known == [b"known", b"more"] and set(first.group.members) == {NAMES[0], NAMES[2]}
        await close(first.group, third.group)

    run(program())


def test_a_site_that_cannot_take_over_a_state_leaves_and_the_others_go_on() -> None:
    first, second, third = replicas("function", "function", "refuses")

    async def program() -> None:
        await first.group
        await second.group
        await asyncio.gather(view_of(first.group, 2), view_of(second.group, 2))
        await third.group
        with pytest.raises(SiteFailed, match="ValueError: cannot take this over"):
            await anext(third.group)
        await first.group.send(b"on")
        await asyncio.gather(first.read(1), second.read(1))
        await close(first.group, second.group)

    run(program())


def test_a_late_site_without_a_state_is_told_of_the_gap(caplog: pytest.LogCaptureFixture) -> None:
    """Also one whose process was started again: it does not know its last position, but where it goes on."""
    ports = free_ports(NAMES)

    async def program() -> None:
        first = join(NETWORK, NAMES[0], ports, membership=AgreedPlan(found=True))
        late = join(NETWORK, NAMES[1], ports)
        await first
        await first.send(b"missed")
        await late
        await view_of(late, 2)
        await first.send(b"seen")
        events = late.events()
        gap = await anext(events)
        assert isinstance(gap, Gap) and gap.last is None and gap.next is not None
        while not isinstance(event := await anext(events), Delivered):
            pass
        assert event.payload == b"seen" and event.position is not None and event.position >= gap.next
        assert "messages were missed here" in caplog.text
        await close(first, late)

    run(program())
