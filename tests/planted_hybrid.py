"""The readings of the hybrid protocol that look right and are wrong, each of which random scenarios must find."""

from __future__ import annotations

from isthmus.core.layer import Host, Stack, View
from isthmus.core.message import SiteId
from isthmus.protocols.application import Application
from isthmus.protocols.estimator import Estimator
from isthmus.protocols.total.hybrid import Hybrid
from isthmus.protocols.total.hybrid_wire import Go
from isthmus.protocols.total.roles import SERVED, State
from isthmus.protocols.total.tickets import NEVER, Place, TicketOrder
from isthmus.protocols.transport.credit import Credit
from isthmus.protocols.transport.reliable import Reliable
from isthmus.stacks import Build, StackOptions


class Twice(TicketOrder):
    """Takes a second ticket for an entry like the first."""

    __slots__ = ()

    def add(self, number: int, issuer: SiteId, sender: SiteId, index: int) -> None:
        self.waiting.discard((sender, index))
        if index > self.delivered[sender]:
            super().add(number, issuer, sender, index)


class IssuersAlike(TicketOrder):
    """Holds a ticket for stable that another issuer may still equal, and precede by its id."""

    __slots__ = ()

    def work_out_horizon(self) -> Place:
        number, _ = super().work_out_horizon()
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
        known, unsent = self.order.known, {(ticket[1], ticket[2]) for ticket in self.unsent}
        again = self.order.delivered[sender] + 1
        if known[sender] >= again and (sender, again) in self.entries and (sender, again) not in unsent:
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

    def on_go(self, number: int, sender: SiteId, go: Go) -> None:
        served = self.state in SERVED and self.sequencer != sender != self.host.site
        super().on_go(number, sender, go)
        if served and not go.active and sender not in self.order.active:
            self.reassign()


class WaitsForItself(Hybrid):
    """Leaves the change of its sequencer only when something of its own is delivered."""

    __slots__ = ()

    def change_sequencer(self) -> None:
        self.state = State.CHANGING


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

    def on_go(self, number: int, sender: SiteId, go: Go) -> None:
        if not go.active and self.order.active == {sender}:
            self.order.dismiss(sender)
            self.terms[sender] += 1
            if sender == self.host.site and self.state is not State.LISTENING:
                self.sequencer = sender
                self.carry_on(State.PASSIVE)
            return
        super().on_go(number, sender, go)


def over(order: type[Hybrid], fifo: bool = True) -> Build:
    """The stack with one of the layers replaced."""

    def build(host: Host, application: Application, options: StackOptions) -> Stack:
        estimator = Estimator(options.hybrid.estimator)
        layer = order(options.hybrid, estimator)
        return Stack(host, application, estimator, Credit(options.credit), layer, Reliable(options.reliable, fifo))

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
}
