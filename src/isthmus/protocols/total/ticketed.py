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

from collections.abc import Sequence
from typing import Any

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Finality, Kind, Layer, View
from isthmus.core.message import ALL, Cast, Message, SiteId, Targets
from isthmus.protocols.estimator import Estimator
from isthmus.protocols.total.clocks import CLOCKS
from isthmus.protocols.total.hybrid_wire import RANGE_MAX, Ahead, Go, HybridOptions, Packet, Reassign, Ticket
from isthmus.protocols.total.roles import SENDING, Phase
from isthmus.protocols.total.tickets import TicketOrder
from isthmus.protocols.transport.base import cut

NULL, CHECK = 0, 1  # timer keys
CHECK_NS = 100_000_000  # how often a rule that watches is asked
TICKETS_MAX = 1024  # ranges in one packet without a message
BESIDES_MAX = 128  # beside messages, which may fill a datagram but for some 4,000 bytes

Entry = tuple[Cast | Go | None, SiteId, int]  # what it is (None: not for us), its sequencer, and in which of its terms


class Ticketed(Layer):
    """Sends entries and tickets, delivers in the order of tickets."""

    __slots__ = (
        *(
            "ahead",
            "clock",
            "count",
            "entries",
            "estimator",
            "heard",
            "null_armed",
            "null_ns",
            "options",
            "order",
            "phase",
        ),
        *("received", "reevaluate_role", "resume_pending", "sent_ns", "sequencer", "phase", "stirred", "terms"),
        *("unsent", "view"),
    )
    timer_names = ("null", "check")

    def __init__(self, options: HybridOptions, estimator: Estimator) -> None:
        self.options = options
        self.estimator = estimator
        self.clock = CLOCKS[options.clock]()
        self.null_ns = round(options.null_ms * 1e6)
        self.view = View(0, ())
        self.order = TicketOrder(SiteId(0), (), (), 0)
        self.terms: dict[SiteId, int] = {}  # the role number of each member: how often its role has changed
        self.reset()

    def reset(self) -> None:
        self.phase = Phase.LISTENING
        self.sequencer = SiteId(0)  # who tickets our entries while we are passive
        self.entries: dict[tuple[SiteId, int], Entry] = {}  # received, not delivered, by sender and index
        self.ahead: dict[tuple[SiteId, int], Cast] = {}  # bodies whose packets are still to come
        self.received = dict.fromkeys(self.view.members, 0)  # the last index of each member
        self.count = 0  # the last index of our own
        self.unsent: list[Ticket] = []  # issued for others, not sent
        self.heard = False  # a ticket of somebody else, since our last packet
        self.sent_ns = 0  # when that was
        self.reevaluate_role = self.resume_pending = False  # at the end of the turn: ask the rule, tell the application
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
        return self.phase in SENDING and self.below.writable()

    def submit(self, message: Message, targets: Targets = ALL) -> None:
        assert isinstance(message, Cast)
        if targets:  # its body goes to those whom it is for ahead, and its place to all
            self.below.submit(Ahead(self.count + 1, message), targets)
            self.send_entries((None,))
        else:
            self.send_entries((message,))

    def submit_all(self, casts: Sequence[Cast]) -> None:
        for part in cut(casts, self.host.frame_bytes):
            for first in range(0, len(part), RANGE_MAX):
                self.send_entries(tuple(part[first : first + RANGE_MAX]))

    def send_entries(self, bodies: tuple[Cast | Go | None, ...]) -> None:
        """Multicast the next entries."""
        index, site = self.count + 1, self.host.site
        self.count += len(bodies)
        if site not in self.order.active:
            self.below.submit(Packet(0, (), index, self.sequencer, self.terms[self.sequencer], bodies))
            return
        while len(self.unsent) > BESIDES_MAX:
            self.send_null()
        self.order.issue(site, index, self.clock_reading(), len(bodies))
        tickets, self.unsent = tuple(self.unsent), []
        self.heard, self.sent_ns = False, self.host.now_ns
        self.below.submit(Packet(self.order.clock, tickets, index, site, self.terms[site], bodies))

    def clock_reading(self) -> int:
        return self.clock.reading(self.host)

    def send_null(self) -> None:
        """Multicast the tickets that wait, and a promise."""
        tickets, self.unsent = tuple(self.unsent[:TICKETS_MAX]), self.unsent[TICKETS_MAX:]
        if self.unsent:
            promise = tickets[-1][0] + tickets[-1][3] - 1
        else:
            promise = self.order.clock = max(self.order.clock, self.clock_reading())
        self.heard, self.sent_ns = False, self.host.now_ns
        self.below.submit(Packet(promise, tickets))

    def timer(self, key: int) -> None:
        if key == CHECK:
            if self.stirred:  # where nobody sends, roles do not matter
                self.stirred = False
                self.evaluate()
            self.host.set_timer(self, CHECK, CHECK_NS)
            return
        self.null_armed = False
        self.host.turn_due = True

    def owes_word(self) -> bool:
        """Whether others may wait for our promise or our tickets."""
        return self.host.site in self.order.active and (self.heard or bool(self.unsent))

    def end_turn(self) -> None:
        """Send what we owe, and let the application go on where it can."""
        while self.unsent and self.options.eager and self.below.writable():
            self.send_null()
        if self.null_ns and not self.null_armed and self.owes_word():
            wait_ns = self.null_ns - (self.host.now_ns - self.sent_ns)
            if wait_ns <= 0 and self.below.writable():
                self.send_null()
            else:
                self.null_armed = True
                self.host.set_timer(self, NULL, wait_ns if wait_ns > 0 else self.null_ns)
        if self.reevaluate_role:
            self.reevaluate_role = False
            self.evaluate()
        if self.resume_pending and self.phase in SENDING:
            self.resume_pending = False
            self.above.resume()

    def resume(self) -> None:
        self.reevaluate_role = self.resume_pending = True
        self.host.turn_due = True

    # Receiving

    def on_packet(self, source: SiteId, packet: Packet[Any]) -> None:
        self.check(source, packet)
        self.take(source, packet)
        self.deliver_ready()
        self.issue_for(source)
        for _, sender, _, _ in packet.tickets:
            self.issue_for(sender)
        self.host.turn_due = True

    def on_ahead(self, source: SiteId, ahead: Ahead[Any]) -> None:
        if ahead.index <= self.received.get(source, ahead.index):
            raise RemoteError(f"the body of entry {ahead.index} of site {source}, whose packet was here already")
        self.ahead[source, ahead.index] = ahead.cast

    def check(self, source: SiteId, packet: Packet[Any]) -> None:
        """Refuse what no member says that goes by the rules."""
        if source not in self.received or any(ticket[1] not in self.received for ticket in packet.tickets):
            raise RemoteError(f"a packet of site {source} with others than members of view {self.view.view_id}")
        if packet.tickets and packet.tickets[-1][0] + packet.tickets[-1][3] - 1 > packet.promise:
            raise RemoteError(f"site {source} promises {packet.promise}, below a ticket it issues")
        if bool(packet.index) != bool(packet.bodies) or len(packet.bodies) > RANGE_MAX:
            raise RemoteError(f"{len(packet.bodies)} entries of site {source} from index {packet.index} on")
        if packet.index:
            if packet.sequencer == source and packet.promise < len(packet.bodies):
                raise RemoteError(f"entry {packet.index} of site {source} has no ticket, nor a sequencer to issue one")
            if packet.index <= self.received[source]:  # some may be missing, where their sender died
                raise RemoteError(f"entry {packet.index} of site {source}; the last was {self.received[source]}")
            if not all(body is None or isinstance(body, Cast | Go) for body in packet.bodies):
                raise RemoteError(f"entry {packet.index} of site {source} is neither a message nor a request")
            self.received[source] = packet.index + len(packet.bodies) - 1

    def take(self, source: SiteId, packet: Packet[Any]) -> None:
        """Note what a packet says."""
        order, own = self.order, source == self.host.site
        if packet.promise:
            order.promise(source, packet.promise)
            self.clock.heard(packet.promise, round(self.distance_ns(source)), self.host)
        self.heard |= not own and bool(packet.tickets)
        for number, sender, index, count in packet.tickets:
            order.add(number, source, sender, index, count)
            if own:
                order.returned()
        if packet.index:
            count = len(packet.bodies)
            for index, body in enumerate(packet.bodies, packet.index):
                whole = self.ahead.pop((source, index), None) if body is None else body
                self.entries[source, index] = (whole, packet.sequencer, packet.role_number)
            if packet.sequencer == source:
                order.add(packet.promise - count + 1, source, source, packet.index, count)
                if own:
                    order.returned()
                else:
                    self.heard = True

    def issue_for(self, sender: SiteId) -> None:
        """Ticket a member's next entries, as far as they are here and name us in our present term."""
        if self.phase is not Phase.ACTIVE:
            return
        site, order, entries = self.host.site, self.order, self.entries
        term, index = self.terms[site], order.known[sender] + 1
        while True:
            count = 0
            while (entry := entries.get((sender, index + count))) is not None and entry[1] == site and entry[2] == term:
                count += 1
                if count == RANGE_MAX:
                    break
            if not count:
                return
            self.unsent.append((order.issue(sender, index, self.clock_reading(), count), sender, index, count))
            index += count

    def on_reassign(self, source: SiteId, reassign: Reassign) -> None:
        if reassign.upto > self.received.get(source, -1) or reassign.sequencer not in self.received:
            raise RemoteError(f"site {source} reassigns entries up to {reassign.upto}, which it has not sent")
        self.rename(source, reassign)
        self.issue_for(source)
        self.host.turn_due = True

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
            number, _, sender, index, count = held
            casts: list[Cast] = []
            while len(casts) < count:
                entry = entries.get((sender, index + len(casts)))
                if entry is None or not isinstance(entry[0], Cast):
                    break
                casts.append(entry[0])
            if len(casts) > 1:
                order.pop(len(casts))
                for offset in range(len(casts)):
                    del entries[sender, index + offset]
                order.delivered[sender] = index + len(casts) - 1
                self.stirred = True
                self.above.deliver_all(casts)
                self.note_delivered()
            else:
                order.pop()
                self.hand_over(number, sender, index)

    def hand_over(self, number: int, sender: SiteId, index: int) -> None:
        """Deliver an entry: a message to the application, a request for a role to all of us."""
        body, _, _ = self.entries.pop((sender, index))
        self.order.delivered[sender] = index
        if type(body) is Go:
            self.on_go(number, sender, body)
        elif body is not None:
            self.stirred = True
            self.above.deliver(body)  # type: ignore[arg-type]
        self.note_delivered()

    def note_delivered(self) -> None:
        if self.phase is Phase.CHANGING and self.order.delivered[self.host.site] == self.count:
            self.on_caught_up()

    def settled(self) -> bool:
        delivered = self.order.delivered.get(self.host.site) == self.count
        return delivered and not self.unsent and self.phase is not Phase.LISTENING and self.below.settled()
