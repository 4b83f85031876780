"""A message as a program reads it: with names for numbers, and its position where the order is total."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from isthmus.core.message import Cast, GroupId


class Delivered(msgspec.Struct, frozen=True, gc=False):
    """One message of a group."""

    sender: str  # the name of the site that sent it
    number: int  # of its sender's messages in this group; they grow, and need not be consecutive
    payload: bytes
    destinations: tuple[str, ...] = ()  # the names of the sites that it is for; () for all
    position: int | None = None  # in a total order: the same at all sites, and it grows; None: the order is not total
    origin: str = ""  # in a composition: the group that it comes from; what a router packs has one position


def delivered(
    names: Sequence[str], cast: Cast, position: int | None, groups: Sequence[str] = (), own: int = 0
) -> Delivered:
    """A message with the names of sites in place of their numbers, and of groups in a composition."""
    others = tuple([names[site] for site in cast.destinations]) if cast.destinations else ()
    if not groups:
        return Delivered(names[cast.sender], cast.number, cast.payload, others, position)
    origin, sender, number = cast.identity(GroupId(own))
    return Delivered(names[sender], number, cast.payload, others, position, groups[origin])
