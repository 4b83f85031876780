"""What sites agree on beforehand: which groups there are, with what members and stacks, and where each site listens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from isthmus.core.errors import InputError
from isthmus.core.message import GroupId, SiteId, Targets
from isthmus.core.validation import DURATION_MAX_MS, BadValue, check_range, one_of
from isthmus.live.net.hello import GroupHello
from isthmus.live.net.names import LOOPBACK
from isthmus.live.node.incarnations import FileStore
from isthmus.live.node.peers import logger
from isthmus.live.node.site import LivePort
from isthmus.protocols.application import Application
from isthmus.protocols.membership.agreement import Agreement
from isthmus.protocols.membership.home import Past
from isthmus.scenario.model import Agreed, HybridSpec, StackSpec
from isthmus.scenario.workload import named_sites
from isthmus.stacks.registry import STACKS, StackOptions
from isthmus.topology.addresses import PORTS, Endpoint, endpoint
from isthmus.topology.model import Topology

Where = int | str | tuple[str, int]  # a port of the loopback, "host:port", or a host and a port


class GroupPlan(msgspec.Struct, frozen=True):
    """One group, the same at all sites; its number is its place among the groups."""

    name: str = ""
    stack: str = "token-site"
    sites: tuple[str, ...] = ()  # sites or clusters; () for all
    options: StackOptions | None = None  # None: what the stack's name means in the topology
    composition: str = ""  # a digest of the one that it is a node of, which must be the same at all sites


class AgreedPlan(msgspec.Struct, frozen=True):
    """Groups whose members agree on views, the same at all sites but for the last three."""

    rules: Agreed = Agreed()
    folder: Path | None = None  # where the small files are kept; None: nothing outlives this process
    found: bool = False  # this site is to found the groups, whoever is there: an operator's word
    blocked_s: float = 5.0  # for so long this site counts as alive while its program keeps the event loop to itself

    def __post_init__(self) -> None:
        check_range("blocked_s", self.blocked_s, 0, DURATION_MAX_MS / 1e3)


Membership = AgreedPlan | Literal["static"] | None  # None: agreed on, where the stack can


def membership_of(given: Membership, plans: Sequence[GroupPlan]) -> AgreedPlan | None:
    """How groups come to their views; None: they are static. Says so where they are although nobody asked for it."""
    if isinstance(given, AgreedPlan):
        return given
    if given is not None:
        if given != "static":
            raise InputError("membership", "", repr(given), 'an AgreedPlan, "static", or None for the default')
        return None
    unable = next((plan.stack for plan in plans if plan.stack in STACKS and not STACKS[plan.stack].agrees), None)
    unable = next(("of datagrams" for plan in plans if plan.options is not None and plan.options.bare), unable)
    if unable is not None:
        logger.warning("membership is static: members of the stack %s cannot agree on views", unable)
    return AgreedPlan() if unable is None else None


def default_options(stack: str, topology: Topology) -> StackOptions:
    """What a stack's name means in a topology."""
    return StackOptions(
        hybrid=HybridSpec().of(stack, topology),
        causal=StackSpec(name=stack).causal_options(topology),
    )


class JoinedGroup:
    """A group with its names resolved, and the application of this site in it."""

    __slots__ = (
        *(
            "agreed",
            "agreement",
            "application",
            "boot",
            "group",
            "members",
            "on_end",
            "on_life",
            "on_stack",
            "options",
            "past",
            "plan",
            "port",
        ),
        "store",
    )

    def __init__(self, topology: Topology, plan: GroupPlan, group: GroupId, agreed: bool) -> None:
        if plan.stack not in STACKS:
            raise InputError("stack", "", repr(plan.stack), one_of(plan.stack, STACKS))
        if agreed and not STACKS[plan.stack].agrees:
            raise InputError("stack", "", repr(plan.stack), "a stack whose members can agree on views")
        self.plan = plan
        self.group = group
        self.agreed = agreed
        everyone = tuple(SiteId(number) for number in range(len(topology.sites)))
        self.members: Targets = named_sites(topology, plan.sites, "sites") or everyone
        given = plan.options or default_options(plan.stack, topology)
        self.options = msgspec.structs.replace(given, clusters=tuple(each.cluster for each in topology.sites))
        self.application: Application | None = None  # None: this site has none in the group
        self.boot: Callable[[], Application] | None = None  # an application for each life; None: one for all
        self.on_end: Callable[[], None] = lambda: None  # nothing more will come: the site has left, or is refused
        self.port: LivePort | None = None  # while it is joined
        self.on_stack: Callable[[LivePort], None] = lambda _port: None  # a life has a stack, at this port
        self.on_life: Callable[[], None] = lambda: None  # a new life begins: of the one before nothing counts any more
        self.agreement: Agreement | None = None  # of the present life, where members agree on views
        self.past: Past | None = None  # what the life before left
        self.store: FileStore | None = None

    def hello(self) -> GroupHello:
        return GroupHello(self.group, self.plan.name, self.plan.stack, self.members, shared_options(self))


def endpoints_of(topology: Topology, given: Mapping[str, Where]) -> list[Endpoint]:
    """Where each site of a topology listens: as given, or as the topology says."""
    unknown = next((name for name in given if all(site.name != name for site in topology.sites)), None)
    if unknown is not None:
        raise InputError("addresses", "", repr(unknown), one_of(unknown, [site.name for site in topology.sites]))
    found: dict[Endpoint, str] = {}
    for known in topology.sites:
        where = given.get(known.name, known.address)
        if where == "":
            expected = "the port of every site of the topology, or its address: given here, or in the topology"
            raise InputError("addresses", known.name, "nothing", expected)
        made = endpoint_of(where, known.name)
        if made in found:
            twice = f"{str(made)!r}, which {found[made]} has"
            raise InputError("addresses", known.name, twice, "a port or an address of its own for each site")
        found[made] = known.name
    return list(found)


def endpoint_of(where: Where, name: str) -> Endpoint:
    """An endpoint in any of the forms that it may be given in."""
    if isinstance(where, str):
        try:
            return endpoint(where)
        except BadValue as error:
            raise error.at("addresses", name) from None
    host, port = (LOOPBACK, where) if isinstance(where, int) else where
    if not 0 < port < 65536:
        raise InputError("addresses", name, repr(port), PORTS)
    return Endpoint(host, port)


def shared_options(group: JoinedGroup) -> dict[str, str]:
    """The options of a group's stack that must be the same at all sites, as text."""
    taken, options = STACKS[group.plan.stack].options, group.options
    shown: dict[str, object] = {"credit.window": options.credit.window}
    shown["membership"] = "agreed" if group.agreed else "static"
    if group.plan.composition:
        shown["composition"] = group.plan.composition
    if "sequencer" in taken:
        shown["sequencer"] = "the eldest" if options.sequencer is None else f"site {options.sequencer}"
    if options.participants is not None:
        shown["participants"] = sorted(options.participants.conditions.items())
    if "optimistic" in taken:
        shown["optimistic.policy"] = options.optimistic.policy
    if "hybrid" in taken:
        hybrid = options.hybrid
        shown["hybrid.rule"], shown["hybrid.clock"] = hybrid.rule, hybrid.clock
        shown["hybrid.active"] = "all" if hybrid.active is None else list(hybrid.active)
        shown["hybrid.sequencer_of"] = sorted(hybrid.sequencer_of.items())
    if "causal" in taken:
        causal = options.causal
        shown["causal.coding"], shown["causal.rules"] = causal.coding, causal.rules()
        shown["causal.lans"], shown["causal.gated"] = causal.lans, causal.gated
    return {name: str(value)[:200] for name, value in shown.items()}
