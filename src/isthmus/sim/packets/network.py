"""The packet network as seen by a run: takes messages from ports, fragments them, delivers them on arrival.

A message to several targets goes over a multicast tree, one packet per branch, or as one packet per target, as the
scenario specifies. A message to the sender itself takes no link: it arrives at once, as a separate event. Fragments
stay in order, since all of a message take one path and links are FIFO; so the last one completes it.

Bounds: with `queue_max`, a packet that finds as many on its link is dropped and counted, with the rest of its message
there. Without it, nothing is lost, as studies require: `load_max` shows how long queues got, and a run in which
one exceeds `LOAD_MOST` is stopped.

It is an event source beside the scheduler's heap: hops are executed up to the next arrival of a message, or the next
entry of the heap; where both are due, the heap goes first.

Routers are not hosts: where a site crashes, packets still pass, and those addressed to it are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from isthmus.core.errors import LocalError
from isthmus.core.layer import Kind, Stack, View
from isthmus.core.message import HEAD_BYTES, GroupId, Message, SiteId, Targets
from isthmus.measure.summary import RunSummary
from isthmus.protocols.causal.order import CausalOrder
from isthmus.scenario.model import Scenario
from isthmus.scenario.packets import NetworkSpec
from isthmus.scenario.workload import NS_PER_S
from isthmus.sim.network.delays import Receive, Stamp, nobody
from isthmus.sim.packets.compiled import CompiledEngine, has_numba, need_numba, say_that_it_is_slow
from isthmus.sim.packets.figures import NS_IN_MS, DelaySummary
from isthmus.sim.packets.plain import Engine, PlainEngine
from isthmus.sim.packets.ways import Roots, Ways, fragment_sizes
from isthmus.sim.scheduler import Scheduler
from isthmus.topology.wiring import Wiring, random_wiring, topology_wiring
from isthmus.trace.log import SiteLog
from isthmus.trace.schema import Gauge

NO_MESSAGE = -1  # of a background packet
NO_VIEW = View(0, ())
Handle = int


class Flight:
    """A message in flight."""

    __slots__ = ("group", "left", "message", "missed", "stamp")

    def __init__(self, stamp: Stamp, group: GroupId, message: Message, left: int) -> None:
        self.stamp = stamp
        self.group = group
        self.message = message
        self.left = left  # targets that it has not reached yet, and still may
        self.missed: dict[int, bool] = {}  # targets that it will not reach: a queue was full


class Waits:
    """The delivery queues of all sites together: their time average, and the longest one."""

    __slots__ = ("area", "longest", "now_count", "of", "since_ns")

    def __init__(self) -> None:
        self.of: dict[SiteId, int] = {}
        self.now_count = 0  # over all sites
        self.since_ns = 0
        self.area = 0  # messages times ns
        self.longest = 0

    def note(self, now_ns: int, site: SiteId, count: int) -> None:
        """Record the number of waiting messages at a site after an event there."""
        before = self.of.get(site, 0)
        if count != before:
            self.area += self.now_count * (now_ns - self.since_ns)
            self.since_ns = now_ns
            self.now_count += count - before
            self.of[site] = count
            self.longest = max(self.longest, count)


LOAD_MOST = 10_000_000  # packets on one link, where nothing is dropped: some gigabytes


class PacketNetwork:
    """A network of links with a rate and a queue."""

    def __init__(self, spec: NetworkSpec, wiring: Wiring, scheduler: Scheduler) -> None:
        self.spec = spec
        self.scheduler = scheduler
        self.ways = Ways(wiring)
        self.engine: Engine = engine_of(spec, self.ways)
        self.bounded = self.engine if isinstance(self.engine, PlainEngine) and spec.queue_max is not None else None
        self.needs_sizes = spec.control_bytes is None
        self.packet_count = 0  # copies sent, including copies to the sender itself
        self.dropped_count = 0
        self.wan_count = self.wan_bytes = 0  # LANs are not distinguished
        self.send_count = 0  # messages per logical arc: from a sender to each of its targets but itself
        self.fragment_count = 0  # of these
        self.arc_bytes = 0  # of these fragments, with their headers
        self.flights: dict[Handle, Flight] = {}
        self.handle = 0
        self.receivers: dict[tuple[SiteId, GroupId], Receive] = {}
        self.waiters: list[tuple[Handle, Callable[..., None]]] = []  # callbacks for messages sent up to a handle
        self.waits = Waits()
        self.orders: dict[SiteId, CausalOrder] = {}  # the layers that keep a delivery queue
        self.logs: list[SiteLog] = []  # the logs of traced hops
        scheduler.sources.append(self)

    def attach(self, site: SiteId, group: GroupId, receive: Receive) -> None:
        """Register a port as the receiver of messages to a site in a group."""
        self.receivers[site, group] = receive

    def watch_queue(self, site: SiteId, stack: Stack) -> None:
        """Measure the delivery queue of a site if its stack keeps one."""
        for layer in stack.layers:
            if isinstance(layer, CausalOrder):
                self.orders[site] = layer

    def figures(self, summary: RunSummary) -> dict[str, float]:
        """Return the measurements of a run of layers, by name."""
        assert isinstance(summary, DelaySummary)
        engine, waits, span_ns = self.engine, self.waits, max(1, self.engine.last_ns)
        return {
            "delay_mean_ms": summary.others_ns / max(1, summary.others_count) / NS_IN_MS,
            "delay_max_ms": summary.others_max_ns / NS_IN_MS,
            "queue_mean": waits.area / span_ns / self.ways.wiring.nodes,
            "queue_max": waits.longest,
            "load_mean": engine.load_ns / span_ns,
            "load_max": engine.load_max,
            "sends": self.send_count,
            "fragments": self.fragment_count,
            "arc_bytes": self.arc_bytes,
            "hops": engine.hop_count,
            **({} if self.bounded is None else {"dropped": self.dropped_count}),
        }

    def is_idle(self) -> bool:
        """Return whether no group has messages in flight; traffic between sites, such as heartbeats, is ignored."""
        return all(flight.group < 0 for flight in self.flights.values())

    def faults_changed(self) -> None:
        """Do nothing: links of the packet network have no faults."""

    def after_arrivals(self, then: Callable[..., None]) -> None:
        """Call back when all messages now in flight have arrived."""
        self.waiters.append((self.handle, then))
        self.call_waiters()

    def call_waiters(self) -> None:
        oldest = next(iter(self.flights), self.handle + 1)
        while self.waiters and self.waiters[0][0] < oldest:
            self.scheduler.at(self.scheduler.now_ns, self.waiters.pop(0)[1])

    # Sending

    def send(self, stamp: Stamp, group: GroupId, targets: Targets, message: Message, size_bytes: int) -> None:
        """Send a message to each target."""
        source = stamp[0]
        self.packet_count += len(targets)
        if source in targets:
            receive = self.receivers.get((source, group), nobody)
            self.scheduler.at(self.scheduler.now_ns, receive, stamp, message)
            targets = tuple(target for target in targets if target != source)
        if not targets:
            return
        control = self.spec.control_bytes
        body = size_bytes - HEAD_BYTES if control is None else control + message.payload_bytes()
        sizes = fragment_sizes(max(0, body), HEAD_BYTES, self.spec.fragment_bytes)
        self.send_count += len(targets)
        self.fragment_count += len(targets) * len(sizes)
        self.arc_bytes += len(targets) * sum(sizes)
        self.handle += 1
        self.flights[self.handle] = Flight(stamp, group, message, len(targets))
        for roots in self.roots(source, targets):
            self.engine.start(self.scheduler.now_ns, roots, self.handle, sizes)
        self.note_drops()

    def note_drops(self) -> None:
        """Stop waiting for packets dropped at a full queue."""
        if self.bounded is None:
            return
        self.dropped_count = self.bounded.dropped_count
        for handle, step in self.bounded.take_drops():
            flight = self.flights.get(handle)
            if flight is not None:
                for node in self.ways.ends_below(step):  # another fragment may have been dropped further on
                    flight.left -= node not in flight.missed
                    flight.missed[node] = True
                if not flight.left:
                    del self.flights[handle]
                    self.call_waiters()

    def roots(self, source: SiteId, targets: Targets) -> Iterator[Roots]:
        """Yield the first steps of the paths to some targets."""
        if self.spec.multicast == "tree" and len(targets) > 1:
            tree = self.ways.tree(source, targets)
            if tree is not None:
                yield tree
                return
        for target in targets:
            yield self.ways.path(source, target)

    def begin_background(self, random_of: Callable[..., Any], end_ns: int) -> None:
        """Let the background flows send until a time."""
        for flow in flows(self.spec, self.ways, random_of, end_ns):
            self.next_packet(flow)

    def next_packet(self, flow: Iterator[tuple[int, Roots]], _: object = None) -> None:
        entry = next(flow, None)
        if entry is not None:
            self.scheduler.at(entry[0], partial(self.send_background, entry[1]), flow)

    def send_background(self, roots: Roots, flow: Iterator[tuple[int, Roots]], _: object) -> None:
        self.engine.start(self.scheduler.now_ns, roots, NO_MESSAGE, background_sizes(self.spec))
        self.next_packet(flow)

    # Events

    def next_ns(self) -> int | None:
        return self.engine.next_ns()

    def run_before(self, limit_ns: int) -> int:
        """Execute hops due before a time, up to the next arrival of a message; return their number."""
        engine, before = self.engine, self.engine.hop_count
        arrival = engine.advance(limit_ns)
        if self.spec.hops:
            self.trace_hops()
        self.note_drops()
        if engine.load_max > LOAD_MOST:
            raise LocalError(
                f"over {LOAD_MOST:,} packets on one link of the packet network: found more traffic than it carries; "
                "expected less, or network.queue_max"
            )
        if arrival is not None:
            self.scheduler.now_ns = arrival.time_ns
            self.hand_over(arrival.message, SiteId(arrival.node))
        return engine.hop_count - before

    def hand_over(self, handle: Handle, site: SiteId) -> None:
        flight = self.flights[handle]
        flight.left -= 1
        if not flight.left:
            del self.flights[handle]
        self.receivers.get((site, flight.group), nobody)(flight.stamp, flight.message)
        order = self.orders.get(site)
        if order is not None:
            self.waits.note(self.scheduler.now_ns, site, order.waiting_count)
        if self.waiters and not flight.left:
            self.call_waiters()

    def trace_hops(self) -> None:
        """Write a row per hop: the node that a packet has reached, and the packets it leaves on the link."""
        for time_ns, node, handle, left in self.engine.take_hops():
            flight = self.flights.get(handle)
            subjects = () if flight is None else flight.message.subjects()
            subject = subjects[0] if len(subjects) == 1 else None
            group = GroupId(0) if flight is None else flight.group
            self.logs[node].write(time_ns, Kind.GAUGE, subject, left, group, NO_VIEW, 0, Gauge.LINK_QUEUE)


def packet_network(scenario: Scenario, scheduler: Scheduler, logs: list[SiteLog]) -> PacketNetwork:
    """Return the packet network of a scenario."""
    network = PacketNetwork(scenario.network, wiring_of(scenario), scheduler)
    network.logs = logs
    return network


def wiring_of(scenario: Scenario) -> Wiring:
    """Return the links of a scenario's packet network; a random graph depends on the seed alone."""
    spec = scenario.network
    if spec.graph == "topology":
        return topology_wiring(scenario.topology, spec.bandwidth_mbps)
    assert spec.mean_degree is not None
    random, nodes = scenario.random("wiring"), len(scenario.topology.sites)
    return random_wiring(nodes, spec.mean_degree, spec.bandwidth_mbps, spec.propagation_ms, random)


