"""Trailers: who may ask for one and bring one, and who is asked to take a class on."""

from __future__ import annotations

import msgspec
import pytest
from tests.harness.compositions import star

from isthmus.core.errors import RemoteError
from isthmus.core.message import GroupId, SiteId
from isthmus.protocols.routing.intake import checked_walk
from isthmus.protocols.routing.routes import CompositionRoutes, site_names
from isthmus.protocols.routing.wire import Chase

A, B = GroupId(0), GroupId(1)


def routes(replicas: int = 1) -> CompositionRoutes:
    """Groups A (sites 0 to 2) and B around one IGP, with routers rA and rB."""
    composition = star({"A": "fifo-total", "B": "fifo-total"}, "fifo-total")
    routers = tuple(msgspec.structs.replace(one, replicas=replicas) for one in composition.routers)
    composition = msgspec.structs.replace(composition, routers=routers)
    return CompositionRoutes(composition, {name: SiteId(at) for at, name in enumerate(site_names(composition))})


def test_a_trailer_goes_the_way_of_its_author_s_messages() -> None:
    made = routes()
    trailer = made.trailer(A, SiteId(1), Chase((1,), 7, 1))
    assert (trailer.author, trailer.to, trailer.copy, trailer.payload) == ((A, SiteId(1), 7), (1,), 0, b"")
    last = msgspec.structs.replace(trailer, copy=2)
    assert checked_walk(made, B, made.sites[1][0], last).to == (1,)
    with pytest.raises(RemoteError, match="neither its author nor a router on its route"):
        checked_walk(made, B, SiteId(4), last)


@pytest.mark.parametrize(
    ("sender", "to", "replicas", "told"),
    [
        (4, (1,), 1, "sends no such messages"),  # a process of another group
        (6, (1,), 1, "sends no such messages"),  # a router
        (1, (9,), 1, "sends no such messages"),
        (1, (1,), 2, "may still come"),
    ],
)
def test_who_can_have_lost_nothing_is_refused(sender: int, to: tuple[int, ...], replicas: int, told: str) -> None:
    with pytest.raises(RemoteError, match=told):
        routes(replicas).trailer(A, SiteId(sender), Chase(to, 7, 1))


def test_a_trailer_is_refused_where_what_is_missing_may_still_come() -> None:
    made = routes(replicas=2)
    trailer = msgspec.structs.replace(routes().trailer(A, SiteId(1), Chase((1,), 7, 1)), copy=2)
    with pytest.raises(RemoteError, match="may still come"):
        checked_walk(made, B, made.sites[1][0], trailer)


def test_a_class_is_taken_on_where_one_replica_of_each_first_router_is_there() -> None:
    made = routes(replicas=2)
    walk, (first, second) = made.walk(A, (1,)), made.sites[0]
    assert made.is_taken_on(walk, (SiteId(0), first)) and made.is_taken_on(walk, (second,))
    assert not made.is_taken_on(walk, (SiteId(0), made.sites[1][0]))
