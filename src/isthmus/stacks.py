"""Every named stack: its layers, top first, what it promises, and which options it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from isthmus.core.errors import LocalError
from isthmus.core.layer import Host, Layer, Stack
from isthmus.core.message import SiteId
from isthmus.protocols.application import Application
from isthmus.protocols.causal.extended import ExtendedOrder
from isthmus.protocols.causal.matrix import MatrixOrder
from isthmus.protocols.causal.options import CausalOptions
from isthmus.protocols.causal.relay import RelayedOrder
from isthmus.protocols.causal.vector import VectorOrder
from isthmus.protocols.estimator import Estimator
from isthmus.protocols.membership.marked_participants import MarkedParticipants
from isthmus.protocols.membership.participant_wire import ParticipantsOptions
from isthmus.protocols.membership.participants import OrderedParticipants, Participants
from isthmus.protocols.total.compensation import OptimisticOptions
from isthmus.protocols.total.hybrid import Hybrid
from isthmus.protocols.total.hybrid_wire import HybridOptions
from isthmus.protocols.total.optimistic import Optimistic
from isthmus.protocols.total.token_site import TokenSite
from isthmus.protocols.transport.base import Transport
from isthmus.protocols.transport.credit import Credit, CreditOptions
from isthmus.protocols.transport.direct import Direct
from isthmus.protocols.transport.frames import ReliableOptions
from isthmus.protocols.transport.relay import Relay, RelayOptions
from isthmus.protocols.transport.reliable import Reliable
from isthmus.protocols.transport.safe import Safe


class StackOptions(msgspec.Struct, frozen=True):
    """All that the stacks leave open; each takes what concerns it."""

    direct: bool = False  # over channels that neither lose nor reorder; otherwise reliable
    sequencer: SiteId | None = None  # None: the eldest member
    batch_ms: float | None = None  # the sequencer gathers messages this long for one ticket range
    credit: CreditOptions = CreditOptions()
    reliable: ReliableOptions = ReliableOptions()
    optimistic: OptimisticOptions = OptimisticOptions()
    hybrid: HybridOptions = HybridOptions()
    relay: RelayOptions | None = None  # None: every copy goes straight to its target
    clusters: tuple[int, ...] = ()  # the LAN of each site, by its number; a relay needs it
    safe: bool = False  # hand up what a quorum of the view has
    membership: Layer | None = None  # below the transport: agrees on views; None: the host drives the stack
    causal: CausalOptions = CausalOptions()
    participants: ParticipantsOptions | None = None  # None: the stack has no participants


def top(application: Application, options: StackOptions, kind: type[Participants] | None) -> tuple[Layer, ...]:
    """The application, and below it the participants where they are wanted, of the kind that the order needs."""
    if options.participants is None:
        return (application,)
    if kind is None:
        raise LocalError("participants need a stack that keeps at least each sender's order")
    return (application, kind(options.participants))


def transport(options: StackOptions, fifo: bool = True) -> Transport:
    if options.direct:
        return Direct()
    return Safe(options.reliable) if options.safe else Reliable(options.reliable, fifo)


def bottom(options: StackOptions, fifo: bool = True) -> tuple[Layer, ...]:
    """The transport, a relay below it where there is one, and below all the membership where members agree on views."""
    relay = () if options.relay is None else (Relay(options.clusters, options.relay),)
    membership = () if options.membership is None else (options.membership,)
    return (transport(options, fifo), *relay, *membership)


def unordered(host: Host, application: Application, options: StackOptions) -> Stack:
    """Every message once, as it arrives."""
    return Stack(host, *top(application, options, None), Credit(options.credit), *bottom(options, fifo=False))


def fifo(host: Host, application: Application, options: StackOptions) -> Stack:
    """Each sender's messages in the order sent."""
    return Stack(host, *top(application, options, MarkedParticipants), Credit(options.credit), *bottom(options))


def token_site(host: Host, application: Application, options: StackOptions) -> Stack:
    """One order for all, given by a fixed sequencer."""
    order = TokenSite(options.sequencer, options.batch_ms)
    upper = top(application, options, OrderedParticipants)
    return Stack(host, *upper, Credit(options.credit), order, *bottom(options))


def hybrid(host: Host, application: Application, options: StackOptions) -> Stack:
    """One order for all: some issue tickets, the others have theirs issued, as given or as they find best."""
    estimator = Estimator(options.hybrid.estimator)
    order = Hybrid(options.hybrid, estimator)
    upper = top(application, options, OrderedParticipants)
    return Stack(host, *upper, estimator, Credit(options.credit), order, *bottom(options))


def optimistic(host: Host, application: Application, options: StackOptions) -> Stack:
    """One order for all, which a site may guess at before the sequencer's word: tentative now, final then."""
    order = Optimistic(options.optimistic, options.sequencer, options.batch_ms)
    upper = top(application, options, OrderedParticipants)
    return Stack(host, *upper, Credit(options.credit), order, *bottom(options, fifo=False))


