"""Groups joined by routers compared with one large group: latency, throughput, packing, priorities and WANs.

A token visits the members of a ring in turn; four rings of a quarter of the members are four times as fast for messages
that stay inside, while a message to another group pays for three rings. Expected figures are of the cost model of
setup.py. Latency is the mean over messages of the time to the last delivery; ratios are to the single group of as many
members. The theorems of the paper are claims, too (theorems.py).
"""

from __future__ import annotations

from isthmus.studies.claim import ClaimSource, Quantity, Tables, numbers_of, over, value
from isthmus.studies.composition.theorems import THEOREMS
from isthmus.studies.model import described
from isthmus.studies.results import PaperLine

SECTION = ClaimSource("section 5.2")
FIGURE_10, FIGURE_11 = ClaimSource("section 5.2, Figure 10"), ClaimSource("section 5.2, Figure 11")
OURS = ClaimSource("ours")
PROMISE, SANITY = ClaimSource("ours", "promise"), ClaimSource("ours", "sanity")
SINGLE = "single group"
NAMES = {2: "two groups", 4: "four groups"}
FIFTH, HALF, ALL = (f"four groups, {percent} % between" for percent in (20, 50, 100))
MODEL: dict[str, dict[int, dict[int, float]]] = {  # series: members: batch: ms
    SINGLE: {12: {10: 50.0, 30: 119.0}, 36: {10: 153.0, 30: 366.0}},
    FIFTH: {12: {10: 19.0, 30: 46.0}, 36: {10: 58.0, 30: 140.0}},
    HALF: {12: {10: 37.0, 30: 101.0}, 36: {10: 103.0, 30: 283.0}},
}
WITHIN = 0.1
SMALLEST = 12  # members of a ring for which the line is drawn; in smaller ones, constant costs weigh more


def series_of(groups: int, inter: float, variant: str) -> str:
    name = SINGLE if groups == 1 else f"{NAMES[groups]}, {100 * inter:g} % between"
    return f"{name}, {variant}" if variant else name


def latency(series: str, members: int, batch: int = 10, column: str = "latency_ms") -> Quantity:
    return value("figures", column, part="size", series=series, members=members, batch=batch)


@Quantity
def bend(tables: Tables) -> float:
    """The largest deviation of the single group from the line from the origin to its largest size, in %."""
    rows = [row for row in tables["batch_10"] if row["series"] == SINGLE and row["members"] >= SMALLEST]
    points = sorted((float(row["members"]), float(row["latency_ms"])) for row in rows)
    slope = points[-1][1] / points[-1][0]
    return max(abs(ms / members / slope - 1) for members, ms in points) * 100


def to_single(series: str, members: int, batch: int = 10, column: str = "latency_ms") -> Quantity:
    """A latency over that of the single group of as many members."""
    return latency(series, members, batch, column) / latency(SINGLE, members, batch)


@Quantity
def all_between(tables: Tables) -> float:
    """The same with all messages between groups, of the most members measured."""
    members = max(int(row["members"]) for row in tables["batch_10"] if row["series"] == ALL)
    return to_single(ALL, members)(tables)


def rate(groups: int, batch: int) -> Quantity:
    return value("figures", "messages_per_s", part="throughput", groups=groups, batch=batch)


@Quantity
def smallest_growth(tables: Tables) -> float:
    """The smallest growth of throughput from one group to two, or from two to four, over all batches."""
    batches = {row["batch"] for row in tables["throughput"]}
    return min(
        (rate(more, batch) / rate(fewer, batch))(tables) for batch in batches for fewer, more in ((1, 2), (2, 4))
    )


def packed(members: int) -> Quantity:
    """Latency with 8 messages per frame of a router, over that of the single group."""
    return value("figures", "latency_ms", part="packing", members=members, variant="8 a frame") / latency(
        SINGLE, members
    )


def stack_gain(inside: str, members: int) -> Quantity:
    """The latency of four groups over that of one, with another order inside."""
    four, one = (
        value("figures", "latency_ms", part="stacks", variant=inside, members=members, groups=groups)
        for groups in (4, 1)
    )
    return four / one


@Quantity
def one_lan(tables: Tables) -> float:
    """The latency of groups that share LANs over that of groups on LANs of their own."""
    members = min(int(number) for number in numbers_of(tables["figures"], "members", part="lan"))
    return (value("figures", "latency_ms", part="lan", members=members) / latency(FIFTH, members))(tables)


def wan(variant: str) -> Quantity:
    return value("figures", "between_ms", part="wan", variant=variant)


@Quantity
def missing(tables: Tables) -> float | None:
    """Deliveries missing, and messages dropped by interfaces."""
    columns = ("undelivered", "dropped", "rejected")
    return sum(over(sum, "left", name)(tables) for name in columns) if tables["left"] else None


