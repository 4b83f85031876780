"""What causal order costs in metadata, from the rows of a run: entries and bytes of timestamps, entries of histories.

Causal stacks trace the sizes of their timestamps where a period is given, and those that keep histories sample these.
A vector has an entry for each member and a matrix one for each pair, whatever the traffic; they have no history.
"""

from __future__ import annotations

from statistics import fmean

import msgspec

from isthmus.core.layer import Kind
from isthmus.scenario.model import Scenario
from isthmus.trace.schema import GAUGE, KIND, VALUE, Gauge, Row

SAMPLED = ("causal-vector", "causal-matrix", "causal-history", "causal-separators")
SAMPLES = 100  # of each site's history
PERIOD_MIN_MS = 5.0


class Metadata(msgspec.Struct, frozen=True):
    """Means over the messages of a run, and over the samples of all histories."""

    timestamp_entries: float
    timestamp_bytes: float
    history_entries: float | None = None  # None: the stack keeps no history


def with_samples(scenario: Scenario) -> Scenario:
    """The same scenario with sizes traced, where its stack is a causal one and no period is given."""
    stack = scenario.stack
    if stack.name not in SAMPLED or stack.causal.gauge_ms:
        return scenario
    period_ms = max(PERIOD_MIN_MS, scenario.duration_ms / SAMPLES)
    causal = msgspec.structs.replace(stack.causal, gauge_ms=period_ms)
    return msgspec.structs.replace(scenario, stack=msgspec.structs.replace(stack, causal=causal))


class MetadataGauges:
    """A sink that keeps the sizes of timestamps and histories."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        gauges = (Gauge.TIMESTAMP_ENTRIES, Gauge.TIMESTAMP_BYTES, Gauge.HISTORY_ENTRIES)
        self.values: dict[int, list[int]] = {int(gauge): [] for gauge in gauges}

    def append(self, row: Row) -> None:
        if row[KIND] == Kind.GAUGE and row[GAUGE] in self.values:
            self.values[row[GAUGE]].append(row[VALUE])

    def metadata(self) -> Metadata | None:
        entries, sizes, histories = self.values.values()
        if not entries:
            return None
        return Metadata(fmean(entries), fmean(sizes), fmean(histories) if histories else None)
