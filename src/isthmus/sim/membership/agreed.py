"""Agreed membership in the simulator: gives each incarnation its environment, the first view, and an operator.

The members agree on views themselves (protocols/membership); nothing here decides membership for them. Simulated is
their environment: the small file that survives a crash, the restart of an excluded incarnation, and the operator, which
founds the group anew once the last view has lost its quorum permanently.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from isthmus.core.layer import Life, View
from isthmus.core.message import SiteId
from isthmus.core.units import NS_PER_MS
from isthmus.protocols.membership.agreement import Agreement
from isthmus.protocols.membership.home import AgreementOptions, Home, Past, Record, SiteHome
from isthmus.protocols.membership.quorum import quorum
from isthmus.protocols.membership.suspicion import Suspicion
from isthmus.scenario.model import GroupOfRun, Scenario
from isthmus.sim.scheduler import Scheduler
from isthmus.sim.site import SimSite

LOOK_NS = 1_000_000_000  # period of the operator's checks
LOOKS = 3  # consecutive checks that must find no quorum before the operator acts
FOUNDED_BEYOND = 10  # view numbers skipped by a new foundation, so that its number was never used before


class MemoryStore:
    """The small file of one site and group."""

    __slots__ = ("record",)

    def __init__(self) -> None:
        self.record: Record | None = None

    def load(self) -> Record | None:
        return self.record

    def save(self, record: Record | None) -> None:
        self.record = record


class AgreedMembership:
    """The views of one group of one run, which its members agree on."""

    def __init__(
        self,
        scenario: Scenario,
        group: GroupOfRun,
        scheduler: Scheduler,
        restart: Callable[[SiteId, int], None],
        leave: Callable[[SiteId], None],
    ) -> None:
        self.group = group.id
        self.contacts = group.members
        self.scheduler = scheduler
        self.given = scenario.membership.agreed
        self.weights = self.given.votes(scenario.topology)
        self.round_trip_ns = round(self.given.round_trip_of(scenario.topology) * NS_PER_MS)
        self.kind: Callable[[Home, AgreementOptions], Agreement] = Agreement  # a test may substitute another
        self.restart = restart  # restarts a site as an incarnation above all before and a given one
        self.leave = leave  # stops a site permanently
        self.stores: dict[SiteId, MemoryStore] = {}
        self.pasts: dict[SiteId, Past] = {}  # state that an incarnation passes to the next
        self.layers: dict[SiteId, Agreement] = {}  # of the latest incarnation of each site
        self.sites: dict[SiteId, SimSite] = {}
        self.highest_id = 0  # highest number of any view installed so far
        self.hopeless_count = 0  # consecutive checks that found no quorum

    def layer_of(self, site: SimSite, suspicion: Suspicion) -> Agreement:
        """Return the membership layer of a new incarnation."""
        number = site.site
        store = self.stores.setdefault(number, MemoryStore()) if self.given.file else None
        past = self.pasts.pop(number, None)
        home = SiteHome(
            *(self.contacts, self.weights, self.round_trip_ns, suspicion, store, past),
            renew=partial(self.end_life, number),
            go=lambda: self.scheduler.at(
                self.scheduler.now_ns, lambda *_: site.when_moving(lambda: self.leave(number))
            ),
        )
        self.note_views()
        self.layers[number] = self.kind(home, self.given.rounds)
        self.layers[number].couriers = tuple(sorted(map(SiteId, site.log.couriers)))
        self.sites[number] = site
        return self.layers[number]

    def end_life(self, site: SiteId, past: Past) -> None:
        self.pasts[site] = past
        ended = self.sites[site]

        def restart() -> None:
            if ended.alive:
                self.restart(site, past.told)

        self.scheduler.at(self.scheduler.now_ns, lambda *_: ended.when_moving(restart))

    # Interface of a membership service

    def start(self, sites: list[SimSite]) -> None:
        """Found the group with all its sites."""
        lives = tuple([(site.site, site.incarnation) for site in sites if self.group in site.ports])
        self.found(1, lives)
        self.scheduler.at(LOOK_NS, self.look)

    def changed(self) -> None:
        """Ignore crashes, cuts and heals: members detect them by themselves."""

    def joined(self, site: SimSite) -> None:
        """Ignore a restarted site: it asks to be admitted by itself."""

    def renewing(self, site: SiteId) -> None:
        """Take from a life what the next one of the same process must know, unless it has given it."""
        if site in self.layers and site not in self.pasts:
            self.pasts[site] = self.layers[site].past()

    def ask_to_leave(self, site: SiteId) -> None:
        if self.sites[site].alive:
            self.sites[site].ports[self.group].run(self.layers[site].leave)

    def up(self) -> dict[SiteId, Agreement]:
        return {number: layer for number, layer in self.layers.items() if self.sites[number].alive}

    @property
    def view(self) -> View:
        """The latest view of any live member."""
        views = [layer.view for layer in self.up().values()]
        return max(views, key=lambda view: view.view_id, default=View(0, ()))

    def at_rest(self) -> bool:
        """Return whether all live sites share one view, of exactly these sites, and none has a reason to change it."""
        up = self.up()
        lives = {(number, self.sites[number].incarnation) for number in up}
        view = self.view
        return set(view.lives()) == lives and all(
            layer.view == view and layer.is_idle() and not any(map(layer.home.is_suspected, view.members))
            for layer in up.values()
        )

    # The operator

    def found(self, view_id: int, lives: tuple[Life, ...]) -> None:
        """Start some incarnations in a common view of exactly these."""
        self.highest_id = max(self.highest_id, view_id)
        weights = tuple([self.weights.get(site, 1) for site, _ in lives])
        sites, incarnations = tuple([site for site, _ in lives]), tuple([incarnation for _, incarnation in lives])
        view = View(view_id, sites, incarnations, weights, tuple(sorted(lives)))
        for site in sites:
            self.sites[site].ports[self.group].run(partial(self.layers[site].found, view))

    def note_views(self) -> None:
        self.highest_id = max([self.highest_id, *(layer.view.view_id for layer in self.layers.values())])

    def look(self, *_: object) -> None:
        """Act as the operator if the group is stuck: found it anew at one site, which the others join.

        Prefer a site without a seat in the dead view; the seats of the others end when they learn of the new
        view.
        """
        self.scheduler.at(self.scheduler.now_ns + LOOK_NS, self.look)
        self.note_views()
        self.hopeless_count = self.hopeless_count + 1 if self.is_hopeless() else 0
        if self.hopeless_count < LOOKS:
            return
        self.hopeless_count = 0
        able = [site for site in self.up() if self.weights.get(site, 1)]
        first = next((site for site in able if not self.layers[site].is_seated()), able[0])
        if self.layers[first].is_seated():
            self.stores.pop(first, None)
            self.pasts[first] = Past(None, None)
            self.restart(first, -1)
        self.found(self.highest_id + FOUNDED_BEYOND, ((first, self.sites[first].incarnation),))

    def is_hopeless(self) -> bool:
        """Return whether the last view, or a possible successor, has no live quorum; with files, stored seats count."""
        up = self.up()
        view = self.view
        if not any(self.weights.get(site, 1) for site in up):
            return False  # no live site could found the group
        accepted = [layer.ledger.accepted for layer in up.values() if layer.view == view]
        behind = [one[1].view for one in accepted if one is not None]
        return any(not quorum(one, [life for life in one.lives() if self.counts(life)]) for one in (view, *behind))

    def counts(self, life: Life) -> bool:
        """Return whether an incarnation can still vote."""
        site = self.sites.get(life[0])
        if site is None or not site.alive:
            return False
        layer = self.layers[life[0]]
        return life in (layer.me, layer.sitting)
