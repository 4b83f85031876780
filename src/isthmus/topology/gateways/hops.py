"""Routes of relayed messages: per sender and destinations, the hops of every site on the way.

Routes are fixed per pair of LANs: as configured, otherwise the shortest one; of two equally short routes around a ring
the clockwise one. All routes from one LAN form a tree, and a route continues as that of the next LAN on it: otherwise
more than half of the random runs on rings deadlock or break the order (`check_ways`).

The *address* of a message is its destinations and, where it leaves the sender's LAN, the gateways of every LAN that it
touches. The gateway at the end of a link sends to the LAN behind it, the other gateways first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from isthmus.core.message import SiteId, Targets
from isthmus.core.validation import BadValue
from isthmus.topology.gateways.lans import Lans
from isthmus.topology.gateways.separators import LanGraph, mask_of, separators_of, sites_of

PLANS_MAX = 4096  # pairs of sender and destinations that are remembered


class GatewayHop(NamedTuple):
    """One transmission of a relayed message: its receivers, and all sites reached through them."""

    receivers: Targets
    reached: int


class GatewayPlan(NamedTuple):
    """The hops of a message from its sender to all destinations."""

    address: int
    first: Targets  # of the sender itself
    hops: dict[SiteId, tuple[GatewayHop, ...]]  # of each site that relays
    rest: dict[SiteId, int]  # the sites downstream of each of these
    before: dict[SiteId, SiteId]  # the previous site, for each site that it reaches


class GatewayRoutes:
    """The routes between the LANs of one view."""

    __slots__ = ("_lean_plans", "_plans", "before", "graph")

    def __init__(self, graph: LanGraph) -> None:
        self.graph = graph
        self.before = [tree(graph, start) for start in range(len(graph.members))]
        if graph.lans.routes:
            self.follow(graph.lans.routes)
        self._plans: dict[tuple[SiteId, int], GatewayPlan] = {}
        self._lean_plans: dict[tuple[SiteId, int], GatewayPlan] = {}

    def follow(self, given: tuple[tuple[int, ...], ...]) -> None:
        """Take configured routes; skip LANs without members if that leaves a route."""
        present = [number for number, members in enumerate(self.graph.members) if members]
        if len(present) == len(self.graph.members):
            for route in given:
                for here, there in pairwise(route):
                    self.before[route[0]][there] = here
            return
        lans = self.graph.lans
        whole = routes_of(lans, tuple(sorted(lans.lan_of())))
        ways = [[n for n in whole.route(here, there) if n in present] for here in present for there in present]
        steps = [(way[0], step) for way in ways for step in pairwise(way)]
        if all(step in self.graph.joints for _, step in steps):
            for start, (here, there) in steps:
                self.before[start][there] = here

    def route(self, here: int, there: int) -> tuple[int, ...]:
        way = [there]
        while way[-1] != here:
            way.append(self.before[here][way[-1]])
        return tuple(reversed(way))

    def plan(self, sender: SiteId, destinations: int) -> GatewayPlan:
        """The hops of a sender's message to members of the view."""
        return remembered(self._plans, (sender, destinations), self.made)

    def lean_plan(self, sender: SiteId, destinations: int) -> GatewayPlan:
        """The same without the gateways that neither relay nor are destinations; relays are no part of the address."""
        return remembered(self._lean_plans, (sender, destinations), lambda *of: lean(self.plan(*of), destinations))

    def made(self, sender: SiteId, destinations: int) -> GatewayPlan:
        graph = self.graph
        home = graph.lan_of[sender]
        local = destinations & graph.members[home]
        if local == destinations:
            return direct_plan(sender, destinations)
        onward: dict[int, list[int]] = {home: []}  # LANs on the way to those behind them
        for number, members in enumerate(graph.members):
            if number != home and members & destinations:
                for here, there in pairwise(self.route(home, number)):
                    if there not in onward:
                        onward[here].append(there)
                        onward[there] = []
        hops: dict[SiteId, list[GatewayHop]] = {}
        reached: dict[int, int] = {}
        for number in reversed(onward):  # those behind a LAN come after it
            reached[number] = self.relay(number, home, onward, reached, destinations, hops)
        near = local | mask_of(graph.gateways[home])
        first = sites_of(near & ~(1 << sender) | local)
        first += tuple(site for hop in hops.pop(sender, []) for site in hop.receivers)
        plans = {site: tuple(made) for site, made in hops.items() if made}
        rest = {site: union(made) for site, made in plans.items()}
        before = dict.fromkeys(first, sender)
        before |= {site: courier for courier, made in plans.items() for hop in made for site in hop.receivers}
        return GatewayPlan(reached[home] | local, first, plans, rest, before)

    def relay(
        self,
        number: int,
        home: int,
        onward: dict[int, list[int]],
        reached: dict[int, int],
        destinations: int,
        hops: dict[SiteId, list[GatewayHop]],
    ) -> int:
        """Add the hops of one LAN's gateways; returns the sites reached in the LAN and through it."""
        graph = self.graph
        gateways = graph.gateways[number]
        for there in onward[number]:
            ours, theirs = graph.joints[number, there]
            hops.setdefault(ours, []).append(GatewayHop((theirs,), reached[there]))
        all_behind = sum(reached[there] for there in onward[number])
        inside = destinations & graph.members[number] & ~mask_of(gateways)
        if number != home:
            _, entry = graph.joints[self.before[home][number], number]
            others = [
                GatewayHop((site,), 1 << site | union(tuple(hops.get(site, ())))) for site in gateways if site != entry
            ]
            hosts = [GatewayHop(sites_of(inside), inside)] if inside else []
            hops[entry] = [*others, *hops.get(entry, []), *hosts]
        return mask_of(gateways) | inside | all_behind


