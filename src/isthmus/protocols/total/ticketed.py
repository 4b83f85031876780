"""Entries and their tickets: the half of the hybrid protocol that does not ask who should be active.

Every member's packets to all form one FIFO stream. A message, and a request for another role, is an *entry*: the next
index of its sender in this view. An active sender tickets its own entries as it sends them; a passive one names its
sequencer, together with the term in which that process is at this place of the order: after a change of roles nobody
takes an entry for its own that was meant for an earlier term. Deliveries follow the ticket order (tickets.py), requests
for roles included, so that all members go through the same configurations. What all must know to order goes to all in
one packet, so that the survivors of a crash know the same; only the body of an entry that is for some goes apart.

An active process with nothing to say owes the others a word all the same, as they wait for its promise: a *null*, a
packet without an entry, when it has been silent for `null_ms` and has heard a ticket since. While others send it
so promises every `null_ms`, ahead of the tickets that are still on their way to it; when they fall silent, so does it.

Bounds: entries and tickets wait here only for messages that flow control has admitted, plus a few requests.
"""

from __future__ import annotations

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Finality, Kind, Layer, View
from isthmus.core.message import ALL, Cast, Message, SiteId, Targets
from isthmus.protocols.estimator import Estimator
from isthmus.protocols.total.clocks import CLOCKS
from isthmus.protocols.total.hybrid_wire import Ahead, Go, HybridOptions, Packet, Reassign, Ticket
from isthmus.protocols.total.roles import SENDING, State
from isthmus.protocols.total.tickets import TicketOrder

NULL, CHECK = 0, 1  # timer keys
CHECK_NS = 100_000_000  # how often a rule that watches is asked
TICKETS_MAX = 1024  # in one packet without a message
BESIDES_MAX = 128  # beside a message, which may fill a datagram but for some 4,000 bytes

Entry = tuple[Cast | Go | None, SiteId, int]  # what it is (None: not for us), its sequencer, and in which of its terms


