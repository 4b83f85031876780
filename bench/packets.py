"""The packet network beside SimPy: flooding a hypercube of 256 nodes, 500 messages of 100 bytes, to the microsecond.

One topology; ten senders submit bursts of ten messages at each of the first five milliseconds. The unit of work is one
packet over one link, of which there are some 3.4 million; about 900,000 of them reach an end point. The same work is
done four ways, in one process:
- ours, compiled: network and end points in one call;
- ours, compiled network with the layers of the stack;
- ours, plain Python with the layers of the stack;
- SimPy: an event per hop, with a callback, and the flooding protocol written out by hand. It computes when a packet
  leaves its link in the same way; the arithmetic is not what is compared.

All four run without Python's collector of cycles: SimPy keeps hundreds of thousands of events, and with it spends four
fifths of its time there. All four must give the same time of every delivery. Compiled end points are run several times
without rows, and the fastest counts; the others once, with a row or an entry of a list for each delivery.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import simpy
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from isthmus.core.layer import Kind
from isthmus.core.message import HEAD_BYTES
from isthmus.scenario.model import Scenario
from isthmus.sim.base import Simulation
from isthmus.sim.packets.network import wiring_of
from isthmus.sim.packets.schedule import schedule_of
from isthmus.sim.packets.ways import Ways
from isthmus.sim.simulate import make_run
from isthmus.studies.overlay.setup import NUMBER_BYTES, connected_degree, overlay_scenario
from isthmus.topology.overlay.links import neighbours_in
from isthmus.trace.schema import KIND, NUMBER, PROCESS, SENDER, TIME_NS, Row

NODES, DATA_BYTES, SEED = 256, 100, 1
LARGE_NODES, LARGE_GIB = 50_000, 8.0
CPU_MOST_S, RATIO_LEAST = 1.0, 10.0
ROUNDS = 5
Deliveries = list[tuple[int, int, int, int]]  # node, sender, number, time in ns


class Result(NamedTuple):
    """One way to do the work."""

    cpu_s: float
    hops: int
    deliveries: Deliveries  # sorted


def scenario(endpoints: str, engine: str) -> Scenario:
    given = overlay_scenario("flooding", NODES, DATA_BYTES, SEED)
    network = replace(given.network, endpoints=endpoints, engine=engine)
    return replace(given, network=network)


def timed(run: Simulation) -> float:
    """CPU seconds of a run."""
    start = time.process_time()
    run.execute()
    return time.process_time() - start


def ours(endpoints: str, engine: str) -> Result:
    """CPU seconds and deliveries of one of our runs."""
    given = scenario(endpoints, engine)
    rows: list[Row] = []
    run = make_run(replace(given, trace="events"), rows)
    cpu_s = timed(run)
    if endpoints == "compiled":
        cpu_s = min(timed(make_run(given)) for _ in range(ROUNDS))
    deliveries = [(row[PROCESS], row[SENDER], row[NUMBER], row[TIME_NS]) for row in rows if row[KIND] == Kind.DELIVER]
    return Result(cpu_s, round(run.figures()["hops"]), sorted(deliveries))


class InSimPy:
    """Links and flooding nodes by SimPy's events."""

    def __init__(self, given: Scenario) -> None:
        self.env = simpy.Environment()
        self.wiring = wiring_of(given)
        group = given.groups_of_run()[0]
        self.near = neighbours_in(group.options.overlay, group.members)
        self.size = HEAD_BYTES + NUMBER_BYTES + DATA_BYTES
        self.free = [0] * self.wiring.links
        self.paths = {(a, b): self.wiring.path(a, b) for a in self.near for b in self.near[a]}
        self.highest: list[dict[int, int]] = [{} for _ in range(NODES)]
        self.hops = 0
        self.deliveries: Deliveries = []
        self.messages = schedule_of(given, group, Ways(self.wiring), copies=False).messages

    def send(self, path: list[int], place: int, source: int, sender: int, number: int) -> None:
        """Put a packet on a link of its way."""
        link, now, wiring = path[place], self.env.now, self.wiring
        gone = max(now, self.free[link]) + (self.size * wiring.ps_per_byte[link] + 500) // 1000
        self.free[link] = gone

        def arrive(_event: simpy.Event) -> None:
            self.hops += 1
            if place + 1 < len(path):
                self.send(path, place + 1, source, sender, number)
            else:
                self.receive(wiring.heads[link], source, sender, number)

        self.env.timeout(gone + wiring.propagation_ns[link] - now).callbacks.append(arrive)

    def receive(self, node: int, source: int, sender: int, number: int) -> None:
        if number <= self.highest[node].get(sender, 0):
            return
        for other in self.near[node]:  # type: ignore[index]
            if other != source:
                self.send(self.paths[node, other], 0, node, sender, number)  # type: ignore[index]
        self.highest[node][sender] = number
        self.deliveries.append((node, sender, number, self.env.now))

    def submit(self) -> None:
        for due_ns, node, number, _ in self.messages:

            def begin(_event: simpy.Event, node: int = node, number: int = number) -> None:
                self.receive(node, -1, node, number)

            self.env.timeout(due_ns).callbacks.append(begin)

    def run(self) -> Result:
        start = time.process_time()
        self.submit()
        self.env.run()
        return Result(time.process_time() - start, self.hops, sorted(self.deliveries))


