"""Total order with roles: active processes issue tickets, passive ones have their messages ticketed by an active one.

Problem: a sequencer costs twice the network delay; ticketing one's own messages costs one delay, but makes all members
wait for the slowest sender. Idea: busy processes are active, the others passive, each with an active process nearby as
its sequencer. All active is the symmetric protocol, all passive but one is token-site.

*Entries and tickets.* Every member's packets to all form one FIFO stream. A message, or a request for another role, is
an *entry*: the next index of its sender in this view. An active sender tickets its own entries as it sends them; a
passive sender names its sequencer, with the term that this process is in at this place of the order: after a change of
roles no process takes an entry meant for an earlier term. Deliveries follow the ticket order (tickets.py), requests for
roles included, so that all members go through the same configurations. Everything that is needed for ordering goes to
all members in one packet, so that survivors of a crash know the same; only the body of an entry for some members is
sent apart.

*Nulls.* An active process without messages still owes the others its promise: a packet without an entry, when it has
been silent for `null_ms` and has received a ticket since. While others send, it promises every `null_ms`, ahead of the
tickets still on their way to it; when they fall silent, it does, too. A frequent sender waits twice that long.
*Roles* change by a request that is ordered, or by a plan for all (roles.py, which has the transitions).

*Views.* When a view closes, all survivors hold the same packets. Each delivers the ticketed entries in order, then the
others by sender and index. The next view starts with no past but the roles, which a joining member takes over.

Bounds: entries and tickets wait here only for messages that flow control has admitted, plus a few requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Finality, Handler, Kind, Layer, View
from isthmus.core.message import ALL, Cast, Message, SiteId, Targets
from isthmus.protocols.estimator import Estimator
from isthmus.protocols.total.hybrid.clocks import CLOCKS
from isthmus.protocols.total.hybrid.entries import Entries, closing_order, named_from, rename, take_casts
from isthmus.protocols.total.hybrid.roles import (
    SENDING,
    SERVED,
    Outlook,
    RolePhase,
    decode_roles,
    encode_roles,
    roles_after,
    rule_of,
)
from isthmus.protocols.total.hybrid.tickets import TicketOrder
from isthmus.protocols.total.hybrid.wire import (
    RANGE_MAX,
    BodyAhead,
    HybridOptions,
    ReassignEntries,
    RolePlan,
    RoleRequest,
    Ticket,
    TicketPacket,
)
from isthmus.protocols.total.positions import position
from isthmus.protocols.transport.base import cut

NULL, CHECK = 0, 1  # timer keys
CHECK_NS = 100_000_000  # how often a rule that watches is asked
TICKETS_MAX = 1024  # ranges in one packet without a message
BESIDES_MAX = 128  # beside messages, which may fill a datagram but for some 4,000 bytes
PASSIVE, ACTIVE = 0, 1  # roles, as traced


class Hybrid(Layer):
    """Delivers in the order of tickets, and changes roles with rates and delays."""

    __slots__ = (
        "ahead",
        "clock",
        "count",
        "entering",
        "entries",
        "estimator",
        "heard",
        "informed",
        "null_armed",
        "null_ns",
        "options",
        "order",
        "outlook",
        "phase",
        "received",
        "reevaluate_role",
        "resume_pending",
        "sent_ns",
        "sequencer",
        "stirred",
        "terms",
        "unsent",
        "view",
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
        self.informed = self.entering = False  # we have taken part in a view; one is installed and not resumed
        self.reset()

    def reset(self) -> None:
        self.phase = RolePhase.LISTENING
        self.sequencer = SiteId(0)  # tickets our entries while we are passive
        self.entries: Entries = {}  # received, not delivered, by sender and index
        self.ahead: dict[tuple[SiteId, int], Cast] = {}  # bodies received before their packets
        self.received = dict.fromkeys(self.view.members, 0)  # the last index of each member
        self.count = 0  # the last index of our own
        self.unsent: list[Ticket] = []  # issued for others, not sent
        self.heard = False  # a ticket of another member, since our last packet
        self.sent_ns = 0  # when that was
        self.reevaluate_role = self.resume_pending = False  # due at the end of the turn
        self.null_armed = False
        self.stirred = False  # a message was delivered since the rule was last asked

    def start(self) -> None:
        self.outlook = Outlook(self.host.site, self.options, self.estimator, rule_of(self.options, self.host.random))

    def bodies(self) -> dict[type[Message], Handler]:
        bare: dict[type[Message], Handler] = {RoleRequest: self.on_bare, RolePlan: self.on_bare}
        return bare | {TicketPacket: self.on_packet, BodyAhead: self.on_ahead, ReassignEntries: self.on_reassign}

    # Sending

    def writable(self) -> bool:
        return self.phase in SENDING and self.below.writable()

    def submit(self, message: Message, targets: Targets = ALL) -> None:
        assert isinstance(message, Cast)
        if targets:  # the body goes ahead to the destinations, the place to all
            self.below.submit(BodyAhead(self.count + 1, message), targets)
            self.send_entries((None,))
        else:
            self.send_entries((message,))

    def submit_all(self, casts: Sequence[Cast]) -> None:
        for part in cut(casts, self.host.frame_bytes):
            for first in range(0, len(part), RANGE_MAX):
                self.send_entries(tuple(part[first : first + RANGE_MAX]))

    def send_entries(self, bodies: tuple[Cast | RoleRequest | RolePlan | None, ...]) -> None:
        """Multicast the next entries."""
        index, site = self.count + 1, self.host.site
        self.count += len(bodies)
        if site not in self.order.active:
            self.below.submit(TicketPacket(0, (), index, self.sequencer, self.terms[self.sequencer], bodies))
            return
        while len(self.unsent) > BESIDES_MAX:
            self.send_null()
        self.order.issue(site, index, self.clock.reading(self.host), len(bodies))
        tickets, self.unsent = tuple(self.unsent), []
        self.heard, self.sent_ns = False, self.host.now_ns
        self.below.submit(TicketPacket(self.order.clock, tickets, index, site, self.terms[site], bodies))

    def send_null(self) -> None:
        """Multicast the tickets that wait, and a promise."""
        tickets, self.unsent = tuple(self.unsent[:TICKETS_MAX]), self.unsent[TICKETS_MAX:]
        if self.unsent:
            promise = tickets[-1][0] + tickets[-1][3] - 1
        else:
            promise = self.order.clock = max(self.order.clock, self.clock.reading(self.host))
        self.heard, self.sent_ns = False, self.host.now_ns
        self.below.submit(TicketPacket(promise, tickets))

    def timer(self, key: int) -> None:
        if key == CHECK:
            if self.stirred:  # without messages, roles do not matter
                self.stirred = False
                self.evaluate()
            self.host.set_timer(self, CHECK, CHECK_NS)
            return
        self.null_armed = False
        self.host.turn_due = True

    def end_turn(self) -> None:
        """Send the tickets and promises that are due, and let the application resume."""
        while self.unsent and self.options.eager and self.below.writable():
            self.send_null()
        owes_word = self.host.site in self.order.active and (self.heard or self.unsent)  # others may wait for us
        if owes_word and not self.null_armed and (null_ns := self.null_ns * self.outlook.patience()):
            wait_ns = null_ns - (self.host.now_ns - self.sent_ns)
            if wait_ns <= 0 and self.below.writable():
                self.send_null()
            else:
                self.null_armed = True
                self.host.set_timer(self, NULL, wait_ns if wait_ns > 0 else null_ns)
        if self.reevaluate_role:
            self.evaluate()
        if self.resume_pending and self.phase in SENDING:
            self.resume_pending = False
            self.above.resume()

    # Receiving

    def on_packet(self, source: SiteId, packet: TicketPacket[Any]) -> None:
        packet.check(source, self.received)
        if packet.index:
            self.received[source] = packet.index + len(packet.bodies) - 1
        self.take(source, packet)
        self.deliver_ready()
        self.issue_for(source)
        for _, sender, _, _ in packet.tickets:
            self.issue_for(sender)
        self.host.turn_due = True

    def on_ahead(self, source: SiteId, ahead: BodyAhead[Any]) -> None:
        if ahead.index <= self.received.get(source, ahead.index):
            raise RemoteError(f"the body of entry {ahead.index} of site {source}, whose packet was here already")
        self.ahead[source, ahead.index] = ahead.cast

    def take(self, source: SiteId, packet: TicketPacket[Any]) -> None:
        """Take in the promise, tickets and entries of a packet."""
        order, own = self.order, source == self.host.site
        if packet.promise:
            order.promise(source, packet.promise)
            self.clock.heard(packet.promise, round(self.outlook.distance_ns(source)), self.host)
        self.heard |= not own and bool(packet.tickets)
        for number, sender, index, count in packet.tickets:
            order.add(number, source, sender, index, count)
            if own:
                order.returned()
        if packet.index:
            count, sequencer, term = len(packet.bodies), packet.sequencer, packet.role_number
            for index, body in enumerate(packet.bodies, packet.index):
                self.entries[source, index] = (body or self.ahead.pop((source, index), None), sequencer, term)
            if packet.sequencer == source:
                order.add(packet.promise - count + 1, source, source, packet.index, count)
                if own:
                    order.returned()
                else:
                    self.heard = True

    def issue_for(self, sender: SiteId) -> None:
        """Ticket a member's next entries, as far as they have arrived and name us in our present term."""
        if self.phase is not RolePhase.ACTIVE:
            return
        index = self.order.known[sender] + 1
        while count := named_from(self.entries, sender, index, self.host.site, self.terms[self.host.site]):
            number = self.order.issue(sender, index, self.clock.reading(self.host), count)
            self.unsent.append((number, sender, index, count))
            index += count

    def on_reassign(self, source: SiteId, reassign: ReassignEntries) -> None:
        if reassign.upto > self.received.get(source, -1) or reassign.sequencer not in self.received:
            raise RemoteError(f"site {source} reassigns entries up to {reassign.upto}, which it has not sent")
        rename(self.entries, source, reassign)
        self.issue_for(source)
        self.host.turn_due = True

    # Delivering

    def deliver(self, cast: Cast, finality: Finality = Finality.FINAL) -> None:  # noqa: ARG002
        self.host.trace(Kind.REJECT, value=cast.sender)  # a bare message: it has no place in any order

    def deliver_ready(self) -> None:
        """Deliver from the head of the order as far as tickets are stable and entries have arrived."""
        order, entries = self.order, self.entries
        while (held := order.head()) is not None and (held[2], held[3]) in entries:
            number, _, sender, index, count = held
            casts = take_casts(entries, sender, index, count) if count > 1 else ()
            if not casts:
                order.pop()
                self.hand_over(number, sender, index)
                continue
            order.pop(len(casts))
            order.delivered[sender] = index + len(casts) - 1
            self.stirred = True
            self.stack.position = position(self.view, order.next_place(len(casts)))
            self.above.deliver_all(casts)
            self.note_delivered()

    def hand_over(self, number: int, sender: SiteId, index: int) -> None:
        """Deliver an entry: a message to the application, or a change of roles to this layer."""
        body, _, _ = self.entries.pop((sender, index))
        self.order.delivered[sender] = index
        self.stack.position = position(self.view, self.order.next_place())
        if type(body) is RoleRequest:
            self.on_go(number, sender, body)
        elif type(body) is RolePlan:
            self.on_plan(sender, body)
        elif body is not None:
            self.stirred = True
            self.above.deliver(body)  # type: ignore[arg-type]
        self.note_delivered()

    def note_delivered(self) -> None:
        """Change the sequencer once all that we sent is delivered."""
        if self.phase is RolePhase.CHANGING and self.order.delivered[self.host.site] == self.count:
            self.sequencer = self.outlook.sequencer(self.order.active)
            self.carry_on(RolePhase.PASSIVE)

    def settled(self) -> bool:
        delivered = self.order.delivered.get(self.host.site) == self.count
        return delivered and not self.unsent and self.phase is not RolePhase.LISTENING and self.below.settled()

    # Asking for a role

    def evaluate(self) -> None:
        self.reevaluate_role = False
        if self.phase is RolePhase.ACTIVE:
            others = self.order.active - {self.host.site}
            if others and not self.outlook.wants(True, others) and self.below.writable():
                self.phase = RolePhase.TO_PASSIVE
                self.send_go(False)
        elif self.phase is RolePhase.PASSIVE:
            if self.outlook.wants(False, self.order.active):
                if self.below.writable():
                    self.phase = RolePhase.TO_ACTIVE
                    self.send_go(True)
                return
            if self.outlook.is_better(self.outlook.sequencer(self.order.active), self.sequencer):
                self.phase = RolePhase.CHANGING  # as soon as all is delivered that the present one has to ticket
                self.note_delivered()

    def send_go(self, active: bool) -> None:
        self.send_entries((self.outlook.request(active, self.view.members),))

    # Changes of roles, each at its place in the order

    def on_bare(self, source: SiteId, body: Message) -> None:
        raise RemoteError(f"{body} of site {source} without a packet has no place in the order")

    def on_plan(self, sender: SiteId, plan: RolePlan) -> None:
        if self.outlook.rule.adopt(sender, plan, self.view.members):
            self.reevaluate_role = True
        else:
            self.host.trace(Kind.REJECT, value=sender)

    def on_go(self, number: int, sender: SiteId, go: RoleRequest) -> None:
        others = self.order.active - {sender}
        delays = dict(zip(self.view.members, go.delays_ns, strict=False))
        changes = go.active != (sender in self.order.active) and bool(others)
        stands = changes and self.outlook.confirms(sender, go, delays, others)
        if stands:
            self.terms[sender] += 1
            if go.active:
                self.order.admit(sender, number)
            else:
                self.order.dismiss(sender)
        self.reevaluate_role = not self.outlook.rule.watches  # a rule that watches asks by itself
        if self.phase is RolePhase.LISTENING:
            return
        if sender == self.host.site:
            if stands and go.active:
                self.become_active()
            elif stands:
                self.become_passive()
            else:
                self.carry_on(RolePhase.PASSIVE if go.active else RolePhase.ACTIVE)
        elif stands and not go.active and self.sequencer == sender and self.phase in SERVED:
            self.reassign()

    def become_active(self) -> None:
        self.host.trace(Kind.ROLE, value=ACTIVE)
        self.carry_on(RolePhase.ACTIVE)

    def become_passive(self) -> None:
        self.host.trace(Kind.ROLE, value=PASSIVE)
        self.sequencer = self.outlook.sequencer(self.order.active)
        self.carry_on(RolePhase.PASSIVE)

    def carry_on(self, phase: RolePhase) -> None:
        """Enter a phase in which we send, and ticket the entries that have waited."""
        self.phase = phase
        self.resume_pending = True
        for sender in self.view.members:
            self.issue_for(sender)

    def reassign(self) -> None:
        """Have another process ticket our undelivered entries, as our sequencer has become passive."""
        self.sequencer = self.outlook.sequencer(self.order.active)
        delivered = self.order.delivered[self.host.site]
        if delivered < self.count:
            term = self.terms[self.sequencer]
            self.below.submit(ReassignEntries(delivered, self.count, self.sequencer, term))
        if self.phase is RolePhase.CHANGING:
            self.carry_on(RolePhase.PASSIVE)

    # Views

    def install(self, view: View) -> None:
        self.close_view()
        before, self.view = self.view, view
        for key in (NULL, CHECK):
            self.host.cancel_timer(self, key)
        self.reset()
        active = self.order.active
        if self.informed:
            active, self.terms = roles_after(view, view.survivors(before), active, self.terms)
            self.outlook.rule.open(view.members)
        else:  # a group without a past, unless a state follows
            active, self.terms = self.outlook.rule.initial(view.members), dict.fromkeys(view.members, 0)
        self.order = TicketOrder(self.host.site, view.members, active, self.order.clock)
        self.entering = True

    def state(self) -> bytes:
        return encode_roles(self.view.members, self.order.active, self.terms)

    def restore(self, state: bytes) -> None:
        self.order.active, self.terms = decode_roles(state, self.view.members)

    def resume(self) -> None:
        if self.entering:
            self.entering, self.informed = False, True
            if self.host.site in self.order.active:
                self.become_active()
            else:
                self.become_passive()
            if self.outlook.rule.watches:
                self.host.set_timer(self, CHECK, CHECK_NS)
        self.reevaluate_role = self.resume_pending = True
        self.host.turn_due = True

    def close_view(self) -> None:
        """Deliver the rest of the view: ticketed entries in order, then the others by sender and index."""
        self.phase = RolePhase.LISTENING
        for number, sender, index in closing_order(self.order, self.entries):
            self.hand_over(number, sender, index)
        for sender, index in sorted(self.entries):
            body = self.entries[sender, index][0]
            self.stack.position = position(self.view, self.order.next_place())
            if isinstance(body, Cast):
                self.above.deliver(body)
