"""Live groups: what a delivery costs, three member processes on the loopback, one `await send` per message.

Every member sends as fast as it may, reads all, and checks by a digest that all delivered in one order. The figure is
the CPU seconds of all members, user and system, per million deliveries, over the steady part of a run: from a fifth of
a member's deliveries to nine tenths. Beside it runs the machine's own yardstick: as many datagrams of as many bytes as
the first row took, handed to and fro between plain asyncio UDP endpoints that do nothing else.

    python -m bench.live [ROUNDS] [NAME...]

Each row is run ROUNDS times, in turn with the others, and the median counts: machines are noisy.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from hashlib import blake2b
from statistics import median, quantiles
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from tests.harness.ports import free_ports

from isthmus import Group, SiteConfig, join
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh

NETWORK = mesh(3, 1, Channel(Constant(0.1)), Channel(Constant(0.1)))
NAMES = [site.name for site in NETWORK.sites]
PLACES = {name: place for place, name in enumerate(NAMES)}
ROUNDS = 3
BOUND_S = 120.0  # of one run
LEAD_S = 3.0  # from the start of the processes to the first message
WARM, COOL = 0.2, 0.9  # of a member's deliveries: the steady part
HEAD_BYTES = 12  # of a message within a frame, about
RATE_PER_S, PACED_S = 200, 5.0


class Case(NamedTuple):
    """One row of the table."""

    stack: str
    payload_bytes: int
    deliveries: int  # of each member
    lists: bool = False
    datagram_bytes: int | None = None
    paced: bool = False
    keys: str | None = None  # the key file of sealed members


CASES = {
    "token-site, 100 B": Case("token-site", 100, 300_000),
    "token-site, 1 KiB": Case("token-site", 1024, 150_000),
    "token-site, 100 B in lists": Case("token-site", 100, 300_000, lists=True),
    "hybrid, 100 B": Case("hybrid", 100, 200_000),
    "symmetric, 100 B": Case("symmetric", 100, 200_000),
    "optimistic, 100 B": Case("optimistic", 100, 200_000),
    "token-site, 100 B, 1,400-byte datagrams": Case("token-site", 100, 150_000, datagram_bytes=1400),
}
PACED = Case("token-site", 100, round(RATE_PER_S * PACED_S), paced=True)
TARGETS = {"token-site, 100 B": 3.0, "token-site, 1 KiB": 5.0, "token-site, 100 B in lists": 1.5}
TARGETS["token-site, 100 B, 1,400-byte datagrams"] = 5.0
AT_MOST_TWICE = ("hybrid, 100 B", "optimistic, 100 B")  # the first row


# A member


class Tally:
    """What one member has delivered, and the CPU time at the ends of the steady part."""

    def __init__(self, case: Case) -> None:
        self.total = case.deliveries
        self.order: list[int] = []
        self.marks = [round(WARM * self.total), round(COOL * self.total)]
        self.cpu_s: list[float] = []
        self.wall_s: list[float] = []
        self.latency_ns: list[int] = []

    def mark(self) -> None:
        self.marks.pop(0)
        self.cpu_s.append(time.process_time())
        self.wall_s.append(time.monotonic())

    async def read(self, group: Group) -> None:
        order, mark = self.order, self.marks[0]
        async for message in group:
            order.append(message.number << 2 | PLACES[message.sender])
            if len(order) == mark:
                self.mark()
                mark = self.marks[0] if self.marks else 0
            if len(order) == self.total:
                return

    async def read_lists(self, group: Group) -> None:
        order = self.order
        async for messages in group.batches():
            order += [message.number << 2 | PLACES[message.sender] for message in messages]
            while self.marks and len(order) >= self.marks[0]:
                self.mark()
            if len(order) >= self.total:
                return

    async def read_paced(self, group: Group) -> None:
        async for message in group:
            self.latency_ns.append(time.monotonic_ns() - int.from_bytes(message.payload[:8], "big"))
            self.order.append(message.number << 2 | PLACES[message.sender])
            if len(self.order) == self.total:
                return


async def take_part(name: str, ports: dict[str, int], case: Case, start_s: float) -> dict[str, Any]:
    count, tally = case.deliveries // len(NAMES), Tally(case)
    tally.total = count * len(NAMES)

    async def send_all() -> None:
        payload = bytes(case.payload_bytes)
        for _ in range(count):
            await group.send(payload)

    async def send_paced() -> None:
        period_s = len(NAMES) / RATE_PER_S
        due_s = time.monotonic() + period_s * NAMES.index(name) / len(NAMES)
        for number in range(count):
            await asyncio.sleep(due_s + number * period_s - time.monotonic())
            await group.send(time.monotonic_ns().to_bytes(8, "big") + bytes(case.payload_bytes - 8))

    config = SiteConfig(datagram_bytes=case.datagram_bytes, membership="static", keys=case.keys)
    async with join(NETWORK, name, addresses=ports, stack=case.stack, config=config) as group:
        peers = group.runtime.joined().site.peers
        while len(peers.heard) < len(NAMES) - 1 or time.monotonic() < start_s:
            await asyncio.sleep(0.01)
        sender = asyncio.create_task(send_paced() if case.paced else send_all())
        begin_s = time.process_time()
        await (tally.read_paced if case.paced else tally.read_lists if case.lists else tally.read)(group)
        all_s = time.process_time() - begin_s
        await sender
        await group.settle()
        await asyncio.sleep(0.3)  # the others may still need our acknowledgements
        counters = group.runtime.joined().site.counters
    steady = len(tally.cpu_s) == 2
    return {
        "cpu_s": tally.cpu_s[1] - tally.cpu_s[0] if steady else all_s,
        "wall_s": tally.wall_s[1] - tally.wall_s[0] if steady else 0.0,
        "delivered": (COOL - WARM) * tally.total if steady else tally.total,
        "digest": blake2b(repr(tally.order).encode(), digest_size=8).hexdigest(),
        "latency_ns": tally.latency_ns,
        "datagrams": counters.datagram_count,
    }


# The yardstick


class Bouncer(asyncio.DatagramProtocol):
    """Sends back what comes, as often as it says."""

    def __init__(self) -> None:
        self.last_s = time.monotonic()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.last_s = time.monotonic()
        left = int.from_bytes(data[:4], "big") - 1
        if left:
            self.transport.sendto(left.to_bytes(4, "big") + data[4:], addr)


async def bounce(name: str, ports: dict[str, int], count: int, size: int, start_s: float) -> dict[str, Any]:
    """Send so many datagrams of a size between the members, four at a time on each way; ends when nothing comes."""
    loop = asyncio.get_running_loop()
    _, bouncer = await loop.create_datagram_endpoint(Bouncer, local_addr=("127.0.0.1", ports[name]))
    await asyncio.sleep(start_s - time.monotonic())
    bouncer.last_s = time.monotonic()
    begin_s, balls = time.process_time(), 4
    hops = max(1, count // (balls * len(ports) * (len(ports) - 1)))
    for other, port in ports.items():
        for _ in range(balls if other != name else 0):
            bouncer.transport.sendto(hops.to_bytes(4, "big") + bytes(size - 4), ("127.0.0.1", port))
    while time.monotonic() < bouncer.last_s + 0.5:
        await asyncio.sleep(0.1)
    return {"cpu_s": time.process_time() - begin_s}


# The table


def run_members(how: str, arguments: list[Any]) -> list[dict[str, Any]]:
    """Run three member processes to their end."""
    ports = free_ports(NAMES)
    start_s = time.monotonic() + LEAD_S
    processes = []
    for name in NAMES:
        words = json.dumps([name, ports, *arguments, start_s])
        command = [sys.executable, "-m", "bench.live", how, words]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    try:
        told = [process.communicate(timeout=BOUND_S)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [json.loads(text) for text in told]


def cpu_per_million(results: list[dict[str, Any]]) -> float:
    cpu_s, delivered = (sum(result[key] for result in results) for key in ("cpu_s", "delivered"))
    return float(cpu_s / delivered * 1e6)


def measure(rounds: int, names: list[str]) -> tuple[dict[str, list[float]], dict[str, list[float]], list[float]]:
    """CPU seconds and messages a second of each row, and of the yardstick, one figure per round."""
    costs: dict[str, list[float]] = {name: [] for name in names}
    rates: dict[str, list[float]] = {name: [] for name in names}
    bare: list[float] = []
    for _ in range(rounds):
        for name in names:
            case = CASES[name]
            results = run_members("member", [case])
            assert len({result["digest"] for result in results}) == 1, f"{name}: members delivered in different orders"
            costs[name].append(cpu_per_million(results))
            rates[name].append(results[0]["delivered"] / max(result["wall_s"] for result in results))
            if name == names[0]:
                datagrams = sum(result["datagrams"] for result in results)
                copies = (len(NAMES) - 1) * case.deliveries // len(NAMES) * len(NAMES)
                size = min(60_000, copies * (case.payload_bytes + HEAD_BYTES) // datagrams)
                echoes = run_members("bounce", [datagrams, size])
                bare.append(sum(echo["cpu_s"] for echo in echoes) / (len(NAMES) * case.deliveries) * 1e6)
    return costs, rates, bare


def main(rounds: int = ROUNDS, names: list[str] | None = None) -> bool:
    chosen = names or list(CASES)
    costs, rates, bare = measure(rounds, chosen)
    table = Table(title=f"three members on the loopback, CPU s per million deliveries, median of {rounds}")
    for column in ("", "CPU s/M", "least", "target", "messages/s"):
        table.add_column(column, justify="left" if not column else "right")
    good, first = True, median(costs[chosen[0]])
    for name in chosen:
        cost = median(costs[name])
        target = TARGETS.get(name, 2 * first if name in AT_MOST_TWICE else None)
        good &= target is None or cost <= target
        shown = "" if target is None else f"{target:.1f}"
        table.add_row(name, f"{cost:.2f}", f"{min(costs[name]):.2f}", shown, f"{median(rates[name]):,.0f}")
    table.add_row(f"bare asyncio UDP, the datagrams of {chosen[0]}", f"{median(bare):.2f}", f"{min(bare):.2f}", "", "")
    console = Console(width=120)
    console.print(table)
    if names is None:
        results = run_members("member", [PACED])
        cuts = quantiles([ns / 1e6 for result in results for ns in result["latency_ns"]], n=100)
        paced = f"p50 {cuts[49]:.2f} ms, p99 {cuts[98]:.2f} ms, {cpu_per_million(results):.0f} CPU s/M"
        console.print(f"at {RATE_PER_S} messages a second: latency of a delivery {paced}")
    return good


def run_child(how: str, words: str) -> None:
    name, ports, *rest, start_s = json.loads(words)
    bare = how == "bounce"
    program = bounce(name, ports, *rest, start_s) if bare else take_part(name, ports, Case(*rest[0]), start_s)
    print(json.dumps(asyncio.run(asyncio.wait_for(program, BOUND_S))))


if __name__ == "__main__":
    if sys.argv[1:2] in (["member"], ["bounce"]):
        run_child(sys.argv[1], sys.argv[2])
    else:
        given = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
        sys.exit(0 if main(given, sys.argv[2:] or None) else 1)
