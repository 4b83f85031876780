"""Schedules of the agreement alone: every step is a choice, so that a few sites can be driven through any interleaving.

Problem: what goes wrong in a consensus goes wrong in rare orders of few packets, which runs of whole scenarios seldom
meet. Idea: no network and no clock decide what happens next, but a chooser: which packet under way arrives, is lost or
comes twice, who ticks, who suspects whom, who crashes and comes back. A chooser may draw (thousands of short schedules
in seconds), or follow a plan (all schedules that differ from the plain one in a few places).

The sites run the real membership over the real reliable transport, with an application on top that notes what it is
given. What is checked needs no trace: a view has one successor, and lives that go from a view to the next have handed
up the same messages in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, product
from random import Random
from typing import Any

from isthmus.core.layer import Finality, Layer, Life, Reading, Stack, View
from isthmus.core.layer import Kind as TraceKind
from isthmus.core.message import Cast, GroupId, Message, SiteId, Targets
from isthmus.core.port import Port
from isthmus.protocols.membership.agreement import TICK, Agreement
from isthmus.protocols.membership.home import AgreementOptions, Home, Past, Record
from isthmus.protocols.transport.frames import ReliableOptions
from isthmus.protocols.transport.reliable import Reliable

ROUND_NS = 1_000_000
POOL_MAX = 400  # packets under way; then the oldest are lost
Kind = Callable[[Home, AgreementOptions], Agreement]
Packet = tuple[SiteId, SiteId, int, Message]  # from, to, view, what


class Notes(Layer):
    """An application that notes views and what it is given in each."""

    __slots__ = ("delivered", "views")

    def __init__(self) -> None:
        self.views: list[View] = []
        self.delivered: list[list[tuple[SiteId, int]]] = []  # one list per view

    def deliver(self, cast: Cast, finality: Finality = Finality.FINAL) -> None:  # noqa: ARG002
        self.delivered[-1].append((cast.sender, cast.number))

    def suspect(self, site: SiteId, suspected: bool) -> None:
        """Nobody asks."""

    def install(self, view: View) -> None:
        self.views.append(view)
        self.delivered.append([])

    def resume(self) -> None:
        """Nobody waits."""


class File:
    """The small file of a site."""

    def __init__(self) -> None:
        self.record: Record | None = None

    def load(self) -> Record | None:
        return self.record

    def save(self, record: Record | None) -> None:
        self.record = record


class Site(Port):
    """One life of one site: its host and the home of its membership."""

    def __init__(self, bench: Bench, site: SiteId, incarnation: int, past: Past | None) -> None:
        super().__init__(site, GroupId(0), incarnation, Random(f"{site}/{incarnation}"), 32_000)
        self.bench = bench
        self.contacts = bench.sites
        self.weights: Mapping[SiteId, int] = {}
        self.round_trip_ns = ROUND_NS
        self.past = past
        self.alive = True
        self.timers: dict[tuple[Layer, int], int] = {}
        self.now_ns = bench.now_ns
        self.top = Notes()
        self.agreement = bench.kind(self, AgreementOptions())
        self.stack = Stack(self, self.top, Reliable(ReliableOptions()), self.agreement)

    # As the home of the membership

    @property
    def store(self) -> File | None:
        return self.bench.files.get(self.site)

    def is_suspected(self, site: SiteId) -> bool:
        return (self.site, site) in self.bench.suspicions

    def suspects_us(self, site: SiteId) -> bool:
        return (site, self.site) in self.bench.suspicions

    def renew(self, past: Past) -> None:
        self.bench.renewals.append((self.site, past))

    def left(self) -> None:
        self.bench.crash(self.site)

    # As a host

    def clock(self) -> Reading:
        return Reading(self.now_ns, None)

    def heard_ns(self, site: SiteId) -> int | None:  # noqa: ARG002
        return None

    def send(self, targets: Targets, message: Message) -> None:
        view_id = 0 if message.viewless else self.view_id
        self.bench.pool += [(self.site, target, view_id, message) for target in targets]
        del self.bench.pool[:-POOL_MAX]

    def set_timer(self, layer: Layer, key: int, delay_ns: int) -> None:
        self.timers[layer, key] = self.now_ns + delay_ns

    def cancel_timer(self, layer: Layer, key: int) -> None:
        self.timers.pop((layer, key), None)

    def trace(self, kind: TraceKind, subject: Cast | None = None, value: int = 0) -> None:  # noqa: ARG002
        if kind is TraceKind.REJECT:
            self.bench.refused.append(f"site {self.site} refused a packet of site {value}")

    def gauge(self, *_: Any) -> None:
        """Nobody reads it."""

    def run(self, event: Callable[[], None]) -> None:
        if self.alive:
            self.now_ns = self.bench.now_ns
            event()
            self.finish()


class Bench:
    """Some sites under a chooser's hand."""

    def __init__(self, count: int, files: bool, kind: Kind = Agreement) -> None:
        self.sites = tuple([SiteId(number) for number in range(count)])
        self.kind = kind
        self.files = {site: File() for site in self.sites} if files else {}
        self.now_ns = 0
        self.pool: list[Packet] = []  # under way, oldest first
        self.suspicions: set[tuple[SiteId, SiteId]] = set()  # who suspects whom
        self.renewals: list[tuple[SiteId, Past]] = []
        self.refused: list[str] = []  # packets that were taken for wrong, though all keep to the protocol
        self.lives: list[Site] = []
        self.at: dict[SiteId, Site] = {}
        for site in self.sites:
            self.boot(site, 0, None)
        lives = tuple([(site, 0) for site in self.sites])
        view = View(1, self.sites, (0,) * count, (1,) * count, lives)
        for site in self.sites:
            self.event(site, lambda site=site: self.at[site].agreement.found(view))  # type: ignore[misc]

    def boot(self, site: SiteId, incarnation: int, past: Past | None) -> None:
        self.at[site] = Site(self, site, incarnation, past)
        self.lives.append(self.at[site])

    def event(self, site: SiteId, action: Callable[[], None]) -> None:
        """Have something happen at a site, and carry out the restarts that it leads to."""
        self.at[site].run(action)
        while self.renewals:
            ended, past = self.renewals.pop(0)
            if self.at[ended].alive:
                self.crash(ended)
                self.boot(ended, self.at[ended].incarnation + 1, past)

    # What may happen

    def arrive(self, place: int, keep: bool = False) -> None:
        """Let a packet under way arrive; it may come again later."""
        source, target, view_id, message = self.pool[place] if keep else self.pool.pop(place)
        site = self.at[target]
        self.event(target, lambda: site.take(source, view_id, message))

    def fire_due(self) -> None:
        """Fire all timers that are due, in order."""
        for site in self.sites:
            port = self.at[site]
            due = sorted((at, key) for (_, key), at in port.timers.items() if at <= self.now_ns)
            for at, key in due:
                layer = next((one for one, k in port.timers if k == key and port.timers[one, k] == at), None)
                if layer is not None and port.alive:
                    del port.timers[layer, key]
                    self.event(site, lambda layer=layer, key=key: layer.timer(key))  # type: ignore[misc]

    def tick(self, site: SiteId) -> None:
        """Have the membership of a site look after what is due."""
        port = self.at[site]
        port.timers.pop((port.agreement, TICK), None)
        self.event(site, lambda: port.agreement.timer(TICK))

    def rebel(self, site: SiteId) -> None:
        """Have a site begin a ballot, whoever coordinates: the agreement must bear any number of rivals."""
        agreement = self.at[site].agreement
        if agreement.is_seated() and agreement.decided is None and not agreement.installing:
            self.event(site, agreement.begin)

    def submit(self, site: SiteId) -> None:
        port = self.at[site]
        if port.alive and port.stack.layers[1].writable():
            cast = Cast(site, port.next_number(), b"x")
            self.event(site, lambda: port.stack.layers[1].submit(cast))

    def suspect(self, one: SiteId, other: SiteId, suspected: bool) -> None:
        change = self.suspicions.add if suspected else self.suspicions.discard
        change((one, other))
        self.event(one, lambda: self.at[one].agreement.suspect(other, suspected))

    def crash(self, site: SiteId) -> None:
        self.at[site].alive = False
        self.at[site].timers.clear()

    def recover(self, site: SiteId) -> None:
        if not self.at[site].alive:
            self.boot(site, self.at[site].incarnation + 1, None)

    # What must hold

    def wrong(self) -> list[str]:
        """What is wrong with all that was handed up and installed so far."""
        found = self.refused[:1]
        views: dict[int, View] = {}
        together: dict[tuple[int, int], tuple[Life, list[tuple[SiteId, int]]]] = {}
        for life in self.lives:
            name = (life.site, life.incarnation)
            for place, view in enumerate(life.top.views):
                if views.setdefault(view.view_id, view) != view:
                    found.append(f"view {view.view_id} is {views[view.view_id].lives()} and {view.lives()}")
                if place + 1 < len(life.top.views):
                    key = (view.view_id, life.top.views[place + 1].view_id)
                    delivered = sorted(life.top.delivered[place])
                    other, theirs = together.setdefault(key, (name, delivered))
                    if theirs != delivered:
                        found.append(f"in view {key[0]} {other} had {theirs} and {name} had {delivered}")
        return found


