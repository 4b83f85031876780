"""Compositions loaded from TOML, and converted back to tables.

Groups and IGPs name a stack, whose promises give the semantics, or the semantics themselves. Members are names, or a
number of processes named after their group. Defaults: a group is open, an IGP is a group with a stack (a link is FIFO,
datagrams guarantee nothing), a router is not replicated, a domain covers all groups, judges messages between groups
and forwards plainly. docs/design/routing.md describes every key. Every mistake raises one `InputError`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from isthmus.core.errors import InputError
from isthmus.core.validation import BadValue, convert, one_of, read_toml, show
from isthmus.protocols.routing.calculus.model import (
    Composition,
    DomainScope,
    Forwarding,
    GroupFlow,
    Igp,
    IgpKind,
    OrderingDomain,
    ProcessGroup,
    RouterSpec,
    Semantics,
    StaticRoute,
    Wanted,
)
from isthmus.protocols.routing.calculus.shape import Shape
from isthmus.stacks.registry import STACKS

MEMBERS_MAX = 10_000
KINDS: dict[str, Semantics] = {"datagrams": "none", "link": "fifo"}


class RawGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group as written."""

    name: str
    members: tuple[str, ...] | int
    stack: str | None = None
    semantics: Semantics | None = None
    open: bool = True


class RawIgp(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An inter-group protocol as written."""

    name: str
    kind: IgpKind = "group"
    stack: str | None = None
    semantics: Semantics | None = None


class RawDomain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A domain as written."""

    name: str
    wants: Wanted
    groups: tuple[str, ...] | None = None
    scope: DomainScope = "inter"
    forwarding: Forwarding = "plain"
    flows: tuple[GroupFlow, ...] = ()
    intra: tuple[str, ...] | None = None
    igps: tuple[str, ...] = ()
    root: str = ""
    prioritised: bool = False


class RawComposition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A composition as written."""

    name: str
    groups: tuple[RawGroup, ...]
    routers: tuple[RouterSpec, ...]
    domains: tuple[RawDomain, ...]
    igps: tuple[RawIgp, ...] = ()
    routes: tuple[StaticRoute, ...] = ()


def load_composition(path: Path) -> Composition:
    """Read a composition."""
    return composition_from_tables(read_toml(path), str(path))


def composition_from_tables(tables: dict[str, Any], source: str) -> Composition:
    """Check and complete a composition given as plain tables."""
    raw = convert(tables, RawComposition, source)
    groups = tuple(complete_group(one, source, f"groups[{at}]") for at, one in enumerate(raw.groups))
    igps = tuple(complete_igp(one, source, f"igps[{at}]") for at, one in enumerate(raw.igps))
    everyone = tuple(group.name for group in groups)
    domains = tuple(complete_domain(one, everyone, source, f"domains[{at}]") for at, one in enumerate(raw.domains))
    try:
        composition = Composition(raw.name, groups, raw.routers, domains, igps, raw.routes)
        for domain in domains:
            Shape(composition, domain)
    except BadValue as error:
        raise error.at(source, "") from None
    return composition


def complete_group(raw: RawGroup, source: str, key: str) -> ProcessGroup:
    if isinstance(raw.members, int):
        if not 1 <= raw.members <= MEMBERS_MAX:
            raise InputError(source, f"{key}.members", show(raw.members), f"a number from 1 to {MEMBERS_MAX}")
        members = tuple(f"{raw.name}-{number}" for number in range(raw.members))
    else:
        members = raw.members
    semantics = semantics_of(raw.stack, raw.semantics, source, key)
    try:
        return ProcessGroup(raw.name, members, semantics, raw.stack or "", raw.open)
    except BadValue as error:
        raise error.at(source, key) from None


def complete_igp(raw: RawIgp, source: str, key: str) -> Igp:
    if raw.kind in KINDS:
        for name, given in (("stack", raw.stack), ("semantics", raw.semantics)):
            if given is not None:
                raise InputError(source, f"{key}.{name}", show(given), f"nothing, as it is of kind {raw.kind}")
        return Igp(raw.name, KINDS[raw.kind], raw.kind)
    return Igp(raw.name, semantics_of(raw.stack, raw.semantics, source, key), raw.kind, raw.stack or "")


def complete_domain(raw: RawDomain, everyone: tuple[str, ...], source: str, key: str) -> OrderingDomain:
    given = msgspec.structs.asdict(raw)
    try:
        return OrderingDomain(**(given if raw.groups else given | {"groups": everyone}))
    except BadValue as error:
        raise error.at(source, key) from None


def semantics_of(stack: str | None, semantics: Semantics | None, source: str, key: str) -> Semantics:
    """Return the given semantics, or those that a stack promises."""
    if (stack is None) == (semantics is None):
        found = "both a stack and semantics" if stack is not None else "neither a stack nor semantics"
        raise InputError(source, key, found, "one of the two")
    if semantics is not None:
        return semantics
    assert stack is not None
    if stack not in STACKS:
        raise InputError(source, f"{key}.stack", show(stack), one_of(stack, STACKS))
    return semantics_of_stack(stack)


def semantics_of_stack(stack: str) -> Semantics:
    """Return what a named stack promises, as the semantics of a composition."""
    promised = STACKS[stack].properties
    if "total" in promised:
        return "fifo-total" if "fifo" in promised else "total"
    return "causal" if "causal" in promised else "fifo" if "fifo" in promised else "none"


def composition_tables(composition: Composition) -> dict[str, Any]:
    """Return tables that load as an equal composition."""
    groups = []
    for group in composition.groups:
        numbered = group.members == tuple(f"{group.name}-{number}" for number in range(len(group.members)))
        table: dict[str, Any] = {"name": group.name, "members": len(group.members) if numbered else list(group.members)}
        groups.append(table | order_table(group) | ({} if group.open else {"open": False}))
    igps = [
        {"name": igp.name} | (order_table(igp) if igp.kind == "group" else {"kind": igp.kind})
        for igp in composition.igps
    ]
    tables: dict[str, Any] = {"name": composition.name, "groups": groups}
    tables |= {"igps": igps} if igps else {}
    tables |= {"routers": msgspec.to_builtins(composition.routers), "domains": msgspec.to_builtins(composition.domains)}
    return tables | ({"routes": msgspec.to_builtins(composition.routes)} if composition.routes else {})


def order_table(node: ProcessGroup | Igp) -> dict[str, str]:
    return {"stack": node.stack} if node.stack else {"semantics": node.semantics}
