"""Random compositions, each tried: no guarantee may be broken by any execution, and every refusal should be refuted.

The problem: a calculus that is wrong in one case in a thousand looks right. The idea: draw compositions of all kinds
(paired, around one IGP, trees of IGPs, groups joined directly or on the way of others, two routers between one group
and one IGP, several domains in a row or in a ring; any semantics, any forwarding, all flows or a few), and try each
verdict: where an order is guaranteed, drawn executions must keep it by the trace's own checks; where it is refused, a
counterexample must be found. Most protocols of one composition are alike, or hardly anything would ever be guaranteed.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from isthmus.advise.composition.abstract_run import AbstractRun
from isthmus.advise.composition.counterexample import counterexample, drawn_script, is_fault, judge_domain
from isthmus.core.validation import BadValue
from isthmus.protocols.routing.calculus.model import (
    Composition,
    DomainScope,
    Forwarding,
    GroupFlow,
    Igp,
    OrderingDomain,
    ProcessGroup,
    RouterSpec,
    Semantics,
)
from isthmus.protocols.routing.calculus.semantics import ORDERS, guarantee
from isthmus.protocols.routing.calculus.walks import network_of

SEMANTICS: tuple[Semantics, ...] = ("none", "fifo", "causal", "total", "fifo-total")
MODES: tuple[Forwarding, ...] = ("plain", "plain", "total", "hierarchical", "shadow-and-hold")
SCOPES: tuple[DomainScope, ...] = ("inter", "all")
MESSAGES_MAX = 7  # in an execution


class Tried(NamedTuple):
    """What came of one verdict."""

    domains: tuple[str, ...]
    scope: DomainScope
    order: str
    rule: str
    guaranteed: bool
    fault: str  # of a guarantee that was broken: the witness; of a refusal without a counterexample: the reason


def try_composition(composition: Composition, random: Random, executions: int) -> list[Tried]:
    """Try every verdict on each domain, and on all together where there are several."""
    parts: list[tuple[OrderingDomain, ...]] = [(domain,) for domain in composition.domains]
    if len(composition.domains) > 1:
        parts.append(composition.domains)
    return [
        tried
        for part in parts
        for scope in SCOPES
        for tried in try_domains(composition, part, scope, random, executions)
    ]


def try_domains(
    composition: Composition, domains: tuple[OrderingDomain, ...], scope: DomainScope, random: Random, executions: int
) -> list[Tried]:
    """Try the three orders of some domains over one scope."""
    network = network_of(composition, domains, scope)
    names = tuple(domain.name for domain in domains)
    verdicts = [guarantee(composition, network, domains, scope, order) for order in ORDERS]
    faults: dict[str, str] = {}
    for verdict in verdicts:
        if not verdict.holds and counterexample(network, scope, verdict.order, random) is None:
            faults[verdict.order] = verdict.reason
    held = [verdict.order for verdict in verdicts if verdict.holds]
    for _ in range(executions if held else 0):
        rows = AbstractRun(network, drawn_script(network, random, random.randint(2, MESSAGES_MAX)), random).play()
        for order in held:
            found = judge_domain(network, rows, scope, order)
            if is_fault(found):
                faults[order] = found.witness
    return [Tried(names, scope, one.order, one.rule, one.holds, faults.get(one.order, "")) for one in verdicts]


def random_composition(random: Random) -> Composition:
    """A composition that can be decided; the few that a loader would refuse are drawn anew."""
    while True:
        try:
            composition = several_domains(random) if random.random() < 0.2 else one_domain(random)
            for scope in SCOPES:
                network_of(composition, composition.domains, scope)
            return composition
        except BadValue:
            continue


class Draw:
    """The choices that all parts of one composition share."""

    __slots__ = ("likely", "random")

    def __init__(self, random: Random) -> None:
        self.random = random
        self.likely: Semantics | None = random.choice((None, "fifo", "causal", "fifo-total"))

    def semantics(self) -> Semantics:
        likely = self.likely
        return likely if likely is not None and self.random.random() < 0.75 else self.random.choice(SEMANTICS)

    def group(self, number: int) -> ProcessGroup:
        name = chr(ord("A") + number)
        members = tuple(f"{name.lower()}{place}" for place in range(self.random.choice((1, 2, 2, 3))))
        return ProcessGroup(name, members, self.semantics(), open=self.random.random() < 0.95)

    def igp(self, name: str) -> Igp:
        if self.random.random() < 0.03:
            return Igp(name, "none", "datagrams")
        return Igp(name, self.semantics())

    def domain(self, name: str, groups: list[ProcessGroup]) -> OrderingDomain:
        names = tuple(group.name for group in groups)
        intra = None if self.random.random() < 0.6 else tuple(name for name in names if self.random.random() < 0.5)
        flows = self.flows(groups) if self.random.random() < 0.5 else ()
        mode = self.random.choice(MODES)
        prioritised = self.random.random() < 0.03
        return OrderingDomain(name, names, "fifo", forwarding=mode, flows=flows, intra=intra, prioritised=prioritised)

    def flows(self, groups: list[ProcessGroup]) -> tuple[GroupFlow, ...]:
        """A few flows to open groups."""
        found = []
        for _ in range(self.random.randint(1, 4)):
            source = self.random.choice(groups)
            reach = [group.name for group in groups if group.open or group is source]
            to = tuple(name for name in reach if self.random.random() < 0.6)
            if to and to != (source.name,):
                found.append(GroupFlow(source.name, to))
        return tuple(found)


def one_domain(random: Random) -> Composition:
    """Two to four groups around one IGP or on a tree of IGPs; at times joined directly, or by two routers."""
    draw = Draw(random)
    groups = [draw.group(number) for number in range(random.choice((2, 2, 3, 3, 4)))]
    count = random.choice((1, 1, 2, 3)) if len(groups) > 2 else 1
    joins: list[list[str]] = [[f"I{random.randrange(number)}", f"I{number}"] for number in range(1, count)]
    for number, group in enumerate(groups):
        if number and random.random() < 0.08:
            joins.append([group.name, groups[random.randrange(number)].name])
        elif joins and random.random() < 0.05:
            random.choice(joins).append(group.name)  # a router in three nodes
        else:
            joins.append([group.name, f"I{number if number < count else random.randrange(count)}"])
    if random.random() < 0.03:
        joins.append([groups[0].name, f"I{count - 1}"])
    igps = [draw.igp(f"I{number}") for number in range(count)]
    return joined(draw, groups, igps, joins, (draw.domain("d", groups),))


def several_domains(random: Random) -> Composition:
    """Two or three domains with an IGP each, in a row or, at times, in a ring."""
    draw = Draw(random)
    count = random.choice((2, 2, 3))
    ring = count > 2 and random.random() < 0.4
    groups = [draw.group(number) for number in range(count if ring else count + 1)]
    igps, joins, domains = [], [], []
    for number in range(count):
        ends = [groups[number], groups[(number + 1) % len(groups)]]
        igps.append(draw.igp(f"I{number}"))
        joins += [[group.name, f"I{number}"] for group in ends]
        domains.append(draw.domain(f"d{number}", ends))
    return joined(draw, groups, igps, joins, tuple(domains))


def joined(
    draw: Draw, groups: list[ProcessGroup], igps: list[Igp], joins: list[list[str]], domains: tuple[OrderingDomain, ...]
) -> Composition:
    """Leave out IGPs that lead nowhere, and name the routers."""
    while True:
        idle = [igp.name for igp in igps if sum(igp.name in names for names in joins) < 2]
        if not idle:
            break
        igps = [igp for igp in igps if igp.name not in idle]
        joins = [[name for name in names if name not in idle] for names in joins]
        joins = [names for names in joins if len(names) > 1]
    routers = tuple(RouterSpec(f"r{number}", tuple(dict.fromkeys(names))) for number, names in enumerate(joins))
    return Composition(f"random-{draw.likely}", tuple(groups), routers, domains, tuple(igps))
