"""The nine scenarios: five sites in two clusters, each of high or low load; which protocol suits which of them.

A B C | D E, 20 ms inside and 540 ms across; high is 100 messages per second, low is 1. A is the sequencer of
token-site; the hybrid's active processes are those of high load. The paper's protocols have no nulls; ours are shown
with them. Without nulls the wait depends on the relative phase of the slow senders, so that such cells have more runs.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

from isthmus.studies.claim import ClaimSource, Quantity, StackAdvice, Tables, matching, over, quantity, value
from isthmus.studies.model import described
from isthmus.studies.tickets.labels import (
    ASSUMED,
    HYBRID,
    HYBRID_NULLS,
    NINE,
    OURS,
    PERIODIC,
    POISSON,
    SOURCES,
    STACK_OF,
    SYMMETRIC,
    SYMMETRIC_NULLS,
    TOKEN_SITE,
    nine_labels,
)

SECTION = ClaimSource("Figure 3 and section 4.4")
WITHIN = 0.03


def latencies(tables: Tables, protocol: str, source: str = PERIODIC) -> list[float]:
    """The latencies of a protocol in the nine scenarios, in their order."""
    found = {row["scenario"]: row["latency_ms"] for row in matching(tables["cells"], protocol=protocol, source=source)}
    return [float(found[label]) for label in nine_labels()]


def latency(protocol: str, combine: Callable[[list[float]], float]) -> Quantity:
    return Quantity(lambda tables: combine(latencies(tables, protocol)))


@quantity
def worst_ratio(tables: Tables, protocol: str, source: str, *rivals: str) -> float:
    """A protocol's latency over that of its best rival, in the scenario where this ratio is largest."""
    others = [latencies(tables, rival, source) for rival in rivals]
    mine = latencies(tables, protocol, source)
    return max(mine[place] / min(line[place] for line in others) for place in range(len(NINE)))


def multicasts(protocol: str) -> Quantity:
    """In the first scenario."""
    first = nine_labels()[0]
    return value("cells", "multicasts_per_message", protocol=protocol, source=PERIODIC, scenario=first)


CLAIMS = (
    SECTION.claim(
        "The hybrid takes at least 545 ms in all nine scenarios.",
        latency(HYBRID, min).at_least(545.0, "ms"),
        "quasi-periodic sources, the fastest scenario",
    ),
    SECTION.claim(
        "It takes at most 557 ms.",
        latency(HYBRID, max).at_most(557.0, "ms"),
        "quasi-periodic sources, the slowest scenario",
    ),
    SECTION.claim(
        "Token-site takes 551 ms in the first scenario.",
        latency(TOKEN_SITE, lambda nine: nine[0]).near(551.0, "ms", WITHIN),
    ),
    SECTION.claim(
        "Token-site takes 1073 ms in the eighth scenario.",
        latency(TOKEN_SITE, lambda nine: nine[7]).near(1073.0, "ms", WITHIN),
    ),
    SECTION.claim(
        "The symmetric protocol takes 548 ms in the ninth.",
        latency(SYMMETRIC, lambda nine: nine[8]).near(548.0, "ms", WITHIN),
    ),
    SECTION.claim("It takes up to 1335 ms in the others.", latency(SYMMETRIC, max).near(1335.0, "ms", WITHIN)),
    *(
        SECTION.claim(
            f"With {source} sources, the hybrid is as fast as the better of the two in every scenario.",
            worst_ratio(HYBRID, source, TOKEN_SITE, SYMMETRIC).at_most(1.0, "times the better one", WITHIN),
            "all three without nulls; the worst scenario of the hybrid",
        )
        for source in SOURCES
    ),
    ASSUMED.claim(
        "Without nulls, all messages are eventually delivered.",
        over(max, "cells", "undelivered_messages", protocol=(SYMMETRIC, HYBRID)).near(0.0, "messages"),
        "undelivered messages at the end of a run, maximum over cells",
    ),
    OURS.claim(
        "With nulls, all messages are delivered; so are those of the token-site protocol.",
        over(max, "cells", "undelivered_messages", protocol=(SYMMETRIC_NULLS, HYBRID_NULLS, TOKEN_SITE)).near(
            0.0, "messages"
        ),
    ),
    OURS.claim(
        "Nulls make the hybrid no slower in any of the 18 cells.",
        Quantity(lambda tables: max(worst_ratio(HYBRID_NULLS, source, HYBRID)(tables) for source in SOURCES)).at_most(
            1.0, "times", 0.005
        ),
        "ratio of latencies with and without nulls, maximum over cells; one seed varies by half a percent",
    ),
    OURS.claim(
        "The symmetric protocol with nulls is nearly as fast, but sends over twice the packets where one site is busy.",
        (multicasts(SYMMETRIC_NULLS) / multicasts(HYBRID_NULLS)).at_least(2.0, "times"),
        "multicasts of the symmetric protocol over those of the hybrid in the first scenario, both with nulls",
    ),
)


def hybrid_reason(tables: Tables) -> str:
    slowest = {name: max(latencies(tables, name, POISSON)) for name in (HYBRID_NULLS, TOKEN_SITE, SYMMETRIC_NULLS)}
    hybrid, symmetric = (
        over(fmean, "cells", "multicasts_per_message", protocol=name, source=POISSON)(tables)
        for name in (HYBRID_NULLS, SYMMETRIC_NULLS)
    )
    return (
        f"at most {slowest[HYBRID_NULLS]:.0f} ms in all nine scenarios; token-site takes up to "
        f"{slowest[TOKEN_SITE]:.0f} ms, the symmetric protocol takes up to {slowest[SYMMETRIC_NULLS]:.0f} ms and "
        f"{symmetric / hybrid:.1f} times the multicasts"
    )


STUDY = described(
    "nine_scenarios",
    CLAIMS,
    (StackAdvice("Clusters far apart, with a load that is known and constant", "hybrid", hybrid_reason),),
    stacks=("protocol", STACK_OF),
)
