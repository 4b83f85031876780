"""The ideal view-synchronous service: the membership that the papers assume, provided by the simulator itself.

It knows which sites are up. Some time after a crash or a recovery it blocks the transports of all live members, waits
until all packets in flight have arrived, gives every survivor the frames that any survivor holds, and has all of them
install the next view. What it cannot do is recover a message that no live site holds.

It drives a port by the same calls as a real membership: freeze, install, state and restore for joiners, resume. With
`stagger_ns` each member installs the view at its own random time, and resumes some time after that, while others are
already in the new view. A `hasty` service does not wait for packets in flight: packets of crashed sites may arrive
after the flush, too late to be delivered. With `majority` it also knows the reachability between sites: members on the
side of a partition with more than half of the last view continue, the others install no view; when the partition heals
they return as new incarnations, as after a crash. If no side has a majority, all wait.
"""

from __future__ import annotations

from collections.abc import Callable

from isthmus.core.layer import View
from isthmus.core.message import GroupId, SiteId
from isthmus.core.units import NS_PER_MS
from isthmus.protocols.membership.suspicion import Suspicion
from isthmus.protocols.transport.base import Transport, flush
from isthmus.scenario.model import Scenario
from isthmus.sim.network.delays import Network
from isthmus.sim.scheduler import Scheduler
from isthmus.sim.site import SimPort, SimSite
from isthmus.trace.schema import Gauge

RETRY_NS = 1_000_000  # delay before a joiner asks for the state again
Reaches = Callable[[SiteId, SiteId], bool]  # whether packets from one site may reach another


