"""What is claimed of causal order with separators, each with the figure that bears it out."""

from __future__ import annotations

from typing import Any

from isthmus.studies.model import Claim, Tables, figure_of, numbers_of

PAPER = "the chapter on topology-aware protocols, section 4.4 and its figure 8"
OURS = "our own reading of the rules"
MODEL = f"an independent model of the set-up of {PAPER}"
FIGURES = {  # of the model: timestamp mean and 95th percentile, history
    (3, 8): {
        "literal": (2.2, 6, 83),
        "literal, R9": (1.6, 3, 27),
        "symmetric": (2.2, 6, 26),
        "symmetric, R9": (1.6, 3, 11),
    },
    (12, 16): {
        "literal": (4.8, 18, 435),
        "literal, R9": (1.7, 3, 39),
        "symmetric": (4.8, 18, 223),
        "symmetric, R9": (1.7, 3, 18),
    },
}
TOLERANCE = 0.25
LANS = (3, 24)


def is_at(row: dict[str, Any], lans: int, hosts: int) -> bool:
    """Whether a row is of group traffic at a size."""
    return bool((row["traffic"], row["lans"], row["hosts"]) == ("groups", lans, hosts))


def size_claim(size: tuple[int, int], rules: str, column: str, expected: float, what: str) -> Claim:
    lans, hosts = size
    where = f"{lans} LANs of {hosts} hosts, {rules}"

    def measure(tables: Tables) -> float | None:
        rows = [row for row in tables["sizes"] if is_at(row, lans, hosts) and row["rules"] == rules]
        return float(rows[0][column]) if rows else None

    return Claim(
        statement=f"{where}: {what}.",
        source=MODEL,
        measure=measure,
        expected=expected,
        tolerance=TOLERANCE,
        unit="entries",
        full_only=size != (3, 8),
    )


def figures_claims() -> list[Claim]:
    made = []
    for size, by_rules in FIGURES.items():
        for rules, (mean, _, history) in by_rules.items():
            if not rules.startswith("symmetric"):
                made.append(size_claim(size, rules, "entries", mean, "the mean timestamp of a message to a LAN"))
            made.append(size_claim(size, rules, "history", history, "the mean history of a host"))
    return made


def bytes_claim(rules: str, most: float) -> Claim:
    def measure(tables: Tables) -> float | None:
        rows = [row for row in tables["sizes"] if is_at(row, 12, 32) and row["rules"] == rules]
        return float(rows[0]["bytes"]) if rows else None

    return Claim(
        statement=f"12 LANs of 32 hosts, {rules}: the mean timestamp of a message to a LAN, in bytes.",
        source=MODEL,
        measure=measure,
        expected=most,
        relation="at most",
        unit="bytes",
        note="a matrix of four bytes per counter would have 590,000",
        full_only=True,
    )


def growth_claim(column: str, rules: str, what: str) -> Claim:
    def measure(tables: Tables) -> float:
        least, most = (figure_of(tables["growth"], column, lans=lans, rules=rules) for lans in LANS)
        return most / least

    return Claim(
        statement=f"With separators ({rules}), {what} does not grow from {LANS[0]} to {LANS[1]} LANs.",
        source=PAPER,
        measure=measure,
        expected=1.0,
        tolerance=TOLERANCE,
        relation="at most",
        unit="times",
        note="8 hosts in each LAN",
    )


def worth_claim(
    statement: str, column: str, without: str, with_it: str, expected: float, note: str = "3 LANs of 8 hosts"
) -> Claim:
    def measure(tables: Tables) -> float:
        more, less = (figure_of(tables["sizes"], column, **at("groups", 3, 8, rules)) for rules in (without, with_it))
        return more / less

    return Claim(
        statement=statement,
        source=OURS,
        measure=measure,
        expected=expected,
        relation="at least",
        unit="times",
        note=note,
        kind="promise",
    )


def at(traffic: str, lans: int, hosts: int, rules: str) -> dict[str, object]:
    return {"traffic": traffic, "lans": lans, "hosts": hosts, "rules": rules}


def thirds(tables: Tables, rules: str) -> float:
    """The mean timestamp of the last third of a run, over that of the third before."""
    means = numbers_of(tables["over_time"], "entries", rules=rules)
    third = len(means) // 3
    return sum(means[-third:]) / sum(means[-2 * third : -third])


def length_claims() -> tuple[Claim, ...]:
    return (
        Claim(
            statement="R1 to R4 alone keep order and grow without end: timestamps grow as the run goes on.",
            source=PAPER,
            measure=lambda tables: thirds(tables, "R1 to R4"),
            expected=5 / 3,
            tolerance=TOLERANCE,
            relation="at least",
            unit="times",
            note="last third of the run over the middle one, 5/3 if all of the past is told; order: see the checks",
        ),
        Claim(
            statement="R5 to R8 bound what travels: timestamps do not grow as the run goes on.",
            source=PAPER,
            measure=lambda tables: thirds(tables, "R1 to R8"),
            expected=1.0,
            tolerance=TOLERANCE,
            relation="at most",
            unit="times",
            note="last third of the run over the middle one",
        ),
    )


