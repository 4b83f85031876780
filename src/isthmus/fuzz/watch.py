"""Monitored runs: whether a run comes to rest, and whether sites keep rules that are not visible in a trace.

Detected: timers that outlive a view; more credit than the window; packets rejected though every site follows the
protocol; repairs when nothing is missing. All checks observe between events, and change nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec

from isthmus.core.layer import Layer
from isthmus.core.message import GroupId, Message, SiteId, Targets
from isthmus.core.units import NS_PER_MS
from isthmus.fuzz.states import checks_of
from isthmus.protocols.application import Application
from isthmus.protocols.transport.base import Transport
from isthmus.protocols.transport.credit import Credit
from isthmus.scenario.model import GroupOfRun, Scenario
from isthmus.sim.base import SETTLE_NS, Progress
from isthmus.sim.membership.ideal import IdealMembership
from isthmus.sim.membership.service import MembershipService
from isthmus.sim.network.delays import Network, Receive, Stamp
from isthmus.sim.run import SimRun
from isthmus.sim.site import SimPort
from isthmus.stacks.registry import Build
from isthmus.trace.schema import Sink

LOOK_NS = 25 * NS_PER_MS  # period of the flow control checks while there is traffic
# Spans in which a run at rest must send nothing for its messages; retried, as roles may still change.
QUIET_NS = (1_000 * NS_PER_MS, 5_000 * NS_PER_MS, 5_000 * NS_PER_MS, 10_000 * NS_PER_MS)
FOUND_MAX = 5  # maximum sentences kept
USUAL_SITES = 9  # the largest run with the default limits


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a run until it is at rest; its virtual time is bounded by the scenario's drain time."""

    packets: int = 400_000
    events: int = 1_000_000


def limits_of(scenario: Scenario) -> Limits:
    """Return the limits of a run; they grow with the pairs of sites, which exchange heartbeats and probes."""
    sites, usual = len(scenario.topology.sites), Limits()
    share = max(1.0, sites * (sites - 1) / (USUAL_SITES * (USUAL_SITES - 1)))
    return Limits(packets=round(usual.packets * share), events=round(usual.events * share))


