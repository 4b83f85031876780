"""The wire types of routers and of the processes of composed groups.

A message that leaves its group, or that is ordered outside it, travels as a `Routed`: in each node it is an ordinary
message of the site that submits it there, with a place in that node's order, and carries the author and number that its
sender gave it. Filters and routers identify it by these alone, never by its courier.

The others go straight over the network and may be lost: a `ConsumedReport` says how far a process has consumed each
author's messages, a `Settled` how far all processes of a group have, and an `Enquire` requests both again. A `Missing`
requests a message before one that has arrived; a `Forgotten` answers that the message is no longer kept.

Where a router without replicas may have lost messages in a crash, a process that waits for them sends a `Chase` to
request a `Trailer`: a copy without payload that takes the route of its author's messages, behind them.

Where routes are recomputed, a message travels as a `Steered`, and routers announce `Distances` in the nodes that they
share, as messages of these; an `Alive` answers an Enquire there.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from isthmus.core.message import Author, GroupId, Message, SiteId

ROUTED_MAX = 32_000  # bytes of a payload: a copy is never cut, and fits any datagram with all headers
Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Small = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
StreamKey = tuple[int, int, int, int]  # group and author of messages, the author's life, and the domain
Entry = tuple[StreamKey, Number]  # a stream, and up to which number


class Routed(Message, frozen=True, gc=False, array_like=True, tag=110):
    """One copy of a message in one node of its route."""

    origin: GroupId
    sender: SiteId
    number: Number
    to: tuple[Small, ...]  # the groups that it is for, ascending
    copy: Small  # which of the copies of its walk this is
    before: tuple[Number, ...]  # for each group that it must reach, its author's message there before; 0: none
    payload: bytes = b""
    epoch: Number = 0  # of the router that forwarded it; missing messages are requested from the highest

    @property
    def author(self) -> Author:
        return (self.origin, self.sender, self.number)

    def payload_bytes(self) -> int:
        return len(self.payload)


class Steered(Routed, frozen=True, gc=False, array_like=True, tag=117):
    """A copy whose route is computed hop by hop; `copy` counts the routers that it has passed."""

    remaining: tuple[Small, ...] = ()  # the groups that this copy still has to reach, ascending


class Trailer(Routed, frozen=True, gc=False, array_like=True, tag=125):
    """A copy without payload behind all of its author's messages up to `number`: those still missing are lost."""


class Chase(Message, frozen=True, gc=False, array_like=True, tag=119):
    """A request for a trailer behind the messages of its sender to some groups."""

    to: tuple[Small, ...]  # ascending
    number: Number  # the last of these messages that the sender's group has delivered
    view: Number  # in which it did


class Distances(Message, frozen=True, gc=False, array_like=True, tag=118):
    """The distances of groups through a router, in routers, without the node in which it announces them."""

    entries: tuple[tuple[Small, Small], ...]  # group and distance; others cannot be reached


class Alive(Message, frozen=True, gc=False, array_like=True, tag=126):
    """The answer to an Enquire where routes are recomputed."""


class Pack(Message, frozen=True, gc=False, array_like=True, tag=111):
    """Several copies that a router forwards as one message, in order."""

    copies: tuple[Routed | Steered | Trailer, ...]

    def payload_bytes(self) -> int:
        return sum([len(copy.payload) for copy in self.copies])


class ConsumedReport(Message, frozen=True, gc=False, array_like=True, tag=112):
    """How far its sender has consumed messages of some authors, in its group."""

    entries: tuple[Entry, ...]


class Settled(Message, frozen=True, gc=False, array_like=True, tag=113):
    """How far all processes of a group have consumed messages of some authors."""

    group: Small
    entries: tuple[Entry, ...]


class Enquire(Message, frozen=True, gc=False, array_like=True, tag=114):
    """A request for reports and settled numbers; each router passes it on once."""

    asker: SiteId
    turn: Number  # the asker's first, second ... enquiry in its life, with the life above bit 32


class Missing(Message, frozen=True, gc=False, array_like=True, tag=115):
    """A request for a missing message, of whose author a later one has arrived."""

    stream: StreamKey
    number: Number


class Forgotten(Message, frozen=True, gc=False, array_like=True, tag=116):
    """The answer that a message is no longer kept, and not worth waiting for."""

    stream: StreamKey
    number: Number
