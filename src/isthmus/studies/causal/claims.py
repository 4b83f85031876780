"""Causal separators: how large timestamps and histories are, with separators and without, as LANs are added.

A message must describe the part of the past that its destinations do not know. In a ring of LANs most traffic is local,
yet without separators every host learns in time of messages in every LAN. The gateways of a LAN are a separator: once
they know of a local message, it need not be mentioned outside.
"""

from __future__ import annotations

from isthmus.studies.claim import ClaimSource, Quantity, Tables, numbers_of, over, quantity, value
from isthmus.studies.model import described

SECTION = "the chapter on topology-aware protocols, section 4.4 and its figure 8"
PAPER = ClaimSource(SECTION)
OURS = ClaimSource("our own reading of the rules", "promise")
MODEL = ClaimSource(f"an independent model of the set-up of {SECTION}")
MODEL_SIZES = (  # LANs, hosts, rules, column, expected
    (3, 8, "literal", "entries", 2.2),
    (3, 8, "literal", "history", 83.0),
    (3, 8, "literal, R9", "entries", 1.6),
    (3, 8, "literal, R9", "history", 27.0),
    (3, 8, "symmetric", "history", 26.0),
    (3, 8, "symmetric, R9", "history", 11.0),
    (12, 16, "literal", "entries", 4.8),
    (12, 16, "literal", "history", 435.0),
    (12, 16, "literal, R9", "entries", 1.7),
    (12, 16, "literal, R9", "history", 39.0),
    (12, 16, "symmetric", "history", 223.0),
    (12, 16, "symmetric, R9", "history", 18.0),
)
COLUMNS = {"entries": "the mean timestamp of a message to a LAN", "history": "the mean history of a host"}
TOLERANCE = 0.25
LANS = (3, 24)


def size(column: str, rules: str, traffic: str = "groups", lans: int = 3, hosts: int = 8) -> Quantity:
    return value("sizes", column, traffic=traffic, lans=lans, hosts=hosts, rules=rules)


def growth(column: str, rules: str) -> Quantity:
    least, most = (value("growth", column, lans=lans, rules=rules) for lans in LANS)
    return most / least


@quantity
def last_third(tables: Tables, rules: str) -> float:
    """The mean timestamp of the last third of a run, over that of the third before."""
    means = numbers_of(tables["over_time"], "entries", rules=rules)
    third = len(means) // 3
    return sum(means[-third:]) / sum(means[-2 * third : -third])


SMALL = "3 LANs of 8 hosts"
GAINS = (  # of what the project adds to the rules: statement, column, rules without, rules with, note
    ("Separators shorten histories.", "history", "literal", "literal, R9", SMALL),
    ("The symmetric rule shortens histories.", "history", "literal", "symmetric", SMALL),
    ("R9 by any process and forgetting shorten them further.", "history", "symmetric, R9", "all", SMALL),
    ("Without R9 histories are longer.", "history", "all but R9", "all", SMALL),
    ("Without R9 timestamps are longer in bytes.", "bytes", "all but R9", "all", SMALL),
    ("Without the symmetric rule histories are longer.", "history", "all but symmetric", "all", SMALL),
    ("Without the remainder histories are longer.", "history", "all but remainder", "all", SMALL),
    ("Without forgetting histories are longer.", "history", "all but forgetting", "all", SMALL),
    ("Extended timestamps have fewer entries.", "entries", "all, not extended", "all", SMALL),
    ("Extended timestamps shorten histories.", "history", "all, not extended", "all", SMALL),
    (
        "Extended timestamps are shorter in bytes.",
        "bytes",
        "all, not extended",
        "all",
        "3 LANs of 8 hosts, messages to one LAN; those that leave it, and larger LANs, gain: see the design page",
    ),
    ("Sets coded in groups are shorter than masks.", "bytes", "all, masks", "all", SMALL),
)
ZONES = (  # traffic, its description, note
    ("groups", "groups inside LANs and across two", ""),
    ("subsets", "sets drawn at random", ""),
    ("nested", "nodes on LANs", ""),
    ("regions", "a region around half of the LANs", "a region's gateways learn only from the messages they relay"),
)
CLAIMS = (
    *(
        MODEL.claim(
            f"{lans} LANs of {hosts} hosts, {rules}: {COLUMNS[column]}.",
            size(column, rules, lans=lans, hosts=hosts).near(expected, "entries", TOLERANCE),
            full_only=lans > 3,
        )
        for lans, hosts, rules, column, expected in MODEL_SIZES
    ),
    *(
        MODEL.claim(
            f"12 LANs of 32 hosts, {rules}: the mean timestamp of a message to a LAN, in bytes.",
            size("bytes", rules, lans=12, hosts=32).at_most(most, "bytes"),
            "a matrix of four bytes per counter would have 590,000",
            full_only=True,
        )
        for rules, most in (("symmetric", 660.0), ("symmetric, R9", 216.0))
    ),
    *(
        PAPER.claim(
            f"With separators ({rules}), {what} does not grow from {LANS[0]} to {LANS[1]} LANs.",
            growth(column, rules).at_most(1.0, "times", TOLERANCE),
            "8 hosts in each LAN",
        )
        for rules in ("symmetric, R9", "all")
        for column, what in (("entries", "the timestamp of a local message"), ("history", "the history of a host"))
    ),
    *(
        OURS.claim(statement, (size(column, without) / size(column, with_it)).at_least(1.0, "times"), note)
        for statement, column, without, with_it, note in GAINS
    ),
    PAPER.claim(
        "R1 to R4 alone keep order and grow without end: timestamps grow as the run goes on.",
        last_third("R1 to R4").at_least(5 / 3, "times", TOLERANCE),
        "last third of the run over the middle one, 5/3 if all of the past is included; order: see the checks",
    ),
    PAPER.claim(
        "R5 to R8 bound the timestamps: they do not grow as the run goes on.",
        last_third("R1 to R8").at_most(1.0, "times", TOLERANCE),
        "last third of the run over the middle one",
    ),
    *(
        PAPER.claim(
            f"Zone-local traffic never leaves its zone: {what}.",
            over(max, "sizes", "leaving_max", traffic=traffic, rules="all").at_most(0.0, "entries"),
            note or "most entries of local messages in any packet out of a zone",
        )
        for traffic, what, note in ZONES
    ),
    *(
        ClaimSource(OURS.text, "sanity").claim(
            f"Without separators it does leave ({traffic}), so that the figure means something.",
            over(max, "sizes", "leaving_max", traffic=traffic, rules="all but R9").at_least(1.0, "entries"),
        )
        for traffic in ("groups", "nested")
    ),
    *(
        OURS.claim(
            f"A {other} has more bytes than a timestamp with separators.",
            (size("bytes", other) / size("bytes", "all")).at_least(1.0, "times"),
        )
        for other in ("matrix", "vector")
    ),
    *(
        OURS.claim(
            f"Separators shorten histories {where}.",
            (size("history", "all but R9", traffic, 3, hosts) / size("history", "all", traffic, 3, hosts)).at_least(
                1.0, "times"
            ),
        )
        for where, traffic, hosts in (
            ("where sets are random", "subsets", 8),
            ("where a set is drawn for each message", "drawn", 8),
            ("of participants where zones are nested", "nested", 10),
        )
    ),
)


STUDY = described("causal", CLAIMS, networks=False)