def large() -> tuple[float, float]:
    """GiB and CPU seconds of ten messages over the large network."""
    degree = connected_degree(LARGE_NODES)
    given = overlay_scenario("flooding", LARGE_NODES, DATA_BYTES, SEED, bursts=1, burst=1, degree=degree)
    start = time.process_time()
    make_run(given).execute()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2, time.process_time() - start


def main(with_large: bool = False) -> bool:
    ways: dict[str, Callable[[], Result]] = {
        "Isthmus, compiled end points": lambda: ours("compiled", "auto"),
        "Isthmus, compiled network, layers": lambda: ours("layers", "compiled"),
        "Isthmus, plain Python, layers": lambda: ours("layers", "python"),
        "SimPy, one callback per hop": lambda: InSimPy(scenario("layers", "python")).run(),
    }
    found = {}
    gc.disable()
    for name, run in ways.items():
        print(f"{name} ...", file=sys.stderr, flush=True)
        found[name] = run()
    gc.enable()
    best, *others = found.values()
    simpy_s = found["SimPy, one callback per hop"].cpu_s
    title = f"flooding, {NODES} nodes, {DATA_BYTES} bytes, 500 messages: {best.hops:,} packets over links"
    table = Table(title=title)
    for column in ("", "CPU seconds", "hops per CPU second", "times SimPy"):
        table.add_column(column, justify="left" if not column else "right")
    for name, (cpu_s, hops, _) in found.items():
        table.add_row(name, f"{cpu_s:.2f}", f"{hops / cpu_s:,.0f}", f"{simpy_s / cpu_s:.1f}")
    Console(width=110).print(table)
    same = all(other.hops == best.hops and other.deliveries == best.deliveries for other in others)
    print(
        f"{len(best.deliveries):,} deliveries, {'the same to the nanosecond' if same else 'NOT THE SAME'} in all four"
    )
    ratio = simpy_s / best.cpu_s
    print(
        f"compiled: {best.cpu_s:.2f} CPU s (at most {CPU_MOST_S}), {ratio:.0f} times SimPy (at least {RATIO_LEAST:g})"
    )
    good = same and best.cpu_s <= CPU_MOST_S and ratio >= RATIO_LEAST
    if with_large:
        gib, cpu_s = large()
        print(f"{LARGE_NODES:,} nodes: {gib:.2f} GiB in this process (at most {LARGE_GIB:g}), {cpu_s:.0f} CPU s")
        good &= gib <= LARGE_GIB
    return good


if __name__ == "__main__":
    sys.exit(0 if main(with_large="--large" in sys.argv) else 1)
