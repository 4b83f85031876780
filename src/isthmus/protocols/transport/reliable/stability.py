"""Arithmetic of stability: the frames that each member is known to have.

A matrix with one row per member: how far that member has each member's stream. A frame is stable once every target of
it is known to have it; no member can ask for it any more. Its origin decides that, and announces it to the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from isthmus.core.message import SiteId, Targets
from isthmus.protocols.transport.reliable.frames import Data, frame_bytes


class Stability:
    """The frames that the members of one view are known to have received; it only grows."""

    __slots__ = ("news", "nothing", "rows")

    def __init__(self, members: Targets) -> None:
        self.nothing = (0,) * len(members)
        self.rows: dict[SiteId, Sequence[int]] = {}  # of members that were heard; the others count as having nothing
        self.news = False  # something was noted since `collect` looked

    def note(self, site: SiteId, received: Sequence[int]) -> None:
        """Note the acknowledgement of a member; a late one takes nothing back."""
        self.rows[site] = tuple(map(max, self.rows.get(site, self.nothing), received))
        self.news = True

    def of(self, site: SiteId, place: int) -> int:
        """How far a member has the stream of the member at a place of the view."""
        return self.rows.get(site, self.nothing)[place]

    def reached(self, place: int, sites: Targets, last: Callable[[SiteId], int]) -> bool:
        """Whether some sites have the stream of the member at a place up to their last frame of it."""
        return all(self.of(site, place) >= last(site) for site in sites)

    def collect(self, place: int, kept: dict[int, Data[Any]]) -> int:
        """Drop the stable frames of one stream, which are in order of numbers; return their size."""
        self.news = False
        floor = min([row[place] for row in self.rows.values()]) if len(self.rows) == len(self.nothing) else 0
        stable = []
        for seq, data in kept.items():
            if seq <= floor or (data.targets and all(self.of(site, place) >= seq for site in data.targets)):
                stable.append(seq)
            elif not data.targets:
                break  # a later frame to all is no further than this one
        return sum([frame_bytes(kept.pop(seq)) for seq in stable])
