"""Total order by a fixed sequencer: the token-site protocol.

Problem: all members must deliver in one order. Idea: one member, the sequencer, gives every message a ticket in the
order in which it receives them, and multicasts the tickets; all deliver by ticket number. A message takes one network
delay to the sequencer and one for its ticket: 2D, and D for the sequencer's own.

It runs over FIFO channels and a view-synchronous service.

Invariants:
- Tickets of a view are numbered 1, 2, 3 ... and come from its sequencer alone.
- The sequencer tickets messages, its own too, as the transport delivers them, so all that it has ticketed is held by
  every survivor once the view is flushed.
- Messages of one sender are ticketed in the order sent, because the channel to the sequencer is FIFO.
- Tickets arrive in order, and so do the messages of one sender; a member keeps one queue of messages per sender, and
  the tickets addressed to it as a queue of ranges: messages for other members take no space, however long it waits.

Tickets are given in ranges: consecutive numbers of one sender. All that the sequencer receives in one turn is ticketed
at the end of the turn, in one packet.

When the sequencer crashes, survivors S1 and S2 hold the same tickets and the same messages. Both deliver the ticketed
messages in order, and both skip a ticket whose message was lost with its sender. Both then deliver the rest by sender
and number, which takes no further exchange. Tickets that a live sequencer issued too late for the flush belong to the
old view and are ignored in the new one.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from itertools import repeat
from operator import attrgetter

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Finality, Handler, Kind, Layer, View
from isthmus.core.message import ALL, Cast, Message, SiteId, Targets
from isthmus.protocols.total.positions import left_over, position

MessageId = tuple[SiteId, int]  # sender, number
Range = tuple[SiteId, int, int]  # sender, first number, how many
Ticketed = tuple[int, SiteId, int, int]  # the first ticket of a range, and the range
FOLLOWER, SEQUENCER = 0, 1  # roles, as traced
ISSUE = 0  # timer key
DESTINATIONS = attrgetter("destinations")
BATCH_MAX = 1024  # messages that one Tickets orders; a fuller batch does not wait


def sequencer_of(view: View, preferred: SiteId | None) -> SiteId:
    """Return the preferred member while it is in the view, otherwise the eldest."""
    return preferred if preferred is not None and preferred in view.members else view.members[0]


class Tickets(Message, frozen=True, gc=False, array_like=True, tag=20):
    """Consecutive positions in the order of a view, from `first` on."""

    first: int
    ranges: tuple[Range, ...]
    destinations: tuple[Targets, ...] = ()  # of each range; () where all go to every member

    def count(self) -> int:
        """Return the number of positions; refuses ranges that no sequencer sends."""
        if self.destinations and len(self.destinations) != len(self.ranges):
            raise RemoteError(f"destinations for {len(self.destinations)} of {len(self.ranges)} ranges")
        counts = [count for _, _, count in self.ranges]
        if not counts or min(counts) < 1 or sum(counts) > BATCH_MAX:
            raise RemoteError(f"tickets for {counts} messages; at least 1 of each sender, at most {BATCH_MAX} together")
        return sum(counts)

    def mine(self, site: SiteId) -> Iterable[Ticketed]:
        """Return the ranges addressed to a site, each with its first ticket."""
        found, ticket = [], self.first
        for given, targets in zip(self.ranges, self.destinations or repeat(ALL), strict=False):
            if not targets or site in targets:
                found.append((ticket, *given))
            ticket += given[2]
        return found


def ranges_of(casts: Sequence[Cast]) -> tuple[tuple[Range, ...], tuple[Targets, ...]]:
    """Return messages as ranges of consecutive numbers of one sender, and their destinations, or () where all go to
    all."""
    ranges: list[Range] = []
    destinations: list[Targets] = []
    sender, first, following, targets = SiteId(-1), 0, 0, ALL
    for cast in casts:
        if cast.number == following and cast.sender == sender and cast.destinations == targets:
            following += 1
            continue
        if following:
            ranges.append((sender, first, following - first))
            destinations.append(targets)
        sender, first, targets = cast.sender, cast.number, cast.destinations
        following = first + 1
    ranges.append((sender, first, following - first))
    destinations.append(targets)
    return tuple(ranges), tuple(destinations) if any(destinations) else ()


def deliver_rest(layer: Layer, view: View, order: Iterable[Ticketed], data: dict[SiteId, deque[Cast]]) -> None:
    """Deliver the rest of a view: ticketed messages in order, then the others by sender and number."""
    for ticket, sender, first, count in order:
        waiting = data[sender]
        while waiting and waiting[0].number < first + count:  # a message lost with its sender is skipped
            layer.stack.position = position(view, ticket + waiting[0].number - first)
            layer.above.deliver(waiting.popleft())
    for sender in sorted(data):
        for cast in data[sender]:
            layer.stack.position = left_over(view, cast)
            layer.above.deliver(cast)


class TokenSite(Layer):
    """Delivers in the order of the sequencer's tickets."""

    __slots__ = (
        "base",
        "batch_ns",
        "data",
        "issued",
        "leads",
        "order",
        "pending",
        "preferred",
        "sequencer",
        "ticketed",
        "view",
    )
    timer_names = ("issue",)

    def __init__(self, sequencer: SiteId | None = None, batch_ms: float | None = None) -> None:
        self.preferred = sequencer
        self.batch_ns = None if batch_ms is None else round(batch_ms * 1e6)  # None: tickets leave with the turn
        self.view = View(0, ())
        self.leads = False  # whether this site is the sequencer
        self.reset()

    def reset(self) -> None:
        # Bounded by flow control: at most window messages of each member are undelivered.
        self.data: dict[SiteId, deque[Cast]] = defaultdict(deque)  # by sender: received, addressed here, not delivered
        self.order: deque[Ticketed] = deque()  # ticketed, addressed here, not delivered, in the order of the tickets
        self.base = position(self.view, 0)  # the position before the first of this view
        self.ticketed = 0  # the last position that a ticket was received for
        self.issued = 0  # the last position given out by this site
        self.pending: list[Cast] = []  # at the sequencer: to be ticketed with the next batch, or when there is room

    def bodies(self) -> dict[type[Message], Handler]:
        return {Tickets: self.on_tickets}

    def submit(self, message: Message, targets: Targets = ALL) -> None:
        if targets and self.sequencer not in targets:  # it orders messages that it does not deliver, too
            targets = (*targets, self.sequencer)
        self.below.submit(message, targets)

    def submit_all(self, casts: Sequence[Cast]) -> None:
        self.below.submit_all(casts)

    # Receiving

    def deliver(self, cast: Cast, finality: Finality = Finality.FINAL) -> None:  # noqa: ARG002  from below: always final
        if self.leads:
            self.gather((cast,))
        if not cast.destinations or self.host.site in cast.destinations:
            self.data[cast.sender].append(cast)
            if self.order:
                self.deliver_ready()

    def deliver_all(self, casts: Sequence[Cast]) -> None:
        """Take messages of one sender."""
        site, sender = self.host.site, casts[0].sender
        if self.leads:
            self.gather(casts)
        if any(map(DESTINATIONS, casts)):
            casts = [cast for cast in casts if not cast.destinations or site in cast.destinations]
        self.data[sender].extend(casts)
        if self.order:
            self.deliver_ready()

    def gather(self, casts: Sequence[Cast]) -> None:
        """Queue messages for tickets at the end of the turn, or when the batch is full or old enough."""
        first = not self.pending
        self.pending.extend(casts)
        if self.batch_ns is None:
            self.host.turn_due = True
        elif len(self.pending) >= BATCH_MAX:
            self.issue()
        elif first:
            self.host.set_timer(self, ISSUE, self.batch_ns)

    # Ordering

    def end_turn(self) -> None:
        if self.batch_ns is None:
            self.issue()

    def timer(self, key: int) -> None:
        assert key == ISSUE
        self.issue()

    def resume(self) -> None:
        self.issue()
        self.above.resume()

    def issue(self) -> None:
        """Give the pending messages the next positions, as far as the transport is writable; `resume` goes on."""
        while self.pending and self.below.writable():
            casts, self.pending = self.pending[:BATCH_MAX], self.pending[BATCH_MAX:]
            self.below.submit(Tickets(self.issued + 1, *ranges_of(casts)))
            self.issued += len(casts)

    def on_tickets(self, source: SiteId, tickets: Tickets) -> None:
        if source != self.sequencer:
            raise RemoteError(f"tickets of site {source}; the sequencer is site {self.sequencer}")
        if tickets.first != self.ticketed + 1:
            raise RemoteError(f"tickets from {tickets.first} on; those up to {self.ticketed} are here")
        ranges = tickets.ranges
        if len(ranges) == 1 and ranges[0][2] == 1 and not tickets.destinations:  # one ticket, as in most turns
            self.ticketed += 1
            self.order.append((self.ticketed, *ranges[0]))
        else:
            self.ticketed += tickets.count()
            self.order.extend(tickets.mine(self.host.site))
        self.deliver_ready()

    def deliver_ready(self) -> None:
        """Deliver from the head of the order as far as messages are here."""
        order, stack, base = self.order, self.stack, self.base
        while order:
            ticket, sender, first, count = order[0]
            waiting = self.data[sender]
            if not waiting or waiting[0].number != first:
                return
            stack.position = base + ticket
            if count == 1:
                order.popleft()
                self.above.deliver(waiting.popleft())
                continue
            here = min(count, len(waiting))
            if here == count:
                order.popleft()
            else:
                order[0] = (ticket + here, sender, first + here, count - here)
            self.above.deliver_all([waiting.popleft() for _ in range(here)])

    def settled(self) -> bool:
        return not self.pending and self.below.settled()

    # View change

    def install(self, view: View) -> None:
        self.close_view()
        self.host.cancel_timer(self, ISSUE)
        self.view = view
        self.reset()
        self.sequencer = sequencer_of(view, self.preferred)
        self.leads = self.sequencer == self.host.site
        if self.leads:
            self.become_sequencer()
        else:
            self.become_follower()

    def close_view(self) -> None:
        deliver_rest(self, self.view, self.order, self.data)

    def become_sequencer(self) -> None:
        self.host.trace(Kind.ROLE, value=SEQUENCER)

    def become_follower(self) -> None:
        self.host.trace(Kind.ROLE, value=FOLLOWER)
