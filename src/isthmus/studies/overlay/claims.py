"""What the paper says of flooding and vectors, one claim each, and what must hold for it to mean anything."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from math import log2

from isthmus.studies.model import Claim, Kind, Relation, Rows, Tables, figure_of, matching, numbers_of
from isthmus.topology.overlay.links import Kind as OverlayKind
from isthmus.topology.overlay.links import Overlay, incomplete_cube
from isthmus.topology.overlay.measures import flooding_sends, link_count

TITLE = "Causal ordering in deterministic overlay networks"
SECTION = "section 5.2"
MODEL = "an independent model of the set-up of section 5.1"
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
TURN_NODES = 350  # below which, at 100 bytes, vector is faster


def main_rows(tables: Tables) -> Rows:
    return matching(tables["figures"], part="main")


def sizes(tables: Tables) -> list[int]:
    return sorted({row["nodes"] for row in main_rows(tables)})


def of(tables: Tables, protocol: str, nodes: int, data: int, column: str = "delay_mean_ms") -> float:
    return figure_of(main_rows(tables), column, protocol=protocol, nodes=nodes, data=data)


def ratios(tables: Tables, data: int, column: str = "delay_mean_ms") -> list[float]:
    """Flooding over vector at every size, smallest first."""
    return [of(tables, "flooding", n, data, column) / of(tables, "vector", n, data, column) for n in sizes(tables)]


def claim(
    statement: str,
    measure: Callable[[Tables], float],
    relation: Relation,
    expected: float,
    unit: str = "",
    note: str = "",
    kind: Kind = "paper",
    tolerance: float = 0.0,
) -> Claim:
    return Claim(
        statement=statement,
        source=SECTION if kind == "paper" else "ours",
        measure=measure,
        relation=relation,
        expected=expected,
        unit=unit,
        note=note,
        kind=kind,
        tolerance=tolerance,
    )


def figure_claim(nodes: int, data: int, protocol: str, expected: float) -> Claim:
    return Claim(
        statement=f"{nodes} nodes, {data} bytes of data: mean delay of {protocol}.",
        source=MODEL,
        measure=lambda tables: of(tables, protocol, nodes, data),
        expected=expected,
        tolerance=TOLERANCE,
        unit="ms",
        kind="sanity",
    )


# Delay


def growth_of_advantage(tables: Tables) -> float:
    found = ratios(tables, 0)
    return found[0] / found[-1]


def turn(tables: Tables) -> float:
    """The number of nodes from which on flooding is faster at 100 bytes, on straight lines between sizes."""
    gaps = [(n, of(tables, "flooding", n, 100) - of(tables, "vector", n, 100)) for n in sizes(tables)]
    for (n, gap), (further, later) in pairwise(gaps):
        if gap > 0 >= later:
            return n + (further - n) * gap / (gap - later)
    raise LookupError("no size at which the faster protocol changes")


def dependence(tables: Tables) -> float:
    """How many times more flooding's delay grows from 0 to 1000 bytes than vector's; the least over sizes."""

    def growth(protocol: str, nodes: int) -> float:
        return of(tables, protocol, nodes, 1000) / of(tables, protocol, nodes, 0)

    return min(growth("flooding", n) / growth("vector", n) for n in sizes(tables))


# Cost


def crossover_bytes(nodes: int, tables: Tables) -> float:
    """The data at which both send as many bytes, over 4n / (log2 n - 1)."""
    gaps = [
        (d, of(tables, "flooding", nodes, d, "arc_bytes") - of(tables, "vector", nodes, d, "arc_bytes")) for d in DATA
    ]
    for (d, gap), (further, later) in pairwise(gaps):
        if gap <= 0 < later:
            return (d + (further - d) * -gap / (later - gap)) / (4 * nodes / (log2(nodes) - 1))
    raise LookupError("no data at which the cheaper protocol changes")


# Queues


def queue_over_data(tables: Tables) -> float:
    """The largest ratio, over sizes, of the longest delivery queues at two amounts of data."""
    return max(
        max(found) / max(1.0, min(found))
        for n in sizes(tables)
        if (found := [of(tables, "vector", n, d, "queue_max") for d in DATA])
    )


def queue_over_nodes(tables: Tables) -> float:
    """Mean delivery queue at the largest size over the smallest; the least over amounts of data."""
    small, *_, large = sizes(tables)
    return min(
        of(tables, "vector", large, d, "queue_mean") / of(tables, "vector", small, d, "queue_mean") for d in DATA
    )


# Crashes and promises


def undelivered(tables: Tables, protocol: str) -> float:
    return figure_of(tables["promises"], "undelivered", part="crashes", protocol=protocol)


def sends_off(tables: Tables) -> float:
    """How far sends per broadcast are from 2E - (n - 1), at most, over all overlays and runs without crashes."""
    worst = 0.0
    for row in tables["promises"]:
        if row["crashed"] or row["protocol"] == "vector":
            continue
        kind: OverlayKind = row["protocol"] if row["part"] == "overlays" else "hypercube"
        expected = flooding_sends(row["nodes"], link_count(Overlay(kind).adjacency(row["nodes"])))
        worst = max(worst, abs(row["sends_min"] - expected), abs(row["sends_max"] - expected))
    return worst


def total(tables: Tables, column: str) -> float:
    rows = [row for row in tables["promises"] if row["part"] != "crashes" or column == "violations"]
    return sum(numbers_of(rows, column))


def baseline(tables: Tables, kind: str, column: str) -> float:
    """An overlay's figure over the hypercube's, at 33 nodes."""
    rows = matching(tables["figures"], part="overlays")
    return figure_of(rows, column, protocol=kind) / figure_of(rows, column, protocol="hypercube")


def near_ids_gain(tables: Tables, column: str) -> float:
    rows = matching(tables["figures"], part="ids")
    return figure_of(rows, column, protocol="topology") / figure_of(rows, column, protocol="numbers")


COUNTED = "in messages and packets, as the paper counts; not in bytes"
CLAIMS = (
    *(
        figure_claim(nodes, data, protocol, expected[place])
        for (nodes, data), expected in FIGURES.items()
        for place, protocol in enumerate(("flooding", "vector"))
    ),
    claim(
        "Without data flooding is faster at every size.",
        lambda tables: max(ratios(tables, 0)),
        *("at most", 1.0, "times vector's delay"),
    ),
    claim(
        "Without data flooding gains the more the more nodes there are.", growth_of_advantage, "at least", 1.0, "times"
    ),
    Claim(
        statement="At 100 bytes the gap turns: vector is faster with fewer than 350 nodes, flooding with more.",
        source=SECTION,
        measure=turn,
        expected=float(TURN_NODES),
        tolerance=0.15,
        unit="nodes",
        note="on straight lines between the sizes that were measured",
        full_only=True,
    ),
    claim(
        "At 100 bytes vector is faster with 100 nodes, and the gap shrinks with more.",
        lambda tables: ratios(tables, 100)[0] / ratios(tables, 100)[-1],
        *("at least", 1.0, "times"),
        note="flooding's delay over vector's at the smallest size, over the same at the largest",
    ),
    claim(
        "At 1000 bytes vector is faster at every size.",
        lambda tables: min(ratios(tables, 1000)),
        *("at least", 1.0, "times vector's delay"),
    ),
    claim("Flooding's delay depends more on the data than vector's.", dependence, "at least", 1.0, "times"),
    claim(
        "Vector sends fewer messages at every size.",
        lambda tables: min(ratio for data in DATA for ratio in ratios(tables, data, "fragments")),
        *("at least", 1.0, "times vector's fragments"),
    ),
    claim(
        "Vector's messages take fewer physical hops at every size.",
        lambda tables: min(ratio for data in DATA for ratio in ratios(tables, data, "hops")),
        *("at least", 1.0, "times vector's hops"),
    ),
    claim(
        "Without data flooding sends fewer bytes at every size.",
        lambda tables: max(ratios(tables, 0, "arc_bytes")),
        *("at most", 1.0, "times vector's bytes"),
    ),
    claim(
        "At 100 bytes flooding still sends fewer bytes, at every size.",
        lambda tables: max(ratios(tables, 100, "arc_bytes")),
        *("at most", 1.0, "times vector's bytes"),
        note="largest over sizes; with many nodes it does, with 100 it does not",
    ),
    claim(
        "At 1000 bytes flooding sends more bytes at every size.",
        lambda tables: min(ratios(tables, 1000, "arc_bytes")),
        *("at least", 1.0, "times vector's bytes"),
    ),
    *(
        claim(
            f"With {nodes} nodes both send as many bytes at 4n / (log2 n - 1) bytes of data.",
            partial(crossover_bytes, nodes),
            *("near", 1.0, "times that"),
            tolerance=0.25,
            note="the printed formula counts words; headers, which flooding pays more often, are not in it",
        )
        for nodes in (100, 400)
    ),
    claim(
        "Flooding's delivery queue is always empty.",
        lambda tables: max(numbers_of(main_rows(tables), "queue_max", protocol="flooding")),
        *("at most", 0.0, "messages"),
    ),
    claim(
        "Vector's longest delivery queue hardly depends on the data.",
        queue_over_data,
        *("at most", 1.5, "times"),
        note="the longest over the shortest of three amounts of data, at the size where they differ most",
    ),
    claim(
        "Vector's delivery queue grows with the number of nodes.",
        queue_over_nodes,
        *("at least", 1.0, "times"),
        note="mean, largest size over smallest: the later messages are, the less its sender had delivered",
    ),
    claim(
        "Without data the longest queue of a link is longer under flooding.",
        lambda tables: min(ratios(tables, 0, "load_max")),
        *("at least", 1.0, "times vector's"),
    ),
    claim(
        "Without data links hold fewer messages on average under flooding.",
        lambda tables: max(ratios(tables, 0, "load_mean")),
        *("at most", 1.0, "times vector's"),
        note=COUNTED,
    ),
    claim(
        "Flooding delivers everything when one node fewer has crashed than the connectivity.",
        lambda tables: undelivered(tables, "flooding, connectivity - 1"),
        *("at most", 0.0, "deliveries missing"),
        note="five of 48 nodes, all but one of the neighbours of one",
    ),
    claim(
        "Vector delivers everything when any number of nodes has crashed.",
        lambda tables: undelivered(tables, "vector, half of all"),
        *("at most", 0.0, "deliveries missing"),
        note="half of 48 nodes; routers go on",
    ),
    claim(
        "A node all of whose neighbours have crashed is cut off from flooding.",
        lambda tables: undelivered(tables, "flooding, all neighbours of one"),
        *("at least", 1.0, "deliveries missing"),
        note="what connectivity - 1 is the limit of",
        kind="sanity",
    ),
    claim(
        "A broadcast is sent exactly 2E - (n - 1) times, over every overlay.",
        sends_off,
        *("at most", 0.0, "sends too many or too few"),
        kind="promise",
    ),
    claim(
        "No delivery breaks causal order.",
        lambda tables: total(tables, "violations"),
        *("at most", 0.0, "deliveries"),
        kind="promise",
        note="each delivery against what its author had delivered; in every run",
    ),
    claim(
        "Nothing is left undelivered.",
        lambda tables: total(tables, "undelivered"),
        *("at most", 0.0, "deliveries"),
        kind="promise",
    ),
    claim(
        "Flooding a clique is slower than flooding a hypercube.",
        lambda tables: baseline(tables, "clique", "delay_mean_ms"),
        *("at least", 1.0, "times"),
        note="33 nodes without data",
    ),
    Claim(
        statement="An incomplete cube of 2^k + 1 nodes leaves one with a single neighbour.",
        source="section 6",
        measure=lambda _: float(min(map(len, incomplete_cube(33)))),
        expected=1.0,
        unit="neighbours",
        note="33 nodes; the hypercube that stands in for missing ids gives each at least five",
    ),
    claim(
        "Ids by topology shorten the ways of packets.",
        lambda tables: near_ids_gain(tables, "hops"),
        *("at most", 1.0, "times the hops of ids by number"),
        kind="promise",
    ),
    claim(
        "Ids by topology make flooding faster.",
        lambda tables: near_ids_gain(tables, "delay_mean_ms"),
        *("at most", 1.0, "times the delay of ids by number"),
        kind="promise",
    ),
)
