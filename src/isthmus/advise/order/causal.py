"""Advice on causal order for a network and its traffic: which stack, with what metadata and latency.

advise/order/metadata.py has the arithmetic; here a topology and workloads become its setting, stacks that cannot run
on the network or for its traffic are left out with the reason, and any of them can be simulated beside its prediction.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from statistics import fmean

import msgspec

from isthmus.advise.compare.measure import run_compared
from isthmus.advise.order.delays import delay_notes, delays_of
from isthmus.advise.order.metadata import CausalSetting, SenderFlow, Sizes, cheapest_of, fixed_sizes, history_sizes
from isthmus.advise.order.simulation import direct_scenario
from isthmus.advise.order.traffic import mean_rate
from isthmus.core.message import SiteId
from isthmus.core.units import NS_PER_MS
from isthmus.core.validation import BadValue
from isthmus.scenario.model import Scenario, StackSpec
from isthmus.scenario.workload import Workload
from isthmus.topology.model import Topology

CAUSAL_STACKS = ("causal-vector", "causal-matrix", "causal-history", "causal-separators")
DRAWS = 3  # of destinations, to see whether they are drawn anew for each message


class CausalOption(msgspec.Struct, frozen=True):
    """One causal stack: what is predicted of it."""

    stack: str
    sizes: Sizes | None  # None: not predicted
    latency_ms: float


class CausalAdvice(msgspec.Struct, frozen=True):
    """The stacks that can be used, the one that is recommended, and what was left out."""

    options: tuple[CausalOption, ...]
    recommended: str | None
    left_out: dict[str, str]
    notes: tuple[str, ...]


class CausalSimulated(msgspec.Struct, frozen=True):
    """The same by simulation."""

    entries: float | None
    stamp_bytes: float | None
    history: float | None
    latency_ms: float


def scenario_of(
    topology: Topology, workloads: Sequence[Workload], stack: str, seed: int, duration_ms: float
) -> Scenario:
    settings = {"topology": topology, "workloads": tuple(workloads), "seed": seed, "duration_ms": duration_ms}
    return direct_scenario(StackSpec(name=stack), **settings)


def advise_causal(topology: Topology, workloads: Sequence[Workload], duration_ms: float) -> CausalAdvice:
    """Predict every causal stack for a network and its traffic."""
    notes = delay_notes(topology)
    setting, drawn = setting_of(topology, workloads, duration_ms, notes)
    options: list[CausalOption] = []
    left_out: dict[str, str] = {}
    for stack in CAUSAL_STACKS:
        if stack == "causal-vector" and (drawn or not setting.broadcasts):
            left_out[stack] = "it takes broadcasts only"
            continue
        try:
            scenario_of(topology, workloads, stack, 1, duration_ms)
        except BadValue as error:
            left_out[stack] = f"{error.found} where {error.expected} is needed"
            continue
        if stack in ("causal-vector", "causal-matrix"):
            sizes: Sizes | None = fixed_sizes(setting, matrix=stack == "causal-matrix")
        else:
            sizes = None if drawn else history_sizes(setting, separators=stack == "causal-separators")
        options.append(CausalOption(stack, sizes, setting.latency_ms))
    if drawn:
        notes.append(
            "destinations are drawn for each message: sizes of histories are not predicted (--verify measures)"
        )
    notes.append("the delay in gateways is not predicted: a relayed message takes longer than its links")
    known = [(option.stack, option.sizes) for option in options if option.sizes is not None]
    best = None if drawn or not known else cheapest_of(known)
    return CausalAdvice(tuple(options), best, left_out, tuple(notes))


def setting_of(
    topology: Topology, workloads: Sequence[Workload], duration_ms: float, notes: list[str]
) -> tuple[CausalSetting, bool]:
    """The flows of a network; and whether destinations are drawn at random."""
    members = tuple(SiteId(number) for number in range(len(topology.sites)))
    flows: list[SenderFlow] = []
    drawn = False
    for index, workload in enumerate(workloads):
        senders = workload.senders(topology)
        tries = {tuple(workload.destinations(topology, members, Random(seed))) for seed in range(DRAWS)}
        drawn = drawn or len(tries) > 1
        to = frozenset(map(int, workload.destinations(topology, members, Random(0)) or members))
        rates = [mean_rate(workload, place, len(senders)) for place in range(len(senders))]
        if not any(rates):
            notes.append(f"workloads[{index}] is replies: not counted")
        flows += [SenderFlow(int(site), to, rate / 1000) for site, rate in zip(senders, rates, strict=True) if rate > 0]
    sending = len({flow.sender for flow in flows})
    count = round(sum(flow.rate for flow in flows) * duration_ms / 2 / max(1, sending))
    zones = tuple(site.cluster for site in topology.sites)
    return CausalSetting(delays_of(topology), zones, tuple(flows), count), drawn


def simulate_causal(
    topology: Topology, workloads: Sequence[Workload], stack: str, seeds: Sequence[int], duration_ms: float
) -> CausalSimulated:
    """Simulate a stack with each seed; means over seeds."""
    runs = [run_compared((stack, scenario_of(topology, workloads, stack, seed, duration_ms))) for seed in seeds]
    told = [run.metadata for run in runs if run.metadata is not None]

    def mean(values: list[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return fmean(known) if known else None

    return CausalSimulated(
        mean([one.timestamp_entries for one in told]),
        mean([one.timestamp_bytes for one in told]),
        mean([one.history_entries for one in told]),
        fmean(run.result.summary.per_message.mean() / NS_PER_MS for run in runs),
    )
