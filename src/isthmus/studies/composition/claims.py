"""What paper 003 says of compositions, and what we add, as claims with figures.

The expected figures are of the cost model of composition_setup.py; the paper's own machines are not ours. Latency is
the mean over messages of the time to the last delivery; ratios are to the single group of as many members.
"""

from __future__ import annotations

from collections.abc import Callable

from isthmus.studies.model import Claim, Tables, figure_of, numbers_of

PAPER = "The Inter-group Router Approach to Scalable Group Composition"
SECTION = "section 5.2"
OURS = "ours"
SINGLE = "single group"
NAMES = {2: "two groups", 4: "four groups"}
SPEC: dict[str, dict[int, dict[int, float]]] = {  # series: members: batch: ms
    SINGLE: {12: {10: 50.0, 30: 119.0}, 36: {10: 153.0, 30: 366.0}},
    "four groups, 20 % between": {12: {10: 19.0, 30: 46.0}, 36: {10: 58.0, 30: 140.0}},
    "four groups, 50 % between": {12: {10: 37.0, 30: 101.0}, 36: {10: 103.0, 30: 283.0}},
}
WITHIN = 0.1
SMALLEST = 12  # members of a ring for which the line is drawn; below, what does not depend on them counts for more


def series_of(groups: int, inter: float, variant: str) -> str:
    """The name of a line."""
    name = SINGLE if groups == 1 else f"{NAMES[groups]}, {100 * inter:g} % between"
    return f"{name}, {variant}" if variant else name


def latency(tables: Tables, series: str, members: int, batch: int = 10, column: str = "latency_ms") -> float:
    return figure_of(tables["figures"], column, part="size", series=series, members=members, batch=batch)


def of_part(tables: Tables, column: str, **wanted: object) -> float:
    return figure_of(tables["figures"], column, **wanted)


def in_quick(members: int, batch: int) -> bool:
    return batch == 10 or members == 12


def figure_claim(series: str, members: int, batch: int, expected: float) -> Claim:
    return Claim(
        statement=f"{series[0].upper()}{series[1:]}, {members} members, batches of {batch}: the latency of the model.",
        source=f"{SECTION}, Figure 10",
        measure=lambda tables: latency(tables, series, members, batch),
        expected=expected,
        tolerance=WITHIN,
        unit="ms",
        full_only=not in_quick(members, batch),
    )


def bend(tables: Tables) -> float:
    """How far the single group is from the straight line from the origin to its largest size, at most, in %."""
    rows = [row for row in tables["batch_10"] if row["series"] == SINGLE and row["members"] >= SMALLEST]
    points = sorted((float(row["members"]), float(row["latency_ms"])) for row in rows)
    slope = points[-1][1] / points[-1][0]
    return max(abs(ms / members / slope - 1) for members, ms in points) * 100


def ratio(series: str, members: int, batch: int, column: str = "latency_ms") -> Callable[[Tables], float]:
    return lambda tables: latency(tables, series, members, batch, column) / latency(tables, SINGLE, members, batch)


def all_between(tables: Tables) -> float:
    """All messages between groups, over the single group: of the most members measured."""
    series = "four groups, 100 % between"
    members = max(int(row["members"]) for row in tables["batch_10"] if row["series"] == series)
    return ratio(series, members, 10)(tables)


def rate(tables: Tables, groups: int, batch: int) -> float:
    return of_part(tables, "messages_per_s", part="throughput", groups=groups, batch=batch)


def growth(groups: int, batch: int) -> Callable[[Tables], float]:
    return lambda tables: rate(tables, groups, batch) / rate(tables, 1, batch)


def smallest_growth(tables: Tables) -> float:
    """The least by which throughput grows from one group to two, or from two to four, over all batches."""
    rows = tables["throughput"]
    batches = {row["batch"] for row in rows}
    return min(
        rate(tables, more, batch) / rate(tables, fewer, batch) for batch in batches for fewer, more in ((1, 2), (2, 4))
    )


def packed(members: int, frame: int = 8) -> Callable[[Tables], float]:
    def measure(tables: Tables) -> float:
        found = of_part(tables, "latency_ms", part="packing", members=members, variant=f"{frame} a frame")
        return found / latency(tables, SINGLE, members)

    return measure


def stack_gain(inside: str, members: int) -> Callable[[Tables], float]:
    def measure(tables: Tables) -> float:
        wanted: dict[str, object] = {"part": "stacks", "variant": inside, "members": members}
        return of_part(tables, "latency_ms", groups=4, **wanted) / of_part(tables, "latency_ms", groups=1, **wanted)

    return measure


def one_lan(tables: Tables) -> float:
    members = min(int(number) for number in numbers_of(tables["figures"], "members", part="lan"))
    shared = of_part(tables, "latency_ms", part="lan", members=members)
    return shared / latency(tables, "four groups, 20 % between", members)


def wan(variant: str) -> Callable[[Tables], float]:
    return lambda tables: of_part(tables, "between_ms", part="wan", variant=variant)


def total_of(column: str) -> Callable[[Tables], float | None]:
    return lambda tables: sum(numbers_of(tables["left"], column)) if tables["left"] else None


