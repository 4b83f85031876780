"""Advice on total order for a network and its traffic: a stack, a role for every site, and what to expect of them.

The problem: protocols/total/ can choose roles by a matrix of delays and a list of streams; people have files. The idea:
a topology gives the delays and workloads the streams (plan_inputs.py), and the planner's choice is set beside the token
site, the symmetric protocol and the paper's rule, each as a stack that a scenario can have. plan_measure.py simulates
any of them, so that what was predicted can be held against what happens.

What the prediction does not know is said in `notes`, never passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

import msgspec

from isthmus.core.document import Invalid
from isthmus.protocols.total.assignment import Choice, best_token_site, cheapest, choose, paper_rule, plan, symmetric
from isthmus.protocols.total.prediction import Roles, Setting
from isthmus.scenario.model import HybridSpec, StackSpec
from isthmus.scenario.workload import Workload
from isthmus.studies.plan_inputs import delays_of, streams_of
from isthmus.topology.model import Topology

PLANNED, TOKEN_SITE, SYMMETRIC, PAPER = "planned", "token-site", "symmetric", "paper's rule"


class Option(msgspec.Struct, frozen=True):
    """One way to order everything here."""

    name: str
    choice: Choice
    stack: StackSpec

    @property
    def mean_ms(self) -> float:
        return self.choice.mean_ms


class Advice(msgspec.Struct, frozen=True):
    """The options, the recommended one first."""

    topology: Topology
    workloads: tuple[Workload, ...]
    setting: Setting
    options: tuple[Option, ...]
    notes: tuple[str, ...]

    @property
    def recommended(self) -> Option:
        return self.options[0]


def advise(topology: Topology, workloads: Sequence[Workload], spec: HybridSpec | None = None) -> Advice:
    """Plan for a network and its traffic, with the ticket protocol's options but for its roles."""
    spec = spec or HybridSpec()
    notes: list[str] = []
    streams = streams_of(topology, workloads, notes)
    if not any(streams):
        raise Invalid("workloads", "nobody who sends", "at least one site that sends")
    setting = Setting(delays_of(topology, notes), streams, spec.eager, spec.null_ms)
    prompt = msgspec.structs.replace(setting, eager=True)  # the token-site stack sends every ticket at once
    token = best_token_site(prompt)
    rule = choose(setting, paper_rule(setting.delays_ms, setting.periods_ms))
    options = [
        Option(TOKEN_SITE, token, StackSpec(name="token-site", sequencer=topology.sites[token.roles.active[0]].name)),
        Option(SYMMETRIC, choose(setting, symmetric(setting.count)), StackSpec(name="symmetric", hybrid=spec)),
        Option(PAPER, rule, hybrid_stack(topology, rule.roles, spec)),
    ]
    found = cheapest((token, plan(setting)))
    same = {TOKEN_SITE: token, SYMMETRIC: options[1].choice}
    stack = next((option.stack for option in options if found == same.get(option.name)), None)
    first = Option(PLANNED, found, stack or hybrid_stack(topology, found.roles, spec))
    return Advice(topology, tuple(workloads), setting, (first, *options), (*notes, *crowded(topology, setting, first)))


def hybrid_stack(topology: Topology, roles: Roles, spec: HybridSpec) -> StackSpec:
    """The hybrid stack with just these roles."""
    names = [site.name for site in topology.sites]
    sequencer_of = {names[p]: names[a] for p, a in enumerate(roles.sequencer) if p != a}
    active = tuple(names[site] for site in roles.active)
    return StackSpec(name="hybrid", hybrid=msgspec.structs.replace(spec, active=active, sequencer_of=sequencer_of))


def stack_tables(stack: StackSpec) -> dict[str, Any]:
    """A stack as tables of a file that a scenario can name: what matters to it, and what differs from the default."""
    tables: dict[str, Any] = {"name": stack.name}
    if stack.sequencer is not None:
        tables["sequencer"] = stack.sequencer
    if stack.name != "token-site":
        given, plain = (msgspec.to_builtins(spec) for spec in (stack.hybrid, HybridSpec()))
        roles = ("active", "sequencer_of") if stack.name == "hybrid" else ()
        named = {key: given[key] for key in roles if given[key]}
        rest = {key: value for key, value in given.items() if key not in named and value != plain[key]}
        tables |= {"hybrid": {"null_ms": given["null_ms"], "eager": given["eager"]} | rest | named}
    return tables


def crowded(topology: Topology, setting: Setting, option: Option) -> list[str]:
    """A note where more messages are under way than flow control lets pass."""
    window = option.stack.credit.window
    under_way = [
        rate * (latency + reach)
        for rate, latency, reach in zip(setting.rates, option.choice.prediction.site_ms, setting.reach_ms, strict=True)
    ]
    worst = max(range(setting.count), key=under_way.__getitem__)
    if under_way[worst] <= window / 2 or not isfinite(under_way[worst]):
        return []
    name = topology.sites[worst].name
    text = f"{name} has {under_way[worst]:.0f} messages under way, and flow control stops it at {window}"
    return [f"{text}: give the stack a larger credit.window"]