def random_schedule(seed: int, kind: Kind = Agreement, steps: int = 300) -> Bench:
    """A bench after a schedule that a seed stands for: mostly quiet, or full of rival coordinators."""
    random = Random(f"explore/{seed}")
    bench = Bench(random.choice([2, 3, 3, 4, 5]), files=random.random() < 0.5, kind=kind)
    rivalry = random.random() < 0.6
    doubt = random.choice([0.05, 0.15]) if rivalry else random.choice([0.01, 0.04])
    loss = random.choice([0.0, 0.02, 0.1, 0.3])
    patience = random.choice([3, 12]) if rivalry else 2  # round trips that may pass between two ticks
    for _ in range(steps):
        one, other = random.choice(bench.sites), random.choice(bench.sites)
        draw = random.random()
        if draw < 0.04:
            bench.submit(one)
        elif draw < 0.04 + doubt:
            if one != other:
                bench.suspect(one, other, (one, other) not in bench.suspicions)
        elif draw < 0.04 + 1.2 * doubt:
            bench.crash(one) if bench.at[one].alive and random.random() < 0.4 else bench.recover(one)
        elif bench.pool and draw < (0.75 if rivalry else 0.9):
            place = random.randrange(min(len(bench.pool), random.choice([1, 4, 1000])))
            if random.random() < loss:
                del bench.pool[place]
            else:
                bench.arrive(place, keep=random.random() < 0.05)
        else:
            bench.now_ns += random.randrange(patience * ROUND_NS)
            (bench.rebel if rivalry and random.random() < 0.25 else bench.tick)(one)
    return bench


