"""The ring live, on the loopback, beside the simulated one: throughput and latency of 1-byte messages.

Every member submits a batch, and the next when its last one has come back: right after the token has left. A rotation
of n members with batches of b takes n (h + b m): a hop, and so much for each message. Both are taken from the live ring
of the fewest members, with the smallest and the largest batch; all other rows of the simulator are predictions. All
members share the cores of one machine, which the simulator's hosts do not: where they outnumber the cores, live falls
behind.

    python -m bench.ring [SECONDS]

Nothing here is judged: a busy machine changes every live figure.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from isthmus.core.layer import Kind
from isthmus.live.run.harness import run_live
from isthmus.protocols.total.ring.ring import RingOptions
from isthmus.scenario.costs import CostSpec
from isthmus.scenario.load import load_scenario
from isthmus.scenario.model import Scenario, StackSpec
from isthmus.scenario.packets import NetworkSpec
from isthmus.scenario.workload import Closed
from isthmus.sim.run import SimRun
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.reader import read_rows
from isthmus.trace.schema import KIND, NUMBER, SENDER, TIME_NS, Row

MEMBERS, BATCHES = (2, 3, 5), (1, 10, 30)
SECONDS = 10.0
WARM = 0.3  # of the time, not counted
SCENARIO = """
name = "ring"
duration_ms = {duration_ms}
membership = "ideal"
[topology]
[topology.defaults]
lan = {{ delay = 0.0 }}
[[topology.clusters]]
name = "c0"
sites = {members}
[stack]
name = "ring"
ring = {{ batch = {batch} }}
[[workloads]]
kind = "closed"
burst_count = {batch}
rounds = 1000000
payload_bytes = 1
"""


class RingFigures(NamedTuple):
    """What one run gave."""

    messages_per_s: float
    latency_ms: float  # mean over messages of the last delivery


class RingTimes(NamedTuple):
    """What a rotation is made of."""

    hop_ms: float
    message_ms: float


def figures_of(rows: list[Row]) -> RingFigures:
    """Over the time in which messages were submitted; a live run may begin late."""
    submitted = {(row[SENDER], row[NUMBER]): row[TIME_NS] for row in rows if row[KIND] == Kind.SUBMIT}
    last: dict[tuple[int, int], int] = {}
    for row in rows:
        if row[KIND] == Kind.DELIVER:
            message = (row[SENDER], row[NUMBER])
            last[message] = max(row[TIME_NS], last.get(message, 0))
    first_ns, end_ns = min(submitted.values()), max(submitted.values())
    begin_ns = first_ns + WARM * (end_ns - first_ns)
    counted = [message for message, at_ns in submitted.items() if begin_ns <= at_ns < end_ns and message in last]
    if not counted:
        raise SystemExit("the run was over before it had begun: the machine is too busy; try more SECONDS")
    took = [(last[message] - submitted[message]) / 1e6 for message in counted]
    return RingFigures(len(counted) * 1e9 / (end_ns - begin_ns), fmean(took))


def live_ring(members: int, batch: int, seconds: float) -> RingFigures:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ring.toml"
        path.write_text(SCENARIO.format(members=members, batch=batch, duration_ms=1000 * seconds))
        out = Path(folder) / "out"
        asyncio.run(run_live(load_scenario(path), path, out, emulate=False))
        return figures_of(list(read_rows(out)))


def simulated_ring(members: int, batch: int, times: RingTimes, seconds: float) -> RingFigures:
    channel = Channel(Constant(0.0))
    costs = CostSpec(
        send_us=0.0,
        wire_us=0.0,
        receive_us=1000 * times.message_ms,
        token_us=1000 * times.hop_ms,
        control_free=True,
    )
    rows: list[Row] = []
    made = Scenario(
        topology=mesh(1, members, channel, channel),
        stack=StackSpec(name="ring", transport="direct", ring=RingOptions(batch=batch)),
        workloads=(Closed(burst_count=batch, rounds=1_000_000, payload_bytes=1),),
        network=NetworkSpec(costs=costs),
        duration_ms=1000 * seconds,
        wire="reference",
    )
    SimRun(made, rows).execute()
    return figures_of(rows)


def times_of(members: int, least: tuple[int, RingFigures], most: tuple[int, RingFigures]) -> RingTimes:
    """A hop and a message, from the rotations of two batches."""
    (few, slow), (many, fast) = least, most
    rotations = [members * batch * 1000 / found.messages_per_s for batch, found in ((few, slow), (many, fast))]
    message_ms = max(1e-4, (rotations[1] - rotations[0]) / members / (many - few))
    return RingTimes(max(1e-3, rotations[0] / members - few * message_ms), message_ms)


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    console = Console()
    live: dict[tuple[int, int], RingFigures] = {}
    for members in MEMBERS:
        for batch in BATCHES:
            console.print(f"live: {members} members, batches of {batch}", style="dim")
            live[members, batch] = live_ring(members, batch, seconds)
    fewest, least, most = MEMBERS[0], BATCHES[0], BATCHES[-1]
    times = times_of(fewest, (least, live[fewest, least]), (most, live[fewest, most]))
    table = Table(title=f"1-byte messages; a hop {times.hop_ms:.2f} ms, a message {times.message_ms:.3f} ms, as fitted")
    for name in ("members", "batch", "live msg/s", "simulated", "live latency ms", "simulated"):
        table.add_column(name, justify="right")
    for (members, batch), found in live.items():
        beside = simulated_ring(members, batch, times, 1.0)
        fitted = " (fitted)" if members == fewest and batch in (least, most) else ""
        rates = (f"{found.messages_per_s:,.0f}", f"{beside.messages_per_s:,.0f}{fitted}")
        table.add_row(str(members), str(batch), *rates, f"{found.latency_ms:.2f}", f"{beside.latency_ms:.2f}")
    console.print(table)


if __name__ == "__main__":
    main()
