"""Forged packets against a running group: from a stranger, and in the name of a member; the group goes on as it was."""

from __future__ import annotations

import asyncio
import socket
from random import Random

import msgspec
from tests.unit.live.test_live_membership import NAMES, Site, alike, each_sends, eventually, run, three
from tests.unit.protocols.membership.test_hostile_words import HOSTILE

from isthmus.core.layer import View
from isthmus.core.message import SiteId
from isthmus.live.net.framing import MESSAGES, entry, head
from isthmus.live.node.runtime import SITE_GROUP
from isthmus.protocols.membership.agreement import Agreement
from isthmus.protocols.membership.suspicion import Heartbeat
from isthmus.protocols.membership.wire import Decide, Gone, Join, Proposal, Propose
from isthmus.protocols.transport.reliable.frames import Data

PAUSE_EVERY = 50  # packets, so that no buffer of the loopback overflows


class Attacker:
    """Sends what it likes to site 0, from a port of its own or from that of site 1."""

    def __init__(self, sites: list[Site]) -> None:
        self.victim, self.used = sites[0].group.runtime, sites[1].group.runtime
        self.outside = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.count = 0

    async def throw(self, datagram: bytes, inside: bool = True) -> None:
        own = self.used.joined().socket.socket if inside else self.outside
        own.sendto(datagram, ("127.0.0.1", self.victim.endpoints[0].port))
        self.count += 1
        if self.count % PAUSE_EVERY == 0:
            await asyncio.sleep(0.005)

    def wrapped(self, message: object, view_id: int = 0, group: int = 0) -> bytes:
        """A message as site 1 would send it."""
        return self.used.joined().site.beginning + entry(group, view_id, msgspec.msgpack.encode(message))

    def life(self, ahead_ns: int) -> bytes:
        """The head of a datagram of another life of site 1."""
        peers = self.used.joined().site.peers
        return head(SiteId(1), peers.life + ahead_ns, peers.token, MESSAGES)

    def counts(self) -> tuple[int, int]:
        """What the victim has refused: by its stack, and before that."""
        site = self.victim.joined().site
        peers = site.peers
        return site.log.rejected_count, peers.foreign_count + peers.garbled_count + peers.stale_count


def forged_words(view: View) -> list[msgspec.Struct]:
    """Words that name the lives of the running group, each with something that cannot be."""
    lives = dict(view.lives())
    one = lives[SiteId(1)]
    electors = view.members
    following = View(view.view_id + 1, electors, view.incarnations, view.weights, view.last)
    views = [
        msgspec.structs.replace(following, weights=(1,)),
        msgspec.structs.replace(following, members=(*electors[:-1], SiteId(9))),
        msgspec.structs.replace(following, view_id=view.view_id + 100),
        msgspec.structs.replace(following, incarnations=tuple(number - 1 for number in view.incarnations)),
    ]
    found: list[msgspec.Struct] = []
    for forged in views:
        proposal = Proposal(view.view_id, electors, forged, (), electors)
        found += [
            Decide(one, proposal),
            Propose(one, one, view.view_id, (1, SiteId(1), one), proposal),
        ]
    found += [Gone(one, 1 << 33, lives[SiteId(0)]), Join(1 << 40, 5, ())]
    return found


def test_a_running_group_is_not_impressed() -> None:
    async def program() -> None:
        _, sites = await three()
        await each_sends(sites, "before", 5)
        await alike(sites, 15)
        attacker, view = Attacker(sites), sites[0].group.view
        incarnation = attacker.victim.incarnation
        rejected, foreign = attacker.counts()
        words = [word for _, word in HOSTILE.values()] + forged_words(view)
        for word in words:
            await attacker.throw(attacker.wrapped(word))
        await attacker.throw(attacker.wrapped(Heartbeat(-1), 0, SITE_GROUP))
        await eventually(lambda: attacker.counts()[0] >= rejected + len(forged_words(view)) + 1)

        genuine = attacker.wrapped(Join(1, 5, ()))
        shifted = [genuine[:length] for length in range(len(genuine))]
        shifted += [genuine + b"\xff\xff", attacker.wrapped(Data(1, None), 1 << 31)]
        shifted += [attacker.life(3 * 86_400 * 10**9) + genuine[24:], attacker.life(-1) + genuine[24:]]
        for datagram in shifted:
            await attacker.throw(datagram)
        noise = Random(1)
        for _ in range(300):
            await attacker.throw(noise.randbytes(noise.randrange(1, 1400)), inside=noise.random() < 0.5)
            await attacker.throw(attacker.wrapped([noise.randrange(70), noise.randrange(1 << 40)]))
        for word in words:
            await attacker.throw(attacker.wrapped(word), inside=False)  # a stranger with the token of the run
        await eventually(lambda: attacker.counts()[1] >= foreign + len(words))

        await each_sends(sites, "after", 5)
        await alike(sites, 30)
        assert {site.group.view for site in sites} == {view} and sorted(sites[0].group.members) == sorted(NAMES)
        assert attacker.victim.incarnation == incarnation
        assert attacker.victim.groups[0].port is not None
        assert not attacker.victim.groups[0].port.stack.find(Agreement).requests.heard
        attacker.outside.close()
        for site in sites:
            site.die()

    run(program)
