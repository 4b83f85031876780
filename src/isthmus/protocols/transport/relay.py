"""The abstract network: one copy per remote LAN, and a way round a broken link (paper 000, section 2: AN).

Problem: links between LANs are long, narrow and expensive; those inside are not. A multicast to ten sites of a remote
LAN should cross the ocean once. And when a link is broken between two sites that a third one reaches, no site need be
excluded.

Idea: a layer below everything takes what the layers above send. Inside the own LAN, and to a LAN with a single target,
it goes straight. For every other LAN one copy goes to its *agent*, which passes it on inside: the most senior member of
that LAN in the view that is not suspected, so that all agree on it as far as they agree on views and suspicion. A
cumulative message (`Message.cumulative`: acknowledgements) goes to the agent of the own LAN, which gathers such
messages for `pack_ms` and sends those of all neighbours to a remote LAN in one packet.

A suspected target is served through an unsuspected member that does not suspect the target: over a path A-C-B where
A-B is broken, one way or both.

A relay promises nothing: the reliable layer above detects its losses end to end. An agent that dies
loses nothing for good: a repair goes to one target, so straight, and once the agent is suspected, or out of the view,
the next one is used.

Invariants:
- a packet that is passed on names its author, and reaches the layers above as from there; its courier adds nothing;
- a packet passes two couriers at most: one that received it from its author, and the agent of the target's LAN;
- viewless messages travel straight: they may be for a site outside the view.

Bounds: one message per author and wire type waits for each remote LAN; plans are made per set of targets, `PLANS_MAX`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Handler, Kind, Layer, View, places
from isthmus.core.message import B, Cast, Message, SiteId, Targets
from isthmus.core.validation import DURATION_MAX_MS, check_range

PACK = 0  # timer key
PLANS_MAX = 1024
WORD_BYTES, PLACE_BYTES = 32, 5  # size of a gathered message, about: it has an entry per member
Reaches = Callable[[SiteId, SiteId], bool]  # whether a site is not known to suspect another


class RelayOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a relay gathers."""

    pack_ms: float = 1.0  # an agent waits this long for more to send to a remote LAN with an acknowledgement

    def __post_init__(self) -> None:
        check_range("pack_ms", self.pack_ms, 0, DURATION_MAX_MS)


class Relayed(Message, Generic[B], frozen=True, gc=False, array_like=True, tag=60):
    """A packet on its way through a courier."""

    wraps = True
    author: SiteId  # its first sender
    targets: Targets  # the sites that its receiver passes it on to; () at the last hop
    packet: B
    others: Targets = ()  # further authors of an equal packet, which travels once

    def payload_bytes(self) -> int:
        return self.packet.payload_bytes()  # type: ignore[attr-defined,no-any-return]

    def subjects(self) -> tuple[Cast, ...]:
        return self.packet.subjects()  # type: ignore[attr-defined,no-any-return]


class Packed(Message, Generic[B], frozen=True, gc=False, array_like=True, tag=61):
    """Packets of several authors that travel together."""

    wraps = True
    packets: tuple[Relayed[B], ...]


class RelayPlan(NamedTuple):
    """The routes to some targets."""

    straight: Targets
    through: tuple[tuple[SiteId, Targets], ...]  # agents of remote LANs, and the targets of each
    around: tuple[tuple[SiteId, Targets], ...]  # couriers to suspected targets, and the targets of each


