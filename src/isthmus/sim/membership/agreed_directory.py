"""The directory that its sites agree on, in the simulator: gives each life its part of it.

The first sites of a group, `KEEPERS_MAX` at most, are the directory group: it agrees on its views as any group does
(agreed.py), at ports of its own, which write no trace.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from isthmus.core.layer import View
from isthmus.core.message import GroupId, SiteId
from isthmus.protocols.causal.flooding.directory.member import DirectoryMember
from isthmus.protocols.causal.flooding.directory.record import Stage
from isthmus.protocols.causal.flooding.directory.replica import DIRECTORY_GROUPS, DirectoryReplica, keepers_of
from isthmus.protocols.membership.suspicion import Suspicion
from isthmus.scenario.model import GroupOfRun, Scenario
from isthmus.sim.membership.agreed import AgreedMembership
from isthmus.sim.scheduler import Scheduler
from isthmus.sim.site import SimSite
from isthmus.stacks.assembly import directory_stack
from isthmus.stacks.registry import StackOptions


class AgreedDirectory:
    """The membership of one group whose links open and close while messages flow."""

    def __init__(
        self,
        scenario: Scenario,
        group: GroupOfRun,
        scheduler: Scheduler,
        restart: Callable[[SiteId, int], None],
        leave: Callable[[SiteId], None],
    ) -> None:
        self.group = group.id
        self.everyone = group.members
        number, contacts = GroupId(DIRECTORY_GROUPS + group.id), keepers_of(group.members)
        keepers = msgspec.structs.replace(group, id=number, members=contacts)
        self.keepers = AgreedMembership(scenario, keepers, scheduler, restart, leave)
        self.tick_ns = self.keepers.round_trip_ns // 2
        self.members: dict[SiteId, DirectoryMember] = {}  # of the latest life of each site
        self.sites: dict[SiteId, SimSite] = {}

    def layer_of(self, site: SimSite, suspicion: Suspicion) -> DirectoryMember:
        number, contacts = site.site, self.keepers.contacts
        replica = None
        if number in contacts:
            agreement = self.keepers.layer_of(site, suspicion)
            replica = DirectoryReplica(self.everyone, self.tick_ns, suspicion.is_suspected)
            port = site.port(self.keepers.group)
            port.traces = False
            port.attach(directory_stack(port, replica, StackOptions(membership=agreement)))
        renew = partial(self.soon, site, partial(self.keepers.restart, number, -1))
        go = partial(self.soon, site, partial(self.gone, number))
        self.members[number] = DirectoryMember(self.everyone, contacts, self.tick_ns, replica, renew, go)
        self.sites[number] = site
        return self.members[number]

    def soon(self, site: SimSite, act: Callable[[], None]) -> None:
        """Do something after this event, if the site still lives then."""
        scheduler = self.keepers.scheduler
        scheduler.at(scheduler.now_ns, lambda *_: site.when_moving(lambda: act() if site.alive else None))

    def gone(self, site: SiteId) -> None:
        """A site has left the list: it leaves the directory group, too, and ends."""
        if site in self.keepers.contacts:
            self.keepers.ask_to_leave(site)
        else:
            self.keepers.leave(site)

    # Interface of a membership service

    def start(self, sites: list[SimSite]) -> None:
        self.keepers.start(sites)

    def changed(self) -> None:
        """Ignore crashes: the sites of the directory find out."""

    def joined(self, site: SimSite) -> None:
        """Ignore a start: a site reports by itself."""

    def renewing(self, site: SiteId) -> None:
        self.keepers.renewing(site)

    def ask_to_leave(self, site: SiteId) -> None:
        if self.sites[site].alive:
            self.members[site].leave()

    def up(self) -> dict[SiteId, DirectoryMember]:
        return {number: member for number, member in self.members.items() if self.sites[number].alive}

    @property
    def view(self) -> View:
        """The latest view of any live member."""
        records = [member.record for member in self.up().values()]
        return max(records, key=lambda record: (record.era, record.version)).view() if records else View(0, ())

    def at_rest(self) -> bool:
        up = self.up()
        lives = {member.me for member in up.values()}
        return self.keepers.at_rest() and all(
            member.record.stage is Stage.IDLE
            and {*member.record.lives()} == {*member.record.members} == lives
            and not member.leaving
            and not member.ended
            for member in up.values()
        )
