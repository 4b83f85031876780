"""Groups joined by routers beside one large group: latency, throughput, and what packing, priorities and WANs change.

A token visits the members of a ring in turn, so that latency grows with their number; four rings of a quarter of the
members, joined by a ring of routers, are four times as fast for messages that stay inside. What crosses pays for three
rings. composition_setup.py has the cost model and the load, composition_claims.py what paper 003 says of it,
composition_theorems.py its theorems.

Parts of the grid: *size*, latency over members, for shares of messages between groups and two batches; *throughput*,
batches of 1 to 30 in one, two and four groups; *packing*, several messages in one frame of a router; *priorities*, the
token visits routers twice in a rotation; *lan*, two groups on one LAN; *wan*, routers 30 ms apart, with a ring and with
a causal multicast between them; *stacks*, other orders inside groups, with an open load.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.core.units import NS_PER_MS
from isthmus.pipeline.measure.basics import NS_PER_S, of_kind
from isthmus.pipeline.measure.seeds import over_seeds
from isthmus.pipeline.sweep.sweep import Scalar
from isthmus.scenario.model import Scenario
from isthmus.studies.composition.claims import CLAIMS, PAPER, SPEC, series_of
from isthmus.studies.composition.setup import ROUNDS, WARM_UP, Between, composed, loaded, network_of
from isthmus.studies.composition.theorems import THEOREMS
from isthmus.studies.model import Cell, Curve, Figure, Scale, Study

SIZES: dict[Scale, dict[int, tuple[int, ...]]] = {  # members, by batch
    "quick": {10: (12, 36), 30: (12,)},
    "full": {10: (4, 12, 20, 28, 36), 30: (4, 12, 20, 28, 36)},
}
SHARES = (0.0, 0.1, 0.2, 0.5, 1.0)
QUICK_SHARES = {(12, 10): (0.2, 0.5, 1.0), (12, 30): (0.2, 0.5), (36, 10): (0.2, 0.5)}  # by members and batch
BATCHES: dict[Scale, tuple[int, ...]] = {"quick": (1, 5), "full": (1, 2, 5, 10, 15, 20, 25, 30)}
PACKS: dict[Scale, tuple[int, ...]] = {"quick": (8,), "full": (2, 4, 8, 16)}
THROUGHPUT_MEMBERS, THROUGHPUT_SHARE = 36, 0.1
WAN_MS, WAN_SHARE = 30.0, 0.1
STACKS_SHARE = 0.2
OPEN_MS: dict[Scale, float] = {"quick": 800.0, "full": 3_000.0}  # of an open load
LOADS: dict[str, dict[int, float]] = {  # messages per s, near what one group of 12 or 36 can bear
    "ring": {12: 1500.0, 36: 1500.0},
    "token-site": {12: 1500.0, 36: 1500.0},
    "symmetric": {12: 80.0, 36: 25.0},
}
MEMBERS: dict[Scale, tuple[int, ...]] = {"quick": (12,), "full": (12, 36)}  # of the parts that vary something else
TIMES: dict[Scale, tuple[int, int]] = {"quick": (6, 2), "full": (ROUNDS, WARM_UP)}  # batches, and those not counted
BY = ("part", "series", "groups", "members", "batch", "inter", "variant")


def grid(scale: Scale, seeds: Sequence[int]) -> list[Cell]:
    """Every part; only the mix of messages to own and other groups is drawn."""
    rounds, warm_up = TIMES[scale]
    cells: list[Cell] = []

    def add(part: str, groups: int, members: int, batch: int, inter: float, variant: str = "", **more: Any) -> None:
        for seed in seeds:
            made = composed(groups, members, batch, inter, seed, rounds=rounds, **more)
            cells.append(cell(part, groups, members, batch, inter, variant, seed, made, rounds, warm_up))

    for batch, sizes in SIZES[scale].items():
        for members in sizes:
            add("size", 1, members, batch, 0.0)
            for inter in SHARES if scale == "full" else QUICK_SHARES[members, batch]:
                add("size", 4, members, batch, inter)
    for batch in BATCHES[scale]:
        for groups in (1, 2, 4):
            add("throughput", groups, THROUGHPUT_MEMBERS, batch, THROUGHPUT_SHARE if groups > 1 else 0.0)
    for members in MEMBERS[scale]:
        for pack in PACKS[scale]:
            add("packing", 4, members, 10, 1.0, f"{pack} a frame", pack=pack)
        add("lan", 4, members, 10, 0.2, "two groups on a LAN", shared=True)
    add("priorities", 4, 36, 10, 0.5, "routers twice", first=True)
    between: tuple[Between, ...] = ("ring", "causal")
    for kind in between if scale == "full" else ():  # a rotation of far routers outlasts the few batches of quick runs
        add("wan", 4, 36, 10, WAN_SHARE, kind, wan_ms=WAN_MS, between=kind)
    for inside, loads in LOADS.items():
        for members in MEMBERS[scale]:
            for groups in (1, 4):
                for seed in seeds:
                    made = loaded(groups, members, loads[members], STACKS_SHARE, seed, inside, OPEN_MS[scale])
                    cells.append(cell("stacks", groups, members, 1, STACKS_SHARE, inside, seed, made, 0, 0))
    return cells


def cell(
    part: str,
    groups: int,
    members: int,
    batch: int,
    inter: float,
    variant: str,
    seed: int,
    scenario: Scenario,
    rounds: int,
    warm_up: int,
) -> Cell:
    parameters: dict[str, Scalar] = {
        "part": part,
        "series": series_of(groups, inter, variant),
        "groups": groups,
        "members": members,
        "batch": batch,
        "inter": inter,
        "variant": variant,
        "rounds": rounds,
        "warm_up": warm_up,
        "seed": seed,
    }
    return Cell(parameters, scenario)


def tables(trace: DataFrame, runs: DataFrame) -> dict[str, DataFrame]:
    """Latency to the last delivery in any group, of all messages and of those between groups; throughput; the rest."""
    known = runs.select("run", "seed", "rounds", "warm_up", *BY, "undelivered", "dropped", "refused", "rejected")
    identity = ["run", "origin", "sender", "number"]
    sent = trace.where(of_kind(Kind.SUBMIT)).select(*identity, F.col("time_ns").alias("at_ns"), "destinations")
    last = trace.where(of_kind(Kind.DELIVER)).groupBy(*identity).agg(F.max("time_ns").alias("last_ns"))
    counted = F.col("number") > F.col("warm_up") * F.col("batch")
    messages = (
        sent.join(last, identity)
        .join(F.broadcast(known.select("run", "rounds", "warm_up", "batch")), "run")
        .where(counted)
        .withColumn("latency_ms", (F.col("last_ns") - F.col("at_ns")) / NS_PER_MS)
        .withColumn("crosses", F.col("destinations").isNotNull())
    )
    by_run = messages.groupBy("run").agg(
        F.count("*").alias("messages"),
        F.mean("latency_ms").alias("latency_ms"),
        F.max("latency_ms").alias("latency_max_ms"),
        F.mean(F.when(~F.col("crosses"), F.col("latency_ms"))).alias("inside_ms"),
        F.mean(F.when(F.col("crosses"), F.col("latency_ms"))).alias("between_ms"),
    )
    spans = messages.groupBy("run", "origin", "sender").agg(
        F.min("at_ns").alias("first_ns"),
        F.max("at_ns").alias("final_ns"),
        F.first("batch").alias("batch"),
        (F.first("rounds") - F.first("warm_up") - 1).alias("intervals"),
    )
    per_s = F.col("intervals") * F.col("batch") * NS_PER_S / F.nullif(F.col("final_ns") - F.col("first_ns"), F.lit(0))
    rates = spans.where(F.col("intervals") > 0).groupBy("run").agg(F.sum(per_s).alias("messages_per_s"))
    whole = known.join(by_run, "run").join(rates, "run", "left")
    columns = ["latency_ms", "latency_max_ms", "inside_ms", "between_ms", "messages_per_s"]
    figures = over_seeds(whole, BY, columns).cache()
    left = known.groupBy("part").agg(
        F.count("*").alias("runs"),
        *(F.sum(name).alias(name) for name in ("undelivered", "dropped", "refused", "rejected")),
    )

    def part(name: str, *order: str) -> DataFrame:
        return figures.where(F.col("part") == name).orderBy(*order)

    size = part("size", "series", "members")
    return {
        "figures": figures,
        "batch_10": size.where(F.col("batch") == 10),
        "batch_30": size.where(F.col("batch") == 30),
        "between_10": size.where((F.col("batch") == 10) & F.col("between_ms").isNotNull()),
        "throughput": part("throughput", "series", "batch"),
        "besides": figures.where(F.col("part").isin("packing", "priorities", "lan", "wan")).orderBy("part", "series"),
        "stacks": part("stacks", "variant", "members", "groups"),
        "left": left.orderBy("part"),
    }


def size_figure(batch: int) -> Figure:
    expected = {name: [(n, by_batch[batch]) for n, by_batch in found.items()] for name, found in SPEC.items()}
    curves = tuple(
        Curve(f"{name}, expected", tuple(float(n) for n, _ in found), tuple(ms for _, ms in found))
        for name, found in expected.items()
    )
    return Figure(
        id=f"latency_{batch}",
        title=f"Latency over members, batches of {batch}",
        caption="Mean over messages of the time from the submit, right after the token has left, to the last delivery.",
        table=f"batch_{batch}",
        x="members",
        y="latency_ms",
        series="series",
        error="latency_ms_half",
        xlabel="members in all",
        ylabel="latency, ms",
        paper=curves,
        headline=batch == 10,
    )


STUDY = Study(
    name="composition",
    title="Groups joined by routers",
    question="When are several small groups, joined by routers, faster than one large group, and by how much?",
    paper=PAPER,
    source="section 5.2",
    seeds={"quick": 1, "full": 3},
    grid=grid,
    properties=("integrity", "validity", "views", "fifo", "total"),
    tables=tables,
    claims=(*CLAIMS, *THEOREMS),
    networks=(network_of(4, 12, 0.005),),
    figures=(
        size_figure(10),
        size_figure(30),
        Figure(
            id="throughput",
            title="Throughput and latency of one, two and four groups",
            caption=(
                "36 members, 10 % of the messages between groups; batches of 1 to 30 from left to right along each "
                "line. All groups together."
            ),
            table="throughput",
            x="messages_per_s",
            y="latency_ms",
            series="series",
            xlabel="messages per s, all groups together",
            ylabel="latency, ms",
        ),
        Figure(
            id="between",
            title="Messages between groups alone, batches of 10",
            caption="What a message pays that crosses two groups and the ring of routers.",
            table="between_10",
            x="members",
            y="between_ms",
            series="series",
            error="between_ms_half",
            xlabel="members in all",
            ylabel="latency, ms",
        ),
    ),
)