CLAIMS: tuple[Claim, ...] = (
    *(
        figure_claim(series, members, batch, ms)
        for series, sizes in SPEC.items()
        for members, batches in sizes.items()
        for batch, ms in batches.items()
    ),
    Claim(
        statement="The latency of a ring grows linearly with its members.",
        source=SECTION,
        measure=bend,
        expected=0.0,
        tolerance=5.0,
        relation="at most",
        unit="%",
        note="largest deviation from a line through the origin, 12 to 36 members, batches of 10",
    ),
    Claim(
        statement="Four groups with 36 members in all, 20 % between groups, are like a single group of 12.",
        source=SECTION,
        measure=lambda tables: latency(tables, "four groups, 20 % between", 36) / latency(tables, SINGLE, 12),
        expected=58 / 50,
        tolerance=WITHIN,
        note="latency over that of the single group of 12",
    ),
    Claim(
        statement="With 50 % between groups the latency is about 65 % of the single group's.",
        source=SECTION,
        measure=ratio("four groups, 50 % between", 36, 10),
        expected=0.65,
        tolerance=WITHIN,
        note="36 members, batches of 10",
    ),
    Claim(
        statement="With 50 % between groups and batches of 30 it is about 77 %.",
        source=SECTION,
        measure=ratio("four groups, 50 % between", 36, 30),
        expected=0.77,
        tolerance=WITHIN,
        full_only=True,
    ),
    Claim(
        statement="Even with all messages between groups, four groups are faster than the single group.",
        source=SECTION,
        measure=all_between,
        expected=1.0,
        relation="at most",
        note="batches of 10; not in this model: the ring of routers is full above about 50 %; it holds with packing",
    ),
    Claim(
        statement="Throughput grows with the number of groups, at every batch.",
        source=f"{SECTION}, Figure 11",
        measure=smallest_growth,
        expected=1.5,
        relation="at least",
        note="36 members, 10 % between groups; the least ratio of two groups to one, or of four to two",
    ),
    Claim(
        statement="A single group of 36 with batches of 30 takes 2,917 messages per s.",
        source=f"{SECTION}, Figure 11",
        measure=lambda tables: rate(tables, 1, 30),
        expected=2917.0,
        tolerance=WITHIN,
        unit="per s",
        full_only=True,
    ),
    *(
        Claim(
            statement=f"{NAMES[groups].capitalize()} take {expected:g} times as much, with 10 % between groups.",
            source=f"{SECTION}, Figure 11",
            measure=growth(groups, 30),
            expected=expected,
            tolerance=WITHIN,
            note="36 members, batches of 30",
            full_only=True,
        )
        for groups, expected in ((2, 1.83), (4, 3.34))
    ),
    *(
        Claim(
            statement=f"Near what one group of {members} with {inside} can bear, four groups are faster.",
            source=SECTION,
            measure=stack_gain(inside, members),
            expected=1.0,
            relation="at most",
            note="latency over that of the single group; Poisson load, 20 % between groups; control messages take time",
            full_only=members > 12,
        )
        for inside in ("ring", "token-site", "symmetric")
        for members in (12, 36)
    ),
    Claim(
        statement="Two groups may share a LAN: the wire is not what limits them.",
        source=OURS,
        measure=one_lan,
        expected=1.0,
        tolerance=WITHIN,
        note="latency over that of groups on LANs of their own, 20 % between groups",
    ),
    Claim(
        statement="With 8 messages a frame of a router, all messages between groups are faster than the single group.",
        source=OURS,
        measure=packed(12),
        expected=0.58,
        tolerance=WITHIN,
        note="12 members, batches of 10; a frame costs as much as a message",
        kind="promise",
    ),
    Claim(
        statement="So they are with 36 members.",
        source=OURS,
        measure=packed(36),
        expected=0.58,
        relation="at most",
        note="8 messages a frame, batches of 10",
        kind="promise",
        full_only=True,
    ),
    Claim(
        statement="With 50 % between groups, these messages alone take 0.88 of the single group's latency.",
        source=OURS,
        measure=ratio("four groups, 50 % between", 36, 10, "between_ms"),
        expected=0.88,
        tolerance=WITHIN,
        note="36 members, batches of 10",
        kind="promise",
    ),
    Claim(
        statement="Where the token visits routers twice in a rotation, they take 0.71 of it.",
        source=OURS,
        measure=lambda tables: of_part(tables, "between_ms", part="priorities") / latency(tables, SINGLE, 36),
        expected=0.71,
        tolerance=WITHIN,
        kind="promise",
    ),
    Claim(
        statement="Between routers 30 ms apart, a ring takes a message between groups 189 ms.",
        source=OURS,
        measure=wan("ring"),
        expected=189.0,
        tolerance=WITHIN,
        unit="ms",
        note="36 members, batches of 10, 10 % between groups, these alone",
        kind="promise",
        full_only=True,
    ),
    Claim(
        statement="A direct multicast that holds back what is early in causal order takes it 104 ms.",
        source=OURS,
        measure=wan("causal"),
        expected=104.0,
        tolerance=WITHIN,
        unit="ms",
        kind="promise",
        full_only=True,
    ),
    Claim(
        statement="Every message is delivered, and no interface had to drop one.",
        source=OURS,
        measure=lambda tables: sum(total_of(name)(tables) or 0 for name in ("undelivered", "dropped", "rejected")),
        expected=0.0,
        kind="sanity",
    ),
)
