"""Simulations of a planned option: the mean latency of each site's messages, to compare with the prediction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import msgspec

from isthmus.advise.order.total import TotalOrderAdvice, TotalOrderOption
from isthmus.core.layer import Kind
from isthmus.core.units import NS_PER_MS
from isthmus.core.validation import BadValue
from isthmus.measure.summary import RunSummary
from isthmus.scenario.model import Scenario, StackSpec
from isthmus.sim.run import SimRun
from isthmus.stacks.roles.prediction import Setting
from isthmus.trace.schema import DESTINATIONS, GROUP, KIND, NUMBER, ORIGIN, PROCESS, SENDER, TIME_NS, MessageKey, Row

MESSAGES_MIN = 40  # of the slowest sender in a simulation, where that does not take too long
DELIVERIES_MAX = 200_000  # of a simulation: some seconds
SHORT_MS, LONG_MS = 10_000.0, 300_000.0  # of a simulation
MARGIN = 0.1  # of a simulation at its start and its end, without measurements
Progress = Callable[[float], None]  # called with the share that is done


class Simulated(msgspec.Struct, frozen=True):
    """The result of simulating one option."""

    site_ms: tuple[float | None, ...]  # None: the site sent nothing
    mean_ms: float | None
    messages: int
    undelivered: int


class BySender:
    """A sink that keeps the mean latency of each sender's messages, to the last delivery."""

    def __init__(self, sites: int, first_ms: float, last_ms: float) -> None:
        self.meter = RunSummary(sites, on_message=self.add)
        self.first_ns, self.last_ns = first_ms * NS_PER_MS, last_ms * NS_PER_MS
        self.total_ms = [0.0] * sites
        self.counts = [0] * sites

    def append(self, row: Row) -> None:
        kind, key = row[KIND], (row[ORIGIN], row[SENDER], row[NUMBER])
        if kind == Kind.DELIVER:
            self.meter.deliver(row[PROCESS], row[TIME_NS], key, row[GROUP])
        elif kind == Kind.SUBMIT and self.first_ns <= row[TIME_NS] <= self.last_ns:
            self.meter.submit(row[TIME_NS], key, row[DESTINATIONS] or (), row[GROUP])

    def add(self, key: MessageKey, latency_ns: int) -> None:
        self.counts[key[1]] += 1
        self.total_ms[key[1]] += latency_ns / NS_PER_MS


def duration_ms(setting: Setting) -> float:
    """How long to simulate: long enough for slow senders, short enough not to take minutes."""
    slowest = max(period for period in setting.periods_ms if period < inf)
    affordable = DELIVERIES_MAX / (sum(setting.rates) * setting.count)
    return max(SHORT_MS, min(MESSAGES_MIN * slowest, affordable, LONG_MS))


def direct_scenario(stack: StackSpec, **settings: Any) -> Scenario:
    """A scenario over the direct transport where channels allow it, which is faster and changes no latency."""
    try:
        return Scenario(stack=msgspec.structs.replace(stack, transport="direct"), **settings)
    except BadValue:
        return Scenario(stack=stack, **settings)


def scenario_of(advice: TotalOrderAdvice, option: TotalOrderOption, seed: int, duration: float) -> Scenario:
    given: dict[str, Any] = {"topology": advice.topology, "workloads": advice.workloads, "wire": "reference"}
    return direct_scenario(option.stack, seed=seed, duration_ms=duration, **given)


def simulate_option(
    advice: TotalOrderAdvice,
    option: TotalOrderOption,
    seeds: Sequence[int],
    duration: float | None = None,
    progress: Progress | None = None,
) -> Simulated:
    """Simulate an option with each seed; the mean over all messages but those near the ends."""
    lasts = duration or duration_ms(advice.setting)
    sites = advice.setting.count
    total, counts, owed = [0.0] * sites, [0] * sites, 0
    for index, seed in enumerate(seeds):
        sink = BySender(sites, MARGIN * lasts, (1 - MARGIN) * lasts)
        run = SimRun(scenario_of(advice, option, seed, lasts), sink)

        def report(now_ns: int, done: int = index) -> None:
            if progress is not None:
                progress((done + min(1.0, now_ns / NS_PER_MS / lasts)) / len(seeds))

        run.execute(report)
        owed += len(sink.meter.open)
        for site in range(sites):
            total[site] += sink.total_ms[site]
            counts[site] += sink.counts[site]
    means = tuple(total[site] / counts[site] if counts[site] else None for site in range(sites))
    messages = sum(counts)
    return Simulated(means, sum(total) / messages if messages else None, messages, owed)
