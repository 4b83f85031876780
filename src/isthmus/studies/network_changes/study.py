"""Roles where the network changes: delays, a failed link, a load that moves round a cloud; and what each change costs.

Part of the study `dynamic-roles`. Every run goes through phases of one length; at the start of each but the first
something changes, and nobody is told:

- *delays*: A B C and D E at a constant load; the WAN becomes five times faster and slow again, then one LAN slow;
- *link*: three pairs of sites, each pair joined to the others; a link fails, so that all between its ends goes the long
  way by the third pair, and is mended;
- *cloud*: six regions as far apart as those of a cloud, the load of which moves from region to region.

A *transient* is what a change costs: the *peak*, the slowest second of a phase, and the time to *recover*, from the
change until two seconds in a row are within a quarter of what is usual in the last three seconds of the phase.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from statistics import fmean
from typing import NamedTuple

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.pipeline.measure.seeds import over_seeds
from isthmus.pipeline.sweep.sweep import Scalar
from isthmus.scenario.faults import DelayShift, Fault
from isthmus.scenario.model import Scenario, StackSpec
from isthmus.scenario.workload import Workload
from isthmus.stacks.roles.prediction import Setting
from isthmus.studies.model import Cell, Claim, Figure, Rows, Scale, Tables, matching, numbers_of
from isthmus.studies.nine_scenarios.tickets import (
    DRAIN_MS,
    LOOKS,
    OURS,
    POISSON,
    SITES,
    SOURCES,
    five,
    message_latencies,
    summary,
)
from isthmus.studies.regret.instances import CLOUDS, as_topology, cloud_setting
from isthmus.topology.model import Topology

LOADS, DELAYS, LINK, CLOUD = "loads", "delays", "link", "cloud"
PHASE_MS: dict[Scale, float] = {"quick": 10_000.0, "full": 16_000.0}
RATES = {"A": 40.0, "B": 5.0, "C": 1.0, "D": 5.0, "E": 1.0}  # where delays change
PAIR_MS, LINKS_MS = 5.0, {(0, 1): 40.0, (0, 2): 90.0, (1, 2): 100.0}  # inside a pair; between pairs
PAIR_RATES = (20.0, 2.0, 20.0, 2.0, 2.0, 2.0)
REGIONS, BUSY, QUIET = "six regions, load in one", 60.0, 2.0  # messages a second
SLICE_MS = 1_000.0
LAST = 3  # seconds of a phase, in which latency is as usual
USUAL = 1.25  # times the usual latency, beyond which a second is not usual
RECOVERY_MAX_S = 5.0  # a probe within 2 s, two looks of the planner, and a second for requests


class Part(NamedTuple):
    """One way in which a network changes."""

    name: str
    topology: Topology
    phases: tuple[str, ...]  # what each is like
    workloads: Callable[[str, float], Iterator[Workload]]  # of a kind of source and the length of a phase
    faults: Callable[[float], tuple[Fault, ...]]  # of the length of a phase


def steady(rates: Mapping[str, float]) -> Callable[[str, float], Iterator[Workload]]:
    """The same load all the time."""

    def made(source: str, phase_ms: float) -> Iterator[Workload]:  # noqa: ARG001
        return (SOURCES[source](rate_per_s=rate, sites=(site,)) for site, rate in rates.items())

    return made


def changing_delays(phase_ms: float) -> tuple[Fault, ...]:
    west, east = tuple(SITES[:3]), tuple(SITES[3:])
    fast = {"at_ms": phase_ms, "until_ms": 2 * phase_ms, "factor": 0.2}
    slow = DelayShift(at_ms=3 * phase_ms, until_ms=4 * phase_ms, source=west, target=west, add_ms=200.0)
    return DelayShift(source=west, target=east, **fast), DelayShift(source=east, target=west, **fast), slow


def pairs() -> Topology:
    """Three pairs of sites, s0 s1, s2 s3 and s4 s5."""
    sites = range(2 * len(LINKS_MS))

    def delay(a: int, b: int) -> float:
        low, high = sorted((a // 2, b // 2))
        return 0.0 if a == b else PAIR_MS if low == high else LINKS_MS[low, high]

    return as_topology(Setting(tuple(tuple(delay(a, b) for b in sites) for a in sites), ((),) * len(sites)))


def failed_link(phase_ms: float) -> tuple[Fault, ...]:
    """All between the first two pairs goes by the third, as routers have it a moment after a link has failed."""
    detour = LINKS_MS[0, 2] + LINKS_MS[1, 2] - LINKS_MS[0, 1]
    span = {"at_ms": phase_ms, "until_ms": 2 * phase_ms, "add_ms": detour}
    ends = ("s0", "s1"), ("s2", "s3")
    return DelayShift(source=ends[0], target=ends[1], **span), DelayShift(source=ends[1], target=ends[0], **span)


def moving_load(regions: Sequence[int], count: int) -> Callable[[str, float], Iterator[Workload]]:
    """One region is busy at a time, the others quiet."""

    def made(source: str, phase_ms: float) -> Iterator[Workload]:
        for place, busy in enumerate(regions):
            for region in range(count):
                rate = BUSY if region == busy else QUIET
                start_ms, stop_ms = place * phase_ms, (place + 1) * phase_ms
                yield SOURCES[source](rate_per_s=rate, sites=(f"s{region}",), start_ms=start_ms, stop_ms=stop_ms)

    return made


def parts() -> tuple[Part, ...]:
    cloud = cloud_setting(REGIONS, "poisson")
    busy = (0, 2, 4)
    pair_rates = {f"s{site}": rate for site, rate in enumerate(PAIR_RATES)}
    return (
        Part(DELAYS, five(), ("slow WAN", "fast WAN", "slow again", "slow LAN"), steady(RATES), changing_delays),
        Part(LINK, pairs(), ("whole", "link failed", "mended"), steady(pair_rates), failed_link),
        Part(
            CLOUD,
            as_topology(cloud),
            tuple(f"load in region {region}" for region in busy),
            moving_load(busy, len(CLOUDS[REGIONS][1])),
            lambda _: (),
        ),
    )


def label(number: int, phase: str) -> str:
    return f"{number + 1} {phase}"


def cell(part: Part, protocol: str, stack: StackSpec, source: str, seed: int, phase_ms: float) -> Cell:
    until_ms = len(part.phases) * phase_ms
    if stack.sequencer is not None:
        stack = msgspec.structs.replace(stack, sequencer=part.topology.sites[0].name)
    scenario = Scenario(
        name="dynamic-roles",
        topology=part.topology,
        stack=stack,
        workloads=tuple(part.workloads(source, phase_ms)),
        faults=part.faults(phase_ms),
        seed=seed,
        duration_ms=until_ms,
        drain_ms=DRAIN_MS,
    )
    sites = len(part.topology.sites)
    names: dict[str, Scalar] = {"part": part.name, "protocol": protocol, "source": source, "sites": sites}
    return Cell({**names, "phase_ms": phase_ms, "from_ms": 0.0, "until_ms": until_ms, "seed": seed}, scenario)


# Tables


def tables(trace: DataFrame, runs: DataFrame, labels: Mapping[str, Sequence[str]]) -> dict[str, DataFrame]:
    """Latency by phase where the network changes, and the transients of all changes, those of loads too."""
    by = ["part", "protocol", "source"]
    named = runs.select("run", *by, "phase_ms", "seed", "packets", "sites")
    latencies = message_latencies(trace, runs).join(F.broadcast(named), "run").localCheckpoint()
    number = F.floor(F.col("submitted_ms") / F.col("phase_ms")).cast("int")
    second = F.floor(F.col("submitted_ms") % F.col("phase_ms") / SLICE_MS).cast("int")
    slices = latencies.withColumn("phase", number).withColumn("second", second)
    collected = slices.groupBy("run", *by, "seed", "phase", "second").agg(F.mean("latency_ms").alias("latency_ms"))
    found = transients(collected.where("latency_ms is not null").toArrow().to_pylist(), labels)
    schema = "part string, protocol string, source string, seed long, change string, usual_ms double, peak_ms double, "
    each = trace.sparkSession.createDataFrame(found, schema + "peak_ratio double, recovery_s double")
    changes = latencies.where(F.col("part") != LOADS)
    title = F.lit("")
    for part, names in labels.items():
        chosen = F.get(F.array(*(F.lit(label(place, name)) for place, name in enumerate(names))), number)
        title = F.when(F.col("part") == part, F.concat_ws(": ", F.lit(part), chosen)).otherwise(title)
    phases = summary(changes.withColumn("phase", title), ["phase"]).join(named, "run")
    costs = named.where(F.col("part") != LOADS).withColumn("multicasts", F.col("packets") / F.col("sites"))
    by_phase = over_seeds(phases, [*by, "phase"], ["latency_ms", "undelivered_messages"]).localCheckpoint()
    by_change = over_seeds(each, [*by, "change"], ["usual_ms", "peak_ms", "peak_ratio", "recovery_s"])
    return {
        "changes": by_phase,
        "changes_poisson": by_phase.where(F.col("source") == POISSON).orderBy("phase", "protocol"),
        "change_costs": over_seeds(costs, by, ["multicasts"]),
        "transients": by_change,
        "transients_poisson": by_change.where(F.col("source") == POISSON).orderBy("change", "protocol"),
        "every_transient": each.orderBy("part", "protocol", "source", "seed", "change"),
    }


def transients(slices: Iterable[Mapping[str, object]], labels: Mapping[str, Sequence[str]]) -> Rows:
    """One row per run and change: peak and recovery, out of the mean latency of each second."""
    names = ("part", "protocol", "source", "seed", "phase")

    def key(row: Mapping[str, object]) -> tuple[object, ...]:
        return tuple(row[name] for name in names)

    rows: Rows = []
    for phase, group in groupby(sorted(slices, key=lambda row: (*map(str, key(row)), row["second"])), key):
        part, number = str(phase[0]), int(str(phase[-1]))
        if number == 0 or number >= len(labels[part]):  # nothing changes at the start; what drains is of no phase
            continue
        means = {int(str(row["second"])): float(str(row["latency_ms"])) for row in group}
        usual, peak, recovery = transient(means)
        change = f"{part}: {label(number, labels[part][number])}"
        of_run = dict(zip(names[:-1], phase[:-1], strict=True))
        figures = {"usual_ms": usual, "peak_ms": peak, "peak_ratio": peak / usual, "recovery_s": recovery}
        rows.append({**of_run, "change": change, **figures})
    return rows


def transient(means: Mapping[int, float]) -> tuple[float, float, float]:
    """The usual latency of a phase, its slowest second, and how many seconds it took to be as usual."""
    seconds = sorted(means)
    usual = fmean(means[second] for second in seconds[-LAST:])
    peak = max(means.values())
    for first, then in pairwise(seconds):
        if max(means[first], means[then]) <= USUAL * usual:
            return usual, peak, float(first)
    return usual, peak, float(seconds[-1] + 1)


# Claims


def beside_best(mine: str, part: str) -> Claim:
    def measure(tables: Tables) -> float:
        lost = {row["protocol"] for row in matching(tables["changes"], part=part) if row["undelivered_messages"]}
        rows = matching(tables["transients"], part=part)
        ratios = []
        for place in sorted({(row["source"], row["change"]) for row in rows}):
            here = {row["protocol"]: row["usual_ms"] for row in rows if (row["source"], row["change"]) == place}
            complete = [usual_ms for name, usual_ms in here.items() if name not in lost]
            ratios.append(float(here[mine] / min(complete)))
        return max(ratios)

    return Claim(
        statement=f"Once recovered from a change of '{part}', ours is at most 5 % slower than the best protocol.",
        source=OURS,
        kind="promise",
        measure=measure,
        expected=1.05,
        relation="at most",
        unit="times",
        note="of those that deliver everything; the last three seconds of a phase; a change's cost is judged apart",
    )


def in_every_phase(mine: str) -> Claim:
    def measure(tables: Tables) -> float:
        rows = tables["changes"]
        lost = {(row["part"], row["protocol"]) for row in rows if row["undelivered_messages"]}
        ratios = []
        for row in matching(rows, protocol=mine):
            beside = matching(rows, part=row["part"], source=row["source"], phase=row["phase"])
            complete = [each["latency_ms"] for each in beside if (each["part"], each["protocol"]) not in lost]
            ratios.append(float(row["latency_ms"] / min(complete)))
        return max(ratios)

    return Claim(
        statement="Where the network changes, ours is at most 5 % slower than the best protocol in every phase.",
        source=OURS,
        kind="promise",
        measure=measure,
        expected=1.05,
        relation="at most",
        unit="times",
        note="whole phases, with the transient of the change that each begins with",
    )


def claims(mine: str, theirs: str, alone: str, token: str) -> tuple[Claim, ...]:
    def lost(tables: Tables) -> float:
        rows = [row for row in tables["changes"] if row["part"] in (DELAYS, LINK)]
        found = {(row["protocol"], row["source"], row["phase"]): row["latency_ms"] for row in rows}
        places = sorted({(row["source"], row["phase"]) for row in matching(rows, protocol=theirs)})
        return float(sum(found[theirs, *place] > found[token, *place] for place in places))

    def more(tables: Tables) -> float:
        rows = {(row["protocol"], row["part"], row["source"]): row["multicasts"] for row in tables["change_costs"]}
        return max(float(rows[mine, *rest] / rows[alone, *rest]) for name, *rest in rows if name == mine)

    return (
        *(beside_best(mine, part) for part in (DELAYS, LINK, CLOUD)),
        in_every_phase(mine),
        Claim(
            statement="The paper's dynamic hybrid adapts to changing delays and to a failed link: it outperforms "
            "token-site throughout.",
            source="section 6.2",
            measure=lost,
            expected=0.0,
            unit="phases lost",
            note="means over seeds, without undelivered messages",
        ),
        Claim(
            statement="Ours is back to its usual latency within 5 s of every change, of load, delays or links.",
            source=OURS,
            kind="promise",
            measure=lambda tables: max(numbers_of(tables["every_transient"], "recovery_s", protocol=mine)),
            expected=RECOVERY_MAX_S,
            relation="at most",
            unit="s",
            note="the slowest of all changes and seeds; usual: two seconds in a row within a quarter of the mean of "
            "the last three of the phase",
        ),
        Claim(
            statement="Where the network changes, a plan takes at most 10 % more multicasts than each site choosing "
            "for itself.",
            source=OURS,
            kind="promise",
            measure=more,
            expected=1.1,
            relation="at most",
            unit="times",
            note="the worst part; probes, reports and changes of roles included",
        ),
    )


def bars(name: str, title: str, caption: str, table: str, column: str, unit: str, x: str) -> Figure:
    return Figure(
        id=name,
        title=title,
        caption=caption,
        table=table,
        x=x,
        y=column,
        series="protocol",
        xlabel="phase" if x == "phase" else "change",
        ylabel=unit,
        stacks=LOOKS,
    )


CHANGE_FIGURES = (
    bars(
        "changes",
        "Latency where the network changes, Poisson sources",
        "Delays between clusters, a link that fails, and the load of a cloud that moves; each phase with its change.",
        "changes_poisson",
        "latency_ms",
        "latency (ms)",
        "phase",
    ),
    bars(
        "recovery",
        "Time to recover from each change, Poisson sources",
        "Seconds from the change until latency is as usual again.",
        "transients_poisson",
        "recovery_s",
        "time to recover (s)",
        "change",
    ),
    bars(
        "peak",
        "The slowest second after each change, Poisson sources",
        "Times the usual latency of the phase.",
        "transients_poisson",
        "peak_ratio",
        "peak (times the usual)",
        "change",
    ),
)
