"""Total order with a role for everybody: active processes issue tickets, passive ones have theirs issued.

Problem: a sequencer costs twice the network delay; ticketing one's own messages costs one delay, but makes everybody
wait for the rarest sender. Idea: busy processes are active, the others passive, each with an active process nearby
as its sequencer. All active is the symmetric protocol, all passive but one is token-site.

This half holds the roles; ticketed.py holds entries and tickets. How roles change (the states of `Phase`):
- to active: ask, ticketed by the sequencer, and send nothing until the request is delivered;
- to passive: ask, ticketed by oneself, and neither send nor issue. Where the request is delivered the process is
  removed, unless it is the last active one; those it served choose another sequencer and *reassign* what is not
  delivered: just that has no ticket, as the old sequencer's tickets all go before its request;
- another sequencer: send nothing until all that one sent is delivered.

When a view closes, all survivors hold the same packets. Each delivers what has a ticket, in order, then what has none,
by sender and index: no message is left over, so the next view starts without a past but for its roles. They are the
state that a member which joins takes over before it takes part.
"""

from __future__ import annotations

from collections import defaultdict, deque

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Handler, Kind, View
from isthmus.core.message import Cast, Message, SiteId
from isthmus.protocols.estimator import Estimator
from isthmus.protocols.total.hybrid_wire import Ahead, Go, HybridOptions, Packet, Reassign, Roles
from isthmus.protocols.total.roles import SERVED, Phase, rule_of
from isthmus.protocols.total.ticketed import CHECK, CHECK_NS, NULL, Ticketed
from isthmus.protocols.total.tickets import NEVER, TicketOrder

PASSIVE, ACTIVE = 0, 1  # roles, as traced


