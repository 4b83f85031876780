"""What routers and the processes of composed groups say to each other.

A message that leaves its group, or that is ordered outside it, travels as a `Routed`: in each node it is an ordinary
message of whoever submits it there, with a place in that node's order, and inside it is the name that its author gave
it. Filters and routers look at that inner head alone, never at who forwarded it.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from isthmus.core.message import Author, GroupId, Message, SiteId

Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
GroupNumber = Annotated[int, msgspec.Meta(ge=0)]


class Routed(Message, frozen=True, gc=False, array_like=True, tag=110):
    """One copy of a message on its way through groups."""

    origin: GroupId
    sender: SiteId
    number: Number
    to: tuple[GroupNumber, ...]  # the groups that it is for, ascending
    copy: GroupNumber  # which of the copies of its walk this is
    before: tuple[Number, ...]  # for each of these groups, the number of its author's message there before; 0: none
    payload: bytes = b""

    @property
    def author(self) -> Author:
        return (self.origin, self.sender, self.number)

    def payload_bytes(self) -> int:
        return len(self.payload)


class Pack(Message, frozen=True, gc=False, array_like=True, tag=111):
    """Several copies that a router forwards as one message, in order."""

    copies: tuple[Routed, ...]

    def payload_bytes(self) -> int:
        return sum([len(copy.payload) for copy in self.copies])
