"""Wrong readings of constrained flooding over views, each of which the random scenarios must find."""

from __future__ import annotations

from typing import Any

from isthmus.core.layer import Host, Stack, View
from isthmus.core.message import Batch, SiteId
from isthmus.protocols.application import Application
from isthmus.protocols.causal.flooding.flooding import FloodedMessage, Flooding
from isthmus.protocols.transport.credit import Credit
from isthmus.protocols.transport.direct import Direct
from isthmus.protocols.transport.links.channel import Frame, Inbound
from isthmus.protocols.transport.links.links import Links
from isthmus.stacks.registry import Build, StackOptions, below_transport


class DeliversFirst(Flooding):
    """Delivers, then forwards, as the paper's figure has it: a reply inside the delivery overtakes the message."""

    __slots__ = ()

    def on_hop(self, source: SiteId, hop: FloodedMessage[Any]) -> None:
        place = self.check(source, hop)
        if hop.count != self.counts[place] + 1:
            return
        self.deliver_own()
        self.counts[place] = hop.count
        self.keep(place, hop)
        self.clock = max(self.clock, hop.clock)
        self.hand_over(hop.cast)
        self.forward(source, hop)


class ClosesByOrigin(Flooding):
    """Delivers what the flush brings in the order of origins."""

    __slots__ = ()

    def install(self, view: View) -> None:
        self.late = [hop.__class__(hop.cast, hop.origin, hop.count, hop.origin) for hop in self.late]
        super().install(view)


class KeepsNothingWhileBlocked(Flooding):
    """Delivers a message that comes while a view closes, but does not give it to the flush."""

    __slots__ = ()

    def keep(self, place: int, hop: FloodedMessage[Any]) -> None:
        if not self.blocked:
            super().keep(place, hop)


class DropsTooSoon(Flooding):
    """Takes what it has itself for what all have."""

    __slots__ = ()

    def report(self) -> None:
        self.news = 0
        if not self.blocked:
            self.release(list(self.counts))


class TakesAnyOrder(Links):
    """Hands a frame up as soon as it comes, and what it held not again."""

    __slots__ = ()

    def on_frame(self, source: SiteId, frame: Frame[Any]) -> None:
        inbound = self.inbound.setdefault(source, Inbound())
        if frame.seq > inbound.received + 1 and frame.seq not in inbound.held:
            self.hand_up_batch(source, frame.body.bodies if isinstance(frame.body, Batch) else (frame.body,))
        super().on_frame(source, frame)


def with_order(kind: type[Flooding]) -> Build:
    def build(host: Host, application: Application, options: StackOptions) -> Stack:
        links = Direct() if options.direct else Links(options.reliable)
        order = kind(options.overlay, options.reliable)
        return Stack(host, application, Credit(options.credit), order, links, *below_transport(options))

    return build


def with_links(kind: type[Links]) -> Build:
    def build(host: Host, application: Application, options: StackOptions) -> Stack:
        links = Direct() if options.direct else kind(options.reliable)
        order = Flooding(options.overlay, options.reliable)
        return Stack(host, application, Credit(options.credit), order, links, *below_transport(options))

    return build


PLANTED_FLOODING: dict[str, tuple[str, Build]] = {
    "delivers before it forwards": ("flooding", with_order(DeliversFirst)),
    "closes a view in the order of origins": ("flooding", with_order(ClosesByOrigin)),
    "keeps nothing that comes while a view closes": ("flooding", with_order(KeepsNothingWhileBlocked)),
    "drops what not all have": ("flooding", with_order(DropsTooSoon)),
    "links without order": ("flooding", with_links(TakesAnyOrder)),
}
