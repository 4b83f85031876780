"""The cost of a composition: predicted latency and throughput, from a closed form for each of its protocols.

- *ring*, for total order: with A the fixed part of all visits of the token (a hop, the delay to the next member, and
  where something is sent, one send, one transmission and the delay to the farthest member), r the time of a receive and
  L the node's messages per ms, a rotation takes R = A / (1 - r L). A message waits half of one, at worst a whole one.
- *token-site*, for total order: the way to the best placed member and from there to the farthest, and two receives.
- *direct*, for FIFO and causal order: one send, one transmission, the delay to the farthest member, one receive.

A message takes as long as the copies of its walk one after the other. Receives queue with the node's load (M/D/1).
Throughput is what the traffic can be multiplied by before a node is full. The times are those of the study of paper
003: for a planner, not a promise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

from isthmus.protocols.routing.calculus.walks import SENDER, Walk, WalkNetwork

SEND_MS, WIRE_MS, RECEIVE_MS, HOP_MS = 0.2, 0.08, 0.3, 1.0
BATCH = 30  # messages that a member of a ring sends in one visit

Delays = Sequence[Sequence[float]]  # mean, ms, from site to site


class LoadedMember(NamedTuple):
    """A member of a node: where it is, and what it submits there, per ms; a router has no bound on its batch."""

    site: int
    rate: float
    is_router: bool


class NodeCost(NamedTuple):
    """The cost of one node: latency, and how much more traffic it can take."""

    kind: str  # ring, token-site or direct
    mean_ms: float  # from submit to the last delivery
    worst_ms: float
    headroom: float  # by what the traffic can be multiplied


class Cost(NamedTuple):
    """The cost of a composition for its traffic."""

    mean_ms: float  # from submit to the last delivery, over all messages
    worst_ms: float
    throughput_per_s: float  # submitted messages, at the highest load
    kinds: tuple[str, ...]  # of each node


def ring_cost(members: Sequence[LoadedMember], delays: Delays) -> NodeCost:
    """A token that visits the members, always on to the nearest that is left."""
    load = sum(member.rate for member in members)
    far = [max(delays[member.site][other.site] for other in members) for member in members]
    order = nearest_first(members, delays)
    fixed = 0.0
    for place, at in enumerate(order):
        fixed += HOP_MS + delays[members[at].site][members[order[(place + 1) % len(order)]].site]
        fixed += SEND_MS + WIRE_MS + far[at] if members[at].rate > 0 else 0.0
    receives = RECEIVE_MS * load
    full = max([receives, *(member.rate * fixed / BATCH + receives for member in members if not member.is_router)])
    if full >= 1:
        return NodeCost("ring", inf, inf, 1 / full)
    rotation = fixed / (1 - receives)
    batch = max(1.0, *(member.rate * rotation for member in members))
    own = SEND_MS + WIRE_MS + max(far)
    mean = rotation / 2 + own + RECEIVE_MS * (batch + 1) / 2
    return NodeCost("ring", mean, rotation + own + RECEIVE_MS * batch, 1 / full if full > 0 else inf)


def nearest_first(members: Sequence[LoadedMember], delays: Delays) -> list[int]:
    order, left = [0], list(range(1, len(members)))
    while left:
        here = delays[members[order[-1]].site]
        following = min(left, key=lambda at: (here[members[at].site], at))
        order.append(following)
        left.remove(following)
    return order


def token_site_cost(members: Sequence[LoadedMember], delays: Delays) -> NodeCost:
    """A sequencer at the member from which all is nearest."""
    sending = [member for member in members if member.rate > 0] or list(members[:1])
    load = sum(member.rate for member in sending)
    best = (inf, inf)
    for member in members:
        far = max(delays[member.site][other.site] for other in members)
        ways = [(one.rate, delays[one.site][member.site]) for one in sending]
        mean = sum(rate * way for rate, way in ways) / load if load else ways[0][1]
        best = min(best, (mean + far, max(way for _, way in ways) + far))
    return queued("token-site", best, 2 * (SEND_MS + WIRE_MS), 2 * RECEIVE_MS, load)


def direct_cost(members: Sequence[LoadedMember], delays: Delays) -> NodeCost:
    """A multicast that each member takes as it arrives."""
    senders = [member.site for member in members if member.rate > 0] or [members[0].site]
    way = max(delays[site][other.site] for site in senders for other in members)
    return queued("direct", (way, way), SEND_MS + WIRE_MS, RECEIVE_MS, sum(member.rate for member in members))


def queued(kind: str, way: tuple[float, float], sent_ms: float, received_ms: float, load: float) -> NodeCost:
    """A way, mean and worst, with a queue of receives at its end."""
    used = received_ms * load
    if used >= 1:
        return NodeCost(kind, inf, inf, 1 / used)
    waiting = received_ms * used / (2 * (1 - used))
    mean = way[0] + sent_ms + waiting + received_ms
    return NodeCost(kind, mean, way[1] + sent_ms + received_ms / (1 - used), 1 / used if used > 0 else inf)


def node_cost(is_total: bool, members: Sequence[LoadedMember], delays: Delays) -> NodeCost:
    """The faster protocol that keeps the order; where both are full, the one that takes more."""
    if not is_total:
        return direct_cost(members, delays)
    both = (token_site_cost(members, delays), ring_cost(members, delays))
    return min(both, key=lambda cost: (cost.mean_ms, -cost.headroom))


def composition_cost(
    network: WalkNetwork,
    rates: Mapping[int, float],
    homes: Sequence[Sequence[int]],
    router_sites: Sequence[int],
    delays: Delays,
) -> Cost:
    """Predict a composition: `rates` by walk, `homes` the sites of each node's processes, routers at sites."""
    own = [0.0] * len(homes)  # by node: what each of its processes submits
    routed: list[dict[int, float]] = [{} for _ in homes]  # by node and router
    for number, walk in enumerate(network.walks):
        rate = rates.get(number, 0.0)
        for copy in walk.copies:
            if copy.router == SENDER:
                own[copy.node] += rate / len(homes[copy.node])
            else:
                routed[copy.node][copy.router] = routed[copy.node].get(copy.router, 0.0) + rate
                routed[walk.copies[copy.before].node].setdefault(copy.router, 0.0)
    costs = []
    for node, home in enumerate(homes):
        members = [LoadedMember(site, own[node], False) for site in home]
        members += [LoadedMember(router_sites[router], rate, True) for router, rate in routed[node].items()]
        costs.append(node_cost(network.keeps[node].total, members, delays))
    total = sum(rates.values())
    mean = sum(rate * along(network.walks[number], costs, worst=False) for number, rate in rates.items()) / total
    worst = max(along(network.walks[number], costs, worst=True) for number in rates)
    most = 1000 * total * min(cost.headroom for cost in costs)
    return Cost(mean, worst, most, tuple(cost.kind for cost in costs))


def along(walk: Walk, costs: Sequence[NodeCost], worst: bool) -> float:
    """Return the latency of a message to the last of its destinations."""
    after: list[float] = []
    for copy in walk.copies:
        cost = costs[copy.node]
        before = after[copy.before] if copy.before >= 0 else 0.0
        after.append(before + (cost.worst_ms if worst else cost.mean_ms))
    return max(after[last] for _, last in walk.ends)
