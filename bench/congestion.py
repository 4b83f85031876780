"""One slow link in an otherwise fast group, and three times as much offered to it as it carries.

Four sites on a fast LAN, a fifth behind a link of 1 Mbit/s. One or all of the four send to everybody for 30 s, together
at three times the rate of the link; the first also sends to the other three alone. Flow control is set aside (its
window is larger than the run), so that what is seen is the transport's own doing.

What counts: how much of the slow link carries payload that is delivered behind it; how many packets it takes to bring
a frame there; how long the queue before the link is once windows have found their size; and what the slow site costs
the traffic that is not for it. Below each row stand the figures of the transport as it was without windows, whose queue
grows as long as the load lasts.
"""

from __future__ import annotations

import sys
from statistics import median

import msgspec
from rich.console import Console
from rich.table import Table

from isthmus.core.layer import Kind
from isthmus.core.message import SiteId
from isthmus.protocols.transport.credit import CreditOptions
from isthmus.scenario.model import Scenario, StackSpec
from isthmus.scenario.workload import Periodic, Poisson
from isthmus.sim.run import SimRun
from isthmus.topology.delay import Constant, Uniform
from isthmus.topology.model import Channel, Cluster, Pipe, Topology, TopologySite, WanLink
from isthmus.trace.schema import Row

RATE_MBPS, DURATION_MS, OVERLOAD = 1.0, 30_000.0, 3.0
PAYLOAD_BYTES, SIDE_BYTES, SIDE_PER_S = 1_400, 200, 80.0
FAST, SLOW = 4, SiteId(4)
WARM_UP_NS = 5_000_000_000  # windows find their size
GOODPUT_LEAST, SIDE_LEAST, BACKLOG_MOST_MS, PACKETS_MOST = 0.70, 0.90, 1_000.0, 1.6
CASES = {
    "plain": Channel(Constant(20), bandwidth_mbps=RATE_MBPS),
    "5 % loss": Channel(Constant(20), loss=0.05, bandwidth_mbps=RATE_MBPS),
    "reordering": Channel(Uniform(10, 30), fifo=False, bandwidth_mbps=RATE_MBPS),
    "both": Channel(Uniform(10, 30), loss=0.05, fifo=False, bandwidth_mbps=RATE_MBPS),
}
BEFORE = {  # the same without windows, as measured once: goodput, packets, longest queue, its median, the others' share
    ("plain", 1): ("0.96", "3.13", "63916", "37481", "1.00"),
    ("plain", 4): ("0.96", "3.10", "62928", "36840", "1.00"),
    ("5 % loss", 1): ("0.17", "62.04", "298692", "154922", "0.84"),
    ("5 % loss", 4): ("0.30", "21.43", "172755", "85657", "1.00"),
    ("reordering", 1): ("0.96", "3.15", "64172", "37605", "1.00"),
    ("reordering", 4): ("0.96", "3.11", "63044", "36887", "1.00"),
    ("both", 1): ("0.15", "68.56", "289210", "153177", "0.84"),
    ("both", 4): ("0.29", "28.87", "231251", "116282", "1.00"),
}


class Figures(msgspec.Struct, frozen=True):
    """What one run shows."""

    goodput: float  # of the slow link's rate
    packets: float  # over the slow link, for each frame that is delivered behind it
    backlog_ms: float  # the longest queue before the link after the windows have found their size
    typical_ms: float  # its median
    side: int  # messages delivered at the fast sites that are not for the slow one
    side_ms: float  # the latency of those, in the median


class Sink:
    """Counts deliveries as they come."""

    def __init__(self, duration_ms: float) -> None:
        self.end_ns = duration_ms * 1e6
        self.slow = 0  # messages delivered at the slow site
        self.side_at: dict[tuple[int, int], int] = {}  # messages to some: when they were submitted
        self.side_ns: list[int] = []  # the latencies of those delivered

    def append(self, row: Row) -> None:
        _, process, _, time_ns, kind, _, sender, number, _, _, destinations, _, _, _, _ = row
        if kind == Kind.SUBMIT and destinations:
            self.side_at[sender, number] = time_ns
        elif kind == Kind.DELIVER and time_ns <= self.end_ns:
            if (sender, number) in self.side_at:
                if process != sender:
                    self.side_ns.append(time_ns - self.side_at[sender, number])
            elif process == SLOW:
                self.slow += 1


