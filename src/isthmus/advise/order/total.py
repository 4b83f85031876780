"""Advice on total order for a network and its traffic: a stack, a role for every site, and the expected latency.

A topology gives the delays (delays.py), workloads give the streams (traffic.py), stacks/roles chooses the roles, and
each choice becomes a stack that a scenario can use. `notes` lists what the prediction leaves out.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

import msgspec

from isthmus.advise.order.delays import delay_notes, delays_of
from isthmus.advise.order.recommendation import recommend
from isthmus.advise.order.traffic import streams_of
from isthmus.core.validation import BadValue
from isthmus.scenario.model import HybridSpec, StackSpec
from isthmus.scenario.workload import Workload
from isthmus.stacks.roles.assignment import RoleChoice
from isthmus.stacks.roles.prediction import RoleAssignment, Setting
from isthmus.topology.model import Topology

PLANNED, TOKEN_SITE, SYMMETRIC, PAPER = "planned", "token-site", "symmetric", "paper's rule"


class TotalOrderOption(msgspec.Struct, frozen=True):
    """One way to order all messages."""

    name: str
    choice: RoleChoice
    stack: StackSpec

    @property
    def mean_ms(self) -> float:
        return self.choice.mean_ms


class TotalOrderAdvice(msgspec.Struct, frozen=True):
    """The options, the recommended one first."""

    topology: Topology
    workloads: tuple[Workload, ...]
    setting: Setting
    options: tuple[TotalOrderOption, ...]
    notes: tuple[str, ...]

    @property
    def recommended(self) -> TotalOrderOption:
        return self.options[0]


def advise(topology: Topology, workloads: Sequence[Workload], spec: HybridSpec | None = None) -> TotalOrderAdvice:
    """Plan for a network and its traffic; `spec` holds the ticket protocol's options, its roles aside."""
    spec = spec or HybridSpec()
    notes: list[str] = []
    streams = streams_of(topology, workloads, notes)
    if not any(streams):
        raise BadValue("workloads", "no site that sends", "at least one site that sends")
    notes += delay_notes(topology)
    setting = Setting(delays_of(topology), streams, spec.eager, spec.null_ms)
    found = recommend(setting)
    token, rule = found.token_site, found.paper
    options = [
        TotalOrderOption(
            TOKEN_SITE, token, StackSpec(name="token-site", sequencer=topology.sites[token.roles.active[0]].name)
        ),
        TotalOrderOption(SYMMETRIC, found.symmetric, StackSpec(name="symmetric", hybrid=spec)),
        TotalOrderOption(PAPER, rule, hybrid_stack(topology, rule.roles, spec)),
    ]
    simple = next((option.stack for option in options[:2] if option.choice == found.planned), None)
    first = TotalOrderOption(PLANNED, found.planned, simple or hybrid_stack(topology, found.planned.roles, spec))
    notes += flow_notes(topology, setting, first)
    return TotalOrderAdvice(topology, tuple(workloads), setting, (first, *options), tuple(notes))


def hybrid_stack(topology: Topology, roles: RoleAssignment, spec: HybridSpec) -> StackSpec:
    names = [site.name for site in topology.sites]
    sequencer_of = {names[p]: names[a] for p, a in enumerate(roles.sequencer) if p != a}
    active = tuple(names[site] for site in roles.active)
    return StackSpec(name="hybrid", hybrid=msgspec.structs.replace(spec, active=active, sequencer_of=sequencer_of))


def stack_tables(stack: StackSpec) -> dict[str, Any]:
    """A stack as the tables of a file that a scenario can name: its roles, and options other than the defaults."""
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


def flow_notes(topology: Topology, setting: Setting, option: TotalOrderOption) -> list[str]:
    """Return a note where the messages in flight would exceed the window of flow control."""
    window = option.stack.credit.window
    in_flight = [
        rate * (latency + reach)
        for rate, latency, reach in zip(setting.rates, option.choice.prediction.site_ms, setting.reach_ms, strict=True)
    ]
    worst = max(range(setting.count), key=in_flight.__getitem__)
    if in_flight[worst] <= window / 2 or not isfinite(in_flight[worst]):
        return []
    name = topology.sites[worst].name
    text = f"{name} has {in_flight[worst]:.0f} messages in flight, and flow control allows {window}"
    return [f"{text}: set a larger credit.window"]
