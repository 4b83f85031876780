"""Total order by a fixed sequencer: the token-site protocol.

Problem: all members must deliver in one order. Idea: one member, the sequencer, gives every message a ticket in the
order in which it receives them, and multicasts the tickets; all deliver by ticket number. A message takes one network
delay to the sequencer and one for its ticket: 2D, and D for the sequencer's own.

It runs over FIFO channels and a view-synchronous service.

Invariants:
- tickets of a view are numbered 1, 2, 3 ... and come from its sequencer alone;
- the sequencer tickets what came back from the transport, its own messages too, so what it has ticketed is part of
  what every survivor holds once the view is flushed;
- messages of one sender are ticketed in the order sent, because the channel to the sequencer is FIFO;
- tickets arrive in order, so a member keeps only those of its own messages, as a queue: what is for others takes no
  place here, however long this site waits.

When the sequencer dies, survivors S1 and S2 hold the same tickets and the same messages. Both deliver the ticketed
ones in order; a ticket whose message died with its sender is skipped by both. Both then deliver the rest by sender
and number, which needs no word between them. Tickets that a live sequencer issued too late for the flush belong to
the old view and are ignored in the new one.
"""

from __future__ import annotations

from collections import deque
from itertools import compress

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Finality, Handler, Kind, Layer, View
from isthmus.core.message import ALL, Cast, Message, SiteId, Targets

MessageId = tuple[SiteId, int]  # sender, number
FOLLOWER, SEQUENCER = 0, 1  # roles, as traced
ISSUE = 0  # timer key
BATCH_MAX = 1024  # messages that one Tickets orders; a fuller batch does not wait


def sequencer_of(view: View, preferred: SiteId | None) -> SiteId:
    """The one that was asked for, while it is a member; otherwise the eldest."""
    return preferred if preferred is not None and preferred in view.members else view.members[0]


class Tickets(Message, frozen=True, gc=False, array_like=True, tag=20):
    """Consecutive positions in the order of a view, from `first` on."""

    view_id: int
    first: int
    ids: tuple[MessageId, ...]
    destinations: tuple[Targets, ...] = ()  # of each message; () where all go to every member


class TokenSite(Layer):
    """Delivers in the order of the sequencer's tickets."""

    __slots__ = ("batch_ns", "data", "issued", "order", "pending", "preferred", "sequencer", "ticketed", "view")
    timer_names = ("issue",)

    def __init__(self, sequencer: SiteId | None = None, batch_ms: float | None = None) -> None:
        self.preferred = sequencer
        self.batch_ns = None if batch_ms is None else round(batch_ms * 1e6)  # None: a ticket for each message at once
        self.view = View(0, ())
        self.reset()

    def reset(self) -> None:
        # Bounded by flow control: at most window messages of each member are undelivered.
        self.data: dict[MessageId, Cast] = {}  # received, addressed here, not delivered
        self.order: deque[MessageId] = deque()  # ticketed, addressed here, not delivered, in the order of the tickets
        self.ticketed = 0  # the last position that a ticket was received for
        self.issued = 0  # the last position given out by this site
        self.pending: list[Cast] = []  # at the sequencer: to be ticketed with the next batch, or when there is room

    def bodies(self) -> dict[type[Message], Handler]:
        return {Tickets: self.on_tickets}

    def submit(self, message: Message, targets: Targets = ALL) -> None:
        if targets and self.sequencer not in targets:  # it orders what it does not deliver, too
            targets = (*targets, self.sequencer)
        self.below.submit(message, targets)

    def deliver(self, cast: Cast, finality: Finality = Finality.FINAL) -> None:  # noqa: ARG002  from below: always final
        if self.sequencer == self.host.site:
            self.pending.append(cast)
            if self.batch_ns is None or len(self.pending) == BATCH_MAX:
                self.issue()
            elif len(self.pending) == 1:
                self.host.set_timer(self, ISSUE, self.batch_ns)
        if not cast.destinations or self.host.site in cast.destinations:
            self.data[cast.sender, cast.number] = cast
            if self.order:
                self.deliver_ready()

    def timer(self, key: int) -> None:
        assert key == ISSUE
        if self.pending:
            self.issue()

    def resume(self) -> None:
        self.issue()
        self.above.resume()

    def issue(self) -> None:
        """Give the pending messages the next positions; not while the transport is full, whose `resume` comes here."""
        if not self.pending or not self.below.writable():
            return
        casts, self.pending = self.pending[:BATCH_MAX], self.pending[BATCH_MAX:]
        ids = tuple((cast.sender, cast.number) for cast in casts)
        everywhere = all(not cast.destinations for cast in casts)
        destinations = () if everywhere else tuple(cast.destinations for cast in casts)
        self.below.submit(Tickets(self.view.view_id, self.issued + 1, ids, destinations))
        self.issued += len(casts)
        self.issue()  # the next batch, if one has gathered while the transport was full

    def on_tickets(self, source: SiteId, tickets: Tickets) -> None:
        if tickets.view_id != self.view.view_id:
            return
        if source != self.sequencer:
            raise RemoteError(f"tickets of site {source}; the sequencer is site {self.sequencer}")
        if tickets.first != self.ticketed + 1:
            raise RemoteError(f"tickets from {tickets.first} on; those up to {self.ticketed} are here")
        if tickets.destinations and len(tickets.destinations) != len(tickets.ids):
            raise RemoteError(f"destinations for {len(tickets.destinations)} of {len(tickets.ids)} tickets")
        self.ticketed += len(tickets.ids)
        if tickets.destinations:
            mine = [not targets or self.host.site in targets for targets in tickets.destinations]
            self.order.extend(compress(tickets.ids, mine))
        else:
            self.order.extend(tickets.ids)
        self.deliver_ready()

    def deliver_ready(self) -> None:
        """Deliver from the head of the order as far as messages are here."""
        order, data = self.order, self.data
        while order and (cast := data.pop(order[0], None)) is not None:
            order.popleft()
            self.above.deliver(cast)

    def settled(self) -> bool:
        return not self.pending and self.below.settled()

    def install(self, view: View) -> None:
        self.close_view()
        self.host.cancel_timer(self, ISSUE)
        self.view = view
        self.reset()
        self.sequencer = sequencer_of(view, self.preferred)
        if self.sequencer == self.host.site:
            self.become_sequencer()
        else:
            self.become_follower()

    def close_view(self) -> None:
        """Deliver all that the flush left: the ticketed in order, then the rest by sender and number."""
        for message_id in self.order:
            cast = self.data.pop(message_id, None)
            if cast is not None:
                self.above.deliver(cast)
        for message_id in sorted(self.data):
            self.above.deliver(self.data[message_id])

    def become_sequencer(self) -> None:
        self.host.trace(Kind.ROLE, value=SEQUENCER)

    def become_follower(self) -> None:
        self.host.trace(Kind.ROLE, value=FOLLOWER)
