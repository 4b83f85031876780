"""What a joiner takes over from a member, and what a router may drop, without a network."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
from tests.harness.compositions import star

from isthmus.core.layer import View
from isthmus.core.message import GroupId, SiteId
from isthmus.protocols.routing.intake import CopyIntake, ReceivedCopy
from isthmus.protocols.routing.keeping import SettledTable
from isthmus.protocols.routing.options import RouterOptions
from isthmus.protocols.routing.router import Router
from isthmus.protocols.routing.routes import CompositionRoutes, site_names
from isthmus.protocols.routing.wire import ConsumedReport, Routed, Settled, StreamKey

A, B, I = GroupId(0), GroupId(1), GroupId(2)  # noqa: E741  as in the composition
AUTHOR = SiteId(0)


class SilentHost:
    """As much of a host as a port of a router needs."""

    incarnation = 0

    def __init__(self, site: SiteId, group: GroupId) -> None:
        self.site, self.group = site, group

    def set_timer(self, *_: object) -> None: ...

    def trace(self, *_: object, **__: object) -> None: ...


def routes_with(replicas: int) -> CompositionRoutes:
    composition = star({"A": "fifo-total", "B": "fifo-total"}, "fifo-total")
    routers = tuple(msgspec.structs.replace(one, replicas=replicas) for one in composition.routers)
    composition = msgspec.structs.replace(composition, routers=routers)
    return CompositionRoutes(composition, {name: SiteId(at) for at, name in enumerate(site_names(composition))})


def copy_of(number: int, place: int = 2) -> Routed:
    """A message of site 0 of group A to B, in B unless told."""
    return Routed(A, AUTHOR, number, (B,), place, (number - 1,))


def intake_at(routes: CompositionRoutes, group: GroupId) -> CopyIntake:
    intake = CopyIntake(routes, SettledTable())
    intake.host = SilentHost(routes.processes[group][0], group)  # type: ignore[assignment]
    return intake


def sift(intake: CopyIntake, number: int) -> list[int]:
    copy = copy_of(number)
    courier = intake.routes.sites[1][0]
    found = intake.sift(ReceivedCopy(courier, number, copy), intake.routes.walk(A, (B,)))
    return [arrived.copy.number for arrived in found or ()]


def test_a_joiner_takes_over_the_copies_that_wait_for_an_earlier_one() -> None:
    routes = routes_with(2)  # where copies are sent again, a gap is waited for
    member, joiner = intake_at(routes, B), intake_at(routes, B)
    assert sift(member, 1) == [1] and sift(member, 3) == [] and sift(member, 4) == []
    joiner.restore(member.state())
    assert sift(joiner, 1) == [] and sift(joiner, 4) == []
    assert sift(member, 2) == sift(joiner, 2) == [2, 3, 4]


def router_of_a() -> tuple[Router, Any]:
    """The first replica of the router of A, with its port in A."""
    routes = routes_with(2)
    site = routes.sites[0][0]
    router = Router(routes, site, RouterOptions())
    port: Any = router.port(A)
    port.host = SilentHost(site, A)
    port.stack = SimpleNamespace(view=View(1, routes.members(A)))
    port.start()
    other: Any = router.port(I)
    other.host = SilentHost(site, I)
    other.stack = SimpleNamespace(view=View(1, routes.members(I)))
    other.start()
    return router, port


def test_a_message_is_settled_in_a_group_once_all_its_processes_have_consumed_it() -> None:
    router, port = router_of_a()
    key: StreamKey = (A, AUTHOR, 0, 0)
    for site, number in ((0, 9), (1, 4), (0, 12)):
        port.on_report(SiteId(site), ConsumedReport(((key, number),)))
        assert router.settled.of(A, key) == 0  # site 2 has told nothing
    port.on_report(SiteId(2), ConsumedReport(((key, 7),)))
    assert router.settled.of(A, key) == 4


def test_a_replica_that_goes_to_standby_sends_nothing_of_what_it_had_queued() -> None:
    """The replica that forwards from now on queues the same copies: both would send them."""
    router, port = router_of_a()
    router.become_forwarding(1)
    kept = copy_of(1, place=0)
    assert port.intake.keep(kept, router.routes.walk(A, (B,)))
    router.advance()
    assert [copy.number for copy in router.ports[I].queue] == [1]
    router.become_standby()
    assert not router.ports[I].queue
    port.on_settled(router.routes.sites[0][1], Settled(B, (((A, AUTHOR, 0, 0), 1),)))
    router.become_forwarding(2)
    assert not router.ports[I].queue  # B has it
