"""A bench for the agreement: a few sites whose every step is somebody's choice.

The sites run the real membership over the real reliable transport, with an application on top that notes what it is
given. No network and no clock decide what happens next, but the caller: which packet under way arrives, is lost or
comes twice, who ticks, who suspects whom, who crashes and comes back (explore.py draws or enumerates steps, storms.py
gives packets delays). What must hold afterwards is in bench_checks.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple

from isthmus.core.layer import Finality, Layer, Life, Reading, Stack, View
from isthmus.core.layer import Kind as TraceKind
from isthmus.core.message import ALL, Cast, GroupId, Message, SiteId, Targets
from isthmus.core.port import Port
from isthmus.fuzz.states import ChainedStateKeeper, StateChecks
from isthmus.protocols.membership.agreement import DECIDED, ENDED, INSTALLING, TICK, Agreement
from isthmus.protocols.membership.home import AgreementOptions, Home, Past, Record
from isthmus.protocols.transport.reliable.frames import ReliableOptions
from isthmus.protocols.transport.reliable.reliable import Reliable
from isthmus.protocols.transport.safe import Safe

ROUND_NS = 1_000_000
FIRST = 1  # view
POOL_MAX = 400  # packets under way; then the oldest are lost
Kind = Callable[[Home, AgreementOptions], Agreement]
Packet = tuple[SiteId, SiteId, int, Message]  # from, to, view, what
QUICK = ReliableOptions(
    nak_delay_ms=0.5, nak_retry_ms=2.0, ack_period_ms=2.0, status_period_ms=5.0
)  # of a round of 1 ms


class Sent(NamedTuple):
    """A message that was submitted."""

    life: Life  # of its sender
    view_id: int
    targets: Targets  # () for all


class Notes(Layer):
    """An application that notes views and what it is given in each; its state is that the group once began."""

    __slots__ = ("delivered", "state_keeper", "told", "views")

    def __init__(self, state_keeper: ChainedStateKeeper | None = None) -> None:
        self.state_keeper = state_keeper
        self.views: list[View] = []
        self.delivered: list[list[tuple[SiteId, int]]] = []  # one list per view
        self.told = False  # it was there when the group began, or has the state of one that was

    def deliver(self, cast: Cast, finality: Finality = Finality.FINAL) -> None:
        self.delivered[-1].append((cast.sender, cast.number))
        if self.state_keeper is not None and not cast.destinations:
            self.state_keeper.deliver(cast)

    def suspect(self, site: SiteId, suspected: bool) -> None:
        """Nobody asks."""

    def install(self, view: View) -> None:
        self.told |= view.view_id == FIRST
        self.views.append(view)
        self.delivered.append([])
        if self.state_keeper is not None:
            self.state_keeper.open(view)

    def keeper(self) -> ChainedStateKeeper | None:
        return self.state_keeper

    def state(self) -> bytes:
        return b"begun" if self.told else b""

    def restore(self, state: bytes) -> None:
        self.told = bool(state)

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
        self.weights = bench.weights
        self.round_trip_ns = ROUND_NS
        self.past = past
        self.alive = True
        self.timers: dict[tuple[Layer, int], int] = {}
        self.now_ns = bench.now_ns
        keeper = None if bench.states is None else ChainedStateKeeper(bench.states, self, self.later, ordered=False)
        self.top = Notes(keeper)
        self.entered: list[View] = []  # by its membership; its stack may follow later
        self.agreement = bench.kind(self, AgreementOptions())
        transport = Safe(bench.options) if bench.safe else Reliable(bench.options)
        self.stack = Stack(self, self.top, transport, self.agreement)

    def later(self, action: Callable[[], None]) -> None:
        self.bench.later(lambda: self.bench.event(self.site, action) if self.bench.at[self.site] is self else None)

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

    def note_behind(self, site: SiteId, asked: int, known: int) -> None:
        self.bench.behind.append((self.site, site, asked, known))

    def left(self) -> None:
        self.bench.crash(self.site)
        self.bench.gone.append(self.site)

    def fail(self, why: str) -> None:
        if self.bench.states is None:
            self.bench.refused.append(f"site {self.site} stops: {why}")

    def is_near(self, one: SiteId, other: SiteId) -> bool:
        return one % 2 == other % 2  # two clusters

    # As a host

    def clock(self) -> Reading:
        return Reading(self.now_ns, None)

    def heard_ns(self, site: SiteId) -> int | None:
        return None

    def send(self, targets: Targets, message: Message) -> None:
        view_id = 0 if message.viewless else self.view_id
        self.bench.pool += [(self.site, target, view_id, message) for target in targets]
        del self.bench.pool[:-POOL_MAX]

    def set_timer(self, layer: Layer, key: int, delay_ns: int) -> None:
        self.timers[layer, key] = self.now_ns + delay_ns

    def cancel_timer(self, layer: Layer, key: int) -> None:
        self.timers.pop((layer, key), None)

    def trace(self, kind: TraceKind, subject: Cast | None = None, value: int = 0) -> None:
        if kind is TraceKind.REJECT:
            self.bench.refused.append(f"site {self.site} refused a packet of site {value}")

    def gauge(self, *_: Any) -> None:
        """Nobody reads it."""

    def run(self, event: Callable[[], None]) -> None:
        if self.alive:
            self.now_ns = self.bench.now_ns
            event()
            self.finish()
            if self.agreement.view != (self.entered[-1] if self.entered else None):
                self.entered.append(self.agreement.view)


class Bench:
    """Some sites under a chooser's hand."""

    def __init__(
        self,
        count: int,
        files: bool,
        kind: Kind = Agreement,
        weights: Mapping[SiteId, int] | None = None,
        safe: bool = False,
        options: ReliableOptions | None = None,
        states: StateChecks | None = None,
        later: Callable[[Callable[[], None]], None] = lambda action: action(),
    ) -> None:
        self.states = states  # of the applications; None: they have none
        self.later = later
        self.sites = tuple([SiteId(number) for number in range(count)])
        self.kind = kind
        self.weights = weights or {}
        self.safe = safe
        self.options = options or ReliableOptions()
        self.sent: dict[tuple[SiteId, int], Sent] = {}  # by sender and number
        self.gone: list[SiteId] = []  # those who have left
        self.files = {site: File() for site in self.sites} if files else {}
        self.now_ns = 0
        self.pool: list[Packet] = []  # under way, oldest first
        self.suspicions: set[tuple[SiteId, SiteId]] = set()  # who suspects whom
        self.renewals: list[tuple[SiteId, Past]] = []
        self.forgot = False  # a life was made to end, and with it its state
        self.behind: list[tuple[SiteId, SiteId, int, int]] = []  # who told whom, with both incarnations
        self.refused: list[str] = []  # packets that were taken for wrong, though all keep to the protocol
        self.lives: list[Site] = []
        self.at: dict[SiteId, Site] = {}
        for site in self.sites:
            self.boot(site, 0, None)
        lives = tuple([(site, 0) for site in self.sites])
        votes = tuple([self.weights.get(site, 1) for site in self.sites])
        view = View(FIRST, self.sites, (0,) * count, votes, lives)
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
                self.boot(ended, self.next_incarnation(ended, past.told), past)

    def next_incarnation(self, site: SiteId, told: int = -1) -> int:
        return max(self.at[site].incarnation, told) + 1

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
        if agreement.is_seated() and agreement.phase not in (DECIDED, INSTALLING, ENDED):
            self.event(site, agreement.begin)

    def submit(self, site: SiteId, targets: Targets = ALL) -> None:
        """Have a site multicast a message to all members, or to some."""
        port = self.at[site]
        inside = tuple([target for target in targets if target in port.stack.view.members])
        if port.alive and port.stack.layers[1].writable() and (inside or not targets):
            cast = Cast(site, port.next_number(), b"x", inside)
            self.sent[site, cast.number] = Sent((site, port.incarnation), port.view_id, inside)
            self.event(site, lambda: port.stack.layers[1].submit(cast, inside))

    def suspect(self, one: SiteId, other: SiteId, suspected: bool) -> None:
        change = self.suspicions.add if suspected else self.suspicions.discard
        change((one, other))
        self.event(one, lambda: self.at[one].agreement.suspect(other, suspected))

    def crash(self, site: SiteId) -> None:
        self.at[site].alive = False
        self.at[site].timers.clear()

    def recover(self, site: SiteId, set_back: int = 0) -> None:
        """Start a crashed site again; its clock may have been set back, so that it begins below its earlier lives."""
        if not self.at[site].alive:
            self.boot(site, max(0, self.next_incarnation(site) - set_back), None)

    def leave(self, site: SiteId) -> None:
        self.event(site, self.at[site].agreement.leave)
