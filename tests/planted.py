"""Stacks with a bug planted in them, each of which the random scenarios and the oracle must find."""

from __future__ import annotations

import msgspec

from isthmus.core.layer import Host, Stack
from isthmus.core.message import Cast, SiteId
from isthmus.protocols.application import Application
from isthmus.protocols.total.token_site import Tickets, TokenSite
from isthmus.protocols.transport.base import Transport
from isthmus.protocols.transport.credit import Credit
from isthmus.protocols.transport.frames import Data, Nak, Repair, Stream
from isthmus.protocols.transport.reliable import Reliable
from isthmus.stacks import Build, StackOptions


class GapIgnored(Reliable):
    """Takes a frame that is ahead of a gap as the next one, and so never asks for what is missing."""

    __slots__ = ()

    def hold(self, stream: Stream, prev: int, data: Data) -> None:
        stream.received = prev
        self.accept(stream.origin, data)


class DuplicateDelivered(Reliable):
    """Hands up again what was handed up before."""

    __slots__ = ()

    def accept(self, origin: SiteId, data: Data) -> None:
        stream = self.streams.get(origin)
        if stream is not None and data.view_id == self.view.view_id and data.seq in stream.kept:
            again = data.seq <= stream.received
            super().accept(origin, data)
            if again and isinstance(data.body, Cast):
                self.hand_up(origin, data.body)
        else:
            super().accept(origin, data)


class WrongNumberSentAgain(Reliable):
    """Answers a request for a frame with the body of the one after it."""

    __slots__ = ()

    def on_nak(self, source: SiteId, nak: Nak) -> None:
        stream = self.streams.get(nak.origin)
        if stream is None or nak.view_id != self.view.view_id:
            return
        for data in stream.kept_for(source, nak.gaps, self.options.repair_max):
            next_one = stream.kept.get(data.seq + 1, data)
            wrong = msgspec.structs.replace(data, body=next_one.body)
            self.host.send((source,), wrong if nak.origin == self.host.site else Repair(nak.origin, wrong))


class AckTooEarly(Reliable):
    """Counts a frame as stable as soon as anybody has it, so that nobody can repair it."""

    __slots__ = ()

    def collect(self) -> None:
        for stream in self.streams.values():
            for seq in [seq for seq in stream.kept if seq <= stream.received]:
                del stream.kept[seq]


class TicketOutOfOrder(TokenSite):
    """Delivers a message as soon as its ticket is there, whatever comes before it."""

    __slots__ = ()

    def on_tickets(self, source: SiteId, tickets: Tickets) -> None:
        super().on_tickets(source, tickets)
        self.deliver_any()

    def deliver_ready(self) -> None:
        super().deliver_ready()
        self.deliver_any()

    def deliver_any(self) -> None:
        for message_id in list(self.order):
            cast = self.data.pop(message_id, None)
            if cast is not None:
                self.order.remove(message_id)
                self.above.deliver(cast)


class TicketOfTheOldView(TokenSite):
    """Takes a ticket of an earlier view for one of this view."""

    __slots__ = ()

    def on_tickets(self, source: SiteId, tickets: Tickets) -> None:
        super().on_tickets(source, msgspec.structs.replace(tickets, view_id=self.view.view_id))


class LeftoversAsTheyCame(TokenSite):
    """Closes a view by delivering what has no ticket in the order of arrival, which differs from site to site."""

    __slots__ = ()

    def close_view(self) -> None:
        for message_id in self.order:
            cast = self.data.pop(message_id, None)
            if cast is not None:
                self.above.deliver(cast)
        for cast in self.data.values():
            self.above.deliver(cast)


class LeftoversDropped(TokenSite):
    """Closes a view without delivering what has no ticket."""

    __slots__ = ()

    def close_view(self) -> None:
        for message_id in self.order:
            cast = self.data.pop(message_id, None)
            if cast is not None:
                self.above.deliver(cast)


def over(transport: type[Reliable], order: type[TokenSite] | None = None) -> Build:
    """A stack with one of the layers replaced."""

    def build(host: Host, application: Application, options: StackOptions) -> Stack:
        below: Transport = transport(options.reliable)
        if order is None:
            return Stack(host, application, Credit(options.credit), below)
        ordering = order(options.sequencer, options.batch_ms)
        return Stack(host, application, Credit(options.credit), ordering, below)

    return build


PLANTED: dict[str, tuple[str, Build]] = {  # name: (the stack it replaces, the stack with the bug)
    "a gap ignored": ("fifo", over(GapIgnored)),
    "a duplicate delivered": ("fifo", over(DuplicateDelivered)),
    "a retransmission to the wrong number": ("fifo", over(WrongNumberSentAgain)),
    "stable too early": ("fifo", over(AckTooEarly)),
    "a ticket out of order": ("token-site", over(Reliable, TicketOutOfOrder)),
    "a ticket of the old view": ("token-site", over(Reliable, TicketOfTheOldView)),
    "leftovers as they came": ("token-site", over(Reliable, LeftoversAsTheyCame)),
    "leftovers dropped": ("token-site", over(Reliable, LeftoversDropped)),
}
