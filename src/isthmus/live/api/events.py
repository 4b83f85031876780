"""What a group gives to a program: messages, views, gaps, and guesses of the order; with names for numbers."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from isthmus.core.layer import View
from isthmus.core.message import Cast, GroupId


class Delivered(msgspec.Struct, frozen=True, gc=False):
    """One message of a group, at its place in the order.

    Args:
        sender: the name of the site that sent it.
        number: of the sender's messages in this group; numbers grow and need not be consecutive.
        payload: the bytes that were sent.
        destinations: the names of the sites that it is for; () for all.
        position: in a total order, a number that is the same at all sites and grows from message to message; None
            where the order is not total.
        origin: in a composition, the name of the group that it was sent in.

    Example: `async for message in group: print(message.position, message.sender, message.payload)`
    """

    sender: str
    number: int
    payload: bytes
    destinations: tuple[str, ...] = ()
    position: int | None = None
    origin: str = ""


class Tentative(msgspec.Struct, frozen=True, gc=False):
    """A guess of an optimistic order: the message will probably be next. It has no position yet."""

    message: Delivered


class Revoked(msgspec.Struct, frozen=True, gc=False):
    """A guess that will never come true here: the others went on without this site, which begins a new life.

    It comes before the `Gap` of that life. Where the program has `restore`, that makes all earlier guesses void, and
    those that are not read as revoked by then are not given. Those that went on may have ordered the message.
    """

    message: Delivered


class Gap(msgspec.Struct, frozen=True, gc=False):
    """Messages were missed here: the others went on without this site, and no state was transferred.

    Args:
        last: everything up to this position was given before; None where nothing was, or the order is not total.
        next: everything from this position on follows; None where the order is not total.

    A site whose program gives `state` and `restore` has no gaps: it takes over the state of another site instead.

    Example: `case Gap(last=last): await fetch_elsewhere(after=last)`
    """

    last: int | None
    next: int | None


Event = Delivered | View | Gap | Tentative | Revoked


def delivered(
    names: Sequence[str], cast: Cast, position: int | None, groups: Sequence[str] = (), own: int = 0
) -> Delivered:
    """A message with the names of sites in place of their numbers, and of groups in a composition."""
    others = tuple([names[site] for site in cast.destinations]) if cast.destinations else ()
    if not groups:
        return Delivered(names[cast.sender], cast.number, cast.payload, others, position)
    origin, sender, number = cast.identity(GroupId(own))
    return Delivered(names[sender], number, cast.payload, others, position, groups[origin])