class IdealMembership:
    """The views of one group of one run."""

    def __init__(
        self,
        scenario: Scenario,
        group: GroupId,
        scheduler: Scheduler,
        network: Network,
        reaches: Reaches,
        restart: Callable[[SiteId], None],
    ) -> None:
        self.group = group
        self.scheduler = scheduler
        self.network = network
        self.given = scenario.membership
        self.detection_ns = round(self.given.detection_ms * NS_PER_MS)
        self.stagger_ns = round(self.given.stagger_ms * NS_PER_MS)
        self.random = scenario.random("membership", group)
        self.reaches = reaches
        self.restart = restart  # restarts a site that was cut off and has missed a view
        self.ports: list[SimPort] = []  # by seniority: the order in which they started
        self.view = View(0, ())
        self.changing = False  # blocked, and waiting for packets in flight
        self.installing_count = 0  # members that have not resumed in the view yet
        self.preparing: Callable[[int], None] | None = None  # called before the next view, with its number
        self.noted_count = 0  # crashes, starts and cuts not yet detected
        self.before_resume: Callable[[SimPort], None] | None = None  # a check of each member before it resumes

    def start(self, sites: list[SimSite]) -> None:
        """Install the first view, of all sites of the group."""
        self.ports = [site.ports[self.group] for site in sites if self.group in site.ports]
        self.decide()

    def changed(self) -> None:
        """Schedule the detection of a crash, start, cut or heal, which leads to a new view."""
        self.noted_count += 1
        self.scheduler.at(self.scheduler.now_ns + self.detection_ns, self.notice)

    def renew(self, prepare: Callable[[int], None]) -> None:
        """Request a new view even with the same members; `prepare` gets its number before any member installs it."""
        self.preparing = prepare
        self.changed()

    def renewing(self, site: SiteId) -> None:
        """Do nothing: what a life knew ends with it."""

    def joined(self, site: SimSite) -> None:
        """Note that a site started or restarted."""
        if self.group in site.ports:
            self.ports.append(site.ports[self.group])
            self.changed()

    def layer_of(self, site: SimSite, suspicion: Suspicion) -> None:
        """Return None: members get their views from the service, without a layer."""

    def ask_to_leave(self, site: SiteId) -> None:
        """Do nothing: a scenario with ideal membership has no leaves."""

    def notice(self, *_: object) -> None:
        self.noted_count -= 1
        self.block()

    def at_rest(self) -> bool:
        """Return whether no view change is in progress or pending."""
        return not self.changing and self.noted_count == 0 and self.installing_count == 0

    # Members of the next view

    def primary(self) -> list[SimPort]:
        """Return the ports that continue: all live ones, or with `majority` those of the majority side."""
        up = [port for port in self.ports if port.owner.alive]
        if not self.given.majority:
            return up
        for side in sides(up, self.reaches):
            staying = sum(self.stays(port) for port in side)
            if self.view.view_id == 0 or 2 * staying > len(self.view.members):
                return side
        return []

    def stays(self, port: SimPort) -> bool:
        """Return whether a port is in the current view; otherwise it would join."""
        return port.stack.view is self.view and self.view.view_id > 0

    def is_current(self, members: list[SimPort]) -> bool:
        """Return whether the installed view has exactly these members; a restarted site is a new member."""
        return [port.site for port in members] == list(self.view.members) and all(map(self.stays, members))

    # A view change

    def block(self) -> None:
        """Begin a view change if one is needed and none is in progress."""
        if self.changing or self.installing_count:
            return  # checked again when that change ends
        self.ports = [port for port in self.ports if port.owner.alive]
        members = self.primary()
        for port in members:
            if port.stack.view.view_id and not self.stays(port):  # others have continued without it
                self.ports.remove(port)
                self.restart(port.site)
        members = [port for port in members if port in self.ports]
        if self.is_current(members) and self.preparing is None:
            return
        self.changing = True
        for port in self.ports:
            if self.stays(port):
                port.run(port.stack.find(Transport).block)
        if self.given.hasty:
            self.scheduler.at(self.scheduler.now_ns, self.decide)
        else:
            self.network.after_arrivals(self.decide)

    def decide(self, *_: object) -> None:
        """Equalise the frames of the survivors, and start the installation of the next view."""
        self.changing = False
        self.ports = [port for port in self.ports if port.owner.alive]
        if not self.ports:
            return  # no site is left; a restarted one triggers the next view change
        members = self.primary()
        if not members:
            self.changing = True  # no member continues until links heal; checked again then
            self.scheduler.at(self.scheduler.now_ns + max(self.detection_ns, RETRY_NS), self.decide)
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
        """Take a step of a change at one member, after a random delay if they are staggered."""
        delay_ns = self.random.randrange(self.stagger_ns) if self.stagger_ns else 0
        if delay_ns:
            self.scheduler.at(self.scheduler.now_ns + delay_ns, step, port, change)
        else:
            step(port, change)

    def enter_view(self, port: SimPort, change: ViewChange) -> None:
        """Install a view at one member, and transfer the state if it joins."""
        joins = port not in change.stayed
        if joins and change.state is None and any(other.owner.alive for other in change.stayed):
            self.scheduler.at(self.scheduler.now_ns + RETRY_NS, self.enter_view, port, change)
            return  # no member that holds the state has installed the view yet
        port.run(lambda: port.install(change.view))
        if joins and change.state is not None:
            state = change.state
            port.run(lambda: restore(port, state))
        elif port.owner.alive and change.state is None and not joins:
            change.state = port.stack.state()
        self.later(self.resume, port, change)

    def resume(self, port: SimPort, _change: ViewChange) -> None:
        """Resume one member in the view; the last one completes the change."""
        if self.before_resume is not None and port.owner.alive:
            self.before_resume(port)
        port.run(port.resume)
        self.installing_count -= 1
        if not self.installing_count:
            self.block()  # handles what happened in between


class ViewChange:
    """A view being installed by its members."""

    __slots__ = ("state", "stayed", "view")

    def __init__(self, view: View, stayed: list[SimPort]) -> None:
        self.view = view
        self.stayed = stayed  # they hold the state of the group; the others get it by transfer
        self.state: tuple[bytes, ...] | None = None  # from the first of them that installed the view


def restore(port: SimPort, state: tuple[bytes, ...]) -> None:
    """Transfer the state of a surviving member to a joiner."""
    port.gauge(Gauge.STATE_BYTES, sum(map(len, state)))
    port.stack.restore(state)


def sides(ports: list[SimPort], reaches: Reaches) -> list[list[SimPort]]:
    """Partition ports by mutual reachability; each side keeps their order."""
    left, found = list(ports), []
    while left:
        side = [left[0]]
        for port in side:  # grows during the loop
            side += [
                other
                for other in left
                if other not in side and reaches(port.site, other.site) and reaches(other.site, port.site)
            ]
        found.append([port for port in left if port in side])
        left = [port for port in left if port not in side]
    return found
