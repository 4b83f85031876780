"""Wrong readings of the rules of extended histories, each of which the random runs must find.

All of them look right. A history with a wrong rule is planted in every process; a wrong world uses right histories on
the wrong graph.
"""

from __future__ import annotations

from itertools import pairwise

from tests.harness.causal_runs import CausalWorld, Kind, MakeHistory, Packet

from isthmus.core.message import SiteId
from isthmus.protocols.causal.histories.history import (
    SENDER,
    SENDER_BITS,
    Entry,
    ExtendedHistory,
    HistoryRules,
    Timestamp,
    key_of,
)
from isthmus.topology.gateways.hops import GatewayPlan, GatewayRoutes, clockwise, direct_plan
from isthmus.topology.gateways.separators import Cut, Separators, Zone, mask_of


class OmitsWhatAnyoneWasTold(ExtendedHistory):
    """R7: leaves an entry out if any recipient was told."""

    __slots__ = ()

    def entries_for(self, address: int) -> Timestamp:
        return tuple(entry for entry in super().entries_for(address) if not address & self.told[entry.key])


class CarriesOnlyForAddressees(ExtendedHistory):
    """Carries only entries that are addressed to a recipient."""

    __slots__ = ()

    def entries_for(self, address: int) -> Timestamp:
        return tuple(entry for entry in super().entries_for(address) if entry.address & address)


class InsertsFirst(ExtendedHistory):
    """Inserts the message, then updates C."""

    __slots__ = ()

    def send(self, address: int) -> tuple[int, Timestamp]:
        self.count += 1
        key = key_of(self.site, self.count)
        self.delivered[self.site] = self.count
        timestamp = self.entries_for(address)
        self.insert(key, address, 0)
        self.report_all(address | self.me)
        return key, timestamp


class UpdatesFirst(ExtendedHistory):
    """Takes the timestamp after its own sending was noted."""

    __slots__ = ()

    def send(self, address: int) -> tuple[int, Timestamp]:
        self.count += 1
        key = key_of(self.site, self.count)
        self.delivered[self.site] = self.count
        self.report_all(address | self.me)
        timestamp = self.entries_for(address)
        self.insert(key, address, 0)
        return key, timestamp


class SendsInTwoSteps(ExtendedHistory):
    """Notes its sending only with its next step: what is delivered in between counts as told, too."""

    __slots__ = ("owed",)

    def send(self, address: int) -> tuple[int, Timestamp]:
        self.settle()
        self.count += 1
        key = key_of(self.site, self.count)
        self.delivered[self.site] = self.count
        self.owed = (key, address)
        return key, self.entries_for(address)

    def settle(self) -> None:
        key, address = getattr(self, "owed", (0, 0))
        if key:
            self.report_all(address | self.me)
            self.insert(key, address, 0)
            self.owed = (0, 0)

    def deliver(self, key: int, address: int, timestamp: Timestamp) -> None:
        super().deliver(key, address, timestamp)
        self.settle()


class TakesDeliveryForReport(ExtendedHistory):
    """C(m) is A_m when m is delivered."""

    __slots__ = ()

    def deliver(self, key: int, address: int, timestamp: Timestamp) -> None:
        touched = self.merge(key, address, timestamp, 0)
        self.insert(key, address, address)
        self.forget_told([*touched, key])


class AnySender(ExtendedHistory):
    """R5 as printed: a later message of any sender will do."""

    __slots__ = ()

    def missing(self, timestamp: Timestamp) -> int:
        highest = max(self.delivered.values(), default=0)
        waits = [entry.key for entry in timestamp if entry.address & self.me and highest < entry.key >> SENDER_BITS]
        return waits[0] if waits else 0


class WaitsForAll(ExtendedHistory):
    """Waits for entries that are not addressed to it."""

    __slots__ = ()

    def missing(self, timestamp: Timestamp) -> int:
        return super().missing(tuple(entry._replace(address=self.me) for entry in timestamp))


class CreditsAll(ExtendedHistory):
    """Credits A_m to all of H on delivery."""

    __slots__ = ()

    def merge(self, key: int, address: int, timestamp: Timestamp, rest: int) -> list[int]:
        touched = super().merge(key, address, timestamp, rest)
        for entry in self.told:
            self.told[entry] |= address & ~rest
        return [*touched, *self.told]


class CoversBackwards(ExtendedHistory):
    """The union over messages up to an entry, not later ones."""

    __slots__ = ()

    def covered(self, key: int, timestamp: Timestamp) -> int:
        sender = key & SENDER
        known = [(entry.key, entry.address) for entry in timestamp] + list(self.address.items())
        sites = 0
        for other, address in known:
            if other <= key and other & SENDER == sender:
                sites |= address
        return sites


class AsksNoSeparator(ExtendedHistory):
    """R9 without S within C."""

    __slots__ = ()

    def answered(self, address: int, told: int, cuts: dict[int, tuple[Cut, ...]]) -> bool:
        rest = address & ~told if self.rules.remainder else address
        return any(not rest & ~far for _, far in cuts.get(rest & -rest, ()))


class CreditsInjected(ExtendedHistory):
    """What a relay adds is credited with the whole address."""

    __slots__ = ()

    def relay(self, key: int, address: int, timestamp: Timestamp, rest: int, hops: tuple[int, ...]) -> list[Timestamp]:
        stamps = super().relay(key, address, timestamp, rest, hops)
        return [tuple(Entry(*entry[:3]) for entry in stamp) for stamp in stamps]


