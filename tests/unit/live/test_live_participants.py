"""Participants of live groups, and the failure detector on real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from tests.harness.live_groups import join
from tests.harness.ports import free_ports
from tests.unit.live.test_group import NAMES, NETWORK, run

from isthmus.core.errors import LocalError
from isthmus.core.layer import Finality
from isthmus.core.message import SiteId
from isthmus.live.api.participants import LocalParticipant
from isthmus.protocols.participants.detector import DetectorOptions
from isthmus.protocols.participants.wire import Conditions, Participant, ParticipantsOptions, ParticipantView, Speech
from isthmus.stacks.registry import StackOptions
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh

LIGHT = StackOptions(participants=ParticipantsOptions(conditions={"orders": Conditions(present=("ann", "bob"))}))
ALONE = mesh(1, 1, Channel(Constant(0.1)), Channel(Constant(0.1)))
ECHO = "import os\nwhile os.write(0, os.read(0, 1) or exit()): pass"  # answers each probe over its standard input
STRAIGHT = DetectorOptions(probe_ms=50, silence_ms=500)


async def heard(participant: LocalParticipant, count: int) -> list[ParticipantView | Speech]:
    """What comes first, up to so many messages."""
    found: list[ParticipantView | Speech] = []
    async for event in participant:
        found.append(event)
        if sum(isinstance(one, Speech) for one in found) == count:
            break
    return found


@pytest.mark.parametrize("stack", ["token-site", "fifo", "causal-history", "flooding"])
def test_members_of_a_light_group_hear_the_same_in_the_same_views(stack: str) -> None:
    ports = free_ports(NAMES)

    async def site(
        name: str, who: str, together: asyncio.Barrier, done: asyncio.Barrier
    ) -> list[ParticipantView | Speech]:
        async with join(NETWORK, name, ports, stack=stack, options=LIGHT, emulate=True) as group:
            found: list[ParticipantView | Speech] = []
            if who:
                async with group.participant("orders", who) as participant:
                    while len(participant.view.members) < 2:
                        await asyncio.sleep(0.01)
                    await together.wait()
                    for number in range(5):
                        await participant.send(f"{who} {number}".encode())
                    found = await heard(participant, 10)
                    await together.wait()
            await done.wait()  # a group is founded once all its sites are there
        return found

    async def program() -> None:
        together, done = asyncio.Barrier(2), asyncio.Barrier(3)
        who = ["ann", "bob", ""]
        found = await asyncio.gather(*(site(name, one, together, done) for name, one in zip(NAMES, who, strict=True)))
        spoken = [[event.payload for event in events if isinstance(event, Speech)] for events in found[:2]]
        assert sorted(spoken[0]) == sorted(spoken[1]) and len(spoken[0]) == 10
        assert stack != "token-site" or spoken[0] == spoken[1]
        views = [event for event in found[0] if isinstance(event, ParticipantView)]
        assert [view.number for view in views] == sorted({view.number for view in views})
        assert views[-1].active and {event.view_number for event in found[0] if isinstance(event, Speech)} == {2}
        assert found[2] == []

    run(program())


def test_guesses_of_an_optimistic_order_reach_the_participants_that_ask() -> None:
    ports, order = free_ports(NAMES), StackOptions(participants=ParticipantsOptions())

    async def site(name: str, together: asyncio.Barrier) -> list[ParticipantView | Speech]:
        group = join(NETWORK, name, ports, stack="optimistic", options=order, emulate=True)
        async with group, group.participant("orders", name) as participant:
            events, found, final = participant.events(tentative=True), [], 0
            while len(participant.view.members) < 3:
                await asyncio.sleep(0.01)
            await together.wait()
            for number in range(5):
                await participant.send(f"{name} {number}".encode())
            while final < 15:
                found.append(await anext(events))
                final += isinstance(found[-1], Speech) and found[-1].finality is Finality.FINAL
            await together.wait()
        return found

    async def program() -> None:
        together = asyncio.Barrier(3)
        for found in await asyncio.gather(*(site(name, together) for name in NAMES)):
            said = [event for event in found if isinstance(event, Speech)]
            guessed = [event for event in said if event.finality is Finality.TENTATIVE]
            final = [event.payload for event in said if event.finality is Finality.FINAL]
            assert len(set(final)) == 15 and {event.payload for event in guessed} <= {*final}
            assert all(said.index(guess) < place_of(said, guess.payload) for guess in guessed), "a guess comes first"

    def place_of(said: list[Speech], payload: bytes) -> int:
        return next(n for n, one in enumerate(said) if one.payload == payload and one.finality is Finality.FINAL)

    run(program())


def test_a_guess_that_is_revoked_unread_is_as_if_it_had_never_been() -> None:
    participant = LocalParticipant(lambda: pytest.fail("not joined"), "orders", "ann")
    guess = Speech("orders", Participant(SiteId(0), "bob"), b"x", 1, finality=Finality.TENTATIVE)
    other = msgspec.structs.replace(guess, payload=b"y")
    revoked = msgspec.structs.replace(guess, finality=Finality.REVOKED)
    for event in (guess, other, revoked):
        participant._put_guess(event)
    assert list(participant.unread) == [other]
    participant.unread.clear()
    participant._put_guess(revoked)
    assert list(participant.unread) == [revoked]


def test_guesses_that_were_read_are_revoked_with_the_life_of_the_site() -> None:
    """Also one whose message has come and was not read: it is dropped with the life."""
    participant = LocalParticipant(lambda: pytest.fail("not joined"), "orders", "ann")
    participant.guesses = True
    guesses = [
        Speech("orders", Participant(SiteId(0), "bob"), payload, 1, finality=Finality.TENTATIVE)
        for payload in (b"x", b"y", b"z")
    ]
    final = msgspec.structs.replace(guesses[0], finality=Finality.FINAL)
    for event in (*guesses[:2], final):
        participant._put(event)

    async def read() -> list[Any]:
        events = participant.events(tentative=True)
        return [await anext(events) for _ in range(3)]

    assert len(asyncio.run(read())) == 3
    participant._put_guess(guesses[2])
    participant._lose_life()
    assert list(participant.unread) == [msgspec.structs.replace(guesses[1], finality=Finality.REVOKED)]


def test_without_the_option_there_are_no_participants() -> None:
    async def program() -> None:
        async with join(ALONE, ALONE.sites[0].name, {ALONE.sites[0].name: free_ports(NAMES)[NAMES[0]]}) as group:
            with pytest.raises(LocalError, match="ParticipantsOptions"):
                async with group.participant("orders", "ann"):
                    pass

    run(program())


@pytest.mark.parametrize(
    ("way", "reason"),
    [
        ("kill", "its process ended"),
        ("close", "its channel was closed"),
        ("stop", "it has not answered for 0.5 s: removed by decision"),
    ],
)
def test_a_participant_whose_program_ends_is_removed(way: str, reason: str) -> None:
    ours, theirs = socket.socketpair()
    child = subprocess.Popen([sys.executable, "-c", ECHO], stdin=theirs.fileno())
    theirs.close()

    async def program() -> None:
        port = {ALONE.sites[0].name: free_ports(NAMES)[NAMES[0]]}
        group = join(ALONE, ALONE.sites[0].name, port, options=LIGHT, detector=STRAIGHT)
        async with group, group.participant("orders", "bob") as bob, group.participant("orders", "ann") as ann:
            assert ann.view.active
            if way == "kill":
                ann.watch_process(child.pid)
                os.kill(child.pid, signal.SIGKILL)
            else:
                ann.watch_channel(ours)
                await asyncio.sleep(1.5)  # three times the silence that is borne: it answers
                assert not ann.removed_why
                os.kill(child.pid, signal.SIGSTOP if way == "stop" else signal.SIGKILL)
            assert [event async for event in ann], "ends once ann is out"
            assert ann.removed_why == reason
            assert [member.name for member in bob.view.members] == ["bob"]
            assert bob.view.unmet == ("ann missing",)

    try:
        run(program())
    finally:
        child.kill()
        child.wait()
        ours.close()
