"""The simulator's host and the live one as benches for golden scripts, and what of a script all hosts share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from random import Random

from isthmus.core.layer import Kind, Stack
from isthmus.core.message import Message, SiteId
from isthmus.core.recording import send_line, trace_line
from isthmus.live import framing
from isthmus.live.site import LiveSite
from isthmus.sim.host import SimHost
from isthmus.sim.network import Network
from isthmus.sim.scheduler import Scheduler
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.log import SiteLog
from isthmus.trace.schema import DESTINATIONS, KIND, NUMBER, SENDER, VALUE, Row

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
        self.lines.append(trace_line(kind, row[SENDER], row[NUMBER], destinations, row[VALUE]))

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
    """The simulator's host on its own scheduler and network, whose other sites only listen."""

    def __init__(self, site: SiteId) -> None:
        self.sink = Lines()
        self.scheduler = Scheduler()
        network = Network(mesh(1, SITES, Channel(Constant(0.0)), Channel(Constant(0.0))), self.scheduler, Random(0))
        for other in range(SITES):
            network.receivers[other] = self.listener(SiteId(other))
        self.host = SimHost(site, 0, Random(0), self.scheduler, network, SiteLog(site, self.sink))

    def listener(self, site: SiteId) -> Callable[[SiteId, Message], None]:
        return lambda _source, message: self.note(send_line((site,), message))

    def attach(self, stack: Stack) -> None:
        self.host.attach(stack)

    def note(self, line: str) -> None:
        self.sink.lines.append(line)

    def drain(self) -> list[str]:
        return self.sink.drain()

    def run(self, event: Callable[[], None]) -> None:
        self.host.enter()
        try:
            event()
        finally:
            self.advance(0)

    def receive(self, source: SiteId, message: Message) -> None:
        self.host.receive(source, message)
        self.advance(0)

    def advance(self, delay_ns: int) -> None:
        assert self.scheduler.run(self.scheduler.now_ns + delay_ns, BUDGET)


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
