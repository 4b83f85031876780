"""The membership directory of groups without view barriers: serialises joins, leaves and crashes.

A stack whose links change while messages flow (protocols/causal/flooding/safe_links.py) needs no view synchrony, but a
single order of changes. The directory detects joins and crashes after a delay. It keeps the members in a list by id: a
joiner is appended, the last member takes the id of one that leaves. Changes run one at a time:

1. for a join, a contact admits the joiner; the change continues when the joiner has received its welcome;
2. the list is announced as a view with the next number, at each member, founders and joiners included, at a random time
   if they are staggered; traffic does not stop;
3. when all links of every live member are safe, all are asked to close the remaining ones; if a member has crashed in
   between they are not, as the new links alone might not connect the rest: the next change comes first.

A leaver forwards until step 3 of its change is over, closes its links, and stops when no traffic is left. A joiner
whose contact crashes before the change completes is restarted as a new incarnation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from isthmus.core.layer import View
from isthmus.core.message import GroupId, SiteId
from isthmus.core.units import NS_PER_MS
from isthmus.protocols.causal.flooding.safe_links import SafeFlooding
from isthmus.protocols.membership.suspicion import Suspicion
from isthmus.scenario.model import Scenario
from isthmus.sim.scheduler import Scheduler
from isthmus.sim.site import SimPort, SimSite

LOOK_NS = 2_000_000  # between two checks of a change in progress


def flooding_of(port: SimPort) -> SafeFlooding:
    return port.stack.find(SafeFlooding)


class Directory:
    """The membership of one group without view barriers."""

    def __init__(
        self,
        scenario: Scenario,
        group: GroupId,
        scheduler: Scheduler,
        restart: Callable[[SiteId], None],
        end: Callable[[SiteId], None],
    ) -> None:
        self.group = group
        self.scheduler = scheduler
        self.detection_ns = round(scenario.membership.detection_ms * NS_PER_MS)
        self.stagger_ns = round(scenario.membership.stagger_ms * NS_PER_MS)
        self.random = scenario.random("membership", group)
        self.restart = restart  # restarts a site as a new incarnation
        self.end = end  # stops a site that has left
        self.view = View(0, ())
        self.members: list[SimPort] = []  # by id
        self.joining: list[SimPort] = []  # in order of their requests
        self.leaving: list[SimPort] = []
        self.gone: list[SimPort] = []  # leavers out of the view, until they are detached
        self.dead: list[SimPort] = []  # members known to have crashed
        self.contact: SimPort | None = None  # of the join in progress
        self.noted_count = 0  # crashes and starts not yet detected
        self.installing_count = 0  # members that have not installed the view yet
        self.changing = False
        self.looking = False

    # Interface of a membership service

    def start(self, sites: list[SimSite]) -> None:
        """Found the group with all its live sites."""
        self.members = [site.ports[self.group] for site in sites if self.group in site.ports and site.alive]
        self.announce()

    def layer_of(self, site: SimSite, suspicion: Suspicion) -> None:
        """Return None: members get their views from the directory, without a layer."""

    def changed(self) -> None:
        """Schedule the detection of a crash or a start."""
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

    def renewing(self, site: SiteId) -> None:
        """Do nothing: what a life knew ends with it."""

    def joined(self, site: SimSite) -> None:
        """Note that a site started or restarted."""
        if self.group in site.ports:
            self.joining.append(site.ports[self.group])
            self.changed()

    def ask_to_leave(self, site: SiteId) -> None:
        for port in self.members:
            if port.site == site and port.owner.alive and port not in self.leaving:
                self.leaving.append(port)
                self.changed()

    def at_rest(self) -> bool:
        """Return whether no change is in progress or pending."""
        return not (self.changing or self.noted_count or self.gone or self.has_reason())

    def has_reason(self) -> bool:
        return bool(self.leaving) or bool(self.joining) or not all(port.owner.alive for port in self.members)

    # Changes, one at a time

    def look_soon(self) -> None:
        if not self.looking:
            self.looking = True
            self.scheduler.at(self.scheduler.now_ns + LOOK_NS, self.look)

    def look(self, *_: object) -> None:
        """Continue the change in progress, or begin the next one."""
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
        """Begin the next change: first all crashed members together, then a leave, then a join."""
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
        """Remove a member; the last one takes its id."""
        place = self.members.index(port)
        last = self.members.pop()
        if last is not port:
            self.members[place] = last

    def admit(self, joiner: SimPort) -> None:
        self.changing = True
        self.contact = self.random.choice(self.members)
        self.contact.run(partial(flooding_of(self.contact).admit, joiner.site, joiner.incarnation))

    def announce(self) -> None:
        """Announce the next view to all members."""
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
        for dead in self.dead:  # a crash may have been detected before the member joined
            port.run(partial(port.stack.layers[-1].suspect, dead.site, True))

    def tell_dead(self, dead: SimPort) -> None:
        """Report a crashed site to all live sites."""
        for port in (*self.members, *self.gone, *self.joining):
            if port.owner.alive and port.site != dead.site:
                port.run(partial(port.stack.layers[-1].suspect, dead.site, True))

    def go_on(self) -> None:
        """Take the next step of a change if its condition holds."""
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
