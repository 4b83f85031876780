"""Who is in a group that never stops: the simulator's own directory, which serialises joins, leaves and crashes.

A stack whose links change while messages flow (safe_links.py) needs no view synchrony, but one order of changes. The
directory knows who is up, some time after the fact. It keeps the list of members by id: a joiner is appended, the last
member takes the id of one that has gone. One change after the other:

1. of a join, a contact admits the joiner; the change goes on when the joiner has its welcome;
2. the list is announced as a view with the next number, to each member at a time of its own where they are staggered,
   founders and joiners too; nobody stops for it;
3. when every member that is up has all its links safe, they are told to close what is left over; if somebody has died
   meanwhile they are not, because the new links alone might not connect the rest: the next change comes first.

A leaver forwards until step 3 of its change is over, closes its links, and ends when nothing comes or goes any more. A
joiner whose contact dies before the change is through begins a new life.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from isthmus.core.layer import View
from isthmus.core.message import GroupId, SiteId
from isthmus.protocols.causal.flooding.safe_links import SafeFlooding
from isthmus.protocols.membership.suspicion import Suspicion
from isthmus.sim.scheduler import Scheduler
from isthmus.sim.site import SimPort, SimSite

LOOK_NS = 2_000_000  # between two looks at a change that is under way


def flooding_of(port: SimPort) -> SafeFlooding:
    return port.stack.find(SafeFlooding)


class Directory:
    """The membership of one group whose messages never stop."""

    def __init__(
        self,
        group: GroupId,
        scheduler: Scheduler,
        detection_ns: int,
        stagger_ns: int,
        random: Random,
        restart: Callable[[SiteId], None],
        end: Callable[[SiteId], None],
    ) -> None:
        self.group = group
        self.scheduler = scheduler
        self.detection_ns = detection_ns
        self.stagger_ns = stagger_ns
        self.random = random
        self.restart = restart  # gives a site a new life
        self.end = end  # stops a site that has left
        self.view = View(0, ())
        self.members: list[SimPort] = []  # by id
        self.joining: list[SimPort] = []  # in the order in which they asked
        self.leaving: list[SimPort] = []
        self.gone: list[SimPort] = []  # leavers that the others have closed their links to
        self.dead: list[SimPort] = []  # members that are known to have crashed
        self.contact: SimPort | None = None  # of the join that is under way
        self.noted_count = 0  # crashes and starts that the directory has yet to notice
        self.installing_count = 0  # members that are still to hear of the view
        self.changing = False
        self.looking = False

    # What a run asks of a service

    def start(self, sites: list[SimSite]) -> None:
        """Found the group with all its sites that are up."""
        self.members = [site.ports[self.group] for site in sites if self.group in site.ports and site.alive]
        self.announce()

    def layer_of(self, site: SimSite, suspicion: Suspicion) -> None:
        """Its members need no layer: they are told of views."""

    def changed(self) -> None:
        """Note that a site crashed or started."""
        self.noted_count += 1
        self.scheduler.at(self.scheduler.now_ns + self.detection_ns, self.notice)

    def notice(self, *_: object) -> None:
        self.noted_count -= 1
        self.find_dead()
        self.look_soon()

    def find_dead(self) -> None:
        for port in self.members:
            if not port.owner.alive and port not in self.dead:
                self.dead.append(port)
                self.tell_dead(port)

    def joined(self, site: SimSite) -> None:
        """Note that a site has started, or started again."""
        if self.group in site.ports:
            self.joining.append(site.ports[self.group])
            self.changed()

    def ask_to_leave(self, site: SiteId) -> None:
        for port in self.members:
            if port.site == site and port.owner.alive and port not in self.leaving:
                self.leaving.append(port)
                self.changed()

    def at_rest(self) -> bool:
        """Whether no change is under way, nor about to be."""
        return not (self.changing or self.noted_count or self.gone or self.has_reason())

    def has_reason(self) -> bool:
        return bool(self.leaving) or bool(self.joining) or not all(port.owner.alive for port in self.members)

    # One change after the other

    def look_soon(self) -> None:
        if not self.looking:
            self.looking = True
            self.scheduler.at(self.scheduler.now_ns + LOOK_NS, self.look)

    def look(self, *_: object) -> None:
        """Go on with what is under way, or begin what comes next."""
        self.looking = False
        for port in [port for port in self.gone if not port.owner.alive or flooding_of(port).is_detached()]:
            self.gone.remove(port)
            self.end(port.site)
            self.tell_dead(port)
        for port in self.members:
            if port.owner.alive and flooding_of(port).stranded:
                self.restart(port.site)
        if self.changing:
            self.go_on()
        if not self.changing:
            self.begin()
        if self.changing or self.gone or self.has_reason():
            self.look_soon()

    def begin(self) -> None:
        """Begin the next change: first those that have crashed, all together; then a leave, then a join."""
        self.joining = [port for port in self.joining if port.owner.alive]
        self.leaving = [port for port in self.leaving if port.owner.alive]
        self.find_dead()
        if self.dead:
            for port in self.dead:
                self.remove(port)
            self.dead = []
            if self.members:
                self.announce()
        elif not self.members and self.joining:
            self.members.append(self.joining.pop(0))
            self.announce()
        elif self.leaving and len(self.members) > 1:
            port = self.leaving.pop(0)
            self.remove(port)
            self.gone.append(port)
            self.announce()
        elif self.leaving:
            self.end(self.leaving.pop(0).site)
        elif self.joining:
            self.admit(self.joining[0])

    def remove(self, port: SimPort) -> None:
        """Take a member out; the last one takes its id."""
        place = self.members.index(port)
        last = self.members.pop()
        if last is not port:
            self.members[place] = last

    def admit(self, joiner: SimPort) -> None:
        self.changing = True
        self.contact = self.random.choice(self.members)
        self.contact.run(partial(flooding_of(self.contact).admit, joiner.site, joiner.incarnation))

    def announce(self) -> None:
        """Tell all members of the next view."""
        self.changing = True
        sites = tuple([port.site for port in self.members])
        self.view = View(self.view.view_id + 1, sites, tuple([port.incarnation for port in self.members]))
        self.installing_count = len(self.members)
        for port in self.members:
            delay_ns = self.random.randrange(self.stagger_ns) if self.stagger_ns else 0
            if delay_ns:
                self.scheduler.at(self.scheduler.now_ns + delay_ns, self.tell, port, self.view)
            else:
                self.tell(port, self.view)
        self.look_soon()

    def tell(self, port: SimPort, view: View) -> None:
        def install() -> None:
            port.install(view)
            port.resume()

        self.installing_count -= 1
        port.run(install)
        for dead in self.dead:  # it may have heard of a death before it heard of the member
            port.run(partial(port.stack.layers[-1].suspect, dead.site, True))

    def tell_dead(self, dead: SimPort) -> None:
        """Have everybody give up a site that has crashed."""
        for port in (*self.members, *self.gone, *self.joining):
            if port.owner.alive and port.site != dead.site:
                port.run(partial(port.stack.layers[-1].suspect, dead.site, True))

    def go_on(self) -> None:
        """Take the next step of a change where it can be taken."""
        if self.contact is not None:
            self.go_on_admitting(self.contact)
            return
        up = [port for port in self.members if port.owner.alive]
        if self.installing_count or not all(flooding_of(port).is_ready() for port in up):
            return
        if len(up) == len(self.members):
            for port in up:
                port.run(flooding_of(port).commit)
            for port in self.gone:
                port.run(flooding_of(port).leave)
        self.changing = False

    def go_on_admitting(self, contact: SimPort) -> None:
        joiner = self.joining[0]
        if not joiner.owner.alive:
            self.joining.pop(0)
            contact.run(partial(contact.stack.layers[-1].suspect, joiner.site, True))
        elif not contact.owner.alive:
            self.joining.pop(0)
            self.restart(joiner.site)
        elif flooding_of(joiner).attached:
            self.members.append(self.joining.pop(0))
            self.contact = None
            self.announce()
            return
        else:
            return
        self.contact, self.changing = None, False