class Relay(Layer):
    """Sends one copy per remote LAN, and passes on what others send."""

    __slots__ = (
        "agents",
        "clusters",
        "lans",
        "options",
        "pack_armed",
        "plans",
        "reaches",
        "suspected",
        "view",
        "waiting",
    )
    timer_names = ("pack",)

    def __init__(self, clusters: Sequence[int], options: RelayOptions | None = None) -> None:
        self.clusters = clusters  # of each site, by its number
        self.options = options or RelayOptions()
        self.reaches: Reaches = lambda _site, _other: True  # set by the host, which knows the opinions of other sites
        self.suspected: dict[SiteId, bool] = {}
        self.view = View(0, ())
        self.reset()

    def reset(self) -> None:
        self.lans: dict[int, list[SiteId]] = {}  # the members of each LAN, by seniority
        for site in self.view.members:
            self.lans.setdefault(self.clusters[site], []).append(site)
        self.waiting: dict[int, dict[tuple[SiteId, type[Message]], Relayed[Any]]] = {}  # by remote LAN
        self.pack_armed = False
        self.replan()

    def replan(self) -> None:
        self.plans: dict[Targets, RelayPlan] = {}
        self.agents = {lan: self.first_trusted(members) for lan, members in self.lans.items()}

    def first_trusted(self, members: list[SiteId]) -> SiteId:
        return next((site for site in members if not self.suspected.get(site)), members[0])

    def handlers(self) -> dict[type[Message], Handler]:
        return {Relayed: self.on_relayed, Packed: self.on_packed}

    def install(self, view: View) -> None:
        self.host.cancel_timer(self, PACK)
        self.view = view
        self.reset()

    def suspect(self, site: SiteId, suspected: bool) -> None:
        self.suspected[site] = suspected
        self.replan()
        self.above.suspect(site, suspected)

    # Sending

    def carry(self, targets: Targets, message: Message) -> None:
        if message.viewless or len(self.lans) < 2:
            self.send(targets, message)
            return
        plan = self.plan(targets)
        if plan.straight:
            self.send(plan.straight, message)
        if plan.through or plan.around:
            self.send_through(plan, Relayed(self.host.site, (), message))

    def send_through(self, plan: RelayPlan, relayed: Relayed[Any]) -> None:
        """Send a packet of this site or another to the couriers of a plan; or have it gathered."""
        here = self.clusters[self.host.site]
        at_once = plan.around if relayed.packet.cumulative else (*plan.through, *plan.around)
        for courier, targets in at_once:
            self.send((courier,), Relayed(relayed.author, targets, relayed.packet))
        if not relayed.packet.cumulative or not plan.through:
            return
        if self.agents[here] == self.host.site or relayed.author != self.host.site:
            for _, targets in plan.through:
                self.gather(Relayed(relayed.author, targets, relayed.packet))
        else:
            remote = tuple(site for _, targets in plan.through for site in targets)
            self.send((self.agents[here],), Relayed(relayed.author, remote, relayed.packet))

    def plan(self, targets: Targets) -> RelayPlan:
        plan = self.plans.get(targets)
        if plan is None:
            if len(self.plans) >= PLANS_MAX:
                self.plans.clear()
            plan = self.plans[targets] = self.make_plan(targets)
        return plan

    def make_plan(self, targets: Targets, around_suspected: bool = True) -> RelayPlan:
        here = self.clusters[self.host.site]
        straight: list[SiteId] = []
        around: dict[SiteId, list[SiteId]] = {}
        remote: dict[int, list[SiteId]] = {}
        for site in targets:
            suspected = around_suspected and site != self.host.site and self.suspected.get(site)
            if suspected and (detour := self.detour(site)) is not None:
                around.setdefault(detour, []).append(site)
            elif self.clusters[site] == here:
                straight.append(site)
            else:
                remote.setdefault(self.clusters[site], []).append(site)
        through = {}
        for lan, sites in remote.items():
            if len(sites) == 1 or lan not in self.agents:
                straight += sites
            else:
                through[self.agents[lan]] = sites
        return RelayPlan(tuple(straight), passed_on(through), passed_on(around))

    def detour(self, target: SiteId) -> SiteId | None:
        """A member on the way to a target that this site does not reach; a neighbour of the target if possible."""
        found = [
            site
            for site in self.view.members
            if site not in (target, self.host.site) and not self.suspected.get(site) and self.reaches(site, target)
        ]
        near = [site for site in found if self.clusters[site] == self.clusters[target]]
        return next(iter([*near, *found]), None)

    # Gathering

    def gather(self, relayed: Relayed[Any]) -> None:
        """Keep a message for a remote LAN until the pack timer fires."""
        words = self.waiting.setdefault(self.clusters[relayed.targets[0]], {})
        words[relayed.author, type(relayed.packet)] = relayed  # it replaces an earlier one: it is cumulative
        if not self.pack_armed:
            self.pack_armed = True
            self.host.set_timer(self, PACK, round(self.options.pack_ms * 1e6))

    def timer(self, key: int) -> None:
        assert key == PACK
        self.pack_armed = False
        waiting, self.waiting = self.waiting, {}
        for lan, words in waiting.items():
            if lan in self.agents:
                self.send_packed((self.agents[lan],), list(words.values()))

    def send_packed(self, targets: Targets, given: list[Relayed[Any]]) -> None:
        """Send packets together, as far as they fit into a frame; equal packets of several authors once."""
        most = max(1, self.host.frame_bytes // (WORD_BYTES + PLACE_BYTES * len(self.view.members)))
        packets = merged(given)
        for part in (packets[first : first + most] for first in range(0, len(packets), most)):
            self.send(targets, part[0] if len(part) == 1 else Packed(tuple(part)))

    # Receiving

    def on_relayed(self, source: SiteId, relayed: Relayed[Any]) -> None:
        if relayed.others:
            self.on_packed(source, Packed((relayed,)))
            return
        for targets in self.taken(source, relayed):
            self.send(targets, Relayed(relayed.author, (), relayed.packet))

    def on_packed(self, source: SiteId, packed: Packed[Any]) -> None:
        """Take each packet, and pass on together those for the same neighbours."""
        onward: dict[Targets, list[Relayed[Any]]] = {}
        for relayed in packed.packets:
            for author in (relayed.author, *relayed.others):
                one = Relayed(author, relayed.targets, relayed.packet)
                for targets in self.taken(source, one):
                    onward.setdefault(targets, []).append(Relayed(author, (), relayed.packet))
        for targets, packets in onward.items():
            self.send_packed(targets, packets)

    def taken(self, source: SiteId, relayed: Relayed[Any]) -> list[Targets]:
        """Take a packet for this site, send it on towards other LANs, and return the neighbours that lack it."""
        author, targets, packet = relayed.author, relayed.targets, relayed.packet
        members = places(self.view.members)
        if source not in members or author not in members or not all(site in members for site in targets):
            raise RemoteError(f"site {source} relays a packet of or to a site outside view {self.view.view_id}")
        if author == self.host.site or packet.viewless or packet.wraps:
            raise RemoteError(f"site {source} relays a {type(packet).__name__} of site {author}")
        here = self.clusters[self.host.site]
        near = tuple(site for site in targets if self.clusters[site] == here and site != self.host.site)
        far = tuple(site for site in targets if self.clusters[site] != here)
        if far:
            if source != author:
                raise RemoteError(f"site {source} relays a packet of site {author} to a further LAN")
            plan = self.make_plan(far, around_suspected=False)  # a courier sends nothing on to another courier,
            back = tuple(site for agent, sites in plan.through if agent == author for site in sites)  # nor back
            if plan.straight or back:
                self.send((*plan.straight, *back), Relayed(author, (), packet))
            plan = plan._replace(through=tuple(each for each in plan.through if each[0] != author))
            self.send_through(plan, relayed)
        if not targets or self.host.site in targets:
            try:
                self.stack.routes[type(packet)](author, packet)
            except RemoteError:
                self.host.trace(Kind.REJECT, value=author)
        return [near] if near else []


def merged(packets: Sequence[Relayed[Any]]) -> list[Relayed[Any]]:
    """The packets, with one for all authors of equal packets to equal targets."""
    authors: dict[tuple[Targets, Message], list[SiteId]] = {}
    for one in packets:
        authors.setdefault((one.targets, one.packet), []).append(one.author)
    return [Relayed(same[0], targets, packet, tuple(same[1:])) for (targets, packet), same in authors.items()]


def passed_on(couriers: Mapping[SiteId, Sequence[SiteId]]) -> tuple[tuple[SiteId, Targets], ...]:
    return tuple((courier, tuple(sites)) for courier, sites in couriers.items())
