"""Sequencer and symmetric order in isolation: which is faster depends on delay and rate alone.

A message of the token-site protocol takes 2 D, of the symmetric one D + t, where t is the longest time between messages
of a process: it is delivered once every other process has sent after it. With 30 processes that send every t = 100 ms
the last of the 29 others does so after 29/30 t on average, and the lines cross where D = t. Without nulls what was sent
last cannot be delivered, as no packet follows it; with nulls the wait is theirs and not the application's.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.pipeline.measure.seeds import over_seeds
from isthmus.scenario.model import HybridSpec, Scenario, StackSpec
from isthmus.studies.model import Advice, Cell, Claim, Curve, Figure, Scale, Study, Tables, matching, numbers_of
from isthmus.studies.nine_scenarios.tickets import (
    DRAIN_MS,
    LOOKS,
    NO_NULLS,
    OURS,
    PAPER,
    PERIODIC,
    POISSON,
    PROPERTIES,
    SOURCES,
    TOKEN_SITE,
    cost,
    message_latencies,
    summary,
    symmetric_stack,
)
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh

SITES, RATE_PER_S = 30, 10.0
PERIOD_MS = 1000 / RATE_PER_S
RARE_SITES, RARE_PER_S, RARE_MS = 5, 0.5, 30_000.0  # where nobody speaks unasked
NULL_MS = HybridSpec().null_ms
DELAYS_MS: dict[Scale, tuple[float, ...]] = {
    "quick": (25.0, 100.0, 500.0),
    "full": (25.0, 50.0, 75.0, 100.0, 125.0, 200.0, 300.0, 400.0, 500.0),
}
DURATION_MS: dict[Scale, float] = {"quick": 3_500.0, "full": 10_000.0}
FROM_MS = 1_200.0
LAST_MS = {PERIODIC: 500.0, POISSON: 1_000.0}  # at the end of a run, that do not count
TOKEN, PLAIN, NULLS = "token-site", "symmetric, no nulls", "symmetric, nulls"
PROTOCOLS: dict[str, StackSpec] = {
    TOKEN: TOKEN_SITE,
    PLAIN: symmetric_stack(NO_NULLS),
    NULLS: symmetric_stack(HybridSpec()),
}
SECTION = "Figure 1 and section 4.2"
WITHIN = 0.03


def grid(scale: Scale, seeds: Sequence[int]) -> list[Cell]:
    return [
        cell(protocol, source, delay_ms, seed, DURATION_MS[scale])
        for protocol in PROTOCOLS
        for source in SOURCES
        for delay_ms in DELAYS_MS[scale]
        for seed in seeds
    ] + [
        cell(NULLS, source, delay_ms, seed, RARE_MS, rare=True)
        for source in SOURCES
        for delay_ms in DELAYS_MS[scale]
        for seed in seeds
    ]


def cell(protocol: str, source: str, delay_ms: float, seed: int, duration_ms: float, rare: bool = False) -> Cell:
    until_ms = duration_ms - LAST_MS[source]
    channel = Channel(Constant(delay_ms))
    sites, rate = (RARE_SITES, RARE_PER_S) if rare else (SITES, RATE_PER_S)
    scenario = Scenario(
        name="isolation",
        topology=mesh(1, sites, channel, channel),
        stack=PROTOCOLS[protocol],
        workloads=(SOURCES[source](rate_per_s=rate),),
        seed=seed,
        duration_ms=duration_ms,
        drain_ms=DRAIN_MS,
    )
    names = {"protocol": protocol, "source": source}
    times = {"delay_ms": delay_ms, "from_ms": FROM_MS, "until_ms": until_ms}
    return Cell({**names, **times, "rare": rare, "seed": seed}, scenario)


def tables(trace: DataFrame, runs: DataFrame) -> dict[str, DataFrame]:
    """Latency, what is left and what it cost, by protocol, source and delay; a part for each figure."""
    by = ["protocol", "source", "delay_ms"]
    found = summary(message_latencies(trace, runs)).join(cost(runs, SITES), "run")
    every = found.join(runs.select("run", "rare", *by), "run").localCheckpoint()
    each = every.where(~F.col("rare"))
    beyond = {
        "over_delay": F.col("latency_ms") / F.col("delay_ms"),
        "wait_ms": F.col("latency_ms") - F.col("delay_ms"),
    }
    columns = ("latency_ms", *beyond, "counted", "undelivered_messages", "multicasts_per_message")
    names = [*columns, "control_bytes_per_message"]
    latest = F.max("latency_max_ms").alias("latency_max_ms")
    latency = over_seeds(each.withColumns(beyond), by, names).join(each.groupBy(*by).agg(latest), by)
    latency = latency.orderBy(*by).localCheckpoint()
    return {
        "latency": latency,
        "rare": every.where("rare").groupBy(*by).agg(latest).orderBy(*by),
        "periodic": latency.where(F.col("source") == PERIODIC),
        "poisson": latency.where(F.col("source") == POISSON),
    }


def mean_figure(tables: Tables, name: str, protocol: str, source: str = PERIODIC) -> float:
    values = numbers_of(tables["latency"], name, protocol=protocol, source=source)
    return sum(values) / len(values)


def crossover(tables: Tables) -> float | None:
    """The delay at which both lines meet, between the two nearest delays that were run."""
    lines = [
        {row["delay_ms"]: row["latency_ms"] for row in matching(tables["latency"], protocol=name, source=PERIODIC)}
        for name in (TOKEN, PLAIN)
    ]
    points = sorted((delay, lines[0][delay] - lines[1][delay]) for delay in lines[0])
    for (left, low), (right, high) in pairwise(points):
        if low <= 0 < high:
            return float(left - low * (right - left) / (high - low))
    return None


def undelivered_max(tables: Tables, protocol: str) -> float:
    """Messages undelivered at the end, of the run in which they are most."""
    return max(numbers_of(tables["latency"], "undelivered_messages", protocol=protocol))


def beyond_bound(tables: Tables) -> float:
    """How far the slowest message of any run with nulls is beyond the larger of 2 D and D + a null."""
    rows = [*matching(tables["latency"], protocol=NULLS), *tables["rare"]]
    return float(max(row["latency_max_ms"] - max(2 * row["delay_ms"], row["delay_ms"] + NULL_MS) for row in rows))


def symmetric_words(tables: Tables) -> str:
    wait_ms = mean_figure(tables, "wait_ms", NULLS, POISSON)
    sent = [mean_figure(tables, "multicasts_per_message", name, POISSON) for name in (NULLS, TOKEN)]
    return f"D + {wait_ms:.0f} ms with nulls, for {sent[0]:.1f} multicasts per message; token-site sends {sent[1]:.1f}"


def token_words(tables: Tables) -> str:
    over, sent = (mean_figure(tables, name, TOKEN, POISSON) for name in ("over_delay", "multicasts_per_message"))
    return f"{over:.2f} D, for {sent:.1f} multicasts per message"


def near(statement: str, protocol: str, name: str, expected: float, unit: str, note: str) -> Claim:
    return Claim(
        statement=statement,
        source=SECTION,
        measure=lambda tables: mean_figure(tables, name, protocol),
        expected=expected,
        tolerance=WITHIN,
        unit=unit,
        note=note,
    )


CLAIMS = (
    near("The token-site protocol takes 1.97 D.", TOKEN, "over_delay", 1.97, "D", "mean over all delays"),
    near(
        "The symmetric protocol takes D + 98 ms.",
        PLAIN,
        "wait_ms",
        98.0,
        "ms beyond D",
        "mean over all delays; t = 100 ms",
    ),
    Claim(
        statement="The symmetric protocol is the faster one where D exceeds t, the time between messages.",
        source=SECTION,
        measure=crossover,
        expected=PERIOD_MS,
        tolerance=WITHIN,
        unit="ms",
        note="the delay at which the two lines cross",
    ),
    Claim(
        statement="Without nulls, all messages are eventually delivered.",
        source="what the papers take for granted",
        measure=lambda tables: undelivered_max(tables, PLAIN),
        expected=0.0,
        unit="messages",
        note="undelivered messages at the end of a run, maximum over runs: no packet follows the last ones",
    ),
    Claim(
        statement="With nulls, all messages are delivered; so are those of the token-site protocol.",
        source=OURS,
        kind="promise",
        measure=lambda tables: max(undelivered_max(tables, NULLS), undelivered_max(tables, TOKEN)),
        expected=0.0,
        unit="messages",
    ),
    Claim(
        statement="With nulls and frequent messages, a message waits on average for no more than a null: D + 25 ms.",
        source=OURS,
        kind="promise",
        measure=lambda tables: max(numbers_of(tables["latency"], "wait_ms", protocol=NULLS)),
        expected=NULL_MS,
        relation="at most",
        unit="ms beyond D",
        note="mean over messages; the delay and source with the longest wait",
    ),
    Claim(
        statement="With nulls, no message takes longer than the larger of 2 D and D + 25 ms, however rare they are.",
        source=OURS,
        kind="promise",
        measure=beyond_bound,
        expected=0.0,
        tolerance=0.001,
        relation="at most",
        unit="ms",
        note="the slowest message of all runs, less that bound; includes five sites that send once in two seconds, "
        "where nobody speaks unasked and a message takes nearly 2 D",
    ),
    Claim(
        statement="The symmetric protocol sends at most four nulls per message for this.",
        source=OURS,
        kind="promise",
        measure=lambda tables: mean_figure(tables, "multicasts_per_message", NULLS),
        expected=1 + PERIOD_MS / NULL_MS,
        relation="at most",
        unit="multicasts a message",
        note="one for every 25 ms between two messages; includes the message itself and probes",
    ),
)


def over_delay(source: str, table: str, lines: tuple[Curve, ...]) -> Figure:
    return Figure(
        id=f"latency-{table}",
        title=f"Both protocols in isolation, {source} sources",
        caption="30 processes, 10 messages per second each; from submit to last delivery.",
        table=table,
        x="delay_ms",
        y="latency_ms",
        series="protocol",
        error="latency_ms_half",
        xlabel="network delay D (ms)",
        ylabel="latency (ms)",
        paper=lines,
        stacks=LOOKS,
    )


LINES = (
    Curve("the line 2 D", (25.0, 500.0), (50.0, 1000.0)),
    Curve("the line D + t", (25.0, 500.0), (125.0, 600.0)),
)
STUDY = Study(
    name="isolation",
    title="Sequencer and symmetric order in isolation",
    question="Above which network delay should every process number its own messages?",
    paper=PAPER,
    source=SECTION,
    seeds={"quick": 1, "full": 3},
    grid=grid,
    properties=PROPERTIES,
    tables=tables,
    claims=CLAIMS,
    advice=(
        Advice("Sites about equally far apart, with a delay well above 25 ms", "symmetric", symmetric_words),
        Advice("The same, where packets cost more than latency", "token-site", token_words),
    ),
    networks=(cell(TOKEN, PERIODIC, PERIOD_MS, 1, FROM_MS).scenario.topology,),
    figures=(over_delay(PERIODIC, "periodic", LINES), over_delay(POISSON, "poisson", LINES[:1])),
)
