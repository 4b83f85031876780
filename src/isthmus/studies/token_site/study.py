"""Token-site in isolation: what a fixed sequencer costs, over the delay of the network.

One process, the sequencer, numbers all messages. A message of another process travels to it, and its number
travels to all: 2 D, where D is the delay of the network. The sequencer's own messages carry their number: D. With 30
processes that send alike, the mean is (29 * 2 D + D) / 30 = 1.967 D, whatever the rate and the kind of source. The
transport is direct, over channels of constant delay that lose nothing, so that the ordering protocol alone is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.pipeline.measure.latency import message_latency
from isthmus.pipeline.measure.load import control_bytes
from isthmus.pipeline.measure.seeds import over_seeds
from isthmus.scenario.model import Scenario, StackSpec
from isthmus.scenario.workload import Periodic, Poisson, Workload
from isthmus.studies.model import Cell, Claim, Curve, Figure, Scale, Study, Tables, numbers_of
from isthmus.studies.nine_scenarios.tickets import PAPER
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh

SITES, RATE_PER_S = 30, 10.0
SEQUENCER = 0  # the eldest member
DELAYS_MS: dict[Scale, tuple[float, ...]] = {
    "quick": (25.0, 100.0, 250.0, 500.0),
    "full": (25.0, 50.0, 75.0, 100.0, 200.0, 300.0, 400.0, 500.0),
}
DURATION_MS: dict[Scale, float] = {"quick": 1_500.0, "full": 20_000.0}
SOURCES: dict[str, Workload] = {
    "quasi-periodic": Periodic(rate_per_s=RATE_PER_S),
    "Poisson": Poisson(rate_per_s=RATE_PER_S),
}
EXPECTED = 1.97  # mean latency over D
SECTION = "section 4.2"


def grid(scale: Scale, seeds: Sequence[int]) -> list[Cell]:
    return [
        Cell({"source": source, "delay_ms": delay_ms, "seed": seed}, scenario(source, delay_ms, seed, scale))
        for source in SOURCES
        for delay_ms in DELAYS_MS[scale]
        for seed in seeds
    ]


def scenario(source: str, delay_ms: float, seed: int, scale: Scale) -> Scenario:
    channel = Channel(Constant(delay_ms))
    return Scenario(
        name="token-site",
        topology=mesh(1, SITES, channel, channel),
        stack=StackSpec(name="token-site", transport="direct"),
        workloads=(SOURCES[source],),
        seed=seed,
        duration_ms=DURATION_MS[scale],
    )


def tables(trace: DataFrame, runs: DataFrame) -> dict[str, DataFrame]:
    """Latency over the delay; the same for the sequencer and for the others; what each run left and cost."""
    parameters = runs.select("run", "source", "delay_ms", "seed")
    by = ["source", "delay_ms"]
    over_delay = F.col("latency_mean_ms") / F.col("delay_ms")
    latency = message_latency(trace).join(parameters, "run").withColumn("over_delay", over_delay)
    role = F.when(F.col("sender") == SEQUENCER, "sequencer").otherwise("others")
    senders = message_latency(trace, ["sender"]).join(parameters, "run").withColumn("over_delay", over_delay)
    each = (
        senders.withColumn("role", role)
        .groupBy("run", "role", "seed", *by)
        .agg(
            F.min("over_delay").alias("over_delay_min"),
            (F.sum(F.col("over_delay") * F.col("messages")) / F.sum("messages")).alias("over_delay"),
            F.max("over_delay").alias("over_delay_max"),
        )
    )
    cost = control_bytes(runs).join(
        runs.select("run", "source", "delay_ms", "submitted", "undelivered", "refused"), "run"
    )
    return {
        "latency": over_seeds(latency, by, ["latency_mean_ms", "latency_p99_ms", "over_delay"]),
        "senders": over_seeds(each, ["role", *by], ["over_delay_min", "over_delay", "over_delay_max"]),
        "runs": cost.orderBy("run"),
    }


def mean_claim(source: str) -> Claim:
    def measure(tables: Tables) -> float:
        return fmean(numbers_of(tables["latency"], "over_delay", source=source))

    return Claim(
        statement=f"With {source} sources the mean latency of a message is close to twice the network delay: 1.97 D.",
        source=SECTION,
        measure=measure,
        expected=EXPECTED,
        tolerance=0.01,
        unit="D",
        note="29 of 30 processes wait for 2 D, the sequencer for D; mean over all delays",
    )


def farthest(role: str, expected: float) -> Claim:
    """Of all senders and delays the one that is farthest off."""

    def measure(tables: Tables) -> float:
        rows = tables["senders"]
        ends = [value for end in ("min", "max") for value in numbers_of(rows, f"over_delay_{end}", role=role)]
        return max(ends, key=lambda value: abs(value - expected))

    who = "The sequencer's own messages take" if role == "sequencer" else "Messages of all other processes take"
    return Claim(
        statement=f"{who} {expected:g} network delay{'s' if expected > 1 else ''}.",
        source=SECTION,
        measure=measure,
        expected=expected,
        tolerance=0.001,
        unit="D",
        note="the sender, delay and source with the largest deviation",
    )


def deviation(tables: Tables) -> float:
    """The largest distance from the straight line through the origin, as a share of the value on the line."""
    rows = tables["latency"]
    delays, latencies = numbers_of(rows, "delay_ms"), numbers_of(rows, "latency_mean_ms")
    slope = sum(x * y for x, y in zip(delays, latencies, strict=True)) / sum(x * x for x in delays)
    return max(abs(y - slope * x) / (slope * x) for x, y in zip(delays, latencies, strict=True)) * 100


def undelivered_messages(tables: Tables) -> float | None:
    return float(sum(numbers_of(tables["runs"], "undelivered"))) if tables["runs"] else None


LINEAR = Claim(
    statement="Latency is proportional to the network delay, from 25 to 500 ms.",
    source=SECTION,
    measure=deviation,
    expected=0.0,
    tolerance=1.0,
    relation="at most",
    unit="%",
    note="largest deviation from the straight line through the origin",
)
NOTHING_LEFT = Claim(
    statement="Every message is delivered at every process.",
    source="ours",
    measure=undelivered_messages,
    expected=0.0,
    unit="deliveries",
    kind="sanity",
)
STUDY = Study(
    name="token-site",
    title="Token-site in isolation",
    question="How does the latency of a fixed sequencer grow with the network delay?",
    paper=PAPER,
    source=f"{SECTION}: both protocols in isolation, 30 processes at 10 messages a second each",
    seeds={"quick": 2, "full": 5},
    grid=grid,
    properties=("integrity", "agreement", "validity", "views", "fifo", "total"),
    tables=tables,
    claims=(*map(mean_claim, SOURCES), LINEAR, farthest("sequencer", 1.0), farthest("others", 2.0), NOTHING_LEFT),
    networks=(scenario("Poisson", 100.0, 1, "quick").topology,),
    figures=(
        Figure(
            id="latency",
            title="Token-site: latency over network delay",
            caption="Mean over messages of the time from submit to the last delivery.",
            table="latency",
            x="delay_ms",
            y="latency_mean_ms",
            series="source",
            error="latency_mean_ms_half",
            xlabel="network delay D (ms)",
            ylabel="latency (ms)",
            stacks=dict.fromkeys(SOURCES, "token-site"),
            paper=(Curve("the line 2 D that the paper's curve follows", (25.0, 500.0), (50.0, 1000.0)),),
        ),
    ),
)
