"""Stacks with a bug planted in the transport, in flow control or in the token-site order.

Each must be found by the random scenarios. Bugs are planted from outside as far as that goes, in what a layer sends and
keeps, so that they outlive changes inside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from isthmus.core.layer import Host, Stack, View
from isthmus.core.message import Batch, Cast, Message, SiteId, Targets
from isthmus.protocols.application import Application
from isthmus.protocols.total.token_site import BATCH_MAX, Tickets, TokenSite, ranges_of
from isthmus.protocols.transport.credit import Credit
from isthmus.protocols.transport.reliable.frames import Ack, Data, Nak, Repair, Status, Stream
from isthmus.protocols.transport.reliable.reliable import Reliable
from isthmus.sim.site import SimPort
from isthmus.stacks.registry import Build, StackOptions, bottom

replace = msgspec.structs.replace

# The transport


class GapIgnored(Reliable):
    """Takes a frame that is ahead of a gap as the next one, and so never asks for what is missing."""

    __slots__ = ()

    def hold(self, stream: Stream, prev: int, data: Data[Any]) -> None:
        stream.received = prev
        self.accept(stream.origin, data)


class DuplicateDelivered(Reliable):
    """Hands up again what was handed up before."""

    __slots__ = ()

    def accept(self, origin: SiteId, data: Data[Any], **more: Any) -> None:
        stream = self.streams.get(origin)
        again = stream is not None and data.seq <= stream.received
        super().accept(origin, data, **more)
        if again:
            bodies = data.body.bodies if type(data.body) is Batch else (data.body,)
            self.hand_up_batch(origin, bodies)


class Tampering(Reliable):
    """Sends something else than it should."""

    __slots__ = ("honest", "sent")

    def start(self) -> None:
        super().start()
        self.honest = self.send
        self.sent: set[tuple[int, int, SiteId]] = set()  # view, number and target of frames
        self.send = self.send_tampered  # type: ignore[method-assign]

    def send_tampered(self, targets: Targets, message: Message) -> None:
        self.honest(targets, self.tampered(targets, message))

    def is_repair(self, targets: Targets, message: Message) -> bool:
        """Whether a frame is sent to somebody once more, or for somebody else."""
        if type(message) is not Data:
            return type(message) is Repair
        keys = {(self.view.view_id, message.seq, site) for site in targets}
        again = bool(keys & self.sent)
        self.sent |= keys
        return again

    def tampered(self, targets: Targets, message: Message) -> Message:
        raise NotImplementedError


class WrongNumberSentAgain(Tampering):
    """Answers a request for a frame with the body of the one after it."""

    __slots__ = ()

    def tampered(self, targets: Targets, message: Message) -> Message:
        if not self.is_repair(targets, message):
            return message
        if type(message) is Repair:
            return replace(message, data=self.next_of(message.origin, message.data))
        assert type(message) is Data
        return self.next_of(self.host.site, message)

    def next_of(self, origin: SiteId, data: Data[Any]) -> Data[Any]:
        following = self.streams[origin].kept.get(data.seq + 1, data)
        return replace(data, body=following.body)


class OtherPayloadSentAgain(Tampering):
    """Sends a frame again with another payload of the same length."""

    __slots__ = ()

    def tampered(self, targets: Targets, message: Message) -> Message:
        if not self.is_repair(targets, message):
            return message
        if type(message) is Repair:
            return replace(message, data=replace(message.data, body=altered(message.data.body)))
        assert type(message) is Data
        return replace(message, body=altered(message.body))


def altered(body: Any) -> Any:
    """A body whose last message has another payload."""
    if type(body) is Batch:
        return Batch((*body.bodies[:-1], altered(body.bodies[-1])))
    if isinstance(body, Cast) and len(body.payload) > 1:
        return replace(body, payload=body.payload[:1] + bytes(byte ^ 1 for byte in body.payload[1:]))
    return body


class AcknowledgesTooMuch(Tampering):
    """Acknowledges what it has heard of, not what it has: a frame counts as stable that nobody can repair any more."""

    __slots__ = ()

    def tampered(self, targets: Targets, message: Message) -> Message:
        if type(message) is not Ack:
            return message
        return replace(
            message, received=tuple(max(stream.received, stream.top) for stream in map(self.open, self.view.members))
        )


class TopOfAll(Tampering):
    """Tells a laggard of the last frame that was sent to anybody; it asks for ever for what is not for it."""

    __slots__ = ()

    def tampered(self, targets: Targets, message: Message) -> Message:
        return replace(message, top=self.out.seq) if type(message) is Status else message


class RepairsForAnybody(Reliable):
    """Answers a request with all that lies in its gaps, whoever it is for."""

    __slots__ = ()

    def on_nak(self, source: SiteId, nak: Nak) -> None:
        super().on_nak(source, nak)
        own = nak.origin == self.host.site
        for seq, data in self.streams[nak.origin].kept.items():
            foreign = bool(data.targets) and source not in data.targets
            if foreign and any(first <= seq <= last for first, last in nak.gaps):
                self.send((source,), data if own else Repair(nak.origin, data))


class TimersSurvive(Reliable):
    """Leaves timers of some kind set when a view is installed."""

    __slots__ = ()
    surviving = ""

    def install(self, view: View) -> None:
        assert isinstance(self.host, SimPort)
        timers, key = self.host.owner.timers, self.timer_names.index(self.surviving)
        one = not self.surviving.endswith("_")
        kept = {at: due for at, due in timers.items() if at[0] is self and (at[1] == key if one else at[1] >= key)}
        super().install(view)
        timers.update(kept)


class AckTimerSurvives(TimersSurvive):
    """Leaves the timer of an acknowledgement set."""

    __slots__ = ()
    surviving = "ack"


class NakTimerSurvives(TimersSurvive):
    """Leaves the timers of requests set, for those who are gone, too."""

    __slots__ = ()
    surviving = "nak_"


class BatchTailLost(Reliable):
    """Hands up a batch but for its last body."""

    __slots__ = ()

    def hand_up_batch(self, origin: SiteId, bodies: Sequence[Message]) -> None:
        super().hand_up_batch(origin, bodies[:-1] if len(bodies) > 1 else bodies)


# Flow control


class SubsetsUncounted(Credit):
    """Counts messages to some at their receivers, but not for the room that is left."""

    __slots__ = ()

    def pass_down(self, cast: Cast) -> None:
        super().pass_down(cast)
        self.room += bool(cast.destinations)


# The token-site order


class TicketOutOfOrder(TokenSite):
    """Delivers a message as soon as its ticket is there, whatever comes before it."""

    __slots__ = ()

    def deliver_ready(self) -> None:
        super().deliver_ready()
        for given in list(self.order):
            _, sender, first, count = given
            waiting = self.data[sender]
            if waiting and waiting[0].number == first and len(waiting) >= count:
                self.order.remove(given)
                for _ in range(count):
                    self.above.deliver(waiting.popleft())


class LeftoversAsTheyLie(TokenSite):
    """Closes a view by delivering what has no ticket in an order that differs from site to site."""

    __slots__ = ()

    def close_view(self) -> None:
        near_first = sorted(self.data, key=lambda sender: (sender - self.host.site) % 16)
        left = {sender: self.data[sender] for sender in near_first}
        self.data.clear()
        for _, sender, first, count in self.order:
            while left.get(sender) and left[sender][0].number < first + count:
                self.above.deliver(left[sender].popleft())
        for waiting in left.values():
            for cast in waiting:
                self.above.deliver(cast)


class LeftoversDropped(TokenSite):
    """Closes a view without delivering what has no ticket."""

    __slots__ = ()

    def close_view(self) -> None:
        ticketed = {sender for _, sender, _, _ in self.order}
        for sender in list(self.data):
            if sender not in ticketed:
                del self.data[sender]
        super().close_view()


class OverflowDropped(TokenSite):
    """Gives tickets to as many messages as a packet holds, and forgets the rest."""

    __slots__ = ()

    def issue(self) -> None:
        del self.pending[BATCH_MAX:]
        super().issue()


class LastOfRangeSkipped(TokenSite):
    """Takes a range for one shorter than it is."""

    __slots__ = ()

    def on_tickets(self, source: SiteId, tickets: Tickets) -> None:
        short = replace(tickets, ranges=tuple((s, first, max(1, count - 1)) for s, first, count in tickets.ranges))
        super().on_tickets(source, short)
        self.ticketed += tickets.count() - short.count()


class RangesOverGaps(TokenSite):
    """Gives one range to messages of one sender whose numbers do not follow each other."""

    __slots__ = ()

    def issue(self) -> None:
        while self.pending and self.below.writable():
            casts, self.pending = self.pending[:BATCH_MAX], self.pending[BATCH_MAX:]
            ranges, targets = ranges_of(casts)
            if len(ranges) > 1 and ranges[0][0] == ranges[1][0]:
                ranges = ((ranges[0][0], ranges[0][1], ranges[0][2] + ranges[1][2]), *ranges[2:])
                targets = targets[:1] + targets[2:]
            self.below.submit(Tickets(self.issued + 1, ranges, targets))
            self.issued += len(casts)


def over(
    planted: type[Reliable] | None = None,
    order: type[TokenSite] | None = None,
    fifo: bool = True,
    flow: type[Credit] = Credit,
) -> Build:
    """A stack with one of the layers replaced."""

    def build(host: Host, application: Application, options: StackOptions) -> Stack:
        given = bottom(options, fifo)
        below = given if planted is None else (planted(options.reliable, fifo), *given[1:])
        if order is None:
            return Stack(host, application, flow(options.credit), *below)
        ordering = order(options.sequencer, options.batch_ms)
        return Stack(host, application, flow(options.credit), ordering, *below)

    return build


PLANTED: dict[str, tuple[str, Build]] = {  # name: (the stack it replaces, the stack with the bug)
    "a gap ignored": ("fifo", over(GapIgnored)),
    "a duplicate delivered": ("fifo", over(DuplicateDelivered)),
    "a retransmission to the wrong number": ("fifo", over(WrongNumberSentAgain)),
    "a repair that carries another payload": ("unordered", over(OtherPayloadSentAgain, fifo=False)),
    "a repair that ignores its targets": ("fifo", over(RepairsForAnybody)),
    "stable too early": ("fifo", over(AcknowledgesTooMuch)),
    "a status that names the top of all": ("fifo", over(TopOfAll)),
    "an acknowledgement timer that survives a view": ("fifo", over(AckTimerSurvives)),
    "a NAK timer that survives a view": ("fifo", over(NakTimerSurvives)),
    "a batch whose tail is lost": ("fifo", over(BatchTailLost)),
    "room counted wrongly for subsets": ("unordered", over(fifo=False, flow=SubsetsUncounted)),
    "a ticket out of order": ("token-site", over(order=TicketOutOfOrder)),
    "leftovers as they lie": ("token-site", over(order=LeftoversAsTheyLie)),
    "leftovers dropped": ("token-site", over(order=LeftoversDropped)),
    "tickets beyond one packet dropped": ("token-site", over(order=OverflowDropped)),
    "the last ticket of a range skipped": ("token-site", over(order=LastOfRangeSkipped)),
    "a range over a gap": ("token-site", over(order=RangesOverGaps)),
}
