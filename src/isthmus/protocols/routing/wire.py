"""What routers and the processes of composed groups say to each other.

A message that leaves its group, or that is ordered outside it, travels as a `Routed`: in each node it is an ordinary
message of whoever submits it there, with a place in that node's order, and inside it is the name that its author gave
it. Filters and routers look at that inner head alone, never at who forwarded it.

The rest goes straight over the network and may get lost: a `ConsumedReport` says what a process is done with, a
`Settled` what all processes of a group are done with, and an `Enquire` has both said again. A `Missing` asks for a
message before one that has come; a `Forgotten` says that nobody has to wait for it.

Where a router without replicas may have lost messages with its life, a process that waits for them asks by a `Chase`
for a `Trailer`: a copy without contents that goes the way of its author's messages, behind them.

Where routes are recomputed, a message travels as a `Steered`, and routers tell each other `Distances` in the nodes that
they share, as messages of these; an `Alive` answers an Enquire there.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from isthmus.core.message import Author, GroupId, Message, SiteId

ROUTED_MAX = 32_000  # bytes of a payload: a copy is never cut, and fits a datagram of any path with all heads
Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Small = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
StreamKey = tuple[int, int, int, int]  # group and author of messages, the author's life, and the domain
Entry = tuple[StreamKey, Number]  # how far a stream has come


class Routed(Message, frozen=True, gc=False, array_like=True, tag=110):
    """One copy of a message on its way through groups."""

    origin: GroupId
    sender: SiteId
    number: Number
    to: tuple[Small, ...]  # the groups that it is for, ascending
    copy: Small  # which of the copies of its walk this is
    before: tuple[Number, ...]  # for each group that it must reach, its author's message there before; 0: none
    payload: bytes = b""
    epoch: Number = 0  # of the router that forwarded it: which of several to ask is the one of the highest

    @property
    def author(self) -> Author:
        return (self.origin, self.sender, self.number)

    def payload_bytes(self) -> int:
        return len(self.payload)


class Steered(Routed, frozen=True, gc=False, array_like=True, tag=117):
    """A copy whose way routers find as it goes (recomputed.py); `copy` is how many routers have passed it on."""

    remaining: tuple[Small, ...] = ()  # the groups that this copy still has to reach, ascending


class Trailer(Routed, frozen=True, gc=False, array_like=True, tag=125):
    """A copy without contents behind all of its author's messages up to `number`: what has not come by then is lost."""


class Chase(Message, frozen=True, gc=False, array_like=True, tag=119):
    """Send a trailer behind the messages of the sender of this to some groups."""

    to: tuple[Small, ...]  # ascending
    number: Number  # the last of these messages that the sender's group has delivered
    view: Number  # in which it did


class Distances(Message, frozen=True, gc=False, array_like=True, tag=118):
    """How far groups are through the router that says so, in routers, without the node in which it says so."""

    entries: tuple[tuple[Small, Small], ...]  # group and distance; others cannot be reached


class Alive(Message, frozen=True, gc=False, array_like=True, tag=126):
    """The answer of a router that finds ways to an Enquire."""


class Pack(Message, frozen=True, gc=False, array_like=True, tag=111):
    """Several copies that a router forwards as one message, in order."""

    copies: tuple[Routed | Steered | Trailer, ...]

    def payload_bytes(self) -> int:
        return sum([len(copy.payload) for copy in self.copies])


class ConsumedReport(Message, frozen=True, gc=False, array_like=True, tag=112):
    """Up to where the sender of this is done with messages of some authors, in its group."""

    entries: tuple[Entry, ...]


class Settled(Message, frozen=True, gc=False, array_like=True, tag=113):
    """Up to where all processes of a group are done with messages of some authors."""

    group: Small
    entries: tuple[Entry, ...]


class Enquire(Message, frozen=True, gc=False, array_like=True, tag=114):
    """Say again what you are done with, or know to be settled; routers pass it on, each once."""

    asker: SiteId
    turn: Number  # the asker's first, second ... enquiry in its life, with the life above bit 32


class Missing(Message, frozen=True, gc=False, array_like=True, tag=115):
    """A message that has not come, though a later one of its author has."""

    stream: StreamKey
    number: Number


class Forgotten(Message, frozen=True, gc=False, array_like=True, tag=116):
    """Nobody keeps that message any more: do not wait for it."""

    stream: StreamKey
    number: Number