class OnlyR9(CausalWorld):
    """A world in which R9 is always applied, as far as wrong graphs show there alone."""

    def tell_first(self, site: SiteId) -> None:
        """Without empty messages, which would hide what is wrong."""

    def history_of(self, site: SiteId) -> ExtendedHistory:
        return self.make(site, self.separators, HistoryRules(extended=self.policies.extended))


class NobodyAsked(OnlyR9):
    """R9 without S within C, where gateways relay."""

    def history_of(self, site: SiteId) -> ExtendedHistory:
        return AsksNoSeparator(site, self.separators, HistoryRules(extended=self.policies.extended))


class LeakyZones(OnlyR9):
    """Separators that lack a member."""

    def lay_out(self) -> None:
        super().lay_out()
        leaky = []
        for zone in self.separators.zones:
            separator = zone.separator & (zone.separator - 1) or zone.separator
            leaky.append(Zone("", "", separator, zone.inside, zone.parts))
        self.separators = Separators(leaky)


class InvisibleRelays(OnlyR9):
    """Relays are not part of the address, while senders use R9."""

    def plan(self, sender: SiteId, destinations: int) -> GatewayPlan:
        plan = super().plan(sender, destinations)
        return plan._replace(address=destinations)

    def take(self, site: SiteId, packet: Packet) -> None:
        hops = packet.plan.hops.get(site, ())
        for hop in hops:
            self.transmit(hop.receivers, packet)
        if packet.number >= 0 and self.sent[packet.number].destinations >> site & 1:
            self.histories[site].deliver(packet.key, packet.plan.address, packet.timestamp)
            self.deliver(site, packet.number)


class NewKeyPerHop(CausalWorld):
    """A relay sends on under a key of its own."""

    def take(self, site: SiteId, packet: Packet) -> None:
        history, plan = self.histories[site], packet.plan
        if not (hops := plan.hops.get(site)):
            super().take(site, packet)
            return
        history.deliver(packet.key, plan.address, packet.timestamp)
        for hop in hops:
            key, timestamp = history.send(hop.reached)
            self.transmit(hop.receivers, Packet(key, packet.number, plan._replace(address=hop.reached), timestamp))
        if packet.number >= 0 and self.sent[packet.number].destinations >> site & 1:
            self.deliver(site, packet.number)


class RoutePerMessage(CausalWorld):
    """Either way round the ring, as chance will have it."""

    def lay_out(self) -> None:
        super().lay_out()
        self.ways = [self.routes, GatewayRoutes(self.graph)]
        for start, before in enumerate(self.ways[1].before):
            near = list(reversed(clockwise(self.graph, start)))
            if len(near) == 2:
                way = [start, near[0]]
                while len(way) < len(before):
                    way.append(next(n for n in self.graph.neighbours[way[-1]] if n not in way[-2:]))
                before.update({there: here for here, there in pairwise(way)})

    def plan(self, sender: SiteId, destinations: int) -> GatewayPlan:
        return self.random.choice(self.ways).plan(sender, destinations)


class StaleZones(OnlyR9):
    """A link was added between hosts of neighbouring LANs; the separators do not know of it."""

    def plan(self, sender: SiteId, destinations: int) -> GatewayPlan:
        graph = self.graph
        home = graph.lan_of[sender]
        near = graph.members[home] | mask_of(self.hosts)
        if destinations & ~near or self.random.random() < 0.5:
            return super().plan(sender, destinations)
        return direct_plan(sender, destinations)


class RestartedGateway(OnlyR9):
    """Gateways lose their H, and go on."""

    def take(self, site: SiteId, packet: Packet) -> None:
        if site not in self.hosts and self.random.random() < 0.1:
            old, new = self.histories[site], self.history_of(site)
            new.delivered, new.count = old.delivered, old.count
            self.histories[site] = new
        super().take(site, packet)


HISTORIES: dict[str, tuple[MakeHistory, Kind]] = {
    "omits what anyone was told": (OmitsWhatAnyoneWasTold, "one-hop"),
    "carries only for addressees": (CarriesOnlyForAddressees, "one-hop"),
    "inserts first": (InsertsFirst, "one-hop"),
    "updates first": (UpdatesFirst, "one-hop"),
    "sends in two steps": (SendsInTwoSteps, "one-hop"),
    "takes delivery for report": (TakesDeliveryForReport, "one-hop"),
    "any sender": (AnySender, "one-hop"),
    "waits for all": (WaitsForAll, "one-hop"),
    "credits all": (CreditsAll, "one-hop"),
    "covers backwards": (CoversBackwards, "one-hop"),
    "asks no separator": (AsksNoSeparator, "one-hop"),
    "credits injected": (CreditsInjected, "lan-ring"),
}
WORLDS: dict[str, tuple[type[CausalWorld], Kind]] = {
    "asks no separator of LANs": (NobodyAsked, "lan-ring"),
    "leaky zones": (LeakyZones, "lan-ring"),
    "invisible relays": (InvisibleRelays, "lan-ring"),
    "new key per hop": (NewKeyPerHop, "lan-ring"),
    "route per message": (RoutePerMessage, "lan-ring"),
    "stale zones": (StaleZones, "lan-ring"),
    "restarted gateway": (RestartedGateway, "lan-ring"),
}
