"""FIFO and causal order, decided: can something that was sent after a message arrive before it?

The problem: a message may be overtaken by a later one of its own sender, or by an answer to it, sent by a process that
has delivered it already, or by an answer to an answer. There are chains of any length over any classes.

The idea: the worst that can happen to a message is that one copy of it is *late* in one node, at the one member that
should take it on (or at all members), while everything else is fast. For each class, receiver and late copy, the
processes that are *after* the message are found as a fixpoint: its sender, those that deliver a copy that is not late,
and those that anything sent by one of these reaches. What passes the late copy in its node is held up there only as far
as that node's order goes:

| the node keeps | held up behind a copy that one member lacks | that all members lack |
|---|---|---|
| nothing | nothing | nothing |
| FIFO | what the same injector sends | the same |
| causal | what any other member sends: all have delivered it | what the same injector sends |
| total, not FIFO | everything: its place is fixed | nothing: it has no place yet |
| FIFO and total | everything | what the same injector sends |

If anything after the message reaches a receiver that lacks it, the order is not guaranteed, and the late copy with the
chain of classes is the counterexample; if nothing does, no execution can do it, since every one has a first late copy.
FIFO is the same question with the sender alone.

A protocol that is not total delivers a member's own messages to it at once, unless it delivers safely, as it does where
a router has replicas. Under shadow-and-hold, a sender sends nothing with a lower ordering node until its earlier
message has come back to it.
"""

from __future__ import annotations

from typing import NamedTuple

from isthmus.protocols.routing.calculus.walks import SENDER, Copy, Walk, WalkNetwork

COLLEAGUE = -2  # as an injector: a process of the group that is not the sender
PROCESS = SENDER  # as a taker: a process of the group, not a router


class LateCopy(NamedTuple):
    """A copy of a message that is late at one member of its node, or at all of them."""

    walk: int
    copy: int
    taker: int  # the router that lacks it; PROCESS
    at_all: bool
    at_sender: bool  # the process that lacks it is the sender itself


class ChainLink(NamedTuple):
    """One message of a chain: its class, and whether the sender of the late message sends it, or another process."""

    walk: int
    by_sender: bool
    after: int  # the place in the chain of the message that its sender delivered; -1: the late message


class Overtaking(NamedTuple):
    """A counterexample: what is late, where it is lacking, and the chain that arrives there before it."""

    late: LateCopy
    receiver: int  # the group
    chain: tuple[ChainLink, ...]


class LatePlace(NamedTuple):
    """Where a copy is late, as far as others can be held up behind it."""

    node: int
    injector: int  # of the late copy
    taker: int
    at_all: bool
    sheltered: bool
    is_intra: bool


def overtaking(network: WalkNetwork, relays: bool) -> Overtaking | None:
    """The first way in which a message can be overtaken; without relays, by its own sender's messages only."""
    search = OvertakingSearch(network, relays)
    for number, walk in enumerate(network.walks):
        for receiver, last in walk.ends:
            for late in late_copies(network, number, receiver, last):
                chain = search.chain(late, receiver)
                if chain is not None:
                    return Overtaking(late, receiver, chain)
    return None


def late_copies(network: WalkNetwork, number: int, receiver: int, last: int) -> list[LateCopy]:
    """Every place on the way to a receiver where a copy can be late."""
    walk = network.walks[number]
    found: list[LateCopy] = []
    copy, taker = last, PROCESS
    while copy >= 0:
        by = walk.copies[copy].router
        has_it = own_is_prompt(network, walk.copies[copy]) and by == taker  # whoever submitted it
        inside = taker == PROCESS and receiver == walk.source
        if not has_it or (inside and network.sizes[receiver] > 1):
            found.append(LateCopy(number, copy, taker, True, False))
            if not inside or network.sizes[receiver] > 1:
                found.append(LateCopy(number, copy, taker, False, False))
        if inside and not has_it:
            found.append(LateCopy(number, copy, taker, False, True))
        copy, taker = walk.copies[copy].before, walk.copies[copy].router
    return found


def own_is_prompt(network: WalkNetwork, copy: Copy) -> bool:
    """Whether whoever submits a copy has it at once."""
    return network.prompt[copy.node]


