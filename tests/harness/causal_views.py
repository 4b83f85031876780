"""Random runs of extended histories whose views change: gateways fail, and links between gateways are laid anew.

At a change nothing new is sent, every site delivers what is under way to it in a causal order, histories are cleared,
and routes and separators are computed for those who are left. Only dedicated gateways fail, so that no message dies
with its sender, and everything must still be delivered.
"""

from __future__ import annotations

from heapq import heapify
from itertools import pairwise
from random import Random

import msgspec
from tests.harness.causal_runs import CausalWorld, Kind, MakeHistory

from isthmus.core.message import SiteId
from isthmus.protocols.causal.histories.history import ExtendedHistory
from isthmus.topology.gateways.hops import GatewayRoutes
from isthmus.topology.gateways.lans import Lans
from isthmus.topology.gateways.separators import LanGraph, Separators, sites_of, zones_of

CHANGE = SiteId(-1)  # in the place of a sender: the view changes
CHANGES_MAX = 3


class ChangingWorld(CausalWorld):
    """Processes with extended histories on LANs that change."""

    def __init__(self, kind: Kind, seed: int, make: MakeHistory = ExtendedHistory, count: int = 60) -> None:
        super().__init__(kind, seed, make, count)
        self.chance = Random(f"views/{kind}/{seed}")
        self.frozen = False
        for _ in range(self.chance.randint(1, CHANGES_MAX)):
            self.at(self.chance.uniform(1, 40), CHANGE, None)

    def send(self, sender: SiteId) -> None:
        if sender == CHANGE:
            self.change_view()
        elif self.frozen:
            self.at(self.now, sender, None)
        else:
            super().send(sender)

    def change_view(self) -> None:
        self.frozen = True
        self.deliver_the_rest()
        self.frozen = False
        self.heap = [event for event in self.heap if event[3] is None]
        heapify(self.heap)
        failing = [site for site in self.sites if site not in self.hosts]
        if failing and self.chance.random() < 0.7:
            self.sites.remove(self.chance.choice(failing))
        lans = self.graph.lans
        self.open_view(self.linked_anew(lans) if self.chance.random() < 0.5 else lans)

    def deliver_the_rest(self) -> None:
        """Deliver what is under way; the order in which messages were sent is a causal one."""
        for number, sent in enumerate(self.sent):
            for site in sites_of(sent.destinations):
                if not self.has[site] >> number & 1:
                    self.deliver(site, number)

    def open_view(self, lans: Lans) -> None:
        self.graph = LanGraph(lans, tuple(self.sites))
        self.separators = Separators(zones_of(self.graph))
        self.routes = GatewayRoutes(self.graph)
        self.histories = {site: self.history_of(site) for site in self.sites}
        self.held = {site: [] for site in self.sites}

    def linked_anew(self, lans: Lans) -> Lans:
        """The same LANs in a row, in another order; nodes stay where they are."""
        outer = [number for number in range(len(lans.sites)) if not lans.is_node(number)]
        order = self.chance.sample(outer, len(outer))
        row = [(lans.gateways[a][-1], lans.gateways[b][0]) for a, b in pairwise(order)]
        home = lans.lan_of()
        to_nodes = [link for link in lans.links if any(lans.is_node(home[end]) for end in link)]
        return msgspec.structs.replace(lans, links=(*row, *to_nodes), routes=())
