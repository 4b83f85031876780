"""Names that the studies of total order by tickets share: papers, sources, loads, and protocols as figures name them.

The protocols come in two versions. As the paper has them: no nulls, tickets ride on the next message, roles by the
mean-shift detector. And as this project has them: a null after 25 ms of silence, tickets sent at once, roles
revalidated.
"""

from __future__ import annotations

from isthmus.studies.claim import ClaimSource

PAPER = "Totally ordered multicast in large-scale systems"
OURS = ClaimSource("ours, beyond the paper", "promise")
ASSUMED = ClaimSource("assumed by the papers")

PERIODIC, POISSON = "quasi-periodic", "Poisson"
SOURCES = (PERIODIC, POISSON)
NINE = ("HLLLL", "HHLLL", "HHHLL", "HHHHL", "HHLHL", "HLLHL", "LLLHL", "LLLHH", "HHHHH")  # load of A B C and D E
STREAM_KINDS = ("periodic", "poisson")  # of the streams of a planner's setting

TOKEN_SITE = "token-site"
SYMMETRIC, SYMMETRIC_NULLS = "symmetric, no nulls", "symmetric, nulls"
HYBRID, HYBRID_NULLS = "hybrid, no nulls", "hybrid, nulls"
PLANNED, RULE, RULE_NO_NULLS = "planned", "paper's rule, nulls", "paper's rule, no nulls"
DYNAMIC, DYNAMIC_ALONE = "dynamic hybrid, ours", "dynamic hybrid, each alone"
DYNAMIC_PAPER = "dynamic hybrid, the paper's"
STACK_OF = {  # the stack whose colour a protocol has in figures; several of one stack in this order
    TOKEN_SITE: "token-site",
    SYMMETRIC_NULLS: "symmetric",
    SYMMETRIC: "symmetric",
    HYBRID_NULLS: "hybrid",
    HYBRID: "hybrid",
    PLANNED: "hybrid",
    RULE: "hybrid",
    RULE_NO_NULLS: "hybrid",
    DYNAMIC: "dynamic-hybrid",
    DYNAMIC_ALONE: "dynamic-hybrid",
    DYNAMIC_PAPER: "dynamic-hybrid",
}
PROPERTIES = ("integrity", "views", "fifo", "total")  # agreement and validity need what silence never gives
NULL_MS = 25.0  # silence after which a stack sends a null, by default


def nine_labels() -> list[str]:
    """The nine scenarios as tables name them: number and load."""
    return [f"{number} {load}" for number, load in enumerate(NINE, 1)]
