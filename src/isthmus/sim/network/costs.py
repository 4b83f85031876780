"""A network of hosts with CPU costs: a CPU per interface, and LANs that carry one transmission at a time.

A packet waits for the CPU of its sender's interface, then for the wire of the group's LAN, then passes the links of the
topology, then waits for the CPU of each receiver's interface. All three are FIFO queues; a packet without cost still
keeps its place in them, so that channels stay FIFO. scenario/costs.py defines the costs.

The copy to the sender itself costs no CPU time and arrives at once, as in any network; but on a ring it takes the
sender as long as any receiver, in a separate queue beside its CPU: the token, which waits for it, leaves when the batch
has been received.

Bounds: at most `queue_max` packets wait at an interface to be sent, and as many to be received; any more are dropped
and counted, as by a full hardware interface.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from isthmus.core.message import GroupId, Message, SiteId, Targets
from isthmus.measure.summary import RunSummary
from isthmus.protocols.total.ring.ring import Token
from isthmus.scenario.costs import CostSpec, ns_of
from isthmus.scenario.model import GroupOfRun, Scenario
from isthmus.sim.network.delays import DelayNetwork, Receive, Stamp, nobody
from isthmus.sim.scheduler import Scheduler
from isthmus.stacks.registry import STACKS
from isthmus.topology.model import Topology


class Interface:
    """The interface of one site to one LAN."""

    __slots__ = ("back_ns", "busy_ns", "free_ns", "receiving", "sending")

    def __init__(self) -> None:
        self.free_ns = 0  # when the CPU completes all its work
        self.busy_ns = 0  # total
        self.back_ns = 0  # when the last copy to the sender itself arrives
        self.sending = 0  # packets that have not left yet; at most queue_max
        self.receiving = 0  # packets received but not handled yet; at most queue_max

    def take(self, now_ns: int, cost_ns: int) -> int:
        """Use the CPU once it is free; return the time of completion."""
        self.free_ns = max(now_ns, self.free_ns) + cost_ns
        self.busy_ns += cost_ns
        return self.free_ns


@dataclass(slots=True, eq=False)
class Packet:
    """A packet in flight, with its remaining arrivals."""

    stamp: Stamp
    group: GroupId
    targets: Targets
    message: Message
    size_bytes: int
    wire_ns: int
    receive_ns: int
    open: int = 0  # remaining arrivals
    done_ns: int = 0  # when the last receiver so far completes it


class CostedNetwork(DelayNetwork):
    """A network of delays between hosts with CPU costs."""

    __slots__ = ("costs", "interfaces", "lans", "recent", "rings", "transmissions", "under_way", "waiting", "wire_free")

    def __init__(
        self, topology: Topology, scheduler: Scheduler, random: Random, costs: CostSpec, groups: Sequence[GroupOfRun]
    ) -> None:
        super().__init__(topology, scheduler, random)
        self.costs = costs
        numbers = costs.lans_of([group.name for group in groups])
        self.lans: dict[GroupId, int] = {group.id: lan for group, lan in zip(groups, numbers, strict=True)}
        self.rings = {group.id for group in groups if "ring" in STACKS[group.stack.name].options}
        self.interfaces: dict[tuple[SiteId, int], Interface] = {}
        self.wire_free: dict[int, int] = {}  # by LAN: when its wire is free
        self.transmissions = 0
        self.recent = 0  # number of the last packet sent
        self.under_way: dict[int, None] = {}  # numbers of packets that have not reached all targets yet, in order
        self.waiting: deque[tuple[int, Callable[..., None]]] = deque()  # called once all up to a packet have arrived

    def lan(self, group: GroupId) -> int:
        """Return the LAN of a group; traffic of a site for all its groups has a LAN of its own."""
        return self.lans.get(group, group)

    def interface(self, site: SiteId, group: GroupId) -> Interface:
        key = (site, self.lan(group))
        found = self.interfaces.get(key)
        if found is None:
            found = self.interfaces[key] = Interface()
        return found

    def figures(self, _summary: RunSummary) -> dict[str, float]:
        """Return the figures of hosts and LANs, by name."""
        busy_ns = max([interface.busy_ns for interface in self.interfaces.values()], default=0)
        return {"transmissions": float(self.transmissions), "busy_max": busy_ns / max(1, self.latest_ns)}

    def after_arrivals(self, then: Callable[..., None]) -> None:
        self.waiting.append((self.recent, then))
        self.call_back()

    def call_back(self) -> None:
        """Schedule callbacks whose packets have all reached their targets, or will at a known time."""
        oldest = next(iter(self.under_way), self.recent + 1)
        while self.waiting and self.waiting[0][0] < oldest:
            self.scheduler.at(self.latest_ns, self.waiting.popleft()[1])

    # The path of a packet

    def send(self, stamp: Stamp, group: GroupId, targets: Targets, message: Message, size_bytes: int) -> None:
        self.packet_count += len(targets)
        costs, source = self.costs, stamp[0]
        if source in targets and group not in self.rings:
            self.scheduler.at(self.scheduler.now_ns, self.receivers.get((source, group), nobody), stamp, message)
            targets = tuple(target for target in targets if target != source)
        if not targets:
            return
        sender = self.interface(source, group)
        if sender.sending >= costs.queue_max:
            self.dropped_count += len(targets)
            return
        send_us, wire_us, receive_us = costs.send_us, costs.wire_us, costs.receive_us
        if targets == (source,) or type(message) is Token or (costs.control_free and not message.subjects()):
            send_us = wire_us = receive_us = 0.0
        self.note_wan(source, targets, size_bytes)
        sender.sending += 1
        self.recent += 1
        self.under_way[self.recent] = None
        packet = Packet(stamp, group, targets, message, size_bytes, ns_of(wire_us), ns_of(receive_us))
        sent_ns = sender.take(self.scheduler.now_ns, ns_of(send_us))
        self.scheduler.at(sent_ns, self.transmit, packet, self.recent)

    def note_wan(self, source: SiteId, targets: Targets, size_bytes: int) -> None:
        sites = self.topology.sites
        wan = sum(sites[target].cluster != sites[source].cluster for target in targets)
        self.wan_count += wan
        self.wan_bytes += wan * size_bytes

    def transmit(self, packet: Packet, number: int) -> None:
        """Wait for the wire, once the sender's CPU is done."""
        lan = self.lan(packet.group)
        left_ns = max(self.scheduler.now_ns, self.wire_free.get(lan, 0)) + packet.wire_ns
        self.wire_free[lan] = left_ns
        self.transmissions += packet.wire_ns > 0
        self.scheduler.at(left_ns, self.leave, packet, number)

    def leave(self, packet: Packet, number: int) -> None:
        """Send a packet from the wire to its targets, with the delays of their links."""
        now_ns, source, group = self.scheduler.now_ns, packet.stamp[0], packet.group
        sender = self.interface(source, group)
        sender.sending -= 1
        hop_ns = ns_of(self.costs.token_us) if type(packet.message) is Token else 0
        reached: dict[int, list[SiteId]] = {}
        for target in packet.targets:
            if target != source:
                arrivals = self.link(source, target).arrivals(now_ns, packet.size_bytes)
                self.dropped_count += not arrivals
                for arrival_ns in arrivals:
                    reached.setdefault(arrival_ns + hop_ns, []).append(target)
        packet.open, packet.done_ns = len(reached), now_ns
        if source in packet.targets:
            sender.back_ns = packet.done_ns = max(now_ns, sender.back_ns) + packet.receive_ns
            receive = self.receivers.get((source, group), nobody)
            self.scheduler.at(sender.back_ns, receive, packet.stamp, packet.message)
        for arrival_ns, targets in reached.items():
            self.scheduler.at(arrival_ns, self.reach, (packet, number), targets)
        if not reached:
            self.settle(packet, number)

    def reach(self, tracked: tuple[Packet, int], targets: list[SiteId]) -> None:
        """Wait for the CPUs of the targets that a packet has reached."""
        packet, number = tracked
        now_ns, group = self.scheduler.now_ns, packet.group
        ready: dict[int, list[tuple[Interface, Receive]]] = {}
        for target in targets:
            interface = self.interface(target, group)
            if interface.receiving >= self.costs.queue_max:
                self.dropped_count += 1
                continue
            interface.receiving += 1
            done_ns = interface.take(now_ns, packet.receive_ns)
            ready.setdefault(done_ns, []).append((interface, self.receivers.get((target, group), nobody)))
        for done_ns, receivers in ready.items():
            packet.done_ns = max(packet.done_ns, done_ns)
            self.scheduler.at(done_ns, self.hand_over, packet, receivers)
        packet.open -= 1
        if not packet.open:
            self.settle(packet, number)

    def hand_over(self, packet: Packet, receivers: list[tuple[Interface, Receive]]) -> None:
        self.scheduler.event_count += len(receivers) - 1
        stamp, message = packet.stamp, packet.message
        for interface, receive in receivers:
            interface.receiving -= 1
            receive(stamp, message)

    def settle(self, packet: Packet, number: int) -> None:
        """Complete a packet with no copies left in flight."""
        self.latest_ns = max(self.latest_ns, packet.done_ns)
        del self.under_way[number]
        self.call_back()


def costed_network(scenario: Scenario, scheduler: Scheduler, groups: Sequence[GroupOfRun]) -> CostedNetwork:
    """Return the network of a scenario with CPU costs."""
    assert scenario.network.costs is not None
    return CostedNetwork(scenario.topology, scheduler, scenario.random("network"), scenario.network.costs, groups)
