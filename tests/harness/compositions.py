"""Compositions for tests, in a few words each."""

from __future__ import annotations

from typing import Any

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


def group(name: str, semantics: Semantics, members: int = 3) -> ProcessGroup:
    return ProcessGroup(name, tuple(f"{name}{place}" for place in range(members)), semantics)


def flows_of(text: str) -> tuple[GroupFlow, ...]:
    """Flows such as 'A>BC, B>AC'."""
    pairs = [part.strip().split(">") for part in text.split(",")] if text else []
    return tuple(GroupFlow(source, tuple(to)) for source, to in pairs)


def domain(
    groups: str,
    forwarding: Forwarding = "plain",
    flows: str = "",
    scope: DomainScope = "inter",
    name: str = "d",
    **rest: Any,
) -> OrderingDomain:
    return OrderingDomain(name, tuple(groups), "fifo", scope, forwarding, flows_of(flows), **rest)


def star(
    semantics: dict[str, Semantics], igp: Semantics, forwarding: Forwarding = "plain", flows: str = "", **rest: Any
) -> Composition:
    """Groups around one IGP, named by letters."""
    groups = tuple(group(name, kind) for name, kind in semantics.items())
    routers = tuple(RouterSpec(f"r{name}", (name, "I")) for name in semantics)
    return Composition(
        "star", groups, routers, (domain("".join(semantics), forwarding, flows, **rest),), (Igp("I", igp),)
    )


def tree(
    semantics: Semantics, igps: Semantics, forwarding: Forwarding = "plain", flows: str = "", **rest: Any
) -> Composition:
    """A and B below one IGP, C and D below another, both below a root."""
    groups = tuple(group(name, semantics) for name in "ABCD")
    below = {"A": "left", "B": "left", "C": "right", "D": "right"}
    routers = tuple(RouterSpec(f"r{name}", (name, igp)) for name, igp in below.items())
    routers += (RouterSpec("left-root", ("left", "root")), RouterSpec("right-root", ("right", "root")))
    nodes = tuple(Igp(name, igps) for name in ("left", "right", "root"))
    return Composition("tree", groups, routers, (domain("ABCD", forwarding, flows, root="root", **rest),), nodes)