def optimistic_arrival(host: Host, application: Application, options: StackOptions) -> Stack:
    """The same, but numbered strictly as messages arrive at the sequencer, one sender's too."""
    order = Optimistic(options.optimistic, options.sequencer, options.batch_ms, fifo=False)
    upper = top(application, options, OrderedParticipants)
    return Stack(host, *upper, Credit(options.credit), order, *bottom(options, fifo=False))


def causal_vector(host: Host, application: Application, options: StackOptions) -> Stack:
    """Causal order by one counter per member; everything goes to everybody."""
    order = VectorOrder(options.causal.hold_max)
    return Stack(host, application, Credit(options.credit), order, *bottom(options, fifo=False))


def causal_matrix(host: Host, application: Application, options: StackOptions) -> Stack:
    """Causal order of multicasts by one counter per pair of members."""
    order = MatrixOrder(options.causal.hold_max)
    return Stack(host, application, Credit(options.credit), order, *bottom(options, fifo=False))


def causal_history(host: Host, application: Application, options: StackOptions) -> Stack:
    """Causal order of multicasts by what each process has told whom."""
    order = ExtendedOrder(options.causal)
    return Stack(host, application, Credit(options.credit), order, *bottom(options, fifo=False))


def causal_separators(host: Host, application: Application, options: StackOptions) -> Stack:
    """The same over gateways that relay, with zones whose affairs are not told outside."""
    order = RelayedOrder(options.causal)
    return Stack(host, application, Credit(options.credit), order, *bottom(options, fifo=False))


Build = Callable[[Host, Application, StackOptions], Stack]
ALWAYS = ("integrity", "agreement", "validity", "views")
CAUSAL = (*ALWAYS, "fifo", "causal")
TOTAL = (*ALWAYS, "fifo", "total")
UNIFORM = ("uniform-total",)  # what safe delivery adds to a total order
BASE = ("credit", "relay", "reliable", "transport")
IN_ORDER = (*BASE, "safe")  # over a transport that hands up in each sender's order
SEQUENCED = ("batch_ms", "sequencer")


class NamedStack(msgspec.Struct, frozen=True):
    """A stack by its name: what it is made of, promises and leaves open. No other code asks for the name."""

    build: Build
    properties: tuple[str, ...]  # the names that the trace's oracle and checks know them by
    options: tuple[str, ...]  # of all that a stack may be told, what concerns this one
    participants: bool = True  # it may have participants
    reorders: bool = False  # it keeps its promises over a direct transport whose channels reorder
    roles: Literal["", "everyone", "given", "changing"] = ""  # of the ticket protocols: who is active
    relays: bool = False  # messages go over gateways, so that LANs must be joined in a tree or a ring
    agrees: bool = True  # its members can agree on views; otherwise the ideal service, or a static group, is needed

    def promises(self, safe: bool) -> tuple[str, ...]:
        """What it promises, with safe delivery or without."""
        return (*self.properties, *UNIFORM) if safe and "total" in self.properties else self.properties


STACKS: dict[str, NamedStack] = {
    "unordered": NamedStack(unordered, ALWAYS, BASE, participants=False, reorders=True),
    "fifo": NamedStack(fifo, (*ALWAYS, "fifo"), IN_ORDER),
    "causal-vector": NamedStack(
        causal_vector, CAUSAL, (*BASE, "causal"), reorders=True, agrees=False, participants=False
    ),
    "causal-matrix": NamedStack(
        causal_matrix, CAUSAL, (*BASE, "causal"), reorders=True, agrees=False, participants=False
    ),
    "causal-history": NamedStack(
        causal_history, CAUSAL, (*BASE, "causal"), reorders=True, agrees=False, participants=False
    ),
    "causal-separators": NamedStack(
        causal_separators, CAUSAL, (*BASE, "causal"), reorders=True, relays=True, agrees=False, participants=False
    ),
    "token-site": NamedStack(token_site, TOTAL, (*IN_ORDER, *SEQUENCED)),
    "symmetric": NamedStack(hybrid, TOTAL, (*IN_ORDER, "hybrid"), roles="everyone"),
    "hybrid": NamedStack(hybrid, TOTAL, (*IN_ORDER, "hybrid"), roles="given"),
    "dynamic-hybrid": NamedStack(hybrid, TOTAL, (*IN_ORDER, "hybrid"), roles="changing"),
    "optimistic": NamedStack(optimistic, (*TOTAL, "final"), (*BASE, *SEQUENCED, "optimistic"), reorders=True),
    "optimistic-arrival": NamedStack(
        optimistic_arrival, (*ALWAYS, "total", "final"), (*BASE, *SEQUENCED, "optimistic"), reorders=True
    ),
}
