"""Regret: how much more a choice of roles costs than the best fixed one in hindsight.

An *instance* is a network with its traffic: the nine scenarios, five sites drawn at random, regions of a cloud. On
each, every set of active sites is simulated with the same messages; the best of those, or a planned one if it is better
still, is compared with five choices without hindsight: the planner, the paper's rule with our nulls and without, and
our dynamic hybrid, with a plan for the whole group and with each site choosing for itself.
"""

from __future__ import annotations

from statistics import fmean

from isthmus.studies.claim import ClaimSource, Quantity, StackAdvice, Tables, numbers_of, over, quantity
from isthmus.studies.model import described
from isthmus.studies.tickets.labels import (
    DYNAMIC,
    DYNAMIC_ALONE,
    OURS,
    PLANNED,
    RULE,
    RULE_NO_NULLS,
    STACK_OF,
    STREAM_KINDS,
)

FIXED = "fixed"  # a choice in hindsight


def worst(choice: str, **wanted: object) -> Quantity:
    return over(max, "regret", "regret_percent", choice=choice, **wanted)


@quantity
def mean_ratio(tables: Tables, column: str, other: str) -> float:
    """The mean over instances of a column of the dynamic hybrid over that of another choice."""
    mine, theirs = (numbers_of(tables["regret"], column, choice=choice) for choice in (DYNAMIC, other))
    return fmean(a / b for a, b in zip(mine, theirs, strict=True))


@Quantity
def undelivered_max(tables: Tables) -> float:
    """The largest number of messages undelivered at the end of a run with nulls."""
    return max(float(row["undelivered_messages"]) for row in tables["runs"] if row["choice"] != RULE_NO_NULLS)


CLAIMS = (
    OURS.claim(
        "No fixed assignment is more than 2 % better than the planned one.",
        worst(PLANNED).at_most(2.0, "%"),
        "simulated, maximum over instances; of five sites every set of active sites",
    ),
    ClaimSource("section 4.4").claim(
        "The paper's rule finds the best roles in the nine scenarios.",
        worst(RULE, family="nine").at_most(2.0, "%"),
        "with nulls, as all others; the worst scenario",
    ),
    OURS.claim(
        "The dynamic hybrid, without prior knowledge, is within 5 % of the best in hindsight on average.",
        over(fmean, "regret", "regret_percent", choice=DYNAMIC).at_most(5.0, "%"),
        "mean over instances of the latency above that of the best fixed roles",
    ),
    OURS.claim("It is within 10 % on every one of them.", worst(DYNAMIC).at_most(10.0, "%"), "maximum over instances"),
    OURS.claim(
        "A plan for the whole group takes at most 10 % more packets than each site choosing for itself.",
        Quantity(lambda tables: 100 * (mean_ratio("packets", DYNAMIC_ALONE)(tables) - 1)).at_most(10.0, "%"),
        "mean over instances; includes probes, reports to the planner and changes of roles",
    ),
    *(
        OURS.claim(
            f"With {kind} sources, the largest regret of our dynamic hybrid is at most that of the paper's rule, "
            "which is given delays and rates.",
            (worst(DYNAMIC, kind=kind) - worst(RULE_NO_NULLS, kind=kind)).at_most(0.0, "points"),
            "largest latency above that of the best fixed roles, ours less the paper's rule as it is in the paper, "
            "without nulls, on the same instances",
        )
        for kind in STREAM_KINDS
    ),
    OURS.claim(
        "Our dynamic hybrid learns delays and rates, and is as fast as the paper's rule that is given them.",
        mean_ratio("latency_ms", RULE_NO_NULLS).at_most(1.0, "times"),
        "ratio of its latency to that of the paper's rule without nulls, as in the paper; mean over instances",
    ),
    OURS.claim("Every choice with nulls delivers all messages.", undelivered_max.near(0.0, "messages")),
)


def planned_reason(tables: Tables) -> str:
    planned, learnt = (max(0.0, worst(choice)(tables)) for choice in (PLANNED, DYNAMIC))
    return (
        f"planned roles are within {planned:.1f} % of the best in hindsight on every network tried; "
        f"the dynamic hybrid, without prior knowledge, within {learnt:.1f} %"
    )


STUDY = described(
    "regret",
    CLAIMS,
    (StackAdvice("Delays and rates are known: let isthmus plan assign the roles", "hybrid", planned_reason),),
    networks=False,
    stacks=("choice", STACK_OF),
)
