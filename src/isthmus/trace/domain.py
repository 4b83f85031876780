"""Domains: sets of groups that are judged end to end, over the messages that pass between them or over all.

What a process delivers in all groups of a domain, by its local order, is one sequence, and the orders are asked of
these sequences as they are asked of a group. Scope `all` takes every message that is submitted or delivered in a group
of the domain; `inter` only those delivered in another group than their origin: others carry no causality either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal, get_args

import msgspec

from isthmus.core.errors import InputError

Scope = Literal["inter", "all"]
FORM = re.compile(r"(?P<name>[\w.-]+)=(?P<groups>\d+(,\d+)+)(:(?P<scope>\w+))?")
META_DOMAINS = "domains"
EXPECTED = "NAME=0,1,2 with two groups or more, or NAME=0,1,2:inter"
DOMAIN_PROPERTIES = ("integrity", "fifo", "causal", "total", "uniform-total")  # the others are of one group
JOINT = (*DOMAIN_PROPERTIES, "fifo-total")  # the same, and what is made of them
ORDERS = tuple(name for name in JOINT if name != "integrity")


class Domain(msgspec.Struct, frozen=True):
    """A named set of groups that is judged as one."""

    name: str
    groups: tuple[int, ...]  # ascending
    scope: Scope = "all"


def written_domains(domains: Iterable[Domain]) -> str:
    """Domains as the description of a trace tells them, under the key `domains`."""
    return msgspec.json.encode(list(domains)).decode()


def of_domains(domains: Iterable[Domain]) -> frozenset[int]:
    """The groups of some domains.

    Of a composed run, orders are promised by domains, not by groups; and a group that sends nothing to itself owes its
    members nothing.
    """
    return frozenset(group for domain in domains for group in domain.groups)


def read_domains(meta: Mapping[str, str]) -> tuple[Domain, ...]:
    """The domains that the description of a trace tells; none where it tells none that can be read."""
    try:
        return tuple(msgspec.json.decode(meta.get(META_DOMAINS, "[]"), type=list[Domain]))
    except msgspec.DecodeError:
        return ()


def parse_domain(text: str) -> Domain:
    found = FORM.fullmatch(text.strip())
    if found is None:
        raise InputError("--domain", "", repr(text), EXPECTED)
    groups = [int(number) for number in found["groups"].split(",")]
    if len(set(groups)) < len(groups):
        raise InputError("--domain", found["name"], f"a group twice in {found['groups']}", "each group once")
    scope = found["scope"] or "all"
    if scope not in get_args(Scope):
        raise InputError("--domain", found["name"], f"the scope {scope!r}", " or ".join(get_args(Scope)))
    return Domain(found["name"], tuple(sorted(groups)), "inter" if scope == "inter" else "all")


def parse_domains(texts: Iterable[str]) -> tuple[Domain, ...]:
    """Several domains, each with a name of its own."""
    domains = tuple(map(parse_domain, texts))
    check_names(domains)
    return domains


def check_names(domains: Iterable[Domain]) -> None:
    """Refuse two domains of one name: a verdict names its domain."""
    seen: set[str] = set()
    for domain in domains:
        if domain.name in seen:
            raise InputError("--domain", domain.name, "two domains of that name", "a name of its own for each")
        seen.add(domain.name)
