"""Every named stack: its layers, top first, what it promises, and which options it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from isthmus.core.errors import LocalError
from isthmus.core.layer import Host, Layer, Stack
from isthmus.core.message import SiteId, Targets
from isthmus.protocols.application import Application
from isthmus.protocols.causal.flooding.flooding import Flooding
from isthmus.protocols.causal.flooding.safe_links import SafeFlooding
from isthmus.protocols.causal.flooding.safe_wire import DynamicOptions
from isthmus.protocols.causal.histories.extended import ExtendedOrder
from isthmus.protocols.causal.histories.gated import GatedOrder
from isthmus.protocols.causal.histories.relay import RelayedOrder
from isthmus.protocols.causal.histories.secured import SecuredGates, SecuredOrder, SecuredRelay
from isthmus.protocols.causal.matrix import MatrixOrder
from isthmus.protocols.causal.options import CausalOptions
from isthmus.protocols.causal.vector import VectorOrder
from isthmus.protocols.estimator import Estimator
from isthmus.protocols.fragments import LARGEST_BYTES, FragmentOptions
from isthmus.protocols.membership.couriers import Couriers
from isthmus.protocols.participants.marked import MarkedParticipants
from isthmus.protocols.participants.ordered import OrderedParticipants, Participants
from isthmus.protocols.participants.wire import ParticipantsOptions
from isthmus.protocols.total.hybrid.hybrid import Hybrid
from isthmus.protocols.total.hybrid.planned import Planner
from isthmus.protocols.total.hybrid.wire import HybridOptions
from isthmus.protocols.total.optimistic.compensation import OptimisticOptions
from isthmus.protocols.total.optimistic.optimistic import Optimistic
from isthmus.protocols.total.ring.ring import Ring, RingOptions
from isthmus.protocols.total.token_site import TokenSite
from isthmus.protocols.transport.base import Transport
from isthmus.protocols.transport.credit import Credit, CreditOptions
from isthmus.protocols.transport.direct import Direct
from isthmus.protocols.transport.links.links import Links
from isthmus.protocols.transport.relay import Relay, RelayOptions
from isthmus.protocols.transport.reliable.frames import ReliableOptions
from isthmus.protocols.transport.reliable.reliable import Reliable
from isthmus.protocols.transport.safe import Safe
from isthmus.topology.overlay.links import Overlay


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
    ring: RingOptions = RingOptions()
    participants: ParticipantsOptions | None = None  # None: the stack has no participants
    fragments: FragmentOptions = FragmentOptions()
    overlay: Overlay = Overlay()  # whose links messages are flooded along
    dynamic: DynamicOptions = DynamicOptions()
    bare: bool = False  # packets as they come, over any channels: the unordered stack as datagrams
    twice: Targets = ()  # members that a ring's token visits twice in a rotation: routers with priority
    routing: Layer | None = None  # of a composed group, below the application: a process's filters, or a router's end


def top(application: Application, options: StackOptions, kind: type[Participants] | None) -> tuple[Layer, ...]:
    """The application, and below it the participants where they are wanted, of the kind that the order needs."""
    application.fragments.options = options.fragments
    routing: tuple[Layer, ...] = () if options.routing is None else (options.routing,)
    if options.participants is None:
        return (application, *routing)
    if kind is None:
        raise LocalError("participants need a stack that keeps at least each sender's order")
    return (application, *routing, kind(options.participants))


def transport(options: StackOptions, fifo: bool = True) -> Transport:
    if options.direct:
        return Direct()
    return Safe(options.reliable, fifo) if options.safe else Reliable(options.reliable, fifo)


def bottom(options: StackOptions, fifo: bool = True) -> tuple[Layer, ...]:
    """The transport, and what is below it."""
    return (transport(options, fifo), *below_transport(options))


def below_transport(options: StackOptions) -> tuple[Layer, ...]:
    """A relay where there is one, and below all the membership where members agree on views.

    With a relay the words of the membership are packed, too.
    """
    relay = () if options.relay is None else (Relay(options.clusters, options.relay),)
    membership: tuple[Layer, ...] = () if options.membership is None else (options.membership,)
    if options.relay is not None and membership:
        membership = (*membership, Couriers(options.clusters, options.relay.pack_ms))
    return (*relay, *membership)


def unordered(host: Host, application: Application, options: StackOptions) -> Stack:
    """Every message once, as it arrives; or, bare, what the network brings."""
    if options.bare:
        return Stack(host, *top(application, options, None), Direct(), *below_transport(options))
    return Stack(host, *top(application, options, None), Credit(options.credit), *bottom(options, fifo=False))


def fifo(host: Host, application: Application, options: StackOptions) -> Stack:
    """Each sender's messages in the order sent."""
    return Stack(host, *top(application, options, MarkedParticipants), Credit(options.credit), *bottom(options))


