"""Causal order by flooding an overlay, compared with vectors over a multicast tree: delay, queues, load and cost.

Flooding sends every message about log2 n times as often, with no control information; the vector protocol once, with n
counters. Which of the two is faster depends on the data and is decided by how long packets wait for links, so that a
packet network is simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import log2

from isthmus.studies.claim import (
    ClaimSource,
    Quantity,
    Rows,
    Tables,
    crossing,
    matching,
    numbers_of,
    over,
    quantity,
    value,
)
from isthmus.studies.model import described
from isthmus.studies.results import PaperLine
from isthmus.topology.overlay.links import Kind as OverlayKind
from isthmus.topology.overlay.links import Overlay, incomplete_cube

SECTION, OURS = ClaimSource("section 5.2"), ClaimSource("ours", "promise")
MODEL = ClaimSource("an independent model of the set-up of section 5.1", "sanity")
DATA = (0, 100, 1000)
FIGURES = {  # nodes, data: mean delay in ms of flooding, of vector
    (100, 0): (30, 40),
    (100, 100): (108, 49),
    (100, 1000): (809, 132),
    (400, 0): (34, 136),
    (400, 100): (125, 144),
    (400, 1000): (939, 217),
}
TOLERANCE = 0.1
STACK_OF = {"flooding": "flooding", "vector": "causal-vector"}


def main_rows(tables: Tables) -> Rows:
    return matching(tables["figures"], part="main")


def sizes(tables: Tables) -> list[int]:
    return sorted({row["nodes"] for row in main_rows(tables)})


def of(protocol: str, nodes: int, data: int, column: str = "delay_mean_ms") -> Quantity:
    return value("figures", column, part="main", protocol=protocol, nodes=nodes, data=data)


def ratios(tables: Tables, data: int, column: str = "delay_mean_ms") -> list[float]:
    """Flooding over vector at every size, smallest first."""
    return [(of("flooding", n, data, column) / of("vector", n, data, column))(tables) for n in sizes(tables)]


def extreme(combine: Callable[[Iterable[float]], float], data: int, column: str = "delay_mean_ms") -> Quantity:
    """The largest or smallest ratio of flooding to vector over all sizes."""
    return Quantity(lambda tables: combine(ratios(tables, data, column)))


def least(column: str) -> Quantity:
    """The smallest ratio of flooding to vector over all sizes and amounts of data."""
    return Quantity(lambda tables: min(found for data in DATA for found in ratios(tables, data, column)))


# Delay


@quantity
def change_of_advantage(tables: Tables, data: int) -> float:
    """The ratio of flooding to vector at the smallest size, over the same at the largest."""
    found = ratios(tables, data)
    return found[0] / found[-1]


@Quantity
def turn(tables: Tables) -> float:
    """The number of nodes from which on flooding is faster at 100 bytes, on straight lines between sizes."""
    return crossing((n, (of("flooding", n, 100) - of("vector", n, 100))(tables)) for n in sizes(tables))


@Quantity
def dependence(tables: Tables) -> float:
    """The growth of flooding's delay from 0 to 1000 bytes over that of vector's; the smallest over sizes."""

    def growth(protocol: str, nodes: int) -> Quantity:
        return of(protocol, nodes, 1000) / of(protocol, nodes, 0)

    return min((growth("flooding", n) / growth("vector", n))(tables) for n in sizes(tables))


# Cost


@quantity
def crossover_bytes(tables: Tables, nodes: int) -> float:
    """The data at which both send as many bytes, over 4n / (log2 n - 1)."""
    columns = ((protocol, nodes, data, "arc_bytes") for data in DATA for protocol in ("flooding", "vector"))
    found = [of(*column)(tables) for column in columns]
    gaps = [flooding - vector for flooding, vector in zip(found[::2], found[1::2], strict=True)]
    return crossing(zip(DATA, gaps, strict=True)) / (4 * nodes / (log2(nodes) - 1))


# Queues


@Quantity
def queue_over_data(tables: Tables) -> float:
    """The largest ratio, over sizes, of the longest delivery queues at two amounts of data."""

    def at(nodes: int) -> float:
        found = [of("vector", nodes, data, "queue_max")(tables) for data in DATA]
        return max(found) / max(1.0, min(found))

    return max(map(at, sizes(tables)))


@Quantity
def queue_over_nodes(tables: Tables) -> float:
    """Mean delivery queue at the largest size over the smallest; the least over amounts of data."""
    small, *_, large = sizes(tables)
    return min(
        (of("vector", large, data, "queue_mean") / of("vector", small, data, "queue_mean"))(tables) for data in DATA
    )


# Crashes and promises


def undelivered(protocol: str) -> Quantity:
    return value("promises", "undelivered", part="crashes", protocol=protocol)


@Quantity
def undelivered_without_crashes(tables: Tables) -> float:
    return sum(numbers_of([row for row in tables["promises"] if row["part"] != "crashes"], "undelivered"))


@Quantity
def sends_off(tables: Tables) -> float:
    """The largest difference of sends per broadcast from 2E - (n - 1), over all overlays and runs without crashes."""
    from isthmus.topology.overlay.measures import flooding_sends, link_count

    worst = 0.0
    for row in tables["promises"]:
        if row["crashed"] or row["protocol"] == "vector":
            continue
        kind: OverlayKind = row["protocol"] if row["part"] == "overlays" else "hypercube"
        expected = flooding_sends(row["nodes"], link_count(Overlay(kind).adjacency(row["nodes"])))
        worst = max(worst, abs(row["sends_min"] - expected), abs(row["sends_max"] - expected))
    return worst


def near_ids_gain(column: str) -> Quantity:
    by_topology, by_number = (value("figures", column, part="ids", protocol=ids) for ids in ("topology", "numbers"))
    return by_topology / by_number


COUNTED = "in messages and packets, as the paper counts; not in bytes"
CLAIMS = (
    *(
        MODEL.claim(
            f"{nodes} nodes, {data} bytes of data: mean delay of {protocol}.",
            of(protocol, nodes, data).near(expected, "ms", TOLERANCE),
        )
        for (nodes, data), figures in FIGURES.items()
        for protocol, expected in zip(STACK_OF, figures, strict=True)
    ),
    SECTION.claim(
        "Without data flooding is faster at every size.", extreme(max, 0).at_most(1.0, "times vector's delay")
    ),
    SECTION.claim(
        "Without data flooding's advantage grows with the number of nodes.",
        change_of_advantage(0).at_least(1.0, "times"),
    ),
    SECTION.claim(
        "At 100 bytes the gap turns: vector is faster with fewer than 350 nodes, flooding with more.",
        turn.near(350.0, "nodes", 0.15),
        "on straight lines between the measured sizes",
        full_only=True,
    ),
    SECTION.claim(
        "At 100 bytes vector is faster with 100 nodes, and the gap shrinks with more.",
        change_of_advantage(100).at_least(1.0, "times"),
        "flooding's delay over vector's at the smallest size, over the same at the largest",
    ),
    SECTION.claim(
        "At 1000 bytes vector is faster at every size.", extreme(min, 1000).at_least(1.0, "times vector's delay")
    ),
    SECTION.claim("Flooding's delay depends more on the data than vector's.", dependence.at_least(1.0, "times")),
    SECTION.claim(
        "Vector sends fewer messages at every size.", least("fragments").at_least(1.0, "times vector's fragments")
    ),
    SECTION.claim(
        "Vector's messages take fewer physical hops at every size.", least("hops").at_least(1.0, "times vector's hops")
    ),
    SECTION.claim(
        "Without data flooding sends fewer bytes at every size.",
        extreme(max, 0, "arc_bytes").at_most(1.0, "times vector's bytes"),
    ),
    SECTION.claim(
        "At 100 bytes flooding still sends fewer bytes, at every size.",
        extreme(max, 100, "arc_bytes").at_most(1.0, "times vector's bytes"),
        "largest over sizes; with many nodes it does, with 100 it does not",
    ),
    SECTION.claim(
        "At 1000 bytes flooding sends more bytes at every size.",
        extreme(min, 1000, "arc_bytes").at_least(1.0, "times vector's bytes"),
    ),
    *(
        SECTION.claim(
            f"With {nodes} nodes both send as many bytes at 4n / (log2 n - 1) bytes of data.",
            crossover_bytes(nodes).near(1.0, "times that", 0.25),
            "the printed formula counts words and omits headers, of which flooding sends more",
        )
        for nodes in (100, 400)
    ),
    SECTION.claim(
        "Flooding's delivery queue is always empty.",
        over(max, "figures", "queue_max", part="main", protocol="flooding").at_most(0.0, "messages"),
    ),
    SECTION.claim(
        "Vector's longest delivery queue hardly depends on the data.",
        queue_over_data.at_most(1.5, "times"),
        "the longest over the shortest of three amounts of data, at the size where they differ most",
    ),
    SECTION.claim(
        "Vector's delivery queue grows with the number of nodes.",
        queue_over_nodes.at_least(1.0, "times"),
        "mean, largest size over smallest: the later messages arrive, the fewer its sender had delivered",
    ),
    SECTION.claim(
        "Without data the longest queue of a link is longer under flooding.",
        extreme(min, 0, "load_max").at_least(1.0, "times vector's"),
    ),
    SECTION.claim(
        "Without data links hold fewer messages on average under flooding.",
        extreme(max, 0, "load_mean").at_most(1.0, "times vector's"),
        COUNTED,
    ),
    SECTION.claim(
        "Flooding delivers everything when one node fewer has crashed than the connectivity.",
        undelivered("flooding, connectivity - 1").at_most(0.0, "deliveries missing"),
        "five of 48 nodes, all but one of the neighbours of one",
    ),
    SECTION.claim(
        "Vector delivers everything when any number of nodes has crashed.",
        undelivered("vector, half of all").at_most(0.0, "deliveries missing"),
        "half of 48 nodes; routers continue",
    ),
    ClaimSource("ours", "sanity").claim(
        "A node all of whose neighbours have crashed is cut off from flooding.",
        undelivered("flooding, all neighbours of one").at_least(1.0, "deliveries missing"),
        "why connectivity - 1 is the limit",
    ),
    OURS.claim(
        "A broadcast is sent exactly 2E - (n - 1) times, over every overlay.",
        sends_off.at_most(0.0, "sends too many or too few"),
    ),
    OURS.claim(
        "No delivery breaks causal order.",
        over(sum, "promises", "violations").at_most(0.0, "deliveries"),
        "each delivery against what its sender had delivered; in every run",
    ),
    OURS.claim("Nothing is left undelivered.", undelivered_without_crashes.at_most(0.0, "deliveries")),
    SECTION.claim(
        "Flooding a clique is slower than flooding a hypercube.",
        (
            value("figures", "delay_mean_ms", part="overlays", protocol="clique")
            / value("figures", "delay_mean_ms", part="overlays", protocol="hypercube")
        ).at_least(1.0, "times"),
        "33 nodes without data",
    ),
    ClaimSource("section 6").claim(
        "An incomplete cube of 2^k + 1 nodes leaves one with a single neighbour.",
        Quantity(lambda _: float(min(map(len, incomplete_cube(33))))).near(1.0, "neighbours"),
        "33 nodes; the hypercube that substitutes missing ids gives each at least five",
    ),
    OURS.claim(
        "Ids by topology shorten the paths of packets.",
        near_ids_gain("hops").at_most(1.0, "times the hops of ids by number"),
    ),
    OURS.claim(
        "Ids by topology make flooding faster.",
        near_ids_gain("delay_mean_ms").at_most(1.0, "times the delay of ids by number"),
    ),
)


PAPER = {
    f"delay_{data}": tuple(
        PaperLine(
            f"{protocol}, expected",
            tuple(float(nodes) for nodes, of_data in FIGURES if of_data == data),
            tuple(float(figures[place]) for (_, of_data), figures in FIGURES.items() if of_data == data),
        )
        for place, protocol in enumerate(STACK_OF)
    )
    for data in DATA
}
STUDY = described("overlay", CLAIMS, networks=False, stacks=("protocol", STACK_OF), paper=PAPER)
