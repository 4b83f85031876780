"""The readings of the hybrid protocol that look right and are wrong, each of which random scenarios must find."""

from __future__ import annotations

from isthmus.core.layer import Host, Stack, View
from isthmus.core.message import SiteId
from isthmus.protocols.application import Application
from isthmus.protocols.estimator import Estimator
from isthmus.protocols.total.hybrid.hybrid import TICKETS_MAX, Hybrid
from isthmus.protocols.total.hybrid.roles import SERVED, RolePhase
from isthmus.protocols.total.hybrid.tickets import NEVER, Place, TicketOrder
from isthmus.protocols.total.hybrid.wire import HybridOptions, RoleRequest, TicketPacket
from isthmus.protocols.transport.credit import Credit
from isthmus.stacks.registry import Build, StackOptions, bottom


class Twice(TicketOrder):
    """Takes a second ticket for an entry like the first."""

    __slots__ = ()

    def add(self, number: int, issuer: SiteId, sender: SiteId, index: int, count: int = 1) -> None:
        for offset in range(count):
            self.waiting.discard((sender, index + offset))
            if index + offset > self.delivered[sender]:
                super().add(number + offset, issuer, sender, index + offset)


class IssuersAlike(TicketOrder):
    """Holds a ticket for stable that another issuer may still equal, and precede by its id."""

    __slots__ = ()

    def least_to_come(self) -> Place:
        number, _ = super().least_to_come()
        return number, NEVER[1]


class DeafToPromises(TicketOrder):
    """Issues tickets below numbers it has heard of."""

    __slots__ = ()

    def promise(self, issuer: SiteId, number: int) -> None:
        clock = self.clock
        super().promise(issuer, number)
        self.clock = clock


class Ordered(Hybrid):
    """The protocol over another ticket order."""

    __slots__ = ()
    order_type: type[TicketOrder] = TicketOrder

    def install(self, view: View) -> None:
        super().install(view)
        self.order.__class__ = self.order_type


class TicketsAgain(Ordered):
    """Takes an entry for unticketed once its ticket has left."""

    __slots__ = ()
    order_type = Twice

    def issue_for(self, sender: SiteId) -> None:
        known, again = self.order.known, self.order.delivered[sender] + 1
        unsent = any(whose == sender and first <= again < first + count for _, whose, first, count in self.unsent)
        if known[sender] >= again and (sender, again) in self.entries and not unsent:
            known[sender] = again - 1
        super().issue_for(sender)


class IssuerIgnored(Ordered):
    """Judges what is stable by numbers alone."""

    __slots__ = ()
    order_type = IssuersAlike


class NoMaximum(Ordered):
    """Does not go beyond the numbers it hears."""

    __slots__ = ()
    order_type = DeafToPromises


class EverybodyReassigns(Hybrid):
    """Reassigns whenever somebody goes passive, though its own sequencer goes on issuing."""

    __slots__ = ()

    def on_go(self, number: int, sender: SiteId, go: RoleRequest) -> None:
        served = self.phase in SERVED and self.sequencer != sender != self.host.site
        super().on_go(number, sender, go)
        if served and not go.active and sender not in self.order.active:
            self.reassign()


class WaitsForItself(Hybrid):
    """Leaves the change of its sequencer only when something of its own is delivered."""

    __slots__ = ("evaluating",)

    def __init__(self, options: HybridOptions, estimator: Estimator) -> None:
        super().__init__(options, estimator)
        self.evaluating = False

    def evaluate(self) -> None:
        self.evaluating = True
        super().evaluate()
        self.evaluating = False

    def note_delivered(self) -> None:
        if not self.evaluating:
            super().note_delivered()


class OnlyTheElected(Hybrid):
    """Closes a view with what one process alone has left without a ticket."""

    __slots__ = ()

    def close_view(self) -> None:
        elected = max(self.view.members, default=SiteId(0))
        ticketed = self.order.waiting
        self.entries = {key: entry for key, entry in self.entries.items() if key in ticketed or key[0] == elected}
        super().close_view()


class NoFlush(Hybrid):
    """Closes a view without looking at tickets: what is left goes by sender and index."""

    __slots__ = ()

    def close_view(self) -> None:
        self.order.heap.clear()
        super().close_view()


class LastOneLeaves(Hybrid):
    """Lets the last active process go passive."""

    __slots__ = ()

    def on_go(self, number: int, sender: SiteId, go: RoleRequest) -> None:
        if not go.active and self.order.active == {sender}:
            self.order.dismiss(sender)
            self.terms[sender] += 1
            if sender == self.host.site and self.phase is not RolePhase.LISTENING:
                self.sequencer = sender
                self.carry_on(RolePhase.PASSIVE)
            return
        super().on_go(number, sender, go)


class OverflowDropped(Hybrid):
    """Sends as many tickets as a packet holds, and forgets the rest."""

    __slots__ = ()

    def send_null(self) -> None:
        del self.unsent[TICKETS_MAX:]
        super().send_null()


class PromiseBeyondUnsent(Hybrid):
    """Promises more than the tickets that it has sent."""

    __slots__ = ()

    def send_null(self) -> None:
        tickets, self.unsent = tuple(self.unsent[:TICKETS_MAX]), self.unsent[TICKETS_MAX:]
        self.order.clock = max(self.order.clock, self.clock.reading(self.host))
        self.heard, self.sent_ns = False, self.host.now_ns
        self.below.submit(TicketPacket(self.order.clock, tickets))


class LastOfRangeSkipped(Hybrid):
    """Issues a range one shorter than it should be."""

    __slots__ = ()

    def issue_for(self, sender: SiteId) -> None:
        before = len(self.unsent)
        super().issue_for(sender)
        for place in range(before, len(self.unsent)):
            number, whose, index, count = self.unsent[place]
            self.unsent[place] = (number, whose, index, max(1, count - 1))


def over(order: type[Hybrid], fifo: bool = True) -> Build:
    """The stack with one of the layers replaced."""

    def build(host: Host, application: Application, options: StackOptions) -> Stack:
        estimator = Estimator(options.hybrid.estimator)
        layer = order(options.hybrid, estimator)
        return Stack(host, application, estimator, Credit(options.credit), layer, *bottom(options, fifo))

    return build


PLANTED_HYBRID: dict[str, tuple[str, Build]] = {  # name: (the stack it replaces, the stack with the bug)
    "tickets issued again once they have left": ("dynamic-hybrid", over(TicketsAgain)),
    "everybody reassigns when somebody goes passive": ("dynamic-hybrid", over(EverybodyReassigns)),
    "a change of sequencer ends with an own delivery only": ("dynamic-hybrid", over(WaitsForItself)),
    "after a view only the elected hands over": ("dynamic-hybrid", over(OnlyTheElected)),
    "a view without the delivery of tickets": ("dynamic-hybrid", over(NoFlush)),
    "the last active process goes passive": ("dynamic-hybrid", over(LastOneLeaves)),
    "stable whatever the issuer": ("dynamic-hybrid", over(IssuerIgnored)),
    "no maximum on receipt": ("dynamic-hybrid", over(NoMaximum)),
    "channels that are not FIFO": ("dynamic-hybrid", over(Hybrid, fifo=False)),
    "tickets beyond one packet dropped": ("hybrid", over(OverflowDropped)),
    "a promise beyond unsent tickets": ("hybrid", over(PromiseBeyondUnsent)),
    "the last ticket of a range skipped": ("hybrid", over(LastOfRangeSkipped)),
}
