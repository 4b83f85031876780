"""LAN broadcast as one transmission: a common access delay, then reception at nearly the same instant.

Most of the variation of a LAN's delay occurs before a frame is on the wire. From then on all receive it within the
tightness, the spread of their interrupt delays. Occasionally one receiver gets a frame only at a second attempt,
milliseconds later; its copy carries the number of the attempt. Some receivers may not get it at all. The sender is one
of the receivers: it stamps its own frame as the others do.

Partitions and losses of the links apply here too, as they do to packets (network/delays.py); delays of a LAN are access
delays, so that a fault that shifts them does not loosen the broadcast.
"""

from __future__ import annotations

from random import Random

from isthmus.core.message import GroupId, Targets
from isthmus.core.units import NS_PER_MS
from isthmus.protocols.clocks.wire import Candidate
from isthmus.scenario.clocks import Broadcasts
from isthmus.sim.network.delays import DelayNetwork, Stamp

NS_PER_US = 1_000


class LanBroadcast:
    """Transmissions that all sites of a LAN receive."""

    __slots__ = ("access", "network", "random", "spec")

    def __init__(self, network: DelayNetwork, spec: Broadcasts, random: Random) -> None:
        self.network = network
        self.spec = spec
        self.random = random  # a separate source: draws are independent of other events in a run
        self.access = [cluster.lan.delay.sampler(random) for cluster in network.topology.clusters]

    def send(self, stamp: Stamp, group: GroupId, targets: Targets, frame: Candidate) -> None:
        """Send one transmission to sites of the sender's LAN."""
        network, random, spec = self.network, self.random, self.spec
        source = stamp[0]
        scheduler, sites = network.scheduler, network.topology.sites
        assert all(sites[target].cluster == sites[source].cluster for target in targets)
        network.packet_count += 1
        sent_ns = scheduler.now_ns + self.access[sites[source].cluster]()
        late = random.choice(targets) if random.random() < spec.repeat else None
        for target in targets:
            arrival_ns = sent_ns + round(random.uniform(0, spec.tightness_us) * NS_PER_US)
            copy = frame
            if target == late:
                arrival_ns += round(random.uniform(*spec.repeat_ms) * NS_PER_MS)
                copy = frame.again()
            if random.random() < spec.loss or (target != source and network.link(source, target).lost()):
                network.dropped_count += 1
                continue
            receive = network.receivers.get((target, group))
            if receive is not None:
                network.latest_ns = max(network.latest_ns, arrival_ns)
                scheduler.at(arrival_ns, receive, stamp, copy)