def scenario(wan: Channel, senders: int = 1, overload: float = OVERLOAD, duration_ms: float = DURATION_MS) -> Scenario:
    """The fast sites, the slow one, and the load; without an overload only what is not for the slow one is sent."""
    sites = (*(TopologySite(f"fast-{number}", 0) for number in range(FAST)), TopologySite("slow", 1))
    fast = tuple(SiteId(number) for number in range(FAST))
    lan = Channel(Constant(1))
    clusters = (Cluster("fast", fast, fast[0], lan), Cluster("far", (SLOW,), SLOW, lan))
    names = tuple(site.name for site in sites)
    rate = overload * RATE_MBPS * 1e6 / 8 / PAYLOAD_BYTES / senders
    side = Periodic(sites=names[:1], to=names[1:FAST], rate_per_s=SIDE_PER_S, payload_bytes=SIDE_BYTES)
    bulk = Poisson(sites=names[:senders], rate_per_s=rate or 1, payload_bytes=PAYLOAD_BYTES)
    return Scenario(
        topology=Topology("slow-link", sites, clusters, (WanLink(0, 1, wan, wan),)),
        stack=StackSpec(name="fifo", credit=CreditOptions(window=1 << 20)),
        workloads=(side, bulk) if overload else (side,),
        duration_ms=duration_ms,
        drain_ms=0,
    )


class Counted(Pipe):
    """The slow link, which counts what passes and how long the queue before it is."""

    __slots__ = ("frames", "queues_ns")

    def __init__(self) -> None:
        super().__init__(RATE_MBPS)
        self.frames = 0  # packets with a message to all
        self.queues_ns: list[int] = []

    def pass_through(self, now_ns: int, size_bytes: int) -> int:
        self.frames += size_bytes > PAYLOAD_BYTES
        if now_ns > WARM_UP_NS:
            self.queues_ns.append(max(0, self.free_ns - now_ns))
        return super().pass_through(now_ns, size_bytes)


def measure(given: Scenario) -> Figures:
    sink, pipe = Sink(given.duration_ms), Counted()
    run = SimRun(given, sink)  # type: ignore[arg-type]
    run.network.pipes["wan", 0, 1] = pipe
    run.start()
    for _ in run.advance(run.end_ns):
        pass
    return Figures(
        goodput=sink.slow * PAYLOAD_BYTES * 8 / (RATE_MBPS * 1e3 * given.duration_ms),
        packets=pipe.frames / max(1, sink.slow),
        backlog_ms=max(pipe.queues_ns, default=0) / 1e6,
        typical_ms=median(pipe.queues_ns or [0]) / 1e6,
        side=len(sink.side_ns),
        side_ms=median(sink.side_ns or [0]) / 1e6,
    )


def main() -> bool:
    alone = measure(scenario(CASES["plain"], overload=0))
    table = Table(title=f"{OVERLOAD:g} times the rate of a {RATE_MBPS:g} Mbit/s link for {DURATION_MS / 1e3:g} s")
    for column in ("", "goodput", "packets", "queue ms", "median ms", "others", "their ms"):
        table.add_column(column, justify="right" if column else "left")
    targets = (f">= {GOODPUT_LEAST}", f"<= {PACKETS_MOST}", f"<= {BACKLOG_MOST_MS:g}", "", f">= {SIDE_LEAST}", "")
    table.add_row("target", *targets)
    good = True
    for name, wan in CASES.items():
        for senders in (1, FAST):
            found = measure(scenario(wan, senders))
            share = found.side / alone.side
            table.add_row(f"{name}, {senders} sending", *shown(found, share))
            if (name, senders) in BEFORE:
                table.add_row("  without windows", *BEFORE[name, senders], "")
            good &= found.goodput >= GOODPUT_LEAST and share >= SIDE_LEAST
            good &= found.backlog_ms <= BACKLOG_MOST_MS and found.packets <= PACKETS_MOST
    Console(width=110).print(table)
    return good


def shown(found: Figures, share: float) -> tuple[str, ...]:
    times = f"{found.backlog_ms:.0f}", f"{found.typical_ms:.0f}"
    return f"{found.goodput:.2f}", f"{found.packets:.2f}", *times, f"{share:.2f}", f"{found.side_ms:.1f}"


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
