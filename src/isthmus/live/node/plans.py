"""What a program says of a site before it joins: groups, membership, addresses, and what concerns this process only.

Groups, their members and stacks, the membership and the addresses are the same at all sites; sites compare them at
first contact (`net/hello.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from isthmus.core.errors import InputError
from isthmus.core.validation import DURATION_MAX_MS, BadValue, check_range, one_of
from isthmus.live.clock.service import ClockPlan
from isthmus.live.net.names import LOOPBACK
from isthmus.live.node.peers import logger
from isthmus.protocols.participants.detector import DetectorOptions
from isthmus.protocols.routing.options import RouterOptions
from isthmus.scenario.model import Agreed
from isthmus.stacks.registry import StackOptions
from isthmus.topology.addresses import PORTS, Endpoint, endpoint
from isthmus.topology.model import Topology
from isthmus.trace.schema import Sink

SiteAddress = int | str | tuple[str, int]  # a port of the loopback, "host:port", or a host and a port


class GroupPlan(msgspec.Struct, frozen=True):
    """One group, the same at all sites.

    Args:
        name: how programs and error messages call it; "" is fine where there is only one group.
        stack: the named stack that orders its messages.
        sites: the names of its sites and clusters; () for all sites of the topology.
        options: what the stack leaves open; what is not given keeps the default of the stack.
        safe: whether a message is delivered only once a quorum has it; None leaves that to `options`.

    Example: `GroupPlan("chat", stack="fifo", sites=("paris", "tokyo-0"))`
    """

    name: str = ""
    stack: str = "token-site"
    sites: tuple[str, ...] = ()
    options: StackOptions | None = None
    safe: bool | None = None
    composition: str = ""  # a digest of the composition that this is a node of; set by Isthmus


class AgreedPlan(msgspec.Struct, frozen=True):
    """Groups whose members agree on views: a site may crash, leave and come back.

    Args:
        rules: time-outs and votes, the same at all sites.
        folder: where one small file per group is kept, by which views outlive this process; None keeps nothing.
        found: found the groups here, whoever else is there: the decision of an operator.
        blocked_s: how long this site counts as alive while its program blocks the event loop.

    Example: `SiteConfig(membership=AgreedPlan(folder="state"))`
    """

    rules: Agreed = Agreed()
    folder: Path | str | None = None
    found: bool = False
    blocked_s: float = 5.0

    def __post_init__(self) -> None:
        check_range("blocked_s", self.blocked_s, 0, DURATION_MAX_MS / 1e3)


MembershipChoice = AgreedPlan | Literal["static"] | None  # None: agreed where the stack supports it


class SiteConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a site may be given besides its groups; the defaults suit most programs.

    Args:
        membership: how members come to their views: an `AgreedPlan`, or "static" for all sites, permanently. By
            default they agree on views where the stack supports it. The same at all sites.
        emulate: add the delays, losses and bandwidths of the topology to the network below.
        datagram_bytes: the largest datagram that the path takes in one piece. By default 60,000 where all sites are on
            the loopback, and 1,400 elsewhere and over an emulated network.
        keys: the key file of the cluster: what is sent is sealed, and nobody without the key can read, forge or replay
            it. Without one, all datagrams are in clear.
        identity: the identity file of this site, where sites are not to be able to pass for each other; then the key
            file has the public keys of all sites.
        insecure: take part without keys although this site listens off the loopback, where others can send to it.
        clocks: run the clock service; see `Group.clock`.
        router: how routers of a composition forward, and how much may be under way to other groups.
        detector: how this site watches its participants.
        sink: where the rows of a trace go, such as a list; None traces nothing.
        join_timeout_s: how long this site may be in no view while a site that answers runs something else, such as
            another topology; then `send` and the iteration raise NotJoined, which says what.
        on_suspicion: called with the name of a site and whether it is suspected, at each change; what it raises ends
            this site, and is told by SiteFailed.

    Example: `isthmus.join("network.toml", "paris-0", config=SiteConfig(emulate=True))`
    """

    membership: MembershipChoice = None
    emulate: bool = False
    datagram_bytes: int | None = None
    keys: Path | str | None = None
    identity: Path | str | None = None
    insecure: bool = False
    clocks: ClockPlan | None = None
    router: RouterOptions | None = None
    detector: DetectorOptions | None = None
    sink: Sink | None = None
    join_timeout_s: float = 10.0
    on_suspicion: Callable[[str, bool], None] | None = None

    def __post_init__(self) -> None:
        check_range("join_timeout_s", self.join_timeout_s, 0, DURATION_MAX_MS / 1e3)


def agreed_plan(given: MembershipChoice, plans: Sequence[GroupPlan]) -> AgreedPlan | None:
    """How the members of groups agree on views; None: membership is static. Logs a default that became static."""
    if isinstance(given, AgreedPlan):
        return given
    if given is not None:
        if given != "static":
            raise InputError("membership", "", repr(given), 'an AgreedPlan, "static", or None for the default')
        return None
    if any(plan.options is not None and plan.options.bare for plan in plans):
        logger.warning("membership is static: groups of datagrams cannot agree on views")
        return None
    return AgreedPlan()


def endpoints_of(topology: Topology, given: Mapping[str, SiteAddress]) -> list[Endpoint]:
    """SiteAddress each site of a topology listens: as given, or as the topology says."""
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


def endpoint_of(where: SiteAddress, name: str) -> Endpoint:
    """An endpoint in any of the forms that a program may give."""
    if isinstance(where, str):
        try:
            return endpoint(where)
        except BadValue as error:
            raise error.at("addresses", name) from None
    host, port = (LOOPBACK, where) if isinstance(where, int) else where
    if not 0 < port < 65536:
        raise InputError("addresses", name, repr(port), PORTS)
    return Endpoint(host, port)
