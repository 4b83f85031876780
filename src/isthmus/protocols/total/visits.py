"""The order in which a ring's token visits the members, some of them twice: pure arithmetic.

A member that carries what others wait for may be visited twice in a rotation, half a rotation apart: what it forwards
then waits for half as long. The order is a function of the view. Where the token is on its way follows from who passed
it on and who got it: at a member with two places it is at the one that comes first after the place of its source.
"""

from __future__ import annotations

from collections.abc import Sequence

from isthmus.core.message import SiteId, Targets


def order_of_visits(members: Targets, twice: Sequence[SiteId] = ()) -> Targets:
    """The members in turn; those that are visited twice once more, half-way round from their own place."""
    order = list(members)
    for site in members:
        if site in twice and len(members) > 2:
            place = order.index(site)
            half = (place + (len(order) + 1) // 2) % len(order)
            order.insert(half, site)
    return tuple(order)


def distance(order: Targets, place: int, site: SiteId) -> int:
    """How far it is from a place to the next visit of a site, at least 1."""
    return min((at - place - 1) % len(order) + 1 for at, visited in enumerate(order) if visited == site)


def place_after(order: Targets, source: SiteId, site: SiteId) -> int:
    """The place of a site that gets the token from a source."""
    ways = [(distance(order, at, site), at) for at, visited in enumerate(order) if visited == source]
    steps, at = min(ways)
    return (at + steps) % len(order)
