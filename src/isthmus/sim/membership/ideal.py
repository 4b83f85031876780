"""The ideal view-synchronous service: what the papers assume, given by the simulator itself.

It knows who is up. Some time after a crash or a recovery it blocks the transports of all who are up, waits until what
is under way has arrived, gives every survivor the frames that any survivor holds, and has the next view installed by
all of them. What it cannot do is bring back a message that nobody alive has.

It drives a port by the same calls as a real membership does: freeze, install, state and restore for those who join,
resume. With `stagger_ns` each member installs the view at a time of its own, drawn at random, and resumes some time
after that, while others are in the new view already. A `hasty` service does not wait for what is under way: what the
dead sent last may come after the flush, and is then too late. With `majority` it also knows who reaches whom: members
on the side of a partition with more than half of the last view go on, the others get no view; when the partition heals
they come back as new incarnations, as after a crash. Where no side has a majority, all wait.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec

from isthmus.core.layer import View
from isthmus.core.message import GroupId, SiteId
from isthmus.protocols.membership.suspicion import Suspicion
from isthmus.protocols.transport.base import Transport
from isthmus.protocols.transport.flush import flush
from isthmus.sim.network.delays import Network
from isthmus.sim.scheduler import Scheduler
from isthmus.sim.site import SimPort, SimSite
from isthmus.trace.schema import Gauge

RETRY_NS = 1_000_000  # how long a member that joins waits before it asks for the state again
Reaches = Callable[[SiteId, SiteId], bool]  # whether packets from a site may reach another


class IdealOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the service works."""

    detection_ns: int  # from a crash, a recovery or a cut to the start of the view change
    majority: bool = False
    stagger_ns: int = 0  # members install a view at times of their own within this, and resume within as long again
    hasty: bool = False  # the flush does not wait for what is under way; a transport that keeps nothing cannot bear it


