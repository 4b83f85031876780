"""The theorems of paper 003 as claims: each is judged by the calculus, and that verdict is tested by executions.

The figure of a theorem is 1 where its order is guaranteed and no random execution breaks it, 0 where an execution that
breaks it was found. Anything else is no figure, and the verdict is unknown. The findings are in docs/design/routing.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from isthmus.protocols.routing.calculus.model import (
    Composition,
    DomainScope,
    Forwarding,
    GroupFlow,
    Igp,
    OrderingDomain,
    Part,
    ProcessGroup,
    RouterSpec,
    Semantics,
    StaticRoute,
)
from isthmus.studies.claim import Claim, ClaimSource, Quantity

EXECUTIONS, MESSAGES = 10, 6
Flows = Sequence[tuple[str, str]]  # the sending group and its destinations, one letter each


def groups_of(semantics: dict[str, Semantics]) -> tuple[ProcessGroup, ...]:
    return tuple(
        ProcessGroup(name, tuple(f"{name}{place}" for place in range(3)), kept) for name, kept in semantics.items()
    )


def domain_of(groups: str, forwarding: Forwarding, flows: Flows, root: str = "") -> tuple[OrderingDomain, ...]:
    sent = tuple(GroupFlow(source, tuple(to)) for source, to in flows)
    return (OrderingDomain("d", tuple(groups), "fifo", "inter", forwarding, sent, root=root),)


def below_one(
    semantics: dict[str, Semantics], igp: Semantics, forwarding: Forwarding = "plain", flows: Flows = ()
) -> Composition:
    """Groups around one IGP."""
    routers = tuple(RouterSpec(f"r{name}", (name, "I")) for name in semantics)
    domains = domain_of("".join(semantics), forwarding, flows)
    return Composition("star", groups_of(semantics), routers, domains, (Igp("I", igp),))


def below_two(semantics: Semantics, forwarding: Forwarding) -> Composition:
    """A and B below one IGP, C and D below another, both below a root, all with the same semantics."""
    below = {"A": "left", "B": "left", "C": "right", "D": "right"}
    routers = tuple(RouterSpec(f"r{name}", (name, igp)) for name, igp in below.items())
    routers += (RouterSpec("left-root", ("left", "root")), RouterSpec("right-root", ("right", "root")))
    igps = tuple(Igp(name, semantics) for name in ("left", "right", "root"))
    domains = domain_of("ABCD", forwarding, (), "root")
    return Composition("tree", groups_of(dict.fromkeys("ABCD", semantics)), routers, domains, igps)


def by_two_routers() -> Composition:
    """Messages of A go to B by one router and to C by another; B answers to C."""
    joins = {"r1": "A", "r2": "A", "rB": "B", "rC": "C"}
    routers = tuple(RouterSpec(name, (group, "I")) for name, group in joins.items())
    routes = (StaticRoute("A", "B", ("r1", "rB")), StaticRoute("A", "C", ("r2", "rC")))
    groups = groups_of(dict.fromkeys("ABC", "causal"))
    domains = domain_of("ABC", "plain", (("A", "BC"), ("B", "C")))
    return Composition("two", groups, routers, domains, (Igp("I", "causal"),), routes)


def verdict_on(composition: Composition, scope: DomainScope, order: Part) -> float | None:
    """1: guaranteed, and kept by executions; 0: refused, and broken by one; None: the two do not agree."""
    from isthmus.advise.composition.abstract_run import AbstractRun
    from isthmus.advise.composition.counterexample import counterexample, drawn_script, is_fault, judge_domain
    from isthmus.protocols.routing.calculus.semantics import decide
    from isthmus.protocols.routing.calculus.walks import network_of

    random = Random(f"{composition.name}/{scope}/{order}")
    network = network_of(composition, composition.domains, scope)
    if not decide(composition, composition.domains, scope).of(order).holds:
        return None if counterexample(network, scope, order, random) is None else 0.0
    for _ in range(EXECUTIONS):
        rows = AbstractRun(network, drawn_script(network, random, MESSAGES), random).play()
        if is_fault(judge_domain(network, rows, scope, order)):
            return None
    return 1.0


def theorem(
    number: str, statement: str, composition: Composition, scope: DomainScope, order: Part, note: str = ""
) -> Claim:
    decided = Quantity(lambda _: verdict_on(composition, scope, order))
    return ClaimSource(f"theorem {number}").claim(statement, decided.near(1.0), note)


ONE_FLOWS = (("A", "BC"), ("A", "B"), ("A", "C"))
ONE_SENDER = below_one({"A": "causal", "B": "fifo", "C": "fifo"}, "fifo", flows=ONE_FLOWS)
TWO_CAUSAL = below_one({"A": "causal", "B": "causal"}, "fifo")
TWO_TOTAL = below_one({"A": "fifo-total", "B": "fifo-total"}, "total", "total")
TO_ALL = (("A", "ABCD"), ("B", "ABC"), ("A", "C"), ("B", "CD"))
TWO_SENDERS = below_one({"A": "causal", "B": "causal", "C": "fifo", "D": "fifo"}, "causal", flows=TO_ALL)
OVERLAP = below_one(
    {"A": "fifo-total", "B": "total", "C": "fifo-total"}, "fifo-total", flows=(("A", "AC"), ("B", "AC"))
)
MANY_TOTAL = below_one(dict.fromkeys("ABC", "fifo-total"), "fifo-total", "total")
CAUSAL_TREE, TOTAL_TREE = below_two("causal", "plain"), below_two("fifo-total", "hierarchical")
NOT_FIFO = below_one({"A": "total", "B": "fifo"}, "fifo")
NO_OWN = "that group delivers its own first; it holds without own copies, with one sender, or by total forwarding"
LATE = "a receiver has a message by one router that another still lacks by the other, and answers"
TOTAL_ONLY = "the paper claims total order alone here"
THEOREMS: tuple[Claim, ...] = (
    theorem("1", "FIFO forwarding keeps FIFO order.", ONE_SENDER, "inter", "fifo"),
    theorem("1", "FIFO forwarding keeps the causal order of one sending group.", ONE_SENDER, "inter", "causal"),
    theorem("1", "So it does where a group has two routers.", by_two_routers(), "inter", "causal", LATE),
    theorem("2", "Two causal groups keep causal order.", TWO_CAUSAL, "all", "causal"),
    theorem("3", "Two groups keep total order by total forwarding.", TWO_TOTAL, "all", "total"),
    theorem("4", "Several causal senders keep causal order between groups.", TWO_SENDERS, "inter", "causal"),
    theorem(
        "4",
        "So they do over all messages.",
        TWO_SENDERS,
        "all",
        "causal",
        "a group that only receives, and is FIFO, has messages of its own",
    ),
    theorem(
        "5", "With an overlap of one group, total order needs no total forwarding.", OVERLAP, "inter", "total", NO_OWN
    ),
    theorem("6", "Many groups keep total order by total forwarding.", MANY_TOTAL, "all", "total", TOTAL_ONLY),
    theorem("7", "A tree of causal protocols keeps causal order.", CAUSAL_TREE, "all", "causal"),
    theorem("8", "A tree keeps total order by hierarchical forwarding.", TOTAL_TREE, "all", "total", TOTAL_ONLY),
    theorem(
        "1, tables 1 and 2",
        "Any group over a FIFO protocol gives FIFO order.",
        NOT_FIFO,
        "inter",
        "fifo",
        "not where a protocol is total but not FIFO",
    ),
)
