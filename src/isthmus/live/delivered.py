"""A message as a program reads it: with names for numbers, and its position where the order is total."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from isthmus.core.message import Cast


class Delivered(msgspec.Struct, frozen=True, gc=False):
    """One message of a group."""

    sender: str  # the name of the site that sent it
    number: int  # of its sender's messages in this group; they grow, and need not be consecutive
    payload: bytes
    destinations: tuple[str, ...] = ()  # the names of the sites that it is for; () for all
    position: int | None = None  # in a total order: the same at all sites, and it grows; None: the order is not total


def delivered(names: Sequence[str], cast: Cast, position: int | None) -> Delivered:
    """A message with the names of sites in place of their numbers."""
    if cast.destinations:
        others = tuple([names[site] for site in cast.destinations])
        return Delivered(names[cast.sender], cast.number, cast.payload, others, position)
    return Delivered(names[cast.sender], cast.number, cast.payload, (), position)