class IdealMembership:
    """The views of one group of one run."""

    def __init__(
        self,
        group: GroupId,
        scheduler: Scheduler,
        network: Network,
        options: IdealOptions,
        random: Random,
        reaches: Reaches = lambda _source, _target: True,
        restart: Callable[[SiteId], None] = lambda _site: None,
    ) -> None:
        self.group = group
        self.scheduler = scheduler
        self.network = network
        self.options = options
        self.random = random
        self.reaches = reaches
        self.restart = restart  # starts a site again that was cut off and has missed a view
        self.ports: list[SimPort] = []  # by seniority: the order in which they started
        self.view = View(0, ())
        self.changing = False  # blocked, and waiting for what is under way
        self.installing_count = 0  # members that are still to install the view
        self.preparing: Callable[[int], None] | None = None  # what the next view is waited for with
        self.noted_count = 0  # crashes, starts and cuts that the service has yet to notice

    def start(self, sites: list[SimSite]) -> None:
        """Install the first view, of all sites of the group."""
        self.ports = [site.ports[self.group] for site in sites if self.group in site.ports]
        self.decide()

    def changed(self) -> None:
        """Note that a site crashed or started, or that links were cut or healed: the view will follow."""
        self.noted_count += 1
        self.scheduler.at(self.scheduler.now_ns + self.options.detection_ns, self.notice)

    def renew(self, prepare: Callable[[int], None]) -> None:
        """Have a next view even if its members are the same; `prepare` is told its number before anyone enters it."""
        self.preparing = prepare
        self.changed()

    def joined(self, site: SimSite) -> None:
        """Note that a site has started, or started again."""
        if self.group in site.ports:
            self.ports.append(site.ports[self.group])
            self.changed()

    def layer_of(self, site: SimSite, suspicion: Suspicion) -> None:
        """Its members need no layer: they are told of views."""

    def ask_to_leave(self, site: SiteId) -> None:
        """A scenario with this service has no leaves."""

    def notice(self, *_: object) -> None:
        self.noted_count -= 1
        self.block()

    def at_rest(self) -> bool:
        """Whether no view change is under way, nor about to be."""
        return not self.changing and self.noted_count == 0 and self.installing_count == 0

    # Who is in the next view

    def primary(self) -> list[SimPort]:
        """The ports that go on: all that are up, or with `majority` the side that has one."""
        up = [port for port in self.ports if port.owner.alive]
        if not self.options.majority:
            return up
        for side in sides(up, self.reaches):
            staying = sum(self.stays(port) for port in side)
            if self.view.view_id == 0 or 2 * staying > len(self.view.members):
                return side
        return []

    def stays(self, port: SimPort) -> bool:
        """Whether a port is in the current view; one that is not would join."""
        return port.stack.view is self.view and self.view.view_id > 0

    def is_current(self, members: list[SimPort]) -> bool:
        """Whether the installed view has exactly these members; a site that was started again is a new one."""
        return [port.site for port in members] == list(self.view.members) and all(map(self.stays, members))

    # A view change

    def block(self) -> None:
        """Begin a view change where it is needed and none is going on."""
        if self.changing or self.installing_count:
            return  # the end of that one looks again
        self.ports = [port for port in self.ports if port.owner.alive]
        members = self.primary()
        for port in members:
            if port.stack.view.view_id and not self.stays(port):  # others have gone on without it
                self.ports.remove(port)
                self.restart(port.site)
        members = [port for port in members if port in self.ports]
        if self.is_current(members) and self.preparing is None:
            return
        self.changing = True
        for port in self.ports:
            if self.stays(port):
                port.run(port.stack.find(Transport).block)
        if self.options.hasty:
            self.scheduler.at(self.scheduler.now_ns, self.decide)
        else:
            self.network.after_arrivals(self.decide)

    def decide(self, *_: object) -> None:
        """Make what the survivors hold equal, and have the next view installed."""
        self.changing = False
        self.ports = [port for port in self.ports if port.owner.alive]
        if not self.ports:
            return  # nobody is left; one that starts again has the view change
        members = self.primary()
        if not members:
            self.changing = True  # nobody goes on until links heal; then this looks again
            self.scheduler.at(self.scheduler.now_ns + max(self.options.detection_ns, RETRY_NS), self.decide)
            return
        stayed = [port for port in members if self.stays(port)]
        joined = [port for port in members if port.stack.view.view_id == 0]
        for port in stayed:
            port.enter()
        flush(self.view.members, [port.stack.find(Transport) for port in stayed])
        for port in stayed:
            port.freeze()
        members = [port for port in members if port in stayed or port in joined]
        sites, incarnations = tuple(port.site for port in members), tuple(port.incarnation for port in members)
        self.view = View(self.view.view_id + 1, sites, incarnations)
        if self.preparing is not None:
            prepare, self.preparing = self.preparing, None
            prepare(self.view.view_id)
        self.installing_count = len(members)
        change = ViewChange(self.view, stayed)
        for port in (*stayed, *joined):
            self.later(self.enter_view, port, change)

    def later(self, step: Callable[[SimPort, ViewChange], None], port: SimPort, change: ViewChange) -> None:
        """Take a step of a change at one member, at a time of its own where they are staggered."""
        delay_ns = self.random.randrange(self.options.stagger_ns) if self.options.stagger_ns else 0
        if delay_ns:
            self.scheduler.at(self.scheduler.now_ns + delay_ns, step, port, change)
        else:
            step(port, change)

    def enter_view(self, port: SimPort, change: ViewChange) -> None:
        """Have one member install a view, and take over the state if it joins."""
        joins = port not in change.stayed
        if joins and change.state is None and any(other.owner.alive for other in change.stayed):
            self.scheduler.at(self.scheduler.now_ns + RETRY_NS, self.enter_view, port, change)
            return  # nobody has installed the view yet who could tell its state
        port.run(lambda: port.install(change.view))
        if joins and change.state is not None:
            state = change.state
            port.run(lambda: restore(port, state))
        elif port.owner.alive and change.state is None and not joins:
            change.state = port.stack.state()
        self.later(self.resume, port, change)

    def resume(self, port: SimPort, _change: ViewChange) -> None:
        """Have one member take part in the view; the last one ends the change."""
        port.run(port.resume)
        self.installing_count -= 1
        if not self.installing_count:
            self.block()  # what has happened in between


class ViewChange:
    """A view on its way to its members."""

    __slots__ = ("state", "stayed", "view")

    def __init__(self, view: View, stayed: list[SimPort]) -> None:
        self.view = view
        self.stayed = stayed  # they know the state of the group; the others take it over
        self.state: tuple[bytes, ...] | None = None  # of the first of them that has installed the view


def restore(port: SimPort, state: tuple[bytes, ...]) -> None:
    """Give a member that joins the state of one that stayed."""
    port.gauge(Gauge.STATE_BYTES, sum(map(len, state)))
    port.stack.restore(state)


def sides(ports: list[SimPort], reaches: Reaches) -> list[list[SimPort]]:
    """Ports by who reaches whom, both ways, each side in their order."""
    left, found = list(ports), []
    while left:
        side = [left[0]]
        for port in side:  # which grows
            side += [
                other
                for other in left
                if other not in side and reaches(port.site, other.site) and reaches(other.site, port.site)
            ]
        found.append([port for port in left if port in side])
        left = [port for port in left if port not in side]
    return found
