"""The ideal view-synchronous service: what the papers assume, given by the simulator itself.

It knows who is up. Some time after a crash or a recovery it blocks the transports of all who are up, waits until what
is under way has arrived, gives every survivor the frames that any survivor holds, and installs the next view at all
of them in one instant. What it cannot do is bring back a message that nobody alive has.
"""

from __future__ import annotations

from isthmus.core.layer import View
from isthmus.core.message import Message, SiteId
from isthmus.protocols.transport.base import Transport
from isthmus.sim.host import SimHost
from isthmus.sim.network import Network
from isthmus.sim.scheduler import Scheduler


class IdealMembership:
    """Views over the hosts of one run."""

    def __init__(self, scheduler: Scheduler, network: Network, detection_ns: int) -> None:
        self.scheduler = scheduler
        self.network = network
        self.detection_ns = detection_ns
        self.hosts: list[SimHost] = []  # by seniority: the order in which they started
        self.view = View(0, ())
        self.changing = False  # blocked, and waiting for what is under way
        self.noted_count = 0  # crashes and starts that the service has yet to notice

    def start(self, hosts: list[SimHost]) -> None:
        """Install the first view, of all sites."""
        self.hosts = list(hosts)
        self.install()

    def changed(self) -> None:
        """Note that a host crashed or started: the view will follow."""
        self.noted_count += 1
        self.scheduler.at(self.scheduler.now_ns + self.detection_ns, self.notice)

    def joined(self, host: SimHost) -> None:
        self.hosts.append(host)
        self.changed()

    def notice(self, *_: object) -> None:
        self.noted_count -= 1
        self.block()

    def at_rest(self) -> bool:
        """Whether no view change is under way, nor about to be."""
        return not self.changing and self.noted_count == 0

    def block(self) -> None:
        """Begin a view change where it is needed and none is going on."""
        self.hosts = [host for host in self.hosts if host.alive]
        if self.changing or self.is_current():
            return
        self.changing = True
        for host in self.survivors():
            host.stack.find(Transport).block()
        self.scheduler.at(self.network.latest_ns, self.install)

    def is_current(self) -> bool:
        """Whether the installed view has exactly the hosts that are up; a restarted site is a new host."""
        return [host.site for host in self.hosts] == list(self.view.members) and all(
            host.stack.view is self.view for host in self.hosts
        )

    def survivors(self) -> list[SimHost]:
        """The hosts that are up and have the current view; the others join."""
        return [host for host in self.hosts if host.alive and host.stack.view is self.view and self.view.view_id > 0]

    def install(self, *_: object) -> None:
        """Make what the survivors hold equal, then install the next view everywhere at once."""
        self.changing = False
        self.hosts = [host for host in self.hosts if host.alive]
        self.flush(self.survivors())
        members = tuple(host.site for host in self.hosts)
        self.view = View(self.view.view_id + 1, members, tuple(host.incarnation for host in self.hosts))
        for host in self.hosts:
            host.enter()
            host.stack.install(self.view)

    def flush(self, survivors: list[SimHost]) -> None:
        for host in survivors:
            host.enter()
        transports = [host.stack.find(Transport) for host in survivors]
        for origin in self.view.members:
            while spread(origin, transports):
                pass


def spread(origin: SiteId, transports: list[Transport]) -> bool:
    """Give every transport what any of them handed up of an origin; whether that made a difference.

    A frame given to one may complete what it held behind a gap, and so be new to the others: hence again and again,
    until nothing moves. Then the lowest frame that somebody cannot take goes over the gap before it, and so on. In this
    order no frame below it can turn up any more: whoever could hand one up would have to get past a gap first, and for
    that needs a frame above it.
    """
    frames: dict[int, Message] = {}
    for transport in transports:
        frames |= transport.unstable(origin)
    count = handed_up(origin, transports)
    stuck = [
        (frame, transport)
        for _, frame in sorted(frames.items(), key=lambda item: item[0])
        for transport in transports
        if not transport.absorb(origin, frame)
    ]
    if handed_up(origin, transports) > count:
        return True
    for frame, transport in stuck[:1]:
        transport.absorb(origin, frame, over_gap=True)
    return bool(stuck)


def handed_up(origin: SiteId, transports: list[Transport]) -> int:
    return sum(len(transport.unstable(origin)) for transport in transports)
