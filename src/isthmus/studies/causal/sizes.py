"""Sizes of timestamps and histories at any number of LANs and hosts, from one run at a time and without Spark.

Set-up and measures are those of the study: timestamps as first sent, to hosts of the first LAN, and the
history of its first host every 5 ms, both after 40 % of the time of sending.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean

import msgspec

from isthmus.core.layer import Kind
from isthmus.sim.run import SimRun
from isthmus.studies.causal.setup import RULES, SENDING_MS, STACKS_OF, WARM_UP, Traffic, causal_scenario, first_group
from isthmus.trace.schema import DESTINATIONS, GAUGE, KIND, NUMBER, PROCESS, SENDER, TIME_NS, VALUE, Gauge, Row

FIRST_NS, LAST_NS = round(WARM_UP * SENDING_MS * 1e6), round(SENDING_MS * 1e6)
DEFAULT_RULES = ("literal", "literal, R9", "symmetric", "symmetric, R9", "all")


class SizeSpread(msgspec.Struct, frozen=True):
    """Mean, 95th percentile and maximum of some sizes."""

    mean: float
    p95: float
    most: float


class CausalSizes(msgspec.Struct, frozen=True):
    """Sizes of the timestamps sent in some runs, and of the history of one host."""

    rules: str
    messages: int  # with measured timestamps
    entries: SizeSpread | None  # None: no timestamps
    stamp_bytes: SizeSpread | None
    history: SizeSpread | None  # None: the stack keeps no history


def spread_of(values: Sequence[int]) -> SizeSpread | None:
    if not values:
        return None
    ordered = sorted(values)
    return SizeSpread(fmean(ordered), ordered[-(-95 * len(ordered) // 100) - 1], ordered[-1])


def causal_sizes(lans: int, hosts: int, rules: str, seeds: Iterable[int], traffic: Traffic) -> CausalSizes:
    values: dict[int, list[int]] = defaultdict(list)
    for seed in seeds:
        scenario = causal_scenario(lans, hosts, STACKS_OF.get(rules, "causal-separators"), RULES[rules], seed, traffic)
        gauges = SizeGauges(*first_group(lans, hosts, traffic))
        SimRun(scenario, gauges).execute()
        for gauge, found in gauges.values.items():
            values[gauge] += found
    entries, sizes, history = (
        values[gauge] for gauge in (Gauge.TIMESTAMP_ENTRIES, Gauge.TIMESTAMP_BYTES, Gauge.HISTORY_ENTRIES)
    )
    return CausalSizes(rules, len(entries), spread_of(entries), spread_of(sizes), spread_of(history))


class SizeGauges:
    """A sink of the rows of a run that keeps the sizes to be counted."""

    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = first, last  # sites whose messages count if sent to no other site
        self.local: set[tuple[int, int]] = set()
        self.values: dict[int, list[int]] = defaultdict(list)

    def append(self, row: Row) -> None:
        if row[KIND] == Kind.SUBMIT:
            to = row[DESTINATIONS] or ()
            if to and self.first <= min(to) and max(to) <= self.last:
                self.local.add((row[SENDER], row[NUMBER]))
        elif row[KIND] == Kind.GAUGE and FIRST_NS <= row[TIME_NS] <= LAST_NS:
            wanted = (
                row[PROCESS] == self.first
                if row[GAUGE] == Gauge.HISTORY_ENTRIES
                else (row[SENDER], row[NUMBER]) in self.local
            )
            if wanted:
                self.values[row[GAUGE]].append(row[VALUE])
