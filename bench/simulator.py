"""The simulator beside SimPy: the same ten sites, the same messages at the same times, the same order by a sequencer.

The unit of work is what both must do: take a submitted message, receive a message, receive a ticket. SimPy runs the
same protocol in the two ways its users write it: a process for each packet on its way, as its documentation does, and
a callback for each packet, which is faster. Ours runs whole stacks: flow control, measuring, and for the first row
numbering, acknowledging and collecting frames, none of which SimPy's have. Each is run several times in turn, in one
process; the ratio is the median over the rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median

import simpy
from rich.console import Console
from rich.table import Table

from isthmus.core.message import SiteId
from isthmus.scenario.model import Scenario, StackSpec
from isthmus.scenario.workload import Poisson
from isthmus.sim.run import SimRun
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh

SITES, DELAY_MS, RATE_PER_S, DURATION_MS = 10, 50.0, 100.0, 10_000.0
ROUNDS = 5
TARGET_DIRECT, TARGET_RELIABLE = 3.5, 2.3  # times SimPy with callbacks; 1.25 times and once what it was before batches
Arrivals = list[list[int]]  # times in ns, by site


def scenario(transport: str) -> Scenario:
    channel = Channel(Constant(DELAY_MS))
    return Scenario(
        topology=mesh(SITES, 1, channel, channel),
        stack=StackSpec(name="token-site", transport=transport),  # type: ignore[arg-type]
        workloads=(Poisson(rate_per_s=RATE_PER_S),),
        duration_ms=DURATION_MS,
        wire="reference",
        trace="none",
    )


def arrivals() -> Arrivals:
    """When each site sends, in our scenario and so in SimPy's."""
    given = scenario("direct")
    times: Arrivals = []
    for site in range(SITES):
        source = given.workloads[0].arrivals(given.random("workload", 0, SiteId(site)), site, SITES)
        times.append([])
        for when, _ in source:
            if when >= DURATION_MS * 1e6:
                break
            times[site].append(when)
    return times


def our_run(transport: str) -> tuple[float, int]:
    run = SimRun(scenario(transport))
    start = time.process_time()
    summary = run.execute()
    return time.process_time() - start, summary.delivered.count


def in_simpy(times: Arrivals, by_process: bool) -> tuple[float, int]:
    """CPU seconds and deliveries of the token-site protocol in SimPy."""
    env = simpy.Environment()
    inboxes = [simpy.Store(env) for _ in range(SITES)]
    delivered = 0

    def carry(target: int, packet: object, delay: int) -> Iterator[simpy.Event]:
        yield env.timeout(delay)
        inboxes[target].put(packet)

    def put_at(target: int, packet: object) -> Callable[[simpy.Event], None]:
        return lambda _event: inboxes[target].put(packet) and None

    def multicast(source: int, packet: object) -> None:
        for target in range(SITES):
            delay = 0 if target == source else int(DELAY_MS * 1e6)
            if by_process:
                env.process(carry(target, packet, delay))
            else:
                env.timeout(delay).callbacks.append(put_at(target, packet))

    def sender(site: int) -> Iterator[simpy.Event]:
        for number, when in enumerate(times[site], start=1):
            yield env.timeout(when - env.now)
            multicast(site, ("message", (site, number), when))

    def member(site: int) -> Iterator[simpy.Event]:
        nonlocal delivered
        waiting: dict[tuple[int, int], int] = {}
        order: dict[int, tuple[int, int]] = {}
        issued, following = 0, 1
        while True:
            kind, first, second = yield inboxes[site].get()
            if kind == "message":
                waiting[first] = second
                if site == 0:
                    issued += 1
                    multicast(0, ("ticket", issued, first))
            else:
                order[first] = second
            while following in order and order[following] in waiting:
                del waiting[order.pop(following)]
                following += 1
                delivered += 1

    for site in range(SITES):
        env.process(sender(site))
        env.process(member(site))
    start = time.process_time()
    env.run(until=int((DURATION_MS + 1_000) * 1e6))
    return time.process_time() - start, delivered


def main() -> bool:
    times = arrivals()
    messages = sum(map(len, times))
    work = messages * (1 + 2 * SITES)  # a submit, and the receptions of a message and of its ticket
    rows: dict[str, Callable[[], tuple[float, int]]] = {
        "Isthmus, reliable transport": lambda: our_run("reliable"),
        "Isthmus, direct transport": lambda: our_run("direct"),
        "SimPy, one process per packet": lambda: in_simpy(times, by_process=True),
        "SimPy, one callback per packet": lambda: in_simpy(times, by_process=False),
    }
    taken: dict[str, list[float]] = {name: [] for name in rows}
    for _ in range(ROUNDS):
        for name, run in rows.items():
            cpu_s, delivered = run()
            assert delivered == messages * SITES, f"{name} delivered {delivered} of {messages * SITES}"
            taken[name].append(cpu_s)
    table = Table(title=f"token-site, {SITES} sites, {messages:,} messages, {work:,} events of work")
    for column in ("", "events per CPU second", "times SimPy (process)", "times SimPy (callback)"):
        table.add_column(column, justify="left" if not column else "right")
    by_process, by_callback = taken["SimPy, one process per packet"], taken["SimPy, one callback per packet"]
    for name, times_s in taken.items():
        ratios = (f"{ratio(by_process, times_s):.2f}", f"{ratio(by_callback, times_s):.2f}")
        table.add_row(name, f"{work / min(times_s):,.0f}", *ratios)
    Console(width=110).print(table)
    alike = ratio(by_callback, taken["Isthmus, direct transport"])
    whole = ratio(by_callback, taken["Isthmus, reliable transport"])
    print(f"beside callbacks: direct {alike:.2f} (at least {TARGET_DIRECT}), reliable {whole:.2f} ({TARGET_RELIABLE})")
    return alike >= TARGET_DIRECT and whole >= TARGET_RELIABLE


def ratio(theirs: list[float], ours: list[float]) -> float:
    """How many times faster, as the median over rounds: the two of a round ran under the same load."""
    return median(one / other for one, other in zip(theirs, ours, strict=True))