def remembered(
    plans: dict[tuple[SiteId, int], GatewayPlan], key: tuple[SiteId, int], make: Callable[[SiteId, int], GatewayPlan]
) -> GatewayPlan:
    found = plans.get(key)
    if found is None:
        if len(plans) >= PLANS_MAX:
            plans.clear()
        found = plans[key] = make(*key)
    return found


def direct_plan(sender: SiteId, destinations: int) -> GatewayPlan:
    first = sites_of(destinations)
    return GatewayPlan(destinations, first, {}, {}, dict.fromkeys(first, sender))


def lean(plan: GatewayPlan, destinations: int) -> GatewayPlan:
    useful = destinations | mask_of(plan.hops)

    def trimmed(sites: Targets) -> Targets:
        return tuple([site for site in sites if useful >> site & 1])

    hops = {
        site: tuple([GatewayHop(trimmed(hop.receivers), hop.reached) for hop in made if trimmed(hop.receivers)])
        for site, made in plan.hops.items()
    }
    before = {site: source for site, source in plan.before.items() if useful >> site & 1}
    return GatewayPlan(destinations, trimmed(plan.first), hops, {}, before)


def union(hops: tuple[GatewayHop, ...] | list[GatewayHop]) -> int:
    mask = 0
    for hop in hops:
        mask |= hop.reached
    return mask


def tree(graph: LanGraph, start: int) -> dict[int, int]:
    """The LAN before each one on the shortest way from a LAN; clockwise neighbours first."""
    before: dict[int, int] = {start: start}
    level = [start]
    while level:
        following = []
        for here in level:
            for there in clockwise(graph, here):
                if there not in before:
                    before[there] = here
                    following.append(there)
        level = following
    return before


def clockwise(graph: LanGraph, number: int) -> list[int]:
    """The neighbours of a LAN, from the next higher number around to the lowest."""
    near = graph.neighbours[number]
    return sorted(near, key=lambda there: (there < number, there))


def check_ways(lans: Lans) -> None:
    """Refuse configured routes that do not continue as those of the LANs on them."""
    if not lans.routes:
        return
    routes = routes_of(lans, tuple(sorted(lans.lan_of())))
    for here in range(len(lans.sites)):
        for there in range(len(lans.sites)):
            way = routes.route(here, there)
            if len(way) > 2 and way[1:] != (other := routes.route(way[1], there)):
                found, others = (" - ".join(lans.names[number] for number in one) for one in (way, other))
                raise BadValue(
                    "topology.routes", f"{found}, but {others}", "ways that go on as that of the next cluster"
                )


@lru_cache(maxsize=256)
def routes_of(lans: Lans, members: Targets) -> GatewayRoutes:
    """The routes of a view; all sites of a process share them."""
    return GatewayRoutes(separators_of(lans, members)[0])
