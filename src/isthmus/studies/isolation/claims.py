"""Sequencer and symmetric order in isolation: which one is faster depends on delay and rate alone.

A message of the token-site protocol takes 2 D, of the symmetric one D + t, where t is the longest time between messages
of a process: with 30 processes that send every 100 ms, 29/30 of that on average. Without nulls the last messages cannot
be delivered; with nulls latency does not depend on the application's rate.
"""

from __future__ import annotations

from isthmus.studies.claim import ClaimSource, Quantity, StackAdvice, Tables, crossing, matching, over
from isthmus.studies.model import described
from isthmus.studies.tickets.labels import (
    ASSUMED,
    NULL_MS,
    OURS,
    PERIODIC,
    POISSON,
    STACK_OF,
    SYMMETRIC,
    SYMMETRIC_NULLS,
    TOKEN_SITE,
)

RATE_PER_S = 10.0
PERIOD_MS = 1000 / RATE_PER_S
SECTION = ClaimSource("Figure 1 and section 4.2")
WITHIN = 0.03


def mean(column: str, protocol: str, source: str = PERIODIC) -> Quantity:
    """The mean of a column over all delays."""
    return over(lambda values: sum(values) / len(values), "latency", column, protocol=protocol, source=source)


@Quantity
def crossover(tables: Tables) -> float:
    """The delay at which both lines meet, between the two nearest delays measured."""
    token, symmetric = (
        {row["delay_ms"]: row["latency_ms"] for row in matching(tables["latency"], protocol=name, source=PERIODIC)}
        for name in (TOKEN_SITE, SYMMETRIC)
    )
    return crossing(sorted((delay, token[delay] - symmetric[delay]) for delay in token))


@Quantity
def beyond_bound(tables: Tables) -> float:
    """How far the slowest message of any run with nulls exceeds the larger of 2 D and D + a null."""
    rows = [*matching(tables["latency"], protocol=SYMMETRIC_NULLS), *tables["rare"]]
    return max(float(row["latency_max_ms"] - max(2 * row["delay_ms"], row["delay_ms"] + NULL_MS)) for row in rows)


CLAIMS = (
    SECTION.claim(
        "The token-site protocol takes 1.97 D.",
        mean("over_delay", TOKEN_SITE).near(1.97, "D", WITHIN),
        "mean over all delays",
    ),
    SECTION.claim(
        "The symmetric protocol takes D + 98 ms.",
        mean("wait_ms", SYMMETRIC).near(98.0, "ms beyond D", WITHIN),
        "mean over all delays; t = 100 ms",
    ),
    SECTION.claim(
        "The symmetric protocol is the faster one where D exceeds t, the time between messages.",
        crossover.near(PERIOD_MS, "ms", WITHIN),
        "the delay at which the two lines cross",
    ),
    ASSUMED.claim(
        "Without nulls, all messages are eventually delivered.",
        over(max, "latency", "undelivered_messages", protocol=SYMMETRIC).near(0.0, "messages"),
        "undelivered messages at the end of a run, maximum over runs: no packet follows the last ones",
    ),
    OURS.claim(
        "With nulls, all messages are delivered; so are those of the token-site protocol.",
        over(max, "latency", "undelivered_messages", protocol=(SYMMETRIC_NULLS, TOKEN_SITE)).near(0.0, "messages"),
    ),
    OURS.claim(
        "With nulls and frequent messages, a message waits on average for no more than a null: D + 25 ms.",
        over(max, "latency", "wait_ms", protocol=SYMMETRIC_NULLS).at_most(NULL_MS, "ms beyond D"),
        "mean over messages; the delay and source with the longest wait",
    ),
    OURS.claim(
        "With nulls, no message takes longer than the larger of 2 D and D + 25 ms, however rare they are.",
        beyond_bound.at_most(0.0, "ms", 0.001),
        "the slowest message of all runs, less that bound; includes five sites that send once in two seconds, where no "
        "site sends nulls unprompted and a message takes nearly 2 D",
    ),
    OURS.claim(
        "The symmetric protocol sends at most four nulls per message for this.",
        mean("multicasts_per_message", SYMMETRIC_NULLS).at_most(1 + PERIOD_MS / NULL_MS, "multicasts per message"),
        "one for every 25 ms between two messages; includes the message itself and probes",
    ),
)


def symmetric_reason(tables: Tables) -> str:
    wait_ms = mean("wait_ms", SYMMETRIC_NULLS, POISSON)(tables)
    sent = [mean("multicasts_per_message", name, POISSON)(tables) for name in (SYMMETRIC_NULLS, TOKEN_SITE)]
    return f"D + {wait_ms:.0f} ms with nulls, for {sent[0]:.1f} multicasts per message; token-site sends {sent[1]:.1f}"


def token_reason(tables: Tables) -> str:
    over_delay, sent = (mean(name, TOKEN_SITE, POISSON)(tables) for name in ("over_delay", "multicasts_per_message"))
    return f"{over_delay:.2f} D, for {sent:.1f} multicasts per message"


STUDY = described(
    "isolation",
    CLAIMS,
    (
        StackAdvice("Sites about equally far apart, with a delay well above 25 ms", "symmetric", symmetric_reason),
        StackAdvice("The same, where packets cost more than latency", "token-site", token_reason),
    ),
    stacks=("protocol", STACK_OF),
)
