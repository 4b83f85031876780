"""Every named stack: its layers from the top down, the orders it promises, and the options it takes.

A stack is a row of `STACKS`. Its layers are functions of the options, named after what they make; the application, its
participants and a process's filters come above them, relay and membership below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from isthmus.core.errors import LocalError
from isthmus.core.layer import Host, Layer, Stack
from isthmus.core.message import SiteId, Targets
from isthmus.protocols.application import Application
from isthmus.protocols.causal.flooding.flooding import Flooding
from isthmus.protocols.causal.flooding.safe_links import SafeFlooding
from isthmus.protocols.causal.flooding.safe_wire import DynamicOptions
from isthmus.protocols.causal.histories.history_order import HistoryOrder
from isthmus.protocols.causal.histories.relayed_order import RelayedOrder
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
from isthmus.protocols.transport.credit import Credit, CreditOptions
from isthmus.protocols.transport.direct import Direct
from isthmus.protocols.transport.links.links import Links
from isthmus.protocols.transport.relay import Relay, RelayOptions
from isthmus.protocols.transport.reliable.frames import ReliableOptions
from isthmus.protocols.transport.reliable.reliable import Reliable
from isthmus.protocols.transport.safe import Safe
from isthmus.topology.overlay.links import Overlay


class StackOptions(msgspec.Struct, frozen=True):
    """The options of all stacks; each stack takes those that concern it (`NamedStack.options`)."""

    direct: bool = False  # channels neither lose nor reorder: no retransmission
    sequencer: SiteId | None = None  # None: the eldest member
    batch_ms: float | None = None  # the sequencer gathers messages for this long before it issues tickets
    credit: CreditOptions = CreditOptions()
    reliable: ReliableOptions = ReliableOptions()
    optimistic: OptimisticOptions = OptimisticOptions()
    hybrid: HybridOptions = HybridOptions()
    relay: RelayOptions | None = None  # None: every copy goes straight to its target
    clusters: tuple[int, ...] = ()  # the LAN of each site, by number; for the relay
    safe: bool = False  # deliver a message once a quorum of the view has it
    membership: Layer | None = None  # agrees on views, below the transport; None: the host installs them
    causal: CausalOptions = CausalOptions()
    ring: RingOptions = RingOptions()
    participants: ParticipantsOptions | None = None  # None: the stack has no participants
    fragments: FragmentOptions = FragmentOptions()
    overlay: Overlay = Overlay()  # the links along which messages are flooded
    dynamic: DynamicOptions = DynamicOptions()
    bare: bool = False  # the unordered stack without retransmission: datagrams
    twice: Targets = ()  # members visited twice per rotation of a ring's token: routers with priority
    routing: Layer | None = None  # in a composed group: a process's filters or a router's port, below the application


Maker = Callable[[StackOptions], tuple[Layer, ...]]
Build = Callable[[Host, Application, StackOptions], Stack]


# The layers


def credit(options: StackOptions) -> tuple[Layer, ...]:
    return (Credit(options.credit),)


def bottom(options: StackOptions, fifo: bool = True) -> tuple[Layer, ...]:
    """The transport with what is below it: reliable, safe or direct."""
    if options.direct:
        return (Direct(), *below_transport(options))
    transport = Safe if options.safe else Reliable
    return (transport(options.reliable, fifo), *below_transport(options))


def fifo_transport(options: StackOptions) -> tuple[Layer, ...]:
    return bottom(options)


def unordered_transport(options: StackOptions) -> tuple[Layer, ...]:
    """A transport for orders that need no FIFO channels: it hands up messages as they arrive."""
    return bottom(options, fifo=False)


def relaying_transport(options: StackOptions) -> tuple[Layer, ...]:
    """The transport of one hop between gateways: delivery is safe by the holders of a message, not by its relays."""
    return bottom(msgspec.structs.replace(options, safe=False), fifo=False)


def below_transport(options: StackOptions) -> tuple[Layer, ...]:
    """The relay through cluster agents, then membership; with both, membership messages are relayed in packs, too."""
    below: tuple[Layer, ...] = () if options.relay is None else (Relay(options.clusters, options.relay),)
    if options.membership is not None:
        below = (*below, options.membership)
        if options.relay is not None:
            below = (*below, Couriers(options.clusters, options.relay.pack_ms))
    return below


def unordered(options: StackOptions) -> tuple[Layer, ...]:
    """Reliable and under flow control; bare, packets as the network delivers them."""
    if options.bare:
        return (Direct(), *below_transport(options))
    return (*credit(options), *unordered_transport(options))


def token_site(options: StackOptions) -> tuple[Layer, ...]:
    return (TokenSite(options.sequencer, options.batch_ms),)


def ring(options: StackOptions) -> tuple[Layer, ...]:
    return (Ring(options.ring, not options.direct, options.twice),)


def hybrid(options: StackOptions) -> tuple[Layer, ...]:
    """Tickets, with the estimates of rates and delays above flow control, and a planner where the rule is `planned`."""
    estimator = Estimator(options.hybrid.estimator)
    order = Hybrid(options.hybrid, estimator)
    planner: tuple[Layer, ...] = ()
    if options.hybrid.rule == "planned":
        from isthmus.stacks.roles.advice import advise  # needs numpy, which a live site otherwise does without

        planner = (Planner(order, estimator, advise),)
    return (estimator, Credit(options.credit), *planner, order)


def optimistic(options: StackOptions) -> tuple[Layer, ...]:
    return (Optimistic(options.optimistic, options.sequencer, options.batch_ms, safe=options.safe),)


def optimistic_arrival(options: StackOptions) -> tuple[Layer, ...]:
    return (Optimistic(options.optimistic, options.sequencer, options.batch_ms, fifo=False, safe=options.safe),)


def vector(options: StackOptions) -> tuple[Layer, ...]:
    return (VectorOrder(options.causal.hold_max, options.causal.gauge_ms > 0),)


def matrix(options: StackOptions) -> tuple[Layer, ...]:
    return (MatrixOrder(options.causal.hold_max, options.causal.gauge_ms > 0),)


def history(options: StackOptions) -> tuple[Layer, ...]:
    return (HistoryOrder(options.causal, options.safe),)


def relayed_history(options: StackOptions) -> tuple[Layer, ...]:
    return (RelayedOrder(options.causal, options.safe),)


def flooding(options: StackOptions) -> tuple[Layer, ...]:
    links = Direct() if options.direct else Links(options.reliable)
    return (Flooding(options.overlay, options.reliable), links, *below_transport(options))


def flooding_dynamic(options: StackOptions) -> tuple[Layer, ...]:
    return (
        SafeFlooding(options.overlay, options.dynamic),
        Links(options.reliable, free=True),
        *below_transport(options),
    )


ALWAYS = ("integrity", "agreement", "validity", "views")
CAUSAL = (*ALWAYS, "fifo", "causal")
TOTAL = (*ALWAYS, "fifo", "total")
SAFE = ("sending-view",)  # what safe delivery adds to any order
LASTING = ("uniform-agreement",)  # and where members agree on views and none comes back by a file, without its frames
UNIFORM = ("uniform-total",)  # and to a total order
BASE = ("credit", "fragments", "relay", "reliable", "transport")
SAFELY = (*BASE, "safe")  # may deliver what a quorum has
SEQUENCED = (*SAFELY, "batch_ms", "sequencer")


class NamedStack(msgspec.Struct, frozen=True):
    """A stack by its name: what it is made of, promises and leaves open. No other code tests for the name."""

    build: Build
    properties: tuple[str, ...]  # by the names of the judge's checks
    options: tuple[str, ...]  # the keys of a scenario's stack table that it takes
    participants: bool = False  # it may have participants
    reorders: bool = False  # it keeps its promises over a direct transport whose channels reorder
    roles: Literal["", "everyone", "given", "changing"] = ""  # of the ticket protocols: which sites are active
    relays: bool = False  # messages go over gateways, so that LANs must be joined in a tree or a ring
    steady: bool = False  # members come and go without view synchrony: a view change stops nothing
    twin: Literal["", "flooding", "vector"] = ""  # the compiled end points that do the same over the packet network

    def promises(self, safe: bool, lasting: bool = False) -> tuple[str, ...]:
        """The properties that it keeps; `lasting`: messages that a quorum of a view has survive in its cut."""
        if not safe:
            return self.properties
        uniform = UNIFORM if "total" in self.properties else ()
        return (*self.properties, *SAFE, *(LASTING if lasting else ()), *uniform)


def stack(
    layers: tuple[Maker, ...],
    properties: tuple[str, ...],
    options: tuple[str, ...],
    participants: type[Participants] | None = None,
    pieces: bool = True,
    **traits: Any,
) -> NamedStack:
    """A row of `STACKS`; `pieces`: large messages are cut, which needs views that no piece outlives."""

    def build(host: Host, application: Application, given: StackOptions) -> Stack:
        application.fragments.options = given.fragments if pieces else FragmentOptions(LARGEST_BYTES)
        upper: tuple[Layer, ...] = () if given.routing is None else (given.routing,)
        if given.participants is not None:
            if participants is None:
                raise LocalError("participants need a stack that keeps at least each sender's order")
            upper = (*upper, participants(given.participants))
        return Stack(host, application, *upper, *(layer for make in layers for layer in make(given)))

    return NamedStack(build, properties, options, participants is not None, **traits)


STACKS: dict[str, NamedStack] = {
    "unordered": stack((unordered,), ALWAYS, SAFELY, reorders=True),
    "fifo": stack((credit, fifo_transport), (*ALWAYS, "fifo"), SAFELY, MarkedParticipants),
    "causal-vector": stack(
        (credit, vector, unordered_transport),
        CAUSAL,
        (*SAFELY, "causal"),
        MarkedParticipants,
        reorders=True,
        twin="vector",
    ),
    "causal-matrix": stack(
        (credit, matrix, unordered_transport), CAUSAL, (*SAFELY, "causal"), MarkedParticipants, reorders=True
    ),
    "causal-history": stack(
        (credit, history, unordered_transport), CAUSAL, (*SAFELY, "causal"), MarkedParticipants, reorders=True
    ),
    "causal-separators": stack(
        (credit, relayed_history, relaying_transport),
        CAUSAL,
        (*SAFELY, "causal"),
        MarkedParticipants,
        reorders=True,
        relays=True,
    ),
    "token-site": stack((credit, token_site, fifo_transport), TOTAL, SEQUENCED, OrderedParticipants),
    "ring": stack((credit, ring, fifo_transport), TOTAL, (*SAFELY, "ring"), OrderedParticipants),
    "symmetric": stack((hybrid, fifo_transport), TOTAL, (*SAFELY, "hybrid"), OrderedParticipants, roles="everyone"),
    "hybrid": stack((hybrid, fifo_transport), TOTAL, (*SAFELY, "hybrid"), OrderedParticipants, roles="given"),
    "dynamic-hybrid": stack(
        (hybrid, fifo_transport), TOTAL, (*SAFELY, "hybrid"), OrderedParticipants, roles="changing"
    ),
    "optimistic": stack(
        (credit, optimistic, unordered_transport),
        (*TOTAL, "final"),
        (*SEQUENCED, "optimistic"),
        OrderedParticipants,
        reorders=True,
    ),
    "optimistic-arrival": stack(
        (credit, optimistic_arrival, unordered_transport),
        (*ALWAYS, "total", "final"),
        (*SEQUENCED, "optimistic"),
        OrderedParticipants,
        reorders=True,
    ),
    "flooding": stack((credit, flooding), CAUSAL, (*BASE, "overlay"), MarkedParticipants, twin="flooding"),
    "flooding-dynamic": stack(
        (flooding_dynamic,),
        ("integrity", "validity", "views", "fifo", "causal"),
        ("dynamic", "overlay", "reliable"),
        pieces=False,
        steady=True,
    ),
}
SUMMARIES: dict[str, str] = {
    "unordered": "Every message once, in the order of arrival.",
    "fifo": "The messages of each sender in the order sent.",
    "causal-vector": "Causal order of broadcasts: one counter per member.",
    "causal-matrix": "Causal order of multicasts: one counter per pair of members.",
    "causal-history": "Causal order of multicasts: a message carries what its receivers may lack of its past.",
    "causal-separators": "The same over gateways that relay messages and keep the histories of their zones apart.",
    "token-site": "One order for all: a fixed sequencer issues tickets.",
    "ring": "One order for all: the holder of a rotating token sends.",
    "symmetric": "One order for all: every site issues tickets for its own messages.",
    "hybrid": "One order for all: active sites issue tickets for themselves and for passive ones.",
    "dynamic-hybrid": "The same with roles that follow load and distance.",
    "optimistic": "One order for all by a sequencer, which each site predicts: tentative, then final delivery.",
    "optimistic-arrival": "The same in the order of arrival at the sequencer, even for messages of one sender.",
    "flooding": "Causal order without timestamps: messages are flooded along the FIFO links of an overlay.",
    "flooding-dynamic": "The same while members come and go: links open and close without stopping messages.",
}
