"""Flooding a hypercube over networks of 1,000 to 50,000 nodes: how delay and cost grow. No paper asks this.

The network is that of the overlay study, with as many links as keep a random graph of that size connected: ln n + 1 per
node. Ten senders submit one message of 100 bytes each at once. The figures are per delivery, so that they can be
compared over sizes: a hypercube promises about log2 n sends per delivery, each over about ln n / ln ln n links.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.pipeline.measure.seeds import over_seeds
from isthmus.studies.model import Cell, Claim, Figure, Rows, Scale, Study, Tables, figure_of, numbers_of
from isthmus.studies.overlay.setup import NUMBER_BYTES, connected_degree, overlay_scenario

NODES: dict[Scale, tuple[int, ...]] = {
    "quick": (1000, 2000),
    "full": (1000, 2000, 5000, 10_000, 20_000, 50_000),
}
DATA_BYTES = 100
COLUMNS = ("delay_mean_ms", "delay_max_ms", "sends_each", "hops_each", "bytes_each", "load_max")
STACK_OF = {"flooding": "flooding", "vector, at least": "causal-vector"}
OURS = "ours: beyond the paper's 600 nodes"


def grid(scale: Scale, seeds: Sequence[int]) -> list[Cell]:
    return [
        Cell(
            {"nodes": nodes, "seed": seed},
            overlay_scenario("flooding", nodes, DATA_BYTES, seed, bursts=1, burst=1, degree=connected_degree(nodes)),
        )
        for nodes in NODES[scale]
        for seed in seeds
    ]


def tables(_trace: DataFrame, runs: DataFrame) -> dict[str, DataFrame]:
    """Figures per delivery, over topologies; and what no run may show."""
    if "violations" not in runs.columns:  # layers leave them to the checks
        runs = runs.withColumn("violations", F.lit(None).cast("double"))
    deliveries = F.col("submitted") * (F.col("nodes") - 1)
    each = (
        runs.withColumn("sends_each", F.col("sends") / deliveries)
        .withColumn("hops_each", F.col("hops") / deliveries)
        .withColumn("bytes_each", F.col("arc_bytes") / deliveries)
    )
    growth = over_seeds(each, ["nodes"], COLUMNS)
    vector_bytes = F.lit(32.0) + NUMBER_BYTES * F.col("nodes") + DATA_BYTES
    lost = runs.groupBy("nodes").agg(F.sum("undelivered").alias("undelivered"), F.sum("violations").alias("violations"))
    return {
        "growth": growth.withColumn("vector_bytes_each", vector_bytes).withColumn("protocol", F.lit("flooding")),
        "bytes": by_protocol(growth, vector_bytes),
        "promises": lost.orderBy("nodes"),
    }


def by_protocol(growth: DataFrame, vector_bytes: Column) -> DataFrame:
    """What a delivery costs in bytes, measured of flooding and counted of vector: its counters, data and one header."""
    flooding = growth.select("nodes", F.lit("flooding").alias("protocol"), F.col("bytes_each").alias("bytes"))
    vector = growth.select("nodes", F.lit("vector, at least").alias("protocol"), vector_bytes.alias("bytes"))
    return flooding.unionByName(vector).orderBy("protocol", "nodes")


def rows_of(tables: Tables) -> Rows:
    return sorted(tables["growth"], key=lambda row: row["nodes"])


def delay_growth(tables: Tables) -> float:
    """Growth of the mean delay from the smallest size to the largest, over that of log2 n squared."""
    small, *_, large = rows_of(tables)
    bits = log2(large["nodes"]) / log2(small["nodes"])
    return float(large["delay_mean_ms"]) / float(small["delay_mean_ms"]) / bits**2


def none_of(column: str, statement: str) -> Claim:
    return Claim(
        statement=statement,
        source=OURS,
        measure=lambda tables: sum(numbers_of(tables["promises"], column)),
        relation="at most",
        expected=0.0,
        unit="deliveries",
        kind="promise",
    )


def sends_per_bit(tables: Tables) -> float:
    return max(float(row["sends_each"]) / log2(row["nodes"]) for row in rows_of(tables))


def bytes_over_vector(tables: Tables) -> float:
    largest = rows_of(tables)[-1]
    return figure_of(tables["growth"], "bytes_each", nodes=largest["nodes"]) / float(largest["vector_bytes_each"])


STUDY = Study(
    name="internet-scale",
    title="Flooding at the scale of the Internet",
    question="How do delay and cost of flooding a hypercube grow up to 50,000 nodes?",
    paper="",
    source="",
    seeds={"quick": 1, "full": 3},
    grid=grid,
    properties=(),
    tables=tables,
    claims=(
        Claim(
            statement="The mean delay grows no faster than log2 n squared.",
            source=OURS,
            measure=delay_growth,
            relation="at most",
            expected=1.0,
            unit="times that, smallest size to largest",
            note="the ways along the overlay and those of packets along each of its links both grow with log n",
            kind="promise",
        ),
        Claim(
            statement="A delivery costs at most log2 n sends.",
            source=OURS,
            measure=sends_per_bit,
            relation="at most",
            expected=1.0,
            unit="times log2 n, largest over sizes",
            kind="promise",
        ),
        Claim(
            statement="At the largest size a delivery costs a fraction of the bytes of a vector alone.",
            source=OURS,
            measure=bytes_over_vector,
            relation="at most",
            expected=0.5,
            unit="times a vector's bytes",
            note="4n bytes of counters, the data and one header; fragments would add headers",
            kind="promise",
        ),
        none_of("violations", "No delivery breaks causal order."),
        none_of("undelivered", "Nothing is left undelivered."),
    ),
    figures=(
        Figure(
            id="growth_delay",
            title="Delay of flooding over the number of nodes",
            caption="Mean time from a submit to a delivery at another node; ten messages of 100 bytes at once.",
            table="growth",
            x="nodes",
            y="delay_mean_ms",
            series="protocol",
            error="delay_mean_ms_half",
            stacks=STACK_OF,
            xlabel="nodes",
            ylabel="mean delay, ms",
        ),
        Figure(
            id="growth_hops",
            title="Physical hops per delivery",
            caption="Packets over links of the network, all copies of a message together, per delivery.",
            table="growth",
            x="nodes",
            y="hops_each",
            series="protocol",
            stacks=STACK_OF,
            xlabel="nodes",
            ylabel="hops per delivery",
        ),
        Figure(
            id="growth_bytes",
            title="Bytes per delivery",
            caption="Over logical arcs; of vector what one message weighs: counters, data and one header.",
            table="bytes",
            x="nodes",
            y="bytes",
            series="protocol",
            stacks=STACK_OF,
            xlabel="nodes",
            ylabel="bytes per delivery",
        ),
    ),
)