class OvertakingSearch:
    """Chains that pass a late copy; what is found out for one is kept for all that are late at the same place."""

    __slots__ = ("by_source", "known", "network", "nodes", "relays", "through", "whole")

    def __init__(self, network: WalkNetwork, relays: bool) -> None:
        self.network = network
        self.relays = relays
        self.by_source: dict[int, list[int]] = {}  # group to its classes
        for number, walk in enumerate(network.walks):
            self.by_source.setdefault(walk.source, []).append(number)
        self.whole = [sum(1 << group for group in walk.to) for walk in network.walks]  # destinations as bits
        self.nodes = [frozenset(copy.node for copy in walk.copies) for walk in network.walks]
        self.through: dict[tuple[LatePlace, int, bool], list[tuple[int, int]]] = {}
        self.known: set[tuple[object, ...]] = set()  # questions with the answer no

    def chain(self, late: LateCopy, receiver: int) -> tuple[ChainLink, ...] | None:
        """The messages that arrive at the receiver before the late one, where there are any."""
        walk = self.network.walks[late.walk]
        copy = walk.copies[late.copy]
        place = LatePlace(copy.node, copy.router, late.taker, late.at_all, walk.sheltered, walk.is_intra)
        delivered = self.delivered(late) if self.relays else []
        held = walk.level if walk.holds and not self.is_back(late) else None
        question = (place, walk.source, walk.domain, receiver, late.at_sender, tuple(delivered), held)
        if question in self.known:
            return None
        found = self.spread(place, walk, receiver, delivered, held)
        if found is None:
            self.known.add(question)
        return found

    def spread(
        self, place: LatePlace, late: Walk, receiver: int, delivered: list[int], held: int | None
    ) -> tuple[ChainLink, ...] | None:
        """Follow what is sent after the late message, by its sender and by all whom anything reaches."""
        walks = self.network.walks
        links: list[ChainLink] = []
        waiting: list[tuple[int, bool, int]] = [(late.source, True, -1)]  # a group; its sender?; what it delivered
        waiting += [(group, False, -1) for group in delivered]
        seen = sum(1 << group for group in delivered)
        while waiting:
            group, is_sender, after = waiting.pop(0)
            for number, mask in self.reached(place, group, is_sender):
                other = walks[number]
                if is_sender and held is not None and other.domain == late.domain and other.level > held:
                    continue  # the sender's filter holds it until the late message has come back
                if mask >> receiver & 1:
                    return chain_to(links, ChainLink(number, is_sender, after))
                new = mask & ~seen if self.relays else 0
                if new:
                    seen |= new
                    links.append(ChainLink(number, is_sender, after))
                    for one in other.to:
                        if new >> one & 1 and not (one == late.source and self.network.sizes[one] == 1):
                            waiting.append((one, False, len(links) - 1))
        return None

    def reached(self, place: LatePlace, group: int, is_sender: bool) -> list[tuple[int, int]]:
        """Classes of a group, each with the groups that a message of it reaches, as bits.

        Those that reach nothing beyond what the ones before them reach are left out; filters hold by domain and level.
        """
        key = (place, group, is_sender)
        if key not in self.through:
            found: list[tuple[int, int]] = []
            so_far: dict[tuple[int, int], int] = {}
            for number in self.by_source.get(group, ()):
                walk = self.network.walks[number]
                passed = place.node in self.nodes[number]
                mask = self.passes(place, number, is_sender) if passed else self.whole[number]
                kind = (walk.domain, walk.level)
                if mask & ~so_far.get(kind, 0):
                    so_far[kind] = so_far.get(kind, 0) | mask
                    found.append((number, mask))
            self.through[key] = found
        return self.through[key]

    def passes(self, place: LatePlace, number: int, is_sender: bool) -> int:
        """The groups with a process that a message reaches though it lacks the late copy, as bits."""
        walk = self.network.walks[number]
        alive: list[bool] = []
        for copy in walk.copies:
            before = copy.before
            alive.append(
                before < 0 or (alive[before] and not self.held_up(place, walk, before, copy.router, is_sender))
            )
        mask = 0
        for group, last in walk.ends:
            if alive[last] and not self.held_up(place, walk, last, PROCESS, is_sender):
                mask |= 1 << group
        return mask

    def held_up(self, place: LatePlace, walk: Walk, number: int, taker: int, is_sender: bool) -> bool:
        """Whether a member that lacks the late copy may not take another before it."""
        copy = walk.copies[number]
        if copy.node != place.node or (not place.at_all and taker != place.taker):
            return False
        if walk.sheltered and place.sheltered and walk.is_intra != place.is_intra:
            return False
        injector = copy.router if copy.router != SENDER else SENDER if is_sender else COLLEAGUE
        keeps = self.network.keeps[place.node]
        if taker != PROCESS and injector == taker and self.network.prompt[place.node]:
            return False  # its own, which it has at once
        if place.at_all:
            return keeps.fifo and injector == place.injector
        return keeps.total or keeps.causal or (keeps.fifo and injector == place.injector)

    def delivered(self, late: LateCopy) -> list[int]:
        """The groups in which a process other than the sender and the lacking one delivers the late message."""
        walk, sizes = self.network.walks[late.walk], self.network.sizes
        found = []
        for group, copy in walk.ends:
            others = sizes[group] - (1 if group == walk.source else 0)
            if copy == late.copy:
                if late.at_all:
                    continue
                if late.taker == PROCESS and not late.at_sender:
                    others -= 1
            if others > 0 and self.is_out(late, copy):
                found.append(group)
        return found

    def is_out(self, late: LateCopy, copy: int) -> bool:
        """Whether a copy of the late message is made, or waits for the late one."""
        copies = self.network.walks[late.walk].copies
        while copy >= 0 and copy != late.copy:
            before, router = copies[copy].before, copies[copy].router
            if before == late.copy and (late.at_all or router == late.taker):
                return False
            copy = before
        return True

    def is_back(self, late: LateCopy) -> bool:
        """Whether the late message has come back to its sender."""
        own = self.network.walks[late.walk].own
        if own == late.copy:
            return not late.at_all and not late.at_sender
        return self.is_out(late, own)


def chain_to(links: list[ChainLink], last: ChainLink) -> tuple[ChainLink, ...]:
    """The messages that lead to the last one, renumbered."""
    chain = [last]
    while chain[0].after >= 0:
        chain.insert(0, links[chain[0].after])
    return tuple(link._replace(after=place - 1) for place, link in enumerate(chain))