def zone_claim(traffic: str, what: str, note: str = "") -> Claim:
    def measure(tables: Tables) -> float:
        rows = [row for row in tables["sizes"] if row["traffic"] == traffic and row["rules"] == "all"]
        return max(float(row["leaving_max"]) for row in rows)

    return Claim(
        statement=f"Zone-local traffic never leaves its zone: {what}.",
        source=PAPER,
        measure=measure,
        expected=0.0,
        relation="at most",
        unit="entries",
        note=note or "most entries of local messages in any packet out of a zone",
    )


def leaves_without(traffic: str) -> Claim:
    def measure(tables: Tables) -> float:
        return max(numbers_of(tables["sizes"], "leaving_max", traffic=traffic, rules="all but R9"))

    return Claim(
        statement=f"Without separators it does leave ({traffic}), so that the figure means something.",
        source=OURS,
        measure=measure,
        expected=1.0,
        relation="at least",
        unit="entries",
        kind="sanity",
    )


def times_claim(statement: str, column: str, more: dict[str, object], less: dict[str, object]) -> Claim:
    """What is at least as large as what."""

    def measure(tables: Tables) -> float:
        return figure_of(tables["sizes"], column, **more) / figure_of(tables["sizes"], column, **less)

    return Claim(
        statement=statement,
        source=OURS,
        measure=measure,
        expected=1.0,
        relation="at least",
        unit="times",
        kind="promise",
    )


CLAIMS = (
    *figures_claims(),
    bytes_claim("symmetric", 660.0),
    bytes_claim("symmetric, R9", 216.0),
    growth_claim("entries", "symmetric, R9", "the timestamp of a local message"),
    growth_claim("history", "symmetric, R9", "the history of a host"),
    growth_claim("entries", "all", "the timestamp of a local message"),
    growth_claim("history", "all", "the history of a host"),
    worth_claim("Separators shorten histories.", "history", "literal", "literal, R9", 1.0),
    worth_claim("The symmetric rule shortens histories.", "history", "literal", "symmetric", 1.0),
    worth_claim("R9 by any process and forgetting shorten them further.", "history", "symmetric, R9", "all", 1.0),
    worth_claim("Without R9 histories are longer.", "history", "all but R9", "all", 1.0),
    worth_claim("Without R9 timestamps are longer in bytes.", "bytes", "all but R9", "all", 1.0),
    worth_claim("Without the symmetric rule histories are longer.", "history", "all but symmetric", "all", 1.0),
    worth_claim("Without the remainder histories are longer.", "history", "all but remainder", "all", 1.0),
    worth_claim("Without forgetting histories are longer.", "history", "all but forgetting", "all", 1.0),
    worth_claim("Extended timestamps have fewer entries.", "entries", "all, not extended", "all", 1.0),
    worth_claim("Extended timestamps shorten histories.", "history", "all, not extended", "all", 1.0),
    worth_claim(
        "Extended timestamps are shorter in bytes.",
        "bytes",
        "all, not extended",
        "all",
        1.0,
        "3 LANs of 8 hosts, messages to one LAN; those that leave it, and larger LANs, gain: see the design page",
    ),
    worth_claim("Sets coded in groups are shorter than masks.", "bytes", "all, masks", "all", 1.0),
    *length_claims(),
    zone_claim("groups", "groups inside LANs and across two"),
    zone_claim("subsets", "sets drawn at random"),
    zone_claim("nested", "nodes on LANs"),
    zone_claim("regions", "a region around half of the LANs", "a region's gateways are told by what passes them alone"),
    leaves_without("groups"),
    leaves_without("nested"),
    times_claim(
        "A matrix has more bytes than a timestamp with separators.",
        "bytes",
        at("groups", 3, 8, "matrix"),
        at("groups", 3, 8, "all"),
    ),
    times_claim(
        "A vector has more bytes than a timestamp with separators.",
        "bytes",
        at("groups", 3, 8, "vector"),
        at("groups", 3, 8, "all"),
    ),
    times_claim(
        "Separators shorten histories where sets are random.",
        "history",
        at("subsets", 3, 8, "all but R9"),
        at("subsets", 3, 8, "all"),
    ),
    times_claim(
        "Separators shorten histories where a set is drawn for each message.",
        "history",
        at("drawn", 3, 8, "all but R9"),
        at("drawn", 3, 8, "all"),
    ),
    times_claim(
        "Separators shorten histories of participants where zones are nested.",
        "history",
        at("nested", 3, 10, "all but R9"),
        at("nested", 3, 10, "all"),
    ),
)
