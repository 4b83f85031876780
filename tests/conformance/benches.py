"""The simulator's host and the live one as benches for golden scripts, and what of a script all hosts share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from random import Random

from tests.harness.recording import send_line, trace_line

from isthmus.core.layer import Kind, Reading, Stack
from isthmus.core.message import ONLY_GROUP, Message, SiteId
from isthmus.live.net import framing
from isthmus.live.node.site import LiveSite
from isthmus.sim.clocks.clock import SiteClock
from isthmus.sim.network.delays import DelayNetwork, Stamp
from isthmus.sim.scheduler import Scheduler
from isthmus.sim.site import SimSite
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.log import SiteLog
from isthmus.trace.schema import DESTINATIONS, GAUGE, GROUP, KIND, NUMBER, ORIGIN, SENDER, VALUE, Row

SITES = 10  # more than any script has
BUDGET = 10_000  # events of one command
HOST_ONLY = ("timer ", "cancel ")  # effects that a host keeps to itself
Shared = tuple[list[str], dict[str, list[str]]]


class Lines:
    """A sink that keeps rows as lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def append(self, row: Row) -> None:
        kind = Kind(row[KIND])
        destinations = (row[DESTINATIONS] or ()) if kind == Kind.SUBMIT else ()
        message = (row[ORIGIN], row[SENDER], row[NUMBER])
        self.lines.append(trace_line(kind, message, row[GROUP], destinations, row[VALUE], row[GAUGE]))

    def drain(self) -> list[str]:
        lines, self.lines = self.lines, []
        return lines


class LiveBench:
    """The live site with its clocks in our hands; what comes and goes does so as datagrams."""

    def __init__(self, site: SiteId) -> None:
        self.now_ns = self.ahead_ns = 0
        self.sink = Lines()
        log = SiteLog(site, self.sink)
        self.site = LiveSite(site, Random(0), self.capture, lambda: self.now_ns, self.calendar, log, life=1, token=9)
        self.host = self.site.port()

    def calendar(self) -> int:
        return self.now_ns + self.ahead_ns

    def set_calendar(self, ahead_ns: int, error_ns: int | None) -> None:
        self.ahead_ns = ahead_ns  # live, no bound of its error is known

    def attach(self, stack: Stack) -> None:
        self.host.attach(stack)

    def run(self, event: Callable[[], None]) -> None:
        self.site.run(self.host, event)

    def drain(self) -> list[str]:
        return self.sink.drain()

    def note(self, line: str) -> None:
        self.sink.lines.append(line)

    def capture(self, target: SiteId, datagram: bytes) -> None:
        for _, _, packet in framing.split(datagram):
            self.sink.lines.append(send_line((target,), self.host.decode(packet)))

    def receive(self, source: SiteId, view_id: int, message: Message) -> None:
        entry = framing.entry(self.host.group, view_id, self.host.encode(message))
        for datagram in framing.join(framing.head(source, 1, 9), [entry], framing.DATAGRAM_MAX):
            self.site.receive(source, datagram)
        self.site.finish()

    def advance(self, delay_ns: int) -> None:
        end_ns = self.now_ns + delay_ns
        while (due_ns := self.site.next_deadline_ns()) is not None and due_ns <= end_ns:
            self.now_ns = due_ns
            self.site.fire_due()
            self.site.finish()
        self.now_ns = end_ns


class SimBench:
    """The simulator's port on its own scheduler and network, whose other sites only listen."""

    def __init__(self, site: SiteId) -> None:
        self.sink = Lines()
        self.scheduler = Scheduler()
        channel = Channel(Constant(0.0))
        network = DelayNetwork(mesh(1, SITES, channel, channel), self.scheduler, Random(0))
        for other in range(SITES):
            network.attach(SiteId(other), ONLY_GROUP, self.listener(SiteId(other)))
        self.clock = CalendarClock(0, 0.0)
        self.site = SimSite(site, 0, Random(0), self.scheduler, network, SiteLog(site, self.sink), self.clock)
        self.host = self.site.port()

    def listener(self, site: SiteId) -> Callable[[Stamp, Message], None]:
        return lambda _stamp, message: self.note(send_line((site,), message))

    def attach(self, stack: Stack) -> None:
        self.host.attach(stack)

    def note(self, line: str) -> None:
        self.sink.lines.append(line)

    def drain(self) -> list[str]:
        return self.sink.drain()

    def set_calendar(self, ahead_ns: int, error_ns: int | None) -> None:
        self.clock.jump_ns, self.clock.error_ns = ahead_ns, error_ns

    def run(self, event: Callable[[], None]) -> None:
        try:
            self.host.run(event)
        finally:
            if self.host.turn_due:
                self.host.finish()
            self.advance(0)

    def receive(self, source: SiteId, view_id: int, message: Message) -> None:
        self.host.receive((source, view_id), message)
        self.advance(0)

    def advance(self, delay_ns: int) -> None:
        assert self.scheduler.run(self.scheduler.now_ns + delay_ns, BUDGET)


class CalendarClock(SiteClock):
    """A clock whose calendar publishes the bound it is told."""

    __slots__ = ("error_ns",)

    def __init__(self, offset_ns: int, drift: float) -> None:
        super().__init__(offset_ns, drift)
        self.error_ns: int | None = 0

    def calendar(self, true_ns: int) -> Reading:
        return Reading(super().calendar(true_ns).time_ns, self.error_ns)


def shared(lines: Iterable[str], site: SiteId) -> Shared:
    """What all hosts have in common: trace and application in order, and what is sent to each other site."""
    told: list[str] = []
    sent: dict[str, list[str]] = {}
    for line in lines:
        if match := re.fullmatch(r"send \[(.*?)\] (.*)", line):
            for target in match[1].split():
                if int(target) != site:
                    sent.setdefault(target, []).append(match[2])
        elif not line.startswith(HOST_ONLY):
            told.append(line)
    return told, sent
