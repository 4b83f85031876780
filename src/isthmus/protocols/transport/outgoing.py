"""The numbers of a sender's own frames: what each member was sent last, and what it should have acknowledged by now.

As long as every frame goes to all, the frame before a frame is simply the number before, for everybody, and nothing
is kept per member. A frame to fewer ends that; the next one to all says for each what came before, and restores it.
"""

from __future__ import annotations

from collections.abc import Iterable

from isthmus.core.message import Message, SiteId, Targets
from isthmus.protocols.transport.frames import Data


class Outgoing:
    """The stream of this site in one view."""

    __slots__ = ("last_to", "mark", "members", "seq", "uniform")

    def __init__(self, members: Targets) -> None:
        self.members = members
        self.seq = 0  # of the last frame
        self.uniform = True  # the last frame went to all, so that it is the frame before the next one for everybody
        self.last_to: dict[SiteId, int] = {}  # the last frame that went to each member; only if not uniform
        self.mark = dict.fromkeys(members, 0)  # what each member had been sent at the last tick of the status timer

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
        """The last frame that went to a member."""
        return self.seq if self.uniform else self.last_to[site]

    def set_marks(self) -> None:
        self.mark = {site: self.last(site) for site in self.members}

    def by_last(self, sites: Iterable[SiteId]) -> dict[int, list[SiteId]]:
        """Some members by the last frame that went to them."""
        groups: dict[int, list[SiteId]] = {}
        for site in sites:
            groups.setdefault(self.last(site), []).append(site)
        return groups