CLAIMS = (
    *(
        FIGURE_10.claim(
            f"{series[0].upper()}{series[1:]}, {members} members, batches of {batch}: the latency of the model.",
            latency(series, members, batch).near(ms, "ms", WITHIN),
            full_only=batch != 10 and members != 12,
        )
        for series, sizes in MODEL.items()
        for members, batches in sizes.items()
        for batch, ms in batches.items()
    ),
    SECTION.claim(
        "The latency of a ring grows linearly with its members.",
        bend.at_most(0.0, "%", 5.0),
        "largest deviation from a line through the origin, 12 to 36 members, batches of 10",
    ),
    SECTION.claim(
        "Four groups with 36 members in all, 20 % between groups, are like a single group of 12.",
        (latency(FIFTH, 36) / latency(SINGLE, 12)).near(58 / 50, within=WITHIN),
        "latency over that of the single group of 12",
    ),
    SECTION.claim(
        "With 50 % between groups the latency is about 65 % of the single group's.",
        to_single(HALF, 36).near(0.65, within=WITHIN),
        "36 members, batches of 10",
    ),
    SECTION.claim(
        "With 50 % between groups and batches of 30 it is about 77 %.",
        to_single(HALF, 36, 30).near(0.77, within=WITHIN),
        full_only=True,
    ),
    SECTION.claim(
        "Even with all messages between groups, four groups are faster than the single group.",
        all_between.at_most(1.0),
        "batches of 10; not in this model: the ring of routers is full above about 50 %; it holds with packing",
    ),
    FIGURE_11.claim(
        "Throughput grows with the number of groups, at every batch.",
        smallest_growth.at_least(1.5),
        "36 members, 10 % between groups; the smallest ratio of two groups to one, or of four to two",
    ),
    FIGURE_11.claim(
        "A single group of 36 with batches of 30 takes 2,917 messages per s.",
        rate(1, 30).near(2917.0, "per s", WITHIN),
        full_only=True,
    ),
    *(
        FIGURE_11.claim(
            f"{NAMES[groups].capitalize()} take {expected:g} times as much, with 10 % between groups.",
            (rate(groups, 30) / rate(1, 30)).near(expected, within=WITHIN),
            "36 members, batches of 30",
            full_only=True,
        )
        for groups, expected in ((2, 1.83), (4, 3.34))
    ),
    *(
        SECTION.claim(
            f"Near the limit of one group of {members} with {inside}, four groups are faster.",
            stack_gain(inside, members).at_most(1.0),
            "latency over that of the single group; Poisson load, 20 % between groups; control messages take time",
            full_only=members > 12,
        )
        for inside in ("ring", "token-site", "symmetric")
        for members in (12, 36)
    ),
    OURS.claim(
        "Two groups may share a LAN: the wire is not what limits them.",
        one_lan.near(1.0, within=WITHIN),
        "latency over that of groups on LANs of their own, 20 % between groups",
    ),
    PROMISE.claim(
        "With 8 messages per frame of a router, all messages between groups are faster than the single group.",
        packed(12).near(0.58, within=WITHIN),
        "12 members, batches of 10; a frame costs as much as a message",
    ),
    PROMISE.claim(
        "So they are with 36 members.", packed(36).at_most(0.58), "8 messages per frame, batches of 10", full_only=True
    ),
    PROMISE.claim(
        "With 50 % between groups, these messages alone take 0.88 of the single group's latency.",
        to_single(HALF, 36, column="between_ms").near(0.88, within=WITHIN),
        "36 members, batches of 10",
    ),
    PROMISE.claim(
        "Where the token visits routers twice in a rotation, they take 0.71 of it.",
        (value("figures", "between_ms", part="priorities") / latency(SINGLE, 36)).near(0.71, within=WITHIN),
    ),
    PROMISE.claim(
        "Between routers 30 ms apart, a ring takes a message between groups 189 ms.",
        wan("ring").near(189.0, "ms", WITHIN),
        "36 members, batches of 10, 10 % between groups, these alone",
        full_only=True,
    ),
    PROMISE.claim(
        "A direct multicast that holds back early messages in causal order takes 104 ms.",
        wan("causal").near(104.0, "ms", WITHIN),
        full_only=True,
    ),
    SANITY.claim("Every message is delivered, and no interface had to drop one.", missing.near(0.0)),
)


PAPER = {
    f"latency_{batch}": tuple(
        PaperLine(
            f"{name}, expected", tuple(map(float, of_name)), tuple(by_batch[batch] for by_batch in of_name.values())
        )
        for name, of_name in MODEL.items()
    )
    for batch in (10, 30)
}
STUDY = described("composition", (*CLAIMS, *THEOREMS), paper=PAPER)