def engine_of(spec: NetworkSpec, ways: Ways) -> Engine:
    """Return the engine that a scenario requests; by default the compiled one if numba is installed."""
    if spec.engine == "compiled":
        need_numba("engine", "'compiled'")
    if spec.queue_max is not None:
        return PlainEngine(ways, spec.hops, spec.queue_max)
    if spec.engine != "python" and has_numba():
        return CompiledEngine(ways, spec.hops)
    if spec.engine == "auto":
        say_that_it_is_slow()
    return PlainEngine(ways, spec.hops)


def background_sizes(spec: NetworkSpec) -> tuple[int, ...]:
    assert spec.background is not None
    return fragment_sizes(spec.background.packet_bytes, HEAD_BYTES, max(1, spec.background.packet_bytes))


def flows(
    spec: NetworkSpec, ways: Ways, random_of: Callable[..., Any], end_ns: int
) -> Iterator[Iterator[tuple[int, Roots]]]:
    """Yield the packets of each background flow: time and path."""
    if spec.background is None:
        return
    for number in range(spec.background.flows):
        random = random_of("background", number)
        source, target = random.sample(range(ways.wiring.nodes), 2)
        yield packets_of(random, spec.background.rate_per_s, ways.path(source, target, delivers=False), end_ns)


def packets_of(random: Any, rate_per_s: float, roots: Roots, end_ns: int) -> Iterator[tuple[int, Roots]]:
    now_ns = 0.0
    while True:
        now_ns += random.expovariate(rate_per_s) * NS_PER_S
        if now_ns >= end_ns:
            return
        yield round(now_ns), roots
