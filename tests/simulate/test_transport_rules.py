"""What the reliable transport may send, checked packet by packet over random runs.

These rules are not seen in what is delivered: a Status that names too much, a repair to a member that it is not for, or
a timer of an earlier view cost packets and time, and a verdict on deliveries stays valid.
"""

from __future__ import annotations

from collections import defaultdict

import msgspec
import pytest

from isthmus.core.layer import View
from isthmus.core.message import GroupId, Message, SiteId, Targets
from isthmus.fuzz.scenarios import hard_scenario, random_scenario
from isthmus.protocols.transport.base import Transport
from isthmus.protocols.transport.reliable.frames import Data, Nak, Repair, Status
from isthmus.protocols.transport.reliable.reliable import Reliable
from isthmus.scenario.model import Scenario
from isthmus.sim.network.delays import DelayNetwork, Stamp
from isthmus.sim.run import SimRun
from isthmus.sim.site import SimPort

replace = msgspec.structs.replace


class Watched(DelayNetwork):
    """A network that looks at what is sent."""

    __slots__ = ("counts", "repaired", "run", "sent")

    def __init__(self, run: SimRun) -> None:
        super().__init__(run.scenario.topology, run.scheduler, run.scenario.random("network"))
        self.run = run
        self.sent: dict[tuple[Stamp, SiteId], int] = defaultdict(int)  # the last frame of each stream to each member
        self.repaired: dict[tuple[Stamp, SiteId, SiteId, int], tuple[int, int]] = {}  # when, and the round trip then
        self.counts: dict[str, int] = defaultdict(int)

    def send(self, stamp: Stamp, group: GroupId, targets: Targets, message: Message, size_bytes: int) -> None:
        self.counts[type(message).__name__] += 1
        for target in targets if group == self.run.groups[0].id else ():
            if isinstance(message, Data):
                assert message.seq > self.sent[stamp, target], "frames leave in order on each path, each once"
                assert not message.targets or target in message.targets
                self.sent[stamp, target] = message.seq
            elif isinstance(message, Status):
                assert message.top == self.sent[stamp, target], "a Status names what its receiver was sent"
            elif isinstance(message, Repair):
                self.check_repair(stamp, target, message)
            elif isinstance(message, Nak):
                self.check_request(stamp, message)
        super().send(stamp, group, targets, message, size_bytes)

    def transport(self, site: SiteId) -> Reliable:
        found = self.run.sites[site].ports[self.run.groups[0].id].stack.find(Transport)
        assert isinstance(found, Reliable)
        return found

    def check_repair(self, stamp: Stamp, target: SiteId, repair: Repair[Message]) -> None:
        data = repair.data
        assert not data.targets or target in data.targets, "a repair goes to those only whom the frame is for"
        if repair.origin == stamp[0]:
            assert data.seq <= self.sent[stamp, target], "what was never sent is not sent again"
        sender = self.transport(stamp[0])
        round_ns = sender.paths.of[target].window.base_ns or 50_000_000
        key = (stamp, target, repair.origin, data.seq)
        before_ns, known_ns = self.repaired.get(key, (-(2**62), 0))
        assert sender.host.now_ns - before_ns >= min(round_ns, known_ns), "once in a round trip, as far as it is known"
        self.repaired[key] = (sender.host.now_ns, round_ns)

    def check_request(self, stamp: Stamp, nak: Nak) -> None:
        asker = self.transport(stamp[0])
        stream, room = asker.streams[nak.origin], asker.options.hold_max
        below = sum(1 for prev in stream.held if prev < nak.gaps[0][0]) if asker.fifo else len(stream.held)
        assert 1 <= nak.most <= max(1, room - below), "no more than there is room for"
        assert nak.most <= asker.options.repair_max


def check_install(self: Reliable, view: View) -> None:
    """Install a view, and find no timer of the one before."""
    INSTALL(self, view)
    assert isinstance(self.host, SimPort)
    assert not [key for layer, key in self.host.owner.timers if layer is self], "no timer survives a view"
    assert not (self.ack_armed or self.status_armed or self.probe_armed)
    assert not any(stream.asking for stream in self.streams.values())


INSTALL = Reliable.install


def narrow(given: Scenario) -> Scenario:
    """The same with 0.2 Mbit/s between clusters and messages of 500 bytes, so that frames are deferred."""
    links = tuple(
        replace(link, forward=replace(link.forward, bandwidth_mbps=0.2), back=replace(link.back, bandwidth_mbps=0.2))
        for link in given.topology.links
    )
    workloads = tuple(replace(workload, payload_bytes=500) for workload in given.workloads)
    return replace(given, topology=replace(given.topology, links=links), workloads=workloads)


@pytest.mark.parametrize("stack", ["fifo", "unordered", "token-site"])
@pytest.mark.parametrize("kind", ["plain", "narrow"])
def test_what_is_sent_keeps_the_rules(stack: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reliable, "install", check_install)
    counts: dict[str, int] = defaultdict(int)
    for seed in range(16):
        given = (hard_scenario if seed % 2 else random_scenario)(stack, seed)
        stack_alone = replace(given.stack, relay=None)  # what a relay wraps is not looked into here
        given = replace(given, membership=replace(given.membership, stagger_ms=20.0), stack=stack_alone)
        run = SimRun(narrow(given) if kind == "narrow" else given)
        network = Watched(run)
        run.network = network
        for service in run.services:
            service.network = network
        for site in run.sites:
            site.network = network
            for port in site.ports.values():
                port.network = network
                network.attach(site.site, port.group, port.receive)
        run.execute()
        assert run.at_rest()
        for name, count in network.counts.items():
            counts[name] += count
    assert min(counts[name] for name in ("Data", "Repair", "Nak", "Status", "Ack")) > 100
