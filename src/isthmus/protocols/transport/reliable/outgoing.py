"""Numbers of a sender's own frames: the last one for each member.

As long as every frame goes to all, the previous frame has the previous number for all members, and nothing is kept per
member. A frame to a subset ends that; the next one to all names the previous frame of each member, and restores it.
"""

from __future__ import annotations

from isthmus.core.message import Message, SiteId, Targets
from isthmus.protocols.transport.reliable.frames import Data


class Outgoing:
    """The stream of this site in one view."""

    __slots__ = ("last_to", "members", "seq", "uniform")

    def __init__(self, members: Targets) -> None:
        self.members = members
        self.seq = 0  # of the last frame
        self.uniform = True  # the last frame went to all, so the next one follows it for every member
        self.last_to: dict[SiteId, int] = {}  # the last frame that is for each member; only if not uniform

    def frame(self, message: Message, targets: Targets) -> Data[Message]:
        """The next frame; `targets` are members."""
        self.seq += 1
        if self.uniform:
            if targets is self.members:
                return Data(self.seq, message)
            self.uniform = False
            self.last_to = dict.fromkeys(self.members, self.seq - 1)
        prevs = tuple(self.last_to[site] for site in targets)
        if targets is self.members:
            self.uniform = True
            return Data(self.seq, message, (), prevs)
        for site in targets:
            self.last_to[site] = self.seq
        return Data(self.seq, message, targets, prevs)

    def last(self, site: SiteId) -> int:
        """The last frame that is for a member, sent or deferred."""
        return self.seq if self.uniform else self.last_to[site]