def token_site(host: Host, application: Application, options: StackOptions) -> Stack:
    """One order for all, given by a fixed sequencer."""
    order = TokenSite(options.sequencer, options.batch_ms)
    upper = top(application, options, OrderedParticipants)
    return Stack(host, *upper, Credit(options.credit), order, *bottom(options))


def ring(host: Host, application: Application, options: StackOptions) -> Stack:
    """One order for all: who has the token sends."""
    upper = top(application, options, OrderedParticipants)
    return Stack(
        host, *upper, Credit(options.credit), Ring(options.ring, not options.direct, options.twice), *bottom(options)
    )


def hybrid(host: Host, application: Application, options: StackOptions) -> Stack:
    """One order for all: some issue tickets, the others have theirs issued, as given or as they find best."""
    estimator = Estimator(options.hybrid.estimator)
    order = Hybrid(options.hybrid, estimator)
    planner: tuple[Layer, ...] = ()
    if options.hybrid.rule == "planned":
        from isthmus.stacks.roles.advice import advise  # needs numpy, which a live site otherwise does without

        planner = (Planner(order, estimator, advise),)
    upper = top(application, options, OrderedParticipants)
    return Stack(host, *upper, estimator, Credit(options.credit), *planner, order, *bottom(options))


def optimistic(host: Host, application: Application, options: StackOptions) -> Stack:
    """One order for all, which a site may guess at before the sequencer's word: tentative now, final then."""
    order = Optimistic(options.optimistic, options.sequencer, options.batch_ms, safe=options.safe)
    upper = top(application, options, OrderedParticipants)
    return Stack(host, *upper, Credit(options.credit), order, *bottom(options, fifo=False))


def optimistic_arrival(host: Host, application: Application, options: StackOptions) -> Stack:
    """The same, but numbered strictly as messages arrive at the sequencer, one sender's too."""
    order = Optimistic(options.optimistic, options.sequencer, options.batch_ms, fifo=False, safe=options.safe)
    upper = top(application, options, OrderedParticipants)
    return Stack(host, *upper, Credit(options.credit), order, *bottom(options, fifo=False))


def causal_vector(host: Host, application: Application, options: StackOptions) -> Stack:
    """Causal order by one counter per member; everything goes to everybody."""
    order = VectorOrder(options.causal.hold_max, options.causal.gauge_ms > 0)
    return Stack(host, *top(application, options, None), Credit(options.credit), order, *bottom(options, fifo=False))


def causal_matrix(host: Host, application: Application, options: StackOptions) -> Stack:
    """Causal order of multicasts by one counter per pair of members."""
    order = MatrixOrder(options.causal.hold_max, options.causal.gauge_ms > 0)
    return Stack(host, *top(application, options, None), Credit(options.credit), order, *bottom(options, fifo=False))


def causal_history(host: Host, application: Application, options: StackOptions) -> Stack:
    """Causal order of multicasts by what each process has told whom."""
    order = SecuredOrder(options.causal) if options.safe else ExtendedOrder(options.causal)
    return Stack(host, *top(application, options, None), Credit(options.credit), order, *bottom(options, fifo=False))


def causal_separators(host: Host, application: Application, options: StackOptions) -> Stack:
    """The same over gateways that relay, with zones whose affairs are not told outside."""
    plain, safe = (GatedOrder, SecuredGates) if options.causal.gated else (RelayedOrder, SecuredRelay)
    order = (safe if options.safe else plain)(options.causal)
    hops = msgspec.structs.replace(options, safe=False)  # what counts is who has a message, not who is on its way
    return Stack(host, *top(application, options, None), Credit(options.credit), order, *bottom(hops, fifo=False))


