"""The calculus: which end-to-end order a composition guarantees, and by which rule, or why it does not.

The problem: groups with orders of their own, joined by routers, promise nothing together by themselves. The idea: what
each class of messages does is known (walks.py), so the guarantee can be calculated.

| order | guaranteed iff | in |
|---|---|---|
| fifo | every protocol on the way is FIFO and no class overtakes another of its sender | overtaking.py |
| causal | fifo, and no answer, through any chain of classes, overtakes what it answers | overtaking.py |
| total | every message is ordered once, and every later node keeps that order | orientation.py |

Before these: bare datagrams on the way guarantee nothing; nodes and routers that form no tree, or two routers between
one group and one IGP, guarantee FIFO at most. Several domains are decided each by itself; their orders combine if the
same holds of all their classes together, which needs that domains and the groups they share form no cycle.

Scope `inter` asks of messages between groups only, `all` of those inside a group, too. A verdict names its theorem
(docs/design/routing.md) or its reason, with what `advise/composition/counterexample.py` needs to play it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from isthmus.core.validation import BadValue
from isthmus.protocols.routing.calculus.model import (
    PARTS,
    Composition,
    DomainScope,
    Igp,
    OrderingDomain,
    Part,
    connected_to,
)
from isthmus.protocols.routing.calculus.orientation import Conflict, disagreement
from isthmus.protocols.routing.calculus.overtaking import PROCESS, Overtaking, overtaking
from isthmus.protocols.routing.calculus.walks import Walk, WalkNetwork, network_of

ORDERS: tuple[Part, ...] = ("fifo", "causal", "total")


class Guarantee(msgspec.Struct, frozen=True):
    """Whether one order is guaranteed, and why."""

    order: Part
    holds: bool
    rule: str  # the theorem, or the rule that is broken, in a few words
    reason: str  # a sentence with the names of the composition


class Decision(msgspec.Struct, frozen=True):
    """What some domains get, over one scope."""

    domains: tuple[str, ...]
    scope: DomainScope
    guarantees: tuple[Guarantee, ...]

    def of(self, order: str) -> Guarantee:
        return next(one for one in self.guarantees if one.order == order)

    @property
    def gets(self) -> str:
        """The strongest order in one word."""
        held = [one.order for one in self.guarantees if one.holds]
        named = [name for name, parts in PARTS.items() if all(part in held for part in parts)]
        return max(named, key=lambda name: len(PARTS[name]), default="none")

    def gives(self, wanted: str) -> bool:
        return all(self.of(part).holds for part in PARTS[wanted])

    def lacking(self, wanted: str) -> Guarantee:
        """The first order that is wanted and not guaranteed."""
        return next(self.of(part) for part in PARTS[wanted] if not self.of(part).holds)


def decide(composition: Composition, domains: Sequence[OrderingDomain], scope: DomainScope) -> Decision:
    """What one domain gets, or several together."""
    network = network_of(composition, tuple(domains), scope)
    names = tuple(domain.name for domain in domains)
    guarantees = tuple(guarantee(composition, network, domains, scope, order) for order in ORDERS)
    return Decision(names, scope, guarantees)


def decide_wanted(composition: Composition, domain: OrderingDomain) -> Decision:
    """What a domain gets over its scope: by itself, or together with those that leave it too little."""
    found = [decide(composition, part, domain.scope) for part in parts_of(composition, domain)]
    return next((one for one in found if not one.gives(domain.wants)), found[0])


def grants(composition: Composition, domain: OrderingDomain) -> bool:
    """Whether a domain gets what it wants, by itself and with those that it is connected to.

    Not where its forwarding cannot work. Stops at the first order that is lacking.
    """
    try:
        parts = [(part, network_of(composition, part, domain.scope)) for part in parts_of(composition, domain)]
    except BadValue:
        return False
    return all(
        guarantee(composition, network, part, domain.scope, order).holds
        for part, network in parts
        for order in PARTS[domain.wants]
    )


def parts_of(composition: Composition, domain: OrderingDomain) -> list[tuple[OrderingDomain, ...]]:
    """What a domain is decided over: itself, and all that it is connected to."""
    connected = tuple(connected_to(composition, domain))
    return [(domain,)] if len(connected) == 1 else [(domain,), connected]


def guarantee(
    composition: Composition, network: WalkNetwork, domains: Sequence[OrderingDomain], scope: DomainScope, order: Part
) -> Guarantee:
    """Whether one order is guaranteed over some walks."""
    lossy = next((copy.node for walk in network.walks for copy in walk.copies if network.lossy[copy.node]), None)
    if lossy is not None:
        reason = f"{network.names[lossy]} is bare datagrams, which may be lost, and may arrive in any order"
        return Guarantee(order, False, "datagrams", reason)
    if order == "total":
        conflict = disagreement(network)
        if conflict is not None:
            return Guarantee(order, False, *told_conflict(network, conflict))
    else:
        found = overtaking(network, relays=order == "causal")
        if found is not None:
            return Guarantee(order, False, *told_overtaking(network, found))
    loose = loose_replicas(composition, network) if order == "causal" else ""
    if loose:
        return Guarantee(order, False, "replicas", loose)
    if not network.is_tree and order != "fifo":
        what = "the domains and the groups that they share form a cycle" if len(domains) > 1 else "there is no tree"
        return Guarantee(order, False, "no tree", f"{what}: messages go different ways, and only FIFO holds on each")
    return Guarantee(order, True, *told_rule(composition, network, domains, scope, order))


def loose_replicas(composition: Composition, network: WalkNetwork) -> str:
    """Why replicas of a router may forward an answer before its cause: what comes from two nodes goes into a third.

    One that takes over knows what the other had forwarded into a node before what came from there only if that node
    keeps causal order.
    """
    for number, router in enumerate(composition.routers):
        if router.replicas < 2 or len(router.joins) < 3:
            continue
        made = [copy for walk in network.walks for copy in walk.copies if copy.router == number]
        for copy in made:
            if not network.keeps[copy.node].causal:
                return f"{router.name} has replicas in three nodes, of which {network.names[copy.node]} is not causal"
    return ""


def told_rule(
    composition: Composition, network: WalkNetwork, domains: Sequence[OrderingDomain], scope: DomainScope, order: Part
) -> tuple[str, str]:
    """The theorem or rule that a guarantee rests on."""
    used = dict.fromkeys(copy.node for walk in network.walks for copy in walk.copies)
    igps = [node for node in used if isinstance(composition.nodes[node], Igp)]
    groups = dict.fromkeys(group for walk in network.walks for group in (walk.source, *walk.to))
    modes = dict.fromkeys(domain.forwarding for domain in domains)
    form = "hierarchy" if len(igps) > 1 else "paired" if len(groups) <= 2 else "multi-group"
    if order == "fifo":
        if "shadow-and-hold" in modes:
            return "shadow and hold", "every protocol on the way is FIFO, and a sender holds what could overtake"
        return "theorem 1", "every protocol on the way is FIFO, and nothing overtakes"
    if len(domains) > 1:
        return "domains", "the domains and the groups that they share form no cycle, and each node keeps the order"
    if "shadow-and-hold" in modes:
        return "shadow and hold", "ordered in a common ancestor, and a sender holds what could overtake"
    if order == "causal":
        everywhere = all(network.keeps[node].causal for node in used)
        if form == "paired" and all(network.keeps[node].causal for node in groups):
            return "theorem 2", "both groups are causal, and the protocol between them is FIFO"
        if everywhere and (form == "hierarchy" or scope == "all"):
            return "theorem 7", "every group and IGP is causal"
        if form == "multi-group" and igps and all(network.keeps[node].causal for node in igps):
            return "theorem 4", "the IGP and every group with relays are causal, the others FIFO"
        return "no relay", "FIFO, and every node that an answer passes beside what it answers is causal"
    if "total" in modes:
        names = {"paired": "theorem 3", "multi-group": "theorem 6", "hierarchy": "theorem 8"}
        return names[form], "ordered once, in the root, and kept by FIFO protocols from there"
    if "hierarchical" in modes:
        return "theorem 8", "ordered in the common ancestor of the destinations, and kept by FIFO protocols from there"
    return (
        "theorem 5" if form == "multi-group" else "one way",
        "no edge is passed both ways, and every node with several injectors is total",
    )


def told_overtaking(network: WalkNetwork, found: Overtaking) -> tuple[str, str]:
    """The rule that is broken, and the overtaking in one sentence."""
    late, first = found.late, network.walks[found.late.walk]
    node = first.copies[late.copy].node
    keeps, name = network.keeps[node], network.names[node]
    member = "a member" if late.taker == PROCESS else f"router {network.routers[late.taker]}"
    where = f"late in {name}" if late.at_all else f"late in {name} for {member}"
    chain = ", then ".join(class_text(network, network.walks[link.walk]) for link in found.chain)
    story = f"{class_text(network, first)} is {where}; {chain} arrives in {network.names[found.receiver]} before it"
    second = network.walks[found.chain[0].walk]
    if len(found.chain) == 1 and found.chain[0].by_sender:
        if first.sheltered and first.is_intra != second.is_intra:
            return "priorities", f"messages between groups have priority over those inside: {story}"
        if not keeps.fifo:
            return "not FIFO", f"{name} keeps {keeps_text(network, node)}: {story}"
        return (
            "overtaking",
            f"ordered in {network.names[first.ordering_node]} and {network.names[second.ordering_node]}: {story}",
        )
    if not keeps.causal:
        rule = "third-party relay" if network.sizes[node] == 0 else "group not causal"
        return rule, f"{name} keeps {keeps_text(network, node)}: {story}"
    return "overtaking", f"an answer goes another way: {story}"


def told_conflict(network: WalkNetwork, conflict: Conflict) -> tuple[str, str]:
    """The rule that is broken, and the disagreement in one sentence."""
    name = network.names[conflict.node]
    who = " and ".join(class_text(network, network.walks[walk]) for walk in conflict.walks)
    keeps = keeps_text(network, conflict.node)
    return {
        "both ways": ("both ways", f"{who} pass {name} in opposite directions, each delivered on its near side first"),
        "injectors": ("several injectors", f"{name} keeps {keeps}, and several members send to it: {who}"),
        "ordered before": (
            "not FIFO",
            f"{name} keeps {keeps}: it may change the order in which {who} was delivered before",
        ),
        "single": ("no order", f"{name} keeps {keeps}: its members may disagree on {who}"),
        "priorities": ("priorities", f"messages between groups have priority over those inside, in {name}: {who}"),
    }[conflict.kind]


def keeps_text(network: WalkNetwork, node: int) -> str:
    """The orders that a node keeps, in words."""
    keeps = network.keeps[node]
    if keeps.total:
        return "FIFO and total order" if keeps.fifo else "total order, but not FIFO"
    return "causal order" if keeps.causal else "only FIFO" if keeps.fifo else "no order"


def class_text(network: WalkNetwork, walk: Walk) -> str:
    """A class for people: A to B, C; or what stays inside A."""
    if walk.is_intra:
        return f"a message inside {network.names[walk.source]}"
    return f"a message from {network.names[walk.source]} to {', '.join(network.names[to] for to in walk.to)}"
