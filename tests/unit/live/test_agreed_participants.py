"""Participants of a live site group that agrees on its views: sites that die, come back, are cut off, leave."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.live.test_live_membership import NAMES, PATIENT, Site, eventually, run, three

from isthmus.live.api.participants import LocalParticipant
from isthmus.live.node.plans import AgreedPlan
from isthmus.protocols.membership.suspicion import Timing
from isthmus.protocols.participants.wire import Conditions, ParticipantsOptions, ParticipantView, Speech
from isthmus.scenario.model import Agreed
from isthmus.stacks.registry import StackOptions

NAMED = ("ann", "bob", "eve")
LIGHT = StackOptions(participants=ParticipantsOptions(conditions={"orders": Conditions(majority_of=NAMED)}))
HASTY = Agreed(lan=Timing(heartbeat_ms=20, floor_ms=400, ceiling_ms=500))


class Guest:
    """A participant that notes all that it is told."""

    def __init__(self, site: Site, name: str) -> None:
        self.participant: LocalParticipant = site.group.participant("orders", name)
        self.told: list[ParticipantView | Speech] = []

    async def come(self) -> Guest:
        await self.participant.__aenter__()
        self.reading = asyncio.create_task(self.read())
        return self

    async def read(self) -> None:
        async for event in self.participant:
            self.told.append(event)

    def names(self) -> list[str]:
        return [member.name for member in self.participant.view.members]

    def after(self, payload: bytes) -> list[Any]:
        """What was told since a message, each thing by what tells it from others."""
        shown = [one.payload if isinstance(one, Speech) else (one.number, one.members, one.active) for one in self.told]
        return shown[shown.index(payload) :]


async def guests(stack: str, **options: Any) -> tuple[dict[str, int], list[Site], list[Guest]]:
    ports, sites = await three(stack=stack, options=LIGHT, **options)
    found = [await Guest(site, name).come() for site, name in zip(sites, NAMED, strict=True)]
    for guest in found:
        await eventually(lambda guest=guest: guest.names() == list(NAMED))
    return ports, sites, found


def end(sites: list[Site], found: list[Guest]) -> None:
    for guest in found:
        guest.reading.cancel()
    for site in sites:
        site.die()


@pytest.mark.parametrize("stack", ["token-site", "fifo"])
def test_a_site_that_dies_takes_its_participants_along_at_one_place(stack: str) -> None:
    async def program() -> None:
        ports, sites, (ann, bob, eve) = await guests(stack)
        await ann.participant.send(b"begin")
        await eventually(lambda: all(b"begin" in [getattr(one, "payload", b"") for one in g.told] for g in (ann, bob)))
        for number in range(20):
            await ann.participant.send(b"a%d" % number)
            await bob.participant.send(b"b%d" % number)
        eve.reading.cancel()
        sites[2].die()
        for guest in (ann, bob):
            await eventually(lambda guest=guest: guest.names() == ["ann", "bob"])
        await ann.participant.send(b"end")
        await eventually(
            lambda: all(isinstance(g.told[-1], Speech) and g.told[-1].payload == b"end" for g in (ann, bob))
        )
        seen = [guest.after(b"begin") for guest in (ann, bob)]
        if stack == "token-site":
            assert seen[0] == seen[1]
        else:
            views = [[one for one in found if isinstance(one, tuple)] for found in seen]
            assert views[0] == views[1] and sorted(map(str, seen[0])) == sorted(map(str, seen[1]))
        assert ann.participant.view.active  # two of three
        back = await Site(NAMES[2], ports, stack=stack, options=LIGHT).start()
        again = await Guest(back, "eve").come()
        await eventually(lambda: ann.names() == ["ann", "bob", "eve"] == again.names())
        end([*sites[:2], back], [ann, bob, again])

    run(program)


def test_participants_of_a_site_that_was_cut_off_join_again_by_themselves() -> None:
    async def program() -> None:
        _, sites, (ann, bob, eve) = await guests("token-site", plan=AgreedPlan(HASTY))
        sockets = [site.group.runtime.joined().socket for site in sites]
        sockets[0].cut = sockets[1].cut = frozenset({2})
        sockets[2].cut = frozenset({0, 1})
        await eventually(lambda: ann.names() == ["ann", "bob"] == bob.names())
        assert eve.names() == list(NAMED)  # it waits, and knows of nothing
        waiting = asyncio.create_task(eve.participant.send(b"from a minority"))
        for socket in sockets:
            socket.cut = frozenset()
        await eventually(lambda: all(guest.names() == list(NAMED) for guest in (ann, bob, eve)))
        await waiting
        await eve.participant.send(b"back")
        await eventually(lambda: all(getattr(g.told[-1], "payload", b"") == b"back" for g in (ann, bob, eve)))
        await eve.participant.__aexit__(None, None, None)
        await eventually(lambda: ann.names() == ["ann", "bob"])
        end(sites, [ann, bob, eve])

    run(program)


def test_a_site_that_leaves_takes_its_participants_along() -> None:
    async def program() -> None:
        _, sites, (ann, bob, eve) = await guests("token-site", plan=AgreedPlan(PATIENT))
        bob.reading.cancel()
        eve.reading.cancel()
        await sites[2].group.__aexit__(None, None, None)
        await sites[1].group.__aexit__(None, None, None)
        await eventually(lambda: ann.names() == ["ann"])
        assert ann.participant.view.unmet == ("1 of ann, bob, eve present, no majority",)
        end(sites[:1], [ann])

    run(program)
