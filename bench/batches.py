"""Numbers in batches: how many control packets a sequencer saves, and what that costs in latency and in guesses.

The paper's network at sigma 3 % and 500 messages a second, the paper's delay rule. `batch_ms` is how long the sequencer
gathers numbers for one packet; the packet says how long each has waited, so that the delay rule still sees when a
number was given. Counts and virtual times only: the same on every machine.
"""

from __future__ import annotations

import msgspec
from rich.console import Console
from rich.table import Table
from tests.harness.optimism import optimism

from isthmus.core.message import ONLY_GROUP
from isthmus.protocols.total.optimistic.optimistic import Optimistic
from isthmus.sim.run import SimRun
from isthmus.studies.optimistic.setup import DISTANT, SEQUENCER, paper_scenario
from isthmus.trace.schema import Row

RATE_PER_S, DURATION_MS, WARM_UP_NS = 500.0, 8_000.0, 4_000_000_000
BATCHES_MS = (None, 2.0, 5.0, 20.0)
TARGET = 2.0  # times fewer packets of numbers at 5 ms


def measure(batch_ms: float | None) -> tuple[float, float, float, float, float]:
    """Packets of numbers a message; latency, window and hits of a distant site; control bytes a message."""
    scenario = paper_scenario(0.03, RATE_PER_S, "compensation", seed=1, duration_ms=DURATION_MS)
    stack = msgspec.structs.replace(scenario.stack, name="optimistic", batch_ms=batch_ms)
    rows: list[Row] = []
    run = SimRun(msgspec.structs.replace(scenario, stack=stack, wire="sized"), rows)
    summary = run.execute()
    copies = len(scenario.topology.sites)
    packets = run.network.packet_count / copies - summary.submitted_count  # all but the messages themselves
    assert (
        run.meter is not None
        and run.sites[SEQUENCER].ports[ONLY_GROUP].stack.find(Optimistic).issued == summary.submitted_count
    )
    figures = optimism(rows, WARM_UP_NS)[DISTANT]
    control = run.meter.control_bytes / summary.submitted_count
    return packets / summary.submitted_count, figures.latency_ms, figures.window_ms, figures.hit, control


def main() -> bool:
    table = Table(title=f"numbers in batches, {RATE_PER_S:g} messages a second, a distant site")
    for head in ("batch, ms", "packets a message", "latency, ms", "window, ms", "hits, %", "control bytes a message"):
        table.add_column(head, justify="right")
    found = {batch_ms: measure(batch_ms) for batch_ms in BATCHES_MS}
    for batch_ms, (packets, latency_ms, window_ms, hit, control) in found.items():
        name = "none" if batch_ms is None else f"{batch_ms:g}"
        figures = (f"{latency_ms:.1f}", f"{window_ms:.1f}", f"{100 * hit:.1f}", f"{control:.0f}")
        table.add_row(name, f"{packets:.3f}", *figures)
    Console(width=110).print(table)
    saved = found[None][0] / found[5.0][0]
    print(f"packets of numbers without batches, over those with 5 ms: {saved:.2f}; target: at least {TARGET:g}")
    return saved >= TARGET