# All schedules that differ from the plain one in a few places

Deviation = tuple[int, str, int]  # before which step, what, where


def planned_schedule(plan: tuple[Deviation, ...], kind: Kind = Agreement, files: bool = False) -> Bench:
    """Three sites, two messages and two view changes: one is suspected, left out, and comes back as a new life.

    Packets arrive in the order sent, timers fire when nothing is under way; but for the deviations of the plan.
    """
    bench = Bench(3, files, kind)
    last = SiteId(2)
    bench.submit(SiteId(1))
    bench.submit(last)
    step = 0
    for phase in range(3):
        if phase < 2:
            for site in bench.sites[:2]:
                bench.suspect(site, last, suspected=phase == 0)
        idle = 0
        while idle < 12:
            for _, what, where in [deviation for deviation in plan if deviation[0] == step]:
                deviate(bench, what, SiteId(where))
            step += 1
            if bench.pool:
                bench.arrive(0)
            else:
                idle += 1
                bench.now_ns += ROUND_NS
                bench.fire_due()
        bench.recover(SiteId(0))
        bench.recover(SiteId(1))
    return bench


def deviate(bench: Bench, what: str, site: SiteId) -> None:
    if what == "lose":
        del bench.pool[:1]
    elif what == "delay":
        bench.pool += bench.pool[:1]
        del bench.pool[:1]
    elif what == "crash":
        bench.crash(site)
    elif what == "suspect":
        other = SiteId((site + 1) % 3)
        bench.suspect(site, other, (site, other) not in bench.suspicions)


def plans(steps: int, most: int, every: int = 1) -> Iterator[tuple[Deviation, ...]]:
    """All plans of at most so many deviations within so many steps."""
    single: list[Deviation] = [
        (step, what, where)
        for step, what in product(range(0, steps, every), ("lose", "delay", "crash", "suspect"))
        for where in (range(3) if what in ("crash", "suspect") else (0,))
    ]
    for count in range(most + 1):
        yield from combinations(single, count)
