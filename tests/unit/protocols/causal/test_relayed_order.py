"""Relayed causal messages end to end: who may bring one, and what is kept how long."""

from __future__ import annotations

from collections import deque

import msgspec
import pytest
from tests.harness.recording import RecordingPort, RecordingSite

from isthmus.core.errors import RemoteError
from isthmus.core.layer import View
from isthmus.core.message import Cast, Message, SiteId, Targets
from isthmus.protocols.application import Application
from isthmus.protocols.causal.histories.relayed_order import DeliveredUpTo, RelayedOrder
from isthmus.protocols.causal.options import CausalOptions
from isthmus.protocols.causal.order import CausalMessage
from isthmus.protocols.transport.reliable.frames import Data
from isthmus.stacks.registry import STACKS, StackOptions
from isthmus.topology.gateways.lans import Lans


def sites(*numbers: int) -> Targets:
    return tuple(SiteId(number) for number in numbers)


MEMBERS = sites(0, 1, 2, 3, 4, 5)
LANS = Lans(
    ("a", "b", "c"),
    (sites(0, 1), sites(2, 3), sites(4, 5)),
    (sites(1), sites(2), sites(4)),
    ((SiteId(1), SiteId(2)), (SiteId(2), SiteId(4))),
)


class Network:
    """Six sites in three LANs in a row; gateways 1, 2 and 4. Packets arrive in `flow`, in the order sent."""

    def __init__(self) -> None:
        self.packets: deque[tuple[SiteId, SiteId, int, Message]] = deque()
        self.carried: list[tuple[SiteId, SiteId, CausalMessage[Cast]]] = []  # from, to, what
        self.applications = {site: Application() for site in MEMBERS}
        self.sites = {site: RecordingSite(site, transmit=self.transmit) for site in MEMBERS}
        for site, made in self.sites.items():
            options = StackOptions(causal=CausalOptions(lans=LANS))
            made.attach(STACKS["causal-separators"].build(made.host, self.applications[site], options))
            made.run(lambda made=made: made.host.install(View(1, MEMBERS)))  # type: ignore[misc]
            made.run(made.host.resume)
        self.flow()

    def transmit(self, port: RecordingPort, target: SiteId, view_id: int, message: Message) -> None:
        self.packets.append((port.site, target, view_id, message))

    def flow(self) -> None:
        for _ in range(20):
            while self.packets:
                source, target, view_id, message = self.packets.popleft()
                if isinstance(message, Data) and isinstance(message.body, CausalMessage):
                    self.carried.append((source, target, message.body))
                self.sites[target].receive(source, view_id, message)
            for made in self.sites.values():
                made.advance(50_000_000)

    def order(self, site: int) -> RelayedOrder:
        return self.sites[SiteId(site)].host.stack.find(RelayedOrder)

    def send(self, site: int, to: Targets = ()) -> None:
        self.sites[SiteId(site)].run(lambda: self.applications[SiteId(site)].cast(b"x", to))


def test_a_message_is_taken_only_from_the_site_before_on_its_way() -> None:
    network = Network()
    network.send(0, sites(3))
    network.flow()
    (message,) = [message for source, target, message in network.carried if (source, target) == (2, 3)]
    network.order(3).plan_of(SiteId(2), message)
    stray = msgspec.structs.replace(message, cast=msgspec.structs.replace(message.cast, sender=SiteId(4)))
    with pytest.raises(RemoteError, match="does not precede us"):
        network.order(3).plan_of(SiteId(4), stray)


def test_what_all_destinations_have_is_dropped_everywhere() -> None:
    network = Network()
    for _ in range(20):
        network.send(0)
        network.flow()
    for site in MEMBERS:
        assert len(network.order(site).kept[SiteId(0)]) <= 2, site


def test_an_acknowledgement_drops_nothing_once_the_flush_was_told_what_is_kept() -> None:
    network = Network()
    network.send(0)
    order = network.order(0)
    order.freeze()
    told = order.holding(SiteId(0))
    for site in MEMBERS[1:]:
        order.on_delivered_up_to(site, DeliveredUpTo(1))
    assert told[1] == [1] and order.holding(SiteId(0)) == told


@pytest.mark.parametrize(
    ("having", "safe"),
    [
        ((0, 1), False),
        ((0, 1, 2), True),  # half, with the most senior
        ((1, 2, 3, 4, 5), True),
        ((0, 1, 2, 3, 4, 5), True),
    ],
)
def test_a_message_is_safe_at_a_quorum_of_the_view(having: tuple[int, ...], safe: bool) -> None:
    """Site 0 or 1 is the origin, which has it in any case."""
    lacking = sum(1 << site for site in MEMBERS if site not in having)
    assert Network().order(having[0]).has_quorum(0b111111, lacking) is safe