class Hybrid(Ticketed):
    """Gives every process the role that suits its rate and its place."""

    __slots__ = ("informed", "rule")

    def __init__(self, options: HybridOptions, estimator: Estimator) -> None:
        super().__init__(options, estimator)
        self.informed = False  # the roles of this view are those of all, and we have taken up ours

    def start(self) -> None:
        self.rule = rule_of(self.options, self.host.random)

    def bodies(self) -> dict[type[Message], Handler]:
        return {
            Packet: self.on_packet,
            Ahead: self.on_ahead,
            Go: self.on_bare_go,
            Reassign: self.on_reassign,
        }

    # Asking for a role

    def evaluate(self) -> None:
        if self.phase is Phase.ACTIVE:
            others = self.order.active - {self.host.site}
            if others and not self.wants(True, others) and self.below.writable():
                self.phase = Phase.TO_PASSIVE
                self.send_go(False)
        elif self.phase is Phase.PASSIVE:
            if self.wants(False, self.order.active):
                if self.below.writable():
                    self.phase = Phase.TO_ACTIVE
                    self.send_go(True)
                return
            chosen = self.choose_sequencer()
            if chosen != self.sequencer and self.rule.is_better(chosen, self.sequencer, self.distance_ns):
                self.change_sequencer()

    def change_sequencer(self) -> None:
        """Go over to another sequencer, as soon as all is delivered that the present one has to ticket."""
        self.phase = Phase.CHANGING
        if self.order.delivered[self.host.site] == self.count:
            self.on_caught_up()

    def wants(self, active: bool, others: set[SiteId]) -> bool:
        """Whether the rule would have us active."""
        delay_ns = min(self.distance_ns(site) for site in others)
        return self.rule.wants(self.host.site, active, self.estimator.period_ns(), delay_ns)

    def send_go(self, active: bool) -> None:
        delays = tuple(self.distance_ns(site) for site in self.view.members)
        self.send_entries((Go(active, self.estimator.period_ns() or 0.0, delays),))

    def choose_sequencer(self) -> SiteId:
        """The one that was asked for, or the nearest."""
        wanted = self.options.sequencer_of.get(self.host.site)
        if wanted is not None and wanted in self.order.active:
            return wanted
        return self.rule.pick(self.order.active, self.distance_ns)

    # Changes of roles, each at its place in the order

    def on_bare_go(self, source: SiteId, go: Go) -> None:
        raise RemoteError(f"{go} of site {source} without a packet has no place in the order")

    def on_go(self, number: int, sender: SiteId, go: Go) -> None:
        others = self.order.active - {sender}
        delays = dict(zip(self.view.members, go.delays_ns, strict=False))
        stands = go.active != (sender in self.order.active) and bool(others) and self.rule.confirms(go, delays, others)
        if stands:
            self.terms[sender] += 1
            if go.active:
                self.order.admit(sender, number)
            else:
                self.order.dismiss(sender)
        self.reevaluate_role = not self.rule.watches  # which looks by itself
        if self.phase is Phase.LISTENING:
            return
        if sender == self.host.site:
            if stands and go.active:
                self.become_active()
            elif stands:
                self.become_passive()
            else:
                self.carry_on(Phase.PASSIVE if go.active else Phase.ACTIVE)
        elif stands and not go.active and self.sequencer == sender and self.phase in SERVED:
            self.reassign()

    def become_active(self) -> None:
        self.host.trace(Kind.ROLE, value=ACTIVE)
        self.carry_on(Phase.ACTIVE)

    def become_passive(self) -> None:
        self.host.trace(Kind.ROLE, value=PASSIVE)
        self.sequencer = self.choose_sequencer()
        self.carry_on(Phase.PASSIVE)

    def carry_on(self, state: Phase) -> None:
        """Send again, and issue what has waited."""
        self.phase = state
        self.resume_pending = True
        for sender in self.view.members:
            self.issue_for(sender)

    def on_caught_up(self) -> None:
        self.sequencer = self.choose_sequencer()
        self.carry_on(Phase.PASSIVE)

    def reassign(self) -> None:
        """Our sequencer is none any more: another one tickets what we have sent and not delivered."""
        self.sequencer = self.choose_sequencer()
        delivered = self.order.delivered[self.host.site]
        if delivered < self.count:
            term = self.terms[self.sequencer]
            self.below.submit(Reassign(delivered, self.count, self.sequencer, term))
        if self.phase is Phase.CHANGING:
            self.carry_on(Phase.PASSIVE)

    # Views

    def install(self, view: View) -> None:
        self.close_view()
        before, self.view = self.view, view
        for key in (NULL, CHECK):
            self.host.cancel_timer(self, key)
        self.reset()
        clock = self.order.clock
        if self.informed:
            survivors = view.survivors(before)
            active = self.order.active.intersection(survivors)
            self.terms = {site: self.terms[site] if site in survivors else 0 for site in view.members}
            if not active:
                elected = max(survivors)
                active = {elected}
                self.terms[elected] += 1
        else:  # a group without a past, unless a state comes
            active = self.rule.initial(view.members)
            self.terms = dict.fromkeys(view.members, 0)
        self.order = TicketOrder(self.host.site, view.members, active, clock)
        self.informed = False

    def state(self) -> bytes:
        terms = tuple(self.terms[site] for site in self.view.members)
        return msgspec.msgpack.encode(Roles(tuple(sorted(self.order.active)), terms))

    def restore(self, state: bytes) -> None:
        members = self.view.members
        try:
            roles = msgspec.msgpack.decode(state, type=Roles)
        except msgspec.DecodeError as error:
            raise RemoteError(f"roles that do not decode: {error}") from error
        if len(roles.role_numbers) != len(members) or not roles.active or not set(roles.active) <= set(members):
            raise RemoteError(f"roles that do not fit view {self.view.view_id}: {roles}")
        self.terms = dict(zip(members, roles.role_numbers, strict=True))
        self.order.active = set(roles.active)

    def resume(self) -> None:
        if not self.informed:
            self.informed = True
            self.begin()
        super().resume()

    def begin(self) -> None:
        """Take up our role in a new view."""
        if self.host.site in self.order.active:
            self.become_active()
        else:
            self.become_passive()
        if self.rule.watches:
            self.host.set_timer(self, CHECK, CHECK_NS)

    def close_view(self) -> None:
        """Deliver all that the flush left: the ticketed in order, each after its sender's earlier ones, then the rest.

        A ticket may have died with two processes, and the next one for the same sender not: hence the earlier ones.
        """
        self.phase = Phase.LISTENING
        left: dict[SiteId, deque[int]] = defaultdict(deque)  # what is here; a peer may name an index far beyond
        for sender, index in sorted(self.entries):
            left[sender].append(index)
        while self.order.heap:
            held = self.order.first_below(NEVER)
            assert held is not None
            number, _, sender, index, count = held
            self.order.pop(count)
            while left[sender] and left[sender][0] < index + count:
                self.hand_over(number, sender, left[sender].popleft())
        for sender, index in sorted(self.entries):
            body = self.entries[sender, index][0]
            if isinstance(body, Cast):
                self.above.deliver(body)
