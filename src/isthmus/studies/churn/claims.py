"""Members that come and go: views that stop messages, compared with links that change while messages flow.

Flooding and causal histories change members by views: nobody sends until all that stay have the same messages.
Flooding over safe links has a directory instead, and goes on. The same sites, load and changes in all runs; figures are
of the members that stay. The paper leaves such changes open, so that most claims are ours: 2 D, twice the delay between
clusters, is the least that a round of agreement takes.
"""

from __future__ import annotations

from math import log2

from isthmus.studies.claim import ClaimSource, Quantity, StackAdvice, Tables, matching, numbers_of, over, quantity
from isthmus.studies.model import described

PAPER = ClaimSource("section 7")
OURS, PROMISE, SANITY = ClaimSource("ours"), ClaimSource("ours", "promise"), ClaimSource("ours", "sanity")
DYNAMIC, VIEWS, HISTORY = "flooding-dynamic", "flooding", "causal-history"
STACKS = (DYNAMIC, VIEWS, HISTORY)
FLOODING = (DYNAMIC, VIEWS)
LAN_MS, WAN_MS = 0.5, 20.0  # one way
ROUND_MS = 2 * WAN_MS
HIGH_PER_S, LIMIT_PER_S = 2.0, 4.0  # changes of membership


def sizes(tables: Tables) -> list[int]:
    return sorted({row["sites"] for row in tables["figures"]})


def of(tables: Tables, stack: str, sites: int, column: str, changes_per_s: float = HIGH_PER_S) -> float:
    (found,) = numbers_of(tables["figures"], column, protocol=stack, sites=sites, changes_per_s=changes_per_s)
    return found


@quantity
def longer_gaps(tables: Tables, stack: str, least: bool) -> float:
    """How much longer the longest gap is than without changes: the least or the most over all sizes."""
    found = [of(tables, stack, n, "gap_ms") - of(tables, stack, n, "gap_ms", 0.0) for n in sizes(tables)]
    return min(found) if least else max(found)


@quantity
def dynamic_to(tables: Tables, other: str, column: str) -> float:
    """The figure without views over that with views; the largest over sizes."""
    return max(of(tables, DYNAMIC, n, column) / of(tables, other, n, column) for n in sizes(tables))


@Quantity
def links_to_bound(tables: Tables) -> float:
    """Links per member that comes or goes over 8 floor(log2 n): the largest over all runs without views."""
    rows = [row for row in matching(tables["figures"], protocol=DYNAMIC) if row["links_max"] is not None]
    return max(float(row["links_max"]) / (8 * int(log2(row["sites"]))) for row in rows)


@Quantity
def extra_packets(tables: Tables) -> float:
    column = "packets_each"
    return max(of(tables, DYNAMIC, n, column) - of(tables, VIEWS, n, column) for n in sizes(tables))


@quantity
def carried_out(tables: Tables, changes_per_s: float) -> float:
    """The share of the changes asked for that are in some view; the least over stacks and sizes."""
    rows = matching(tables["figures"], changes_per_s=changes_per_s)
    return min(float(row["moved"]) / float(row["asked"]) for row in rows)


@quantity
def ratio_to_quiet(tables: Tables, stack: str, column: str) -> float:
    """A figure over the same without changes; the least over sizes."""
    return min(of(tables, stack, n, column) / of(tables, stack, n, column, 0.0) for n in sizes(tables))


def reason(tables: Tables) -> str:
    largest = sizes(tables)[-1]
    gaps = [f"{of(tables, stack, largest, 'gap_ms'):.0f} ms with {stack}" for stack in (DYNAMIC, VIEWS)]
    return f"{largest} sites, two changes per second: longest gap at a member that stays {', '.join(gaps)}"


NOTE = "two changes per second, worst size"
CLAIMS = (
    PAPER.claim(
        "That members agree on views, and do not send during a change, is costly.",
        ratio_to_quiet(VIEWS, "latency_mean_ms").at_least(1.0, "times the latency without changes"),
        "mean of flooding; the paper has no figure",
    ),
    PROMISE.claim(
        "Without views, changes of membership make no gap as long as a round of agreement.",
        longer_gaps(DYNAMIC, False).at_most(ROUND_MS, "ms longer than without changes"),
        NOTE,
    ),
    *(
        OURS.claim(
            f"With views they do: {stack}.",
            longer_gaps(stack, True).at_least(ROUND_MS, "ms longer than without changes"),
            "two changes per second, least over sizes",
        )
        for stack in (VIEWS, HISTORY)
    ),
    *(
        OURS.claim(
            f"Flooding without views has the shorter tail of latency: {stack}.",
            dynamic_to(stack, "latency_p99_ms").at_most(1.0, "times its p99"),
            NOTE,
        )
        for stack in (VIEWS, HISTORY)
    ),
    PROMISE.claim(
        "Members that stay get every message of each other.",
        over(sum, "figures", "lost").at_most(0.0, "deliveries missing"),
        "mean over seeds, all runs",
    ),
    PROMISE.claim(
        "A change of membership refuses members that stay no message.",
        over(sum, "figures", "refused_staying").at_most(0.0, "messages"),
        "all runs",
    ),
    PROMISE.claim(
        "A member that comes or goes moves O(log n) links.",
        links_to_bound.at_most(1.0, "times 8 floor(log2 n)"),
        "at most 2 floor(log2 n) of the one that goes, the one that takes its id, before and after, and its stand-in",
    ),
    OURS.claim(
        "They are no more than with views, which give ids by site.",
        dynamic_to(VIEWS, "links_each").at_most(1.0, "times the links"),
        NOTE,
    ),
    OURS.claim(
        "The directory and the links that open cost at most one packet more per delivery and two changes per second.",
        extra_packets.at_most(1.0, "packets per delivery more than with views"),
        NOTE,
    ),
    SANITY.claim(
        "Every change is in a view of some member.",
        carried_out(HIGH_PER_S).near(1.0, "of those asked for"),
        "two changes per second, all stacks",
    ),
    OURS.claim(
        "So it is at four changes per second.",
        carried_out(LIMIT_PER_S).near(1.0, "of those asked for"),
        "a site that is back before anybody missed it is in no view as a change",
        full_only=True,
    ),
)
ADVICE = (StackAdvice("Causal order among members that come and go all the time", DYNAMIC, reason),)
STUDY = described("churn", CLAIMS, ADVICE, networks=False, stacks=("protocol", {name: name for name in STACKS}))
