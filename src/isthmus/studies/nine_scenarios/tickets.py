"""What the studies of total order by tickets share: a network, loads, protocols, and how latency is read off a trace.

The network is the hybrid paper's: A B C and D E, 20 ms inside a cluster and 540 ms across, both with little variance.
The protocols come in two kinds. As the paper has them: no nulls, tickets ride on the next message, roles by the
mean-shift detector. And as we have them: a null after 25 ms of silence, tickets at once, roles revalidated.

Latency is counted over messages submitted in a *span* of the run. It begins when clocks have met and ends before the
last messages, of which those that wait longest would never be delivered where nobody speaks up after the end: their
absence would make a protocol look faster than it is. What is undelivered at the end is counted over the whole run.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.units import NS_PER_MS
from isthmus.pipeline.measure.latency import message_table
from isthmus.protocols.estimator import EstimatorOptions
from isthmus.scenario.model import HybridSpec, StackSpec
from isthmus.scenario.workload import Periodic, Poisson, Workload
from isthmus.studies.regret.instances import LAN_MS, NEAR, PERIODS_MS, WAN_MS
from isthmus.topology.delay import Gamma
from isthmus.topology.model import Channel, Cluster, Topology, TopologySite, WanLink

PAPER = "Totally ordered multicast in large-scale systems"
OURS = "ours, beyond the paper"
SITES = "ABCDE"
PERIODIC, POISSON = "quasi-periodic", "Poisson"
SOURCES: dict[str, type[Periodic] | type[Poisson]] = {PERIODIC: Periodic, POISSON: Poisson}
NO_NULLS = HybridSpec(null_ms=0.0, eager=False)
PAPER_DYNAMIC = HybridSpec(
    null_ms=0.0,
    eager=False,
    rule="paper",
    estimator=EstimatorOptions(detector="mean-shift", samples=7, silence=False),
)
TOKEN_SITE = StackSpec(name="token-site", transport="direct")
LOOKS = {  # protocols as figures name them: the stack whose colour each has; several of one stack in this order
    "token-site": "token-site",
    "symmetric, nulls": "symmetric",
    "symmetric, no nulls": "symmetric",
    "hybrid, nulls": "hybrid",
    "hybrid, no nulls": "hybrid",
    "planned": "hybrid",
    "paper's rule, nulls": "hybrid",
    "paper's rule, no nulls": "hybrid",
    "dynamic hybrid, ours": "dynamic-hybrid",
    "dynamic hybrid, each alone": "dynamic-hybrid",
    "dynamic hybrid, the paper's": "dynamic-hybrid",
}
SHARES = (1, 25, 50, 75, 99)  # percentiles of a distribution
DRAIN_MS = 5_000.0  # what can be delivered is delivered by then, and probes that go on cost little
PROPERTIES = ("integrity", "views", "fifo", "total")  # agreement and validity ask for what silence never gives


def five() -> Topology:
    """A B C | D E."""
    lan = Channel(Gamma(LAN_MS, 0.05, LAN_MS - 1))
    wan = Channel(Gamma(WAN_MS, 0.5, WAN_MS - 5))
    sites = tuple(TopologySite(name, int(place >= NEAR)) for place, name in enumerate(SITES))
    west, east = tuple(range(NEAR)), tuple(range(NEAR, len(SITES)))
    clusters = (Cluster("west", west, 0, lan), Cluster("east", east, NEAR, lan))  # type: ignore[arg-type]
    return Topology("five", sites, clusters, (WanLink(0, 1, wan, wan),))


def workloads(load: str, source: str, start_ms: float = 0.0, stop_ms: float | None = None) -> tuple[Workload, ...]:
    """Each site at its load, H or L, for a time."""
    return tuple(
        SOURCES[source](rate_per_s=1000 / PERIODS_MS[letter], sites=(site,), start_ms=start_ms, stop_ms=stop_ms)
        for site, letter in zip(SITES, load, strict=True)
    )


def symmetric_stack(spec: HybridSpec) -> StackSpec:
    return StackSpec(name="symmetric", transport="direct", hybrid=spec)


def dynamic(spec: HybridSpec) -> StackSpec:
    return StackSpec(name="dynamic-hybrid", transport="direct", hybrid=spec)


def message_latencies(trace: DataFrame, runs: DataFrame) -> DataFrame:
    """Every message with its latency in ms, null outside of the span of its run, and whether it is undelivered.

    `runs` has the span: `from_ms` and `until_ms`.
    """
    span = F.broadcast(runs.select("run", "from_ms", "until_ms"))
    at = F.col("submitted_ns") / NS_PER_MS
    counts = (at >= F.col("from_ms")) & (at < F.col("until_ms"))
    return (
        message_table(trace)
        .join(span, "run")
        .select(
            "run",
            "sender",
            at.alias("submitted_ms"),
            F.when(counts, F.col("latency_ns") / NS_PER_MS).alias("latency_ms"),
            (F.col("missing") > 0).cast("int").alias("undelivered"),
        )
    )


def summary(latencies: DataFrame, by: Sequence[str] = ()) -> DataFrame:
    """Mean and largest latency, how many messages it is the mean of, and how many of all are undelivered."""
    return latencies.groupBy("run", *by).agg(
        F.mean("latency_ms").alias("latency_ms"),
        F.max("latency_ms").alias("latency_max_ms"),
        F.count("latency_ms").alias("counted"),
        F.sum("undelivered").alias("undelivered_messages"),
    )


def spread(latencies: DataFrame, by: str) -> DataFrame:
    """The distribution of message latencies: mean and percentiles, one row per value of `by`."""
    shares = [F.percentile_approx("latency_ms", share / 100, 10_000).alias(f"latency_ms_p{share}") for share in SHARES]
    return latencies.groupBy(by).agg(F.mean("latency_ms").alias("latency_ms_mean"), *shares).orderBy(by)


def cost(runs: DataFrame, sites: int | None = None) -> DataFrame:
    """Multicasts and control bytes a message of the application.

    A multicast is a packet to all; probes, which go to one site or to all others, count as the copies that they are.
    """
    count = F.lit(float(sites)) if sites else F.col("sites").cast("double")
    messages = F.nullif("submitted", F.lit(0))
    return runs.select(
        "run",
        (F.col("packets") / count).alias("multicasts"),
        (F.col("packets") / count / messages).alias("multicasts_per_message"),
        (F.col("control_bytes") / messages).alias("control_bytes_per_message"),
    )
