"""Causal order by flooding an overlay, beside vectors over a multicast tree: delay, queues, load and cost.

Flooding sends every message about log2 n times as often, with no control information; the vector protocol once, with n
counters. Which of the two is faster depends on the data: a packet network tells, as what decides is how long packets
wait for links. Tables come from the figures of each run (sim/packets/figures.py); no run has rows.

Parts of the grid: *main*, both protocols over sizes and data; *overlays*, other graphs to flood along, with 2^5 + 1
nodes, the size that leaves one node of an incomplete cube with one neighbour; *ids*, ids in the order of numbers and by
topology; *crashes*, nodes that are down from the start, in numbers that an overlay survives and one more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.pipeline.measure.seeds import over_seeds
from isthmus.pipeline.sweep.sweep import Scalar
from isthmus.scenario.model import Scenario
from isthmus.scenario.overlay import OverlaySpec
from isthmus.studies.model import Cell, Curve, Figure, Scale, Study
from isthmus.studies.overlay.claims import CLAIMS, DATA, FIGURES, TITLE
from isthmus.studies.overlay.setup import Protocol, overlay_scenario, wired_topology
from isthmus.topology.overlay.links import Kind, hypercube, hypercube_neighbours

SIZES: dict[Scale, tuple[int, ...]] = {"quick": (100, 400), "full": (100, 200, 300, 400, 500, 600)}
PROTOCOLS: tuple[Protocol, ...] = ("flooding", "vector")
KINDS: tuple[Kind, ...] = ("hypercube", "incomplete", "random", "ring", "clique")
IDS: tuple[Literal["numbers", "topology"], ...] = ("numbers", "topology")
BASELINE_NODES, IDS_NODES, CRASH_NODES = 33, 64, 48
CONNECTIVITY = 6  # of the hypercube of 48
FIGURE_COLUMNS = (
    *("delay_mean_ms", "delay_max_ms", "queue_mean", "queue_max", "load_mean", "load_max"),
    *("sends", "fragments", "arc_bytes", "hops"),
)
STACK_OF = {"flooding": "flooding", "vector": "causal-vector"}


def grid(scale: Scale, seeds: Sequence[int]) -> list[Cell]:
    """Every part, with every topology."""
    cells = [
        cell("main", protocol, nodes, data, seed, overlay_scenario(protocol, nodes, data, seed))
        for nodes in SIZES[scale]
        for data in DATA
        for protocol in PROTOCOLS
        for seed in seeds
    ]
    for seed in seeds:
        for kind in KINDS:
            scenario = overlay_scenario("flooding", BASELINE_NODES, 0, seed, overlay=OverlaySpec(kind=kind))
            cells.append(cell("overlays", kind, BASELINE_NODES, 0, seed, scenario))
        scenario = overlay_scenario("vector", BASELINE_NODES, 0, seed)
        cells.append(cell("overlays", "vector", BASELINE_NODES, 0, seed, scenario))
        topology = wired_topology(IDS_NODES, seed)
        for ids in IDS:
            overlay = OverlaySpec(ids=ids)
            scenario = overlay_scenario("flooding", IDS_NODES, 100, seed, overlay=overlay, topology=topology)
            cells.append(cell("ids", ids, IDS_NODES, 100, seed, scenario))
        cells += crash_cells(seed)
    return cells


def crash_cells(seed: int) -> list[Cell]:
    """Neighbours of a node of least degree are down, one fewer than the connectivity, and all; of vector, half."""
    near = hypercube(CRASH_NODES)
    lonely = min(range(CRASH_NODES), key=lambda node: (len(near[node]), node))
    around = hypercube_neighbours(lonely, CRASH_NODES)
    half = [node for node in range(CRASH_NODES) if node % 2 != lonely % 2]
    chosen: list[tuple[str, Protocol, Sequence[int]]] = [
        ("flooding, connectivity - 1", "flooding", around[: CONNECTIVITY - 1]),
        ("flooding, all neighbours of one", "flooding", around),
        ("vector, half of all", "vector", half),
    ]
    return [
        cell(
            *("crashes", name, CRASH_NODES, 0, seed),
            overlay_scenario(protocol, CRASH_NODES, 0, seed, crashed=crashed, spared=(lonely,)),
            crashed=len(crashed),
        )
        for name, protocol, crashed in chosen
    ]


def cell(part: str, protocol: str, nodes: int, data: int, seed: int, scenario: Scenario, crashed: int = 0) -> Cell:
    parameters: dict[str, Scalar] = {
        "part": part,
        "protocol": protocol,
        "nodes": nodes,
        "data": data,
        "crashed": crashed,
        "seed": seed,
    }
    return Cell(parameters, scenario)


def tables(_trace: DataFrame, runs: DataFrame) -> dict[str, DataFrame]:
    """The figures of all runs, over topologies; and what no run may show."""
    if "violations" not in runs.columns:  # layers leave them to the checks
        runs = runs.withColumn("violations", F.lit(None).cast("double"))
    by = ["part", "protocol", "nodes", "data", "crashed"]
    figures = over_seeds(runs, by, FIGURE_COLUMNS)
    promises = runs.groupBy(*by).agg(
        F.count("*").alias("runs"),
        F.sum("undelivered").alias("undelivered"),
        F.sum("violations").alias("violations"),
        F.min(F.col("sends") / F.col("submitted")).alias("sends_min"),
        F.max(F.col("sends") / F.col("submitted")).alias("sends_max"),
    )
    main = figures.where(F.col("part") == "main")
    megabytes = main.withColumn("megabytes", F.col("arc_bytes") / 1e6).withColumn("hops_million", F.col("hops") / 1e6)
    of_data = {f"data_{data}": megabytes.where(F.col("data") == data).orderBy("protocol", "nodes") for data in DATA}
    return {"figures": figures, "promises": promises.orderBy(*by), **of_data}


def delay_figure(data: int) -> Figure:
    points = {
        name: [(n, pair[place]) for (n, d), pair in FIGURES.items() if d == data]
        for place, name in enumerate(PROTOCOLS)
    }
    curves = tuple(
        Curve(f"{name}, expected", tuple(float(n) for n, _ in found), tuple(float(ms) for _, ms in found))
        for name, found in points.items()
    )
    return Figure(
        id=f"delay_{data}",
        title=f"Delay of messages with {data} bytes of data",
        caption="Mean time from a submit to a delivery at another node, over topologies, with 95 % intervals.",
        table=f"data_{data}",
        x="nodes",
        y="delay_mean_ms",
        series="protocol",
        error="delay_mean_ms_half",
        xlabel="nodes",
        ylabel="mean delay, ms",
        paper=curves,
        stacks=STACK_OF,
    )


def cost_figure(column: str, title: str, ylabel: str, caption: str, data: int) -> Figure:
    return Figure(
        id=f"{column}_{data}",
        title=f"{title}, {data} bytes of data",
        caption=caption,
        table=f"data_{data}",
        x="nodes",
        y=column,
        series="protocol",
        xlabel="nodes",
        ylabel=ylabel,
        stacks=STACK_OF,
    )


ARCS = "Each message counts once for each logical arc: from a sender to each of its targets."
STUDY = Study(
    name="overlay",
    title="Causal order by flooding an overlay",
    question="When is flooding an overlay faster and cheaper than vectors over a multicast tree?",
    paper=TITLE,
    source="section 5",
    seeds={"quick": 3, "full": 20},
    grid=grid,
    properties=(),
    tables=tables,
    claims=CLAIMS,
    figures=(
        delay_figure(0),
        delay_figure(100),
        delay_figure(1000),
        *(cost_figure("megabytes", "Bytes sent", "megabytes", ARCS, data) for data in DATA),
        cost_figure("hops_million", "Physical hops", "million hops", "Packets over links of the network.", 0),
        cost_figure("load_max", "Longest queue of a link", "packets on one link", "Waiting, leaving or under way.", 0),
        cost_figure("queue_mean", "Delivery queue", "messages at a node", "Mean by time of those that wait.", 0),
    ),
)