def flooding(host: Host, application: Application, options: StackOptions) -> Stack:
    """Causal order without timestamps: all messages are flooded along the links of an overlay, which keep order."""
    links = Direct() if options.direct else Links(options.reliable)
    order = Flooding(options.overlay, options.reliable)
    return Stack(
        host, *top(application, options, None), Credit(options.credit), order, links, *below_transport(options)
    )


def flooding_dynamic(host: Host, application: Application, options: StackOptions) -> Stack:
    """The same while members come and go: links are opened and closed without stopping messages."""
    whole = msgspec.structs.replace(options, fragments=FragmentOptions(LARGEST_BYTES))  # pieces are of one view
    order = SafeFlooding(options.overlay, options.dynamic)
    return Stack(host, *top(application, whole, None), order, Links(options.reliable, free=True))


Build = Callable[[Host, Application, StackOptions], Stack]
ALWAYS = ("integrity", "agreement", "validity", "views")
CAUSAL = (*ALWAYS, "fifo", "causal")
TOTAL = (*ALWAYS, "fifo", "total")
SAFE = ("sending-view",)  # what safe delivery adds to any order
LASTING = ("uniform-agreement",)  # and where members agree on views and none comes back by a file, without its frames
UNIFORM = ("uniform-total",)  # and to a total order
BASE = ("credit", "fragments", "relay", "reliable", "transport")
SAFELY = (*BASE, "safe")  # may deliver what a quorum has
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
    steady: bool = False  # members come and go without view synchrony: views say who is there, and stop nothing
    twin: Literal["", "flooding", "vector"] = ""  # the compiled end points that do the same over the packet network
    agrees: bool = True  # its members can agree on views; otherwise the ideal service, or a static group, is needed

    def promises(self, safe: bool, lasting: bool = False) -> tuple[str, ...]:
        """What it promises, with safe delivery or without; `lasting`: what a quorum of a view has is in its cut."""
        if not safe:
            return self.properties
        return (
            *self.properties,
            *SAFE,
            *(LASTING if lasting else ()),
            *(UNIFORM if "total" in self.properties else ()),
        )


STACKS: dict[str, NamedStack] = {
    "unordered": NamedStack(unordered, ALWAYS, SAFELY, participants=False, reorders=True),
    "fifo": NamedStack(fifo, (*ALWAYS, "fifo"), SAFELY),
    "causal-vector": NamedStack(
        causal_vector, CAUSAL, (*SAFELY, "causal"), reorders=True, twin="vector", participants=False
    ),
    "causal-matrix": NamedStack(causal_matrix, CAUSAL, (*SAFELY, "causal"), reorders=True, participants=False),
    "causal-history": NamedStack(causal_history, CAUSAL, (*SAFELY, "causal"), reorders=True, participants=False),
    "causal-separators": NamedStack(
        causal_separators, CAUSAL, (*SAFELY, "causal"), reorders=True, relays=True, participants=False
    ),
    "token-site": NamedStack(token_site, TOTAL, (*SAFELY, *SEQUENCED)),
    "ring": NamedStack(ring, TOTAL, (*SAFELY, "ring")),
    "symmetric": NamedStack(hybrid, TOTAL, (*SAFELY, "hybrid"), roles="everyone"),
    "hybrid": NamedStack(hybrid, TOTAL, (*SAFELY, "hybrid"), roles="given"),
    "dynamic-hybrid": NamedStack(hybrid, TOTAL, (*SAFELY, "hybrid"), roles="changing"),
    "optimistic": NamedStack(optimistic, (*TOTAL, "final"), (*SAFELY, *SEQUENCED, "optimistic"), reorders=True),
    "optimistic-arrival": NamedStack(
        optimistic_arrival, (*ALWAYS, "total", "final"), (*SAFELY, *SEQUENCED, "optimistic"), reorders=True
    ),
    "flooding": NamedStack(flooding, CAUSAL, (*BASE, "overlay"), twin="flooding", participants=False),
    "flooding-dynamic": NamedStack(
        flooding_dynamic,
        ("integrity", "validity", "views", "fifo", "causal"),
        ("dynamic", "overlay", "reliable"),
        steady=True,
        agrees=False,
        participants=False,
    ),
}