class WatchedRun(SimRun):
    """A run that collects the faults it finds, one sentence each."""

    def __init__(self, scenario: Scenario, sink: Sink | None = None, build: Build | None = None, run: int = 0) -> None:
        self.found: list[str] = []
        agreed = scenario.membership.kind == "agreed" and scenario.composition is None
        self.states = checks_of(scenario, self.note_fault) if agreed else None
        super().__init__(scenario, sink, build, run)

    def application_of(self, port: SimPort, group: GroupOfRun) -> Application:
        application = super().application_of(port, group)
        if self.states is not None:
            self.states.attach(application, port, group)
        return application

    def start_again(self, site_id: SiteId, above: int = -1) -> None:
        if self.states is not None:
            self.states.renewed = site_id
        super().start_again(site_id, above)
        if self.states is not None:
            self.states.renewed = None

    def watch(self, limits: Limits, progress: Progress | None = None) -> list[str]:
        """Run to the end or to a limit; return the faults found."""
        self.scheduler.at(LOOK_NS, self.look)
        for now_ns in self.steps():
            if progress is not None:
                progress(now_ns)
            if self.network.packet_count > limits.packets or self.scheduler.event_count > limits.events:
                sent = f"{self.network.packet_count:,} packets and {self.scheduler.event_count:,} events"
                self.note_fault(
                    f"did not come to rest: {sent} by {now_ns / 1e9:.1f} s of virtual time, "
                    f"more than {limits.packets:,} or {limits.events:,}; {self.why_unsettled()}"
                )
                return self.found
        self.wait_for_rest()
        if not self.at_rest():
            drain_s = self.scenario.drain_ms / 1000
            self.note_fault(f"did not come to rest within {drain_s:g} s after its end: {self.why_unsettled()}")
            return self.found
        self.stay_quiet()
        for port in self.ports_up():
            self.check_flags(port)
        if self.states is not None:
            self.states.finish()
        return self.found

    def note_fault(self, sentence: str) -> None:
        if len(self.found) < FOUND_MAX and sentence not in self.found:
            self.found.append(sentence)

    def ports_up(self) -> list[SimPort]:
        return [port for site in self.sites if site.alive for port in site.ports.values()]

    def why_unsettled(self) -> str:
        """Describe what is unfinished, and where."""
        reasons = [f"{self.summary.undelivered_count():,} deliveries are owed"]
        reasons += [
            f"view {service.view.view_id} of group {service.group} changes"
            for service in self.services
            if not service.at_rest()
        ]
        for port in self.ports_up():
            layers = list(port.stack.layers)
            while not isinstance(layers[-1], Transport):  # layers below the transport have no obligations
                layers.pop()
            unsettled = [type(layer).__name__ for layer in layers if not layer.settled()]
            if unsettled:
                reasons.append(f"site {port.site} is not settled from {unsettled[-1]} on")
        return ", ".join(reasons)

    def stay_quiet(self) -> None:
        """Continue for a while in which no transport may send anything."""
        tap = Tap(self.network)
        for port in self.ports_up():
            transports = [layer for layer in port.stack.layers if isinstance(layer, Transport)]
            tap.watched[port.group] = {kind for layer in transports for kind in layer.handlers()}
            port.network = tap
        for quiet_ns in QUIET_NS:
            tap.sent.clear()
            self.go_on(quiet_ns)
            self.wait_for_rest()
            if not tap.sent:
                return
        for (site, kind), count in tap.sent.items():
            self.note_fault(
                f"did not come to rest: site {site} sent {count} {kind} within {quiet_ns / 1e9:g} s after the end"
            )

    def wait_for_rest(self) -> None:
        """Continue while activity that began after the end lasts, such as a change of roles."""
        last_ns = self.end_ns + round(self.scenario.drain_ms * NS_PER_MS)
        while not self.at_rest() and self.scheduler.now_ns < last_ns:
            self.go_on(SETTLE_NS)

    def go_on(self, span_ns: int) -> None:
        for _ in self.advance(self.scheduler.now_ns + span_ns):
            pass

    # Invariants that hold between any two events

    def service_of(self, group: GroupOfRun) -> MembershipService:
        service = super().service_of(group)
        if isinstance(service, IdealMembership):
            service.before_resume = self.check_view
        return service

    def look(self, *_: object) -> None:
        """Check flow control periodically while there is traffic."""
        for port in self.ports_up():
            if any(isinstance(layer, Credit) for layer in port.stack.layers):
                self.check_credit(port)
            if isinstance(port.stack.layers[0], Application):  # not of a directory group
                self.check_large(port)
        if self.scheduler.now_ns < self.end_ns:
            self.scheduler.at(self.scheduler.now_ns + LOOK_NS, self.look)

    def check_credit(self, port: SimPort) -> None:
        credit = port.stack.find(Credit)
        window = credit.options.window
        for site in credit.view.members:
            left = window - credit.sent_to(site) + max(0, credit.granted_by.get(site, 0))
            if left < 0 or credit.room > left:
                count = max(credit.room, 0) - left
                self.note_fault(f"site {port.site} may send site {site} {count} messages beyond its window of {window}")

    def check_large(self, port: SimPort) -> None:
        """Check that the large messages held per sender and view are at most one, or fit into their window."""
        fragments = port.stack.find(Application).fragments
        held: dict[SiteId, list[int]] = {}
        for (sender, _), assembly in fragments.assemblies.items():
            held.setdefault(sender, []).append(assembly.size)
        for (sender, _), (size, view_id) in fragments.unread.items():
            if view_id == fragments.view.view_id:
                held.setdefault(sender, []).append(size)
        window = fragments.options.window_bytes
        for sender, sizes in held.items():
            if len(sizes) > 1 and sum(sizes) > window:
                self.note_fault(f"site {port.site} holds {sum(sizes)} bytes of site {sender}, beyond {window}")

    def check_view(self, port: SimPort) -> None:
        """Check that the transport of a port between install and resume has no timer."""
        for layer, key in port.owner.timers:
            if isinstance(layer, Transport) and layer.host is port:
                self.note_fault(
                    f"site {port.site}: the timer {layer.timer_name(key)} outlives the installation of a view"
                )
        self.check_flags(port)

    def check_flags(self, port: SimPort) -> None:
        """Check that the `armed` flags of layers match their timers."""
        for layer in port.stack.layers:
            for key, name in enumerate(layer.timer_names):
                armed = getattr(layer, f"{name}_armed", None)
                if armed is not None and armed != is_set(port, layer, key):
                    believed, true = ("set", "not") if armed else ("not set", "it is")
                    self.note_fault(f"site {port.site}: {layer.timer_name(key)} counts as {believed}, but is {true}")


def is_set(port: SimPort, layer: Layer, key: int) -> bool:
    return (layer, key) in port.owner.timers


class Tap:
    """A network that counts the messages sent by transports, per site and type."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.watched: dict[GroupId, set[type[Message]]] = {}
        self.sent: Counter[tuple[SiteId, str]] = Counter()
        self.packet_count = network.packet_count
        self.dropped_count = network.dropped_count

    def attach(self, site: SiteId, group: GroupId, receive: Receive) -> None:
        self.network.attach(site, group, receive)

    def after_arrivals(self, then: Callable[..., None]) -> None:
        self.network.after_arrivals(then)

    def send(self, stamp: Stamp, group: GroupId, targets: Targets, message: Message, size_bytes: int) -> None:
        if type(message) in self.watched.get(group, ()):
            self.sent[stamp[0], type(message).__name__] += 1
        self.network.send(stamp, group, targets, message, size_bytes)