class Ticketed(Layer):
    """Sends entries and tickets, delivers in the order of tickets."""

    __slots__ = (
        *("ahead", "clock", "count", "early", "entries", "estimator", "heard", "informed", "null_armed", "null_ns"),
        *("options", "order", "owes_look", "owes_resume", "received", "sent_ns", "sequencer", "state", "stirred"),
        *("terms", "unsent", "view"),
    )
    timer_names = ("null", "check")

    def __init__(self, options: HybridOptions, estimator: Estimator) -> None:
        self.options = options
        self.estimator = estimator
        self.clock = CLOCKS[options.clock]()
        self.null_ns = round(options.null_ms * 1e6)
        self.view = View(0, ())
        self.informed = False  # the roles are known
        self.order = TicketOrder(SiteId(0), (), (), 0)
        self.terms: dict[SiteId, int] = {}  # the role number of each member: how often its role has changed
        self.reset()

    def reset(self) -> None:
        self.state = State.LISTENING
        self.sequencer = SiteId(0)  # who tickets our entries while we are passive
        self.entries: dict[tuple[SiteId, int], Entry] = {}  # received, not delivered, by sender and index
        self.ahead: dict[tuple[SiteId, int], Cast] = {}  # bodies whose packets are still to come
        self.received = dict.fromkeys(self.view.members, 0)  # the last index of each member
        self.count = 0  # the last index of our own
        self.unsent: list[Ticket] = []  # issued for others, not sent
        self.heard = False  # a ticket of somebody else, since our last packet
        self.sent_ns = 0  # when that was
        self.early: list[tuple[SiteId, Packet | Reassign]] = []  # came before we knew the roles
        self.owes_look = self.owes_resume = False  # to the rule, to the application: at the end of the event
        self.null_armed = False
        self.stirred = False  # a message was delivered since the rule was last asked

    # What the roles decide

    def on_go(self, number: int, sender: SiteId, go: Go) -> None:
        """A request for a role has its place in the order."""
        raise NotImplementedError

    def on_caught_up(self) -> None:
        """While changing the sequencer: all that we sent is delivered."""
        raise NotImplementedError

    def evaluate(self) -> None:
        """Ask the rule whether our role should change."""
        raise NotImplementedError

    def distance_ns(self, site: SiteId) -> float:
        """The delay to a member: as measured, or until then as the topology has it."""
        measured = self.estimator.delay_ns(site)
        if measured is not None or site == self.host.site:
            return measured or 0.0
        return self.options.distances[self.host.site][site] * 1e6 if self.options.distances else 0.0

    # Sending

    def writable(self) -> bool:
        return self.state in SENDING and self.below.writable()

    def submit(self, message: Message, targets: Targets = ALL) -> None:
        assert isinstance(message, Cast)
        self.send_entry(message, targets)

    def send_entry(self, body: Cast | Go, targets: Targets = ALL) -> None:
        """Multicast an entry; where it is for some only, its body goes to them ahead, and its place to all."""
        self.count += 1
        view_id, site = self.view.view_id, self.host.site
        if site in self.order.active:
            while len(self.unsent) > BESIDES_MAX:
                self.send_null()
            number = self.order.issue(site, self.count, self.clock.reading(self.host.now_ns))
            tickets, self.unsent = tuple(self.unsent), []
            packet = Packet(view_id, number, tickets, self.count, site, self.terms[site], body)
            self.heard, self.sent_ns = False, self.host.now_ns
        else:
            packet = Packet(view_id, 0, (), self.count, self.sequencer, self.terms[self.sequencer], body)
        if targets:
            assert isinstance(body, Cast)
            self.below.submit(Ahead(view_id, self.count, body), targets)
            packet = msgspec.structs.replace(packet, body=None)
        self.below.submit(packet)

    def send_null(self) -> None:
        """Multicast the tickets that wait, and a promise."""
        tickets, self.unsent = tuple(self.unsent[:TICKETS_MAX]), self.unsent[TICKETS_MAX:]
        if self.unsent:
            promise = tickets[-1][0]
        else:
            promise = self.order.clock = max(self.order.clock, self.clock.reading(self.host.now_ns))
        self.heard, self.sent_ns = False, self.host.now_ns
        self.below.submit(Packet(self.view.view_id, promise, tickets))

    def timer(self, key: int) -> None:
        if key == CHECK:
            if self.stirred:  # where nobody sends, roles do not matter
                self.stirred = False
                self.evaluate()
            self.host.set_timer(self, CHECK, CHECK_NS)
            return
        self.null_armed = False
        self.finish()

    def owes_word(self) -> bool:
        """Whether others may wait for our promise or our tickets."""
        return self.host.site in self.order.active and (self.heard or bool(self.unsent))

    def silent_ns(self) -> int:
        """How long we have been silent; long enough, where the clock was set back since."""
        return self.host.now_ns - self.sent_ns if self.host.now_ns >= self.sent_ns else self.null_ns

    def finish(self) -> None:
        """After an event: send what we owe, and let the application go on where it can."""
        while self.unsent and self.options.eager and self.below.writable():
            self.send_null()
        if self.null_ns and not self.null_armed and self.owes_word():
            wait_ns = self.null_ns - self.silent_ns()
            if wait_ns <= 0 and self.below.writable():
                self.send_null()
            else:
                self.null_armed = True
                self.host.set_timer(self, NULL, wait_ns if wait_ns > 0 else self.null_ns)
        if self.owes_look:
            self.owes_look = False
            self.evaluate()
        if self.owes_resume and self.state in SENDING:
            self.owes_resume = False
            self.above.resume()

    def resume(self) -> None:
        self.owes_look = self.owes_resume = True
        self.finish()

    # Receiving

    def on_packet(self, source: SiteId, packet: Packet) -> None:
        if packet.view_id != self.view.view_id:
            return
        self.check(source, packet)
        if not self.informed:
            self.early.append((source, packet))
            return
        self.take(source, packet)
        self.deliver_ready()
        self.issue_for(source)
        for _, sender, _ in packet.tickets:
            self.issue_for(sender)
        self.finish()

    def on_ahead(self, source: SiteId, ahead: Ahead) -> None:
        if ahead.view_id != self.view.view_id:
            return
        if ahead.index <= self.received.get(source, ahead.index):
            raise RemoteError(f"the body of entry {ahead.index} of site {source}, whose packet was here already")
        self.ahead[source, ahead.index] = ahead.cast

    def check(self, source: SiteId, packet: Packet) -> None:
        """Refuse what no member says that goes by the rules."""
        if source not in self.received or any(sender not in self.received for _, sender, _ in packet.tickets):
            raise RemoteError(f"a packet of site {source} with others than members of view {packet.view_id}")
        if packet.tickets and packet.tickets[-1][0] > packet.promise:
            raise RemoteError(f"site {source} promises {packet.promise}, below a ticket it issues")
        if packet.index:
            if packet.sequencer == source and not packet.promise:
                raise RemoteError(f"entry {packet.index} of site {source} has no ticket, nor a sequencer to issue one")
            if packet.index <= self.received[source]:  # some may be missing, where their sender died
                raise RemoteError(f"entry {packet.index} of site {source}; the last was {self.received[source]}")
            self.received[source] = packet.index

    def take(self, source: SiteId, packet: Packet) -> None:
        """Note what a packet says."""
        order, own = self.order, source == self.host.site
        if packet.promise:
            order.promise(source, packet.promise)
            self.clock.heard(packet.promise, source, round(self.distance_ns(source)), self.host.now_ns)
        self.heard |= not own and bool(packet.tickets)
        for number, sender, index in packet.tickets:
            order.add(number, source, sender, index)
            if own:
                order.returned()
        if packet.index:
            body = packet.body or self.ahead.pop((source, packet.index), None)
            self.entries[source, packet.index] = (body, packet.sequencer, packet.role_number)
            if packet.sequencer == source:
                order.add(packet.promise, source, source, packet.index)
                if own:
                    order.returned()
                else:
                    self.heard = True

    def issue_for(self, sender: SiteId) -> None:
        """Ticket a member's next entries, as far as they are here and name us in our present term."""
        if self.state is not State.ACTIVE:
            return
        site, order = self.host.site, self.order
        term, index = self.terms[site], order.known[sender] + 1
        while (entry := self.entries.get((sender, index))) is not None and entry[1] == site and entry[2] == term:
            self.unsent.append((order.issue(sender, index, self.clock.reading(self.host.now_ns)), sender, index))
            index += 1

    def on_reassign(self, source: SiteId, reassign: Reassign) -> None:
        if reassign.view_id != self.view.view_id:
            return
        if reassign.upto > self.received.get(source, -1) or reassign.sequencer not in self.received:
            raise RemoteError(f"site {source} reassigns entries up to {reassign.upto}, which it has not sent")
        if not self.informed:
            self.early.append((source, reassign))
            return
        self.rename(source, reassign)
        self.issue_for(source)
        self.finish()

    def rename(self, source: SiteId, reassign: Reassign) -> None:
        """Note who is to ticket a member's entries instead."""
        for (sender, index), (body, _, _) in self.entries.items():  # a peer may name a range as wide as it likes
            if sender == source and reassign.after < index <= reassign.upto:
                self.entries[sender, index] = (body, reassign.sequencer, reassign.role_number)

    # Delivering

    def deliver(self, cast: Cast, finality: Finality = Finality.FINAL) -> None:  # noqa: ARG002
        self.host.trace(Kind.REJECT, value=cast.sender)  # a bare message: it has no place in any order

    def deliver_ready(self) -> None:
        """Deliver from the head of the order as far as tickets are stable and entries here."""
        order, entries = self.order, self.entries
        while (held := order.head()) is not None and (held[2], held[3]) in entries:
            order.pop()
            self.hand_over(held[0], held[2], held[3])

    def hand_over(self, number: int, sender: SiteId, index: int) -> None:
        """Deliver an entry: a message to the application, a request for a role to all of us."""
        body, _, _ = self.entries.pop((sender, index))
        self.order.delivered[sender] = index
        if type(body) is Go:
            self.on_go(number, sender, body)
        elif body is not None:
            self.stirred = True
            self.above.deliver(body)  # type: ignore[arg-type]
        if self.state is State.CHANGING and self.order.delivered[self.host.site] == self.count:
            self.on_caught_up()

    def settled(self) -> bool:
        delivered = self.order.delivered.get(self.host.site) == self.count
        return delivered and not self.unsent and self.state is not State.LISTENING and self.below.settled()
