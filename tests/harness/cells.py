"""One run of a study's grid by plain simulation: what its tables say of it, without Spark."""

from __future__ import annotations

from typing import NamedTuple

from isthmus.core.layer import Kind
from isthmus.core.units import NS_PER_MS
from isthmus.sim.run import SimRun
from isthmus.studies.model import Cell
from isthmus.trace.schema import KIND, NUMBER, SENDER, TIME_NS, Row


class Measured(NamedTuple):
    """Of one run."""

    latencies: list[tuple[float, float]]  # ms: when submitted, submit to last delivery; of messages that count
    undelivered: int  # messages that somebody lacks at the end
    multicasts: float
    role_changes: int

    def mean_ms(self, start_ms: float = 0.0, stop_ms: float = float("inf")) -> float:
        """The mean latency of the messages submitted in a span of time."""
        found = [latency for at, latency in self.latencies if start_ms <= at < stop_ms]
        return sum(found) / len(found)


def measure(cell: Cell) -> Measured:
    """Simulate a cell; messages count as its study counts them."""
    rows: list[Row] = []
    run = SimRun(cell.scenario, rows)
    run.execute()
    sites = len(cell.scenario.topology.sites)
    submitted: dict[tuple[int, int], int] = {}
    delivered: dict[tuple[int, int], list[int]] = {}
    roles = 0
    for row in rows:
        key = (row[SENDER], row[NUMBER])
        if row[KIND] == Kind.SUBMIT:
            submitted[key] = row[TIME_NS]
        elif row[KIND] == Kind.DELIVER:
            delivered.setdefault(key, []).append(row[TIME_NS])
        roles += row[KIND] == Kind.ROLE
    done = {key for key, times in delivered.items() if len(times) == sites}
    first, last = (float(cell.parameters[name]) * NS_PER_MS for name in ("from_ms", "until_ms"))
    latencies = [
        (at / NS_PER_MS, (max(delivered[key]) - at) / NS_PER_MS)
        for key, at in submitted.items()
        if key in done and first <= at < last
    ]
    return Measured(latencies, len(submitted) - len(done), run.network.packet_count / sites, max(0, roles - sites))
