"""Causal order by flooding an overlay: no timestamps, no waiting, only FIFO links (paper 004).

Problem: timestamps that keep causal order grow with the group. Idea: every member forwards each message, at its first
receipt, to all its neighbours except the source, *then* delivers it; links are FIFO. So whatever a member forwards or
sends after it has delivered m follows m on each of its links, and by induction reaches every member after m
(docs/design/flooding.md has the proof). It costs 2E - (n - 1) sends per broadcast, E being the links of the overlay.

Forward first: a reply that the application submits inside the delivery leaves at once, and must not overtake m.

A member's own message is delivered to itself at the end of the turn, or before the next receipt: a reply to it can only
come after that.

Views. The overlay follows from the members (topology/overlay/links.py). A crash cuts streams short and reorders
nothing; what a crashed member had forwarded to some spreads on through them, as long as the rest of the overlay is
connected, and the view change gives it to all in any case. When a view closes, forwarding stops, survivors get what any
of them delivered, and deliver what they lack by logical clocks, as the other causal orders do: a clock is a few bytes
of each message, used only then. The new view's overlay starts empty.

What is kept for the flush is dropped once all members have it, which they learn along a tree of links (tree.py).

Invariants:
- counts[o] = k: the first k messages of o, and no others of o, were forwarded and delivered here, in order;
- a link carries the numbers of each origin without a gap: a message after a gap is refused;
- kept[o] has the delivered messages of o above the stable floor, and own ones from their submission.

Bounds: `keep_max` own messages above the floor, then `writable` is false; of others no more than their own bound.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Annotated, Any, Generic

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Handler, Kind, View, places
from isthmus.core.message import ALL, B, Carried, Cast, Message, SiteId, Targets
from isthmus.protocols.causal.flooding.tree import StableCounts, TreePosition, places_in_tree
from isthmus.protocols.causal.histories.coding import put_varints, read_varints
from isthmus.protocols.transport.base import Transport
from isthmus.protocols.transport.reliable.frames import Data, ReliableOptions
from isthmus.topology.overlay.links import Overlay, neighbours_in

REPORT = 0  # timer key
Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class FloodedMessage(Message, Generic[B], frozen=True, gc=False, array_like=True, tag=82):
    """A message forwarded over the overlay, the same on every link."""

    forwarded = True

    cast: B
    origin: SiteId
    count: Count  # the origin's counter in this view, from 1
    clock: Count  # above those of all messages before it

    def payload_bytes(self) -> int:
        return len(self.cast.payload)  # type: ignore[attr-defined]

    def subjects(self) -> tuple[Cast, ...]:
        return (self.cast,)  # type: ignore[return-value]


class KnownCounts(Message, frozen=True, gc=False, array_like=True, tag=83):
    """To the parent: what the sender and all members below it have, one counter per member."""

    counts: bytes


class StableFloor(Message, frozen=True, gc=False, array_like=True, tag=84):
    """To the children: what all members have, one counter per member."""

    counts: bytes


class Flooding(Transport):
    """Floods messages along an overlay, and delivers each at its first receipt."""

    __slots__ = (
        "armed",
        "clock",
        "counts",
        "full",
        "index",
        "kept",
        "late",
        "near",
        "news",
        "options",
        "overlay",
        "own_due",
        "place",
        "stable",
        "without",
    )
    timer_names = ("report",)

    def __init__(self, overlay: Overlay | None = None, options: ReliableOptions | None = None) -> None:
        super().__init__()
        self.overlay = overlay or Overlay()
        self.options = options or ReliableOptions()
        self.full = False  # `writable` returned False; `resume` is due
        self.own_due: deque[Cast] = deque()  # own messages that are forwarded and not delivered here yet
        self.late: list[FloodedMessage[Any]] = []  # absorbed by a flush
        self.near: Targets = ()
        self.reset()

    def reset(self) -> None:
        """Begin a view without a past."""
        members = self.view.members
        self.index = places(members)
        self.counts = [0] * len(members)
        self.kept: list[dict[int, FloodedMessage[Any]]] = [{} for _ in members]
        self.clock = 0
        self.without: dict[SiteId, Targets] = {}  # all neighbours except the key
        self.place = TreePosition(None, ())
        self.stable = StableCounts(0, ())
        self.armed = False  # the timer of the next report is set
        self.news = 0  # deliveries since the last report

    def bodies(self) -> dict[type[Message], Handler]:
        return {FloodedMessage: self.on_hop, KnownCounts: self.on_known, StableFloor: self.on_floor}

    # Sending

    def submit(self, message: Message, targets: Targets = ALL) -> None:  # noqa: ARG002  they are in the message
        assert isinstance(message, Cast)
        if self.blocked:
            return
        me = self.index[self.host.site]
        self.counts[me] += 1
        self.clock += 1
        hop = FloodedMessage(message, self.host.site, self.counts[me], self.clock)
        if self.near:
            self.below.submit(hop, self.near)
        self.own_due.append(message)
        self.host.turn_due = True
        self.keep(me, hop)  # last: a lone member finds at once that all have it, and gets the next one to submit

    def end_turn(self) -> None:
        self.deliver_own()

    def deliver_own(self) -> None:
        while self.own_due:
            self.hand_over(self.own_due.popleft())

    def writable(self) -> bool:
        if self.blocked:
            return False
        room = len(self.kept[self.index[self.host.site]]) < self.options.keep_max
        self.full |= not room
        return self.below.writable() and room

    def settled(self) -> bool:
        return not self.own_due and self.below.settled()

    # Receiving

    def on_hop(self, source: SiteId, hop: FloodedMessage[Any]) -> None:
        place = self.check(source, hop)
        known = self.counts[place]
        if hop.count <= known:
            return
        if hop.count > known + 1:
            raise RemoteError(f"site {source} sent message {hop.count} of site {hop.origin} after {known}")
        if self.own_due:
            self.deliver_own()
        self.forward(source, hop)
        self.counts[place] = hop.count
        self.keep(place, hop)
        self.clock = max(self.clock, hop.clock)
        self.hand_over(hop.cast)

    def check(self, source: SiteId, hop: FloodedMessage[Any]) -> int:
        """The index of a message's origin; refuses what no neighbour may send."""
        cast, place = hop.cast, self.index.get(hop.origin)
        if place is None or source not in self.near or not hop.count:
            raise RemoteError(f"site {source} sent message {hop.count} of site {hop.origin}, outside the overlay")
        if not isinstance(cast, Cast) or cast.sender != hop.origin:
            raise RemoteError(f"site {source} sent a message of site {hop.origin} under another name")
        if hop.origin == self.host.site and hop.count > self.counts[place]:
            raise RemoteError(f"site {source} sent message {hop.count} of ours, which we never wrote")
        return place

    def forward(self, source: SiteId, hop: FloodedMessage[Any]) -> None:
        """Forward a message, unless a view closes: the flush gives it to every member."""
        if self.blocked:
            return
        targets = self.without.get(source)
        if targets is None:
            targets = self.without[source] = tuple(site for site in self.near if site != source)
        if targets:
            self.below.submit(hop, targets)

    def hand_over(self, cast: Cast) -> None:
        """Deliver a message addressed to us; every member refuses one of an author that no layer accepts."""
        if isinstance(cast, Carried) and not self.stack.accepts_author(cast.sender, cast):
            self.host.trace(Kind.REJECT, value=cast.sender)
        elif not cast.destinations or self.host.site in cast.destinations:
            self.above.deliver(cast)

    # What is stable

    def keep(self, place: int, hop: FloodedMessage[Any]) -> None:
        self.kept[place][hop.count] = hop
        self.news += 1
        if 4 * self.news >= self.options.keep_max:
            self.report()
        elif not self.armed:
            self.arm()

    def arm(self) -> None:
        self.armed = True
        self.host.set_timer(self, REPORT, round(self.options.ack_period_ms * 1e6))

    def timer(self, key: int) -> None:
        assert key == REPORT
        self.armed = False
        self.report()
        if any(self.kept):
            self.arm()

    def report(self) -> None:
        """Report to the parent what we and all below us have, or at the root to all what all have, if that changed."""
        self.news = 0
        least = self.stable.least(self.counts)
        if self.blocked or least == self.stable.reported:
            return
        self.stable.reported = least
        if self.place.parent is not None:
            self.below.submit(KnownCounts(put_varints(least)), (self.place.parent,))
        else:
            self.release(least)

    def on_known(self, source: SiteId, known: KnownCounts) -> None:
        if source not in self.stable.below:
            raise RemoteError(f"a report of site {source}, which is not our child")
        counts = read_varints(known.counts, len(self.counts))
        gained = sum(counts) - sum(self.stable.below[source])
        self.stable.note(source, counts)
        if 4 * gained >= self.options.keep_max:
            self.report()
        elif not self.armed:
            self.arm()

    def on_floor(self, source: SiteId, floor: StableFloor) -> None:
        counts = read_varints(floor.counts, len(self.counts))
        if source != self.place.parent or any(map(int.__gt__, counts, self.counts)):
            raise RemoteError(f"site {source} reports as stable what we do not have")
        self.release(counts)

    def release(self, floor: list[int]) -> None:
        """Drop what all have and report it to the children, unless a view closes: the flush needs what is kept."""
        if self.blocked:
            return
        self.stable.floor = floor
        for kept, stable in zip(self.kept, floor, strict=True):
            while kept and (first := next(iter(kept))) <= stable:
                del kept[first]
        if self.place.children:
            self.below.submit(StableFloor(put_varints(floor)), self.place.children)
        if self.full and self.writable():
            self.full = False
            self.above.resume()

    # View change

    @property
    def transport(self) -> Transport:
        assert isinstance(self.below, Transport)
        return self.below

    def block(self) -> None:
        self.deliver_own()
        super().block()
        self.transport.block()

    def freeze(self) -> None:
        self.deliver_own()
        super().block()
        self.host.cancel_timer(self, REPORT)
        self.transport.freeze()

    def lagging(self) -> Targets:
        return self.transport.lagging()

    def unstable(self, origin: SiteId) -> Mapping[int, Message]:
        return self.kept[self.index[origin]]

    def frames(self, origin: SiteId) -> Mapping[int, Data[Any]]:
        return {count: Data(count, hop) for count, hop in self.kept[self.index[origin]].items()}

    def holding(self, origin: SiteId) -> tuple[int, list[int], list[int]]:
        place = self.index[origin]
        return self.stable.floor[place], list(self.kept[place]), []

    def absorb(self, origin: SiteId, frame: Message, over_gap: bool = False) -> bool:  # noqa: ARG002
        hop = frame.body if isinstance(frame, Data) else frame
        place = self.index[origin]
        if not isinstance(hop, FloodedMessage) or hop.origin != origin:
            raise RemoteError(f"a frame that carries no message of site {origin}")
        if hop.count > self.counts[place] and hop.count not in self.kept[place]:
            self.kept[place][hop.count] = hop
            self.late.append(hop)
        return True

    def install(self, view: View) -> None:
        late, self.late = self.late, []
        for hop in sorted(late, key=lambda hop: (hop.clock, hop.origin)):
            self.hand_over(hop.cast)
        self.host.cancel_timer(self, REPORT)
        super().install(view)
        self.reset()
        site, members = self.host.site, view.members
        self.near = neighbours_in(self.overlay, members)[site]
        self.place = places_in_tree(self.overlay, members)[site]
        self.stable = StableCounts(len(members), self.place.children)
